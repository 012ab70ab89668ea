//! Generates routing tables that resemble those of the Internet, from a seed.
//!
//! The shares of prefix lengths are those of the global tables as public route collectors show them in 2024, rounded. IPv4 has about 950
//! 000 routes, of which three in five are /24; IPv6 has about 220 000, of which nearly half are /48. Prefixes lie in blocks, as registries
//! allocate them: more-specific routes nest in shorter ones, and neighbours share their first bits.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use harness::rng::Rng;

/// The protocol of a routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IP version 4.
    V4,
    /// IP version 6.
    V6,
}

/// A route: a prefix and its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The prefix, left-aligned in 128 bits. The bits after its length are zero.
    pub bits: u128,
    /// The length of the prefix in bits.
    pub length: u32,
    /// The number of the next hop, from 1 on.
    pub next_hop: u16,
}

/// Prefix lengths, and how many of ten thousand routes have them.
const V4: &[(u32, u32)] = &[
    (8, 1),
    (10, 1),
    (11, 1),
    (12, 3),
    (13, 6),
    (14, 12),
    (15, 21),
    (16, 137),
    (17, 84),
    (18, 142),
    (19, 254),
    (20, 447),
    (21, 538),
    (22, 1117),
    (23, 1015),
    (24, 6090),
    (25, 20),
    (26, 20),
    (27, 20),
    (28, 15),
    (29, 20),
    (30, 16),
    (32, 20),
];
const V6: &[(u32, u32)] = &[
    (20, 1),
    (24, 2),
    (28, 6),
    (29, 290),
    (30, 36),
    (31, 14),
    (32, 1290),
    (33, 155),
    (34, 134),
    (35, 62),
    (36, 392),
    (37, 72),
    (38, 124),
    (39, 62),
    (40, 774),
    (41, 62),
    (42, 155),
    (43, 52),
    (44, 671),
    (45, 72),
    (46, 258),
    (47, 186),
    (48, 4950),
    (52, 10),
    (56, 31),
    (64, 72),
    (128, 67),
];

/// The mask of a prefix of this length, left-aligned in 128 bits.
pub fn mask(length: u32) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - length) }
}

impl Family {
    /// The number of the version.
    pub fn version(self) -> u8 {
        match self {
            Family::V4 => 4,
            Family::V6 => 6,
        }
    }

    /// The width of an address in bits.
    pub fn width(self) -> u32 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The address in the high bits of `bits`.
    pub fn address(self, bits: u128) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::from((bits >> 96) as u32).into(),
            Family::V6 => Ipv6Addr::from(bits).into(),
        }
    }

    fn lengths(self) -> &'static [(u32, u32)] {
        match self {
            Family::V4 => V4,
            Family::V6 => V6,
        }
    }

    /// A random block of addresses, as a registry would allocate it: its bits and its length.
    fn block(self, rng: &mut Rng) -> (u128, u32) {
        match self {
            Family::V4 => {
                // Blocks are in 1.0.0.0 to 223.255.255.255, except 10.0.0.0/8 and 127.0.0.0/8.
                let first = loop {
                    let first = 1 + rng.below(223);
                    if !matches!(first, 10 | 127) {
                        break first;
                    }
                };
                let length = 12 + rng.below(9) as u32;
                ((u128::from(first) << 120 | rng.bits() >> 8) & mask(length), length)
            }
            Family::V6 => {
                // The blocks of 2000::/3 that the five registries use most.
                let registry = [0x2001u128, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2a00, 0x2c00, 0x2600];
                let first = registry[rng.below(8) as usize] | u128::from(rng.below(16));
                let length = 29 + rng.below(4) as u32;
                ((first << 112 | rng.bits() >> 16) & mask(length), length)
            }
        }
    }
}

/// Generates `count` distinct routes to `next_hops` next hops.
pub fn routes(family: Family, count: usize, next_hops: u16, seed: u64) -> Vec<Route> {
    let mut rng = Rng::new(seed);
    // A block has about as many routes as an autonomous system announces.
    let blocks: Vec<_> = (0..count.div_ceil(40).max(16)).map(|_| family.block(&mut rng)).collect();
    let lengths = family.lengths();
    let all: u64 = lengths.iter().map(|(_, share)| u64::from(*share)).sum();
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count);
    while routes.len() < count {
        let mut at = rng.below(all);
        let length = lengths.iter().find(|(_, share)| {
            let here = at < u64::from(*share);
            at = at.wrapping_sub(u64::from(*share));
            here
        });
        let length = length.map_or(24, |(length, _)| *length);
        let (block, of) = blocks[rng.below(blocks.len() as u64) as usize];
        let kept = mask(of.min(length));
        let bits = (block & kept | rng.bits() & !kept) & mask(length);
        let next_hop = 1 + rng.below(u64::from(next_hops)) as u16;
        if seen.insert((bits, length)) {
            routes.push(Route { bits, length, next_hop });
        } else if length < 24 || rng.below(4) == 0 {
            // A block has few short prefixes. If they are all taken, another block has others.
            let (block, _) = family.block(&mut rng);
            let bits = block & mask(length);
            if seen.insert((bits, length)) {
                routes.push(Route { bits, length, next_hop });
            }
        }
    }
    routes
}

/// Random addresses that routes cover: each is a random address of a random route.
pub fn covered(family: Family, routes: &[Route], count: usize, seed: u64) -> Vec<u128> {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let width = mask(family.width());
    let address = |_| {
        let route = routes[rng.below(routes.len() as u64) as usize];
        (route.bits | rng.bits() & !mask(route.length)) & width
    };
    (0..count).map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_distinct_routes_as_asked_for_and_the_same_for_a_seed() {
        for family in [Family::V4, Family::V6] {
            let some = routes(family, 20_000, 100, 1);
            assert_eq!(some, routes(family, 20_000, 100, 1));
            assert_ne!(some, routes(family, 20_000, 100, 2));
            let distinct: HashSet<_> = some.iter().map(|r| (r.bits, r.length)).collect();
            assert_eq!(distinct.len(), 20_000);
            assert!(some.iter().all(|r| r.bits & !mask(r.length) == 0 && (1..=100).contains(&r.next_hop)));
            let common = if family == Family::V4 { 24 } else { 48 };
            let share = some.iter().filter(|r| r.length == common).count();
            assert!((8_000..14_000).contains(&share), "{share} of 20000 have {common} bits");
        }
    }

    #[test]
    fn covered_addresses_are_covered() {
        let some = routes(Family::V6, 1_000, 10, 3);
        for address in covered(Family::V6, &some, 1_000, 3) {
            assert!(some.iter().any(|r| (address ^ r.bits) & mask(r.length) == 0));
        }
    }
}
