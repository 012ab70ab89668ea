//! Addresses that a translator must not translate, or that no router forwards, and mappings that overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use ipnet::{Ipv4Net, Ipv6Net};

use super::config::Map;

/// IPv4 addresses that are never translated (RFC 7915 section 4.1), as `is_special` in apps/nat64 has them.
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "in 0.0.0.0/8"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "class E or broadcast"),
];

/// IPv4 addresses that the well-known prefix must not carry (RFC 6052 section 3.1), as `is_not_global` in apps/nat64 has them.
pub(super) const NOT_GLOBAL: &[&str] = &[
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
];

/// IPv4 addresses of private networks (RFC 1918) and between a provider and its customers (RFC 6598).
pub(super) const PRIVATE: &[&str] = &["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"];

/// IPv6 addresses that are in no packet that is routed.
const UNROUTABLE: &[(&str, &str)] = &[
    ("::/96", "IPv4-compatible addresses, loopback and the unspecified address (RFC 4291 section 2.5)"),
    ("::ffff:0:0/96", "IPv4-mapped addresses (RFC 4291 section 2.5.5.2)"),
    ("fe80::/10", "link-local addresses"),
    ("ff00::/8", "multicast"),
];

/// The first of these ranges that has addresses in common with a prefix.
pub(super) fn overlap(net: Ipv4Net, ranges: &[&str]) -> Option<Ipv4Net> {
    let nets = ranges.iter().filter_map(|range| range.parse::<Ipv4Net>().ok());
    nets.into_iter().find(|range| range.contains(&net) || net.contains(range))
}

/// The reason why an IPv4 prefix has addresses that are never translated; `None` if it has none.
pub(super) fn untranslatable(net: Ipv4Net) -> Option<String> {
    SPECIAL.iter().find_map(|(range, what)| {
        let range = overlap(net, &[range])?;
        Some(if range.contains(&net) { format!("is {what}") } else { format!("covers {range} ({what})") })
    })
}

/// The reason why an IPv6 prefix has addresses that are not routed; `None` if it has none.
pub(super) fn unroutable(net: Ipv6Net) -> Option<String> {
    UNROUTABLE.iter().find_map(|(range, what)| {
        let range: Ipv6Net = range.parse().ok()?;
        match (range.contains(&net), net.contains(&range)) {
            (true, _) => Some(format!("is one of {what}")),
            (_, true) => Some(format!("covers {range}, {what}")),
            _ => None,
        }
    })
}

/// The prefixes of many mappings, to find those that have addresses in common with another one without a look at all of them.
#[derive(Default)]
pub(super) struct Prefixes {
    /// The first address and the length of a prefix, and the number of the first mapping that has it.
    numbers: BTreeMap<(u128, u8), usize>,
    lengths: BTreeSet<u8>,
}

impl Prefixes {
    /// Adds the prefix of a mapping. `address` has its bits at the top.
    fn add(&mut self, address: u128, length: u8, number: usize) {
        self.numbers.entry((address, length)).or_insert(number);
        self.lengths.insert(length);
    }

    /// The numbers of the mappings whose prefixes contain this one, are equal to it, or are inside it.
    fn overlapping(&self, address: u128, length: u8) -> impl Iterator<Item = usize> {
        let around =
            self.lengths.range(..=length).filter_map(move |l| self.numbers.get(&(address & mask(*l), *l)));
        let inside = self.numbers.range((address, length)..=(address | !mask(length), u8::MAX));
        around.chain(inside.filter(move |((_, l), _)| *l > length).map(|(_, number)| number)).copied()
    }
}

/// The mask of a prefix length.
fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// The mappings of a file so far.
#[derive(Default)]
pub(super) struct Mappings {
    pub all: Vec<Map>,
    four: Prefixes,
    six: Prefixes,
}

impl Mappings {
    pub fn push(&mut self, map: Map) {
        let number = self.all.len();
        self.four.add(top(map.ipv4), map.ipv4.prefix_len(), number);
        self.six.add(map.ipv6.network().into(), map.ipv6.prefix_len(), number);
        self.all.push(map);
    }

    /// The mappings that have addresses in common with this one, in order.
    pub fn overlapping(&self, map: &Map) -> impl Iterator<Item = &Map> {
        let four = self.four.overlapping(top(map.ipv4), map.ipv4.prefix_len());
        let six = self.six.overlapping(map.ipv6.network().into(), map.ipv6.prefix_len());
        let numbers: BTreeSet<usize> = four.chain(six).collect();
        numbers.into_iter().map(|number| &self.all[number])
    }
}

fn top(net: Ipv4Net) -> u128 {
    u128::from(u32::from(net.network())) << 96
}

/// What two mappings of which one is inside the other do to addresses, if an address comes back as another one. (RFC 7757 looks up each
/// direction by itself.)
pub(super) fn asymmetric(a: &Map, b: &Map) -> Option<String> {
    let (outer, inner) = if a.ipv4.contains(&b.ipv4) || a.ipv6.contains(&b.ipv6) { (a, b) } else { (b, a) };
    if outer.ipv4.contains(&inner.ipv4) {
        let shadow = to_six(outer, inner.ipv4);
        return (shadow != inner.ipv6.addr()).then(|| {
            format!(
                "{} is inside {}: {shadow} becomes {} too, and answers go to {}",
                inner.ipv4,
                outer.ipv4,
                inner.ipv4.addr(),
                inner.ipv6.addr()
            )
        });
    }
    outer.ipv6.contains(&inner.ipv6).then(|| {
        format!(
            "{} is inside {}: its hosts are {} to IPv4, not addresses of {}",
            inner.ipv6, outer.ipv6, inner.ipv4, outer.ipv4
        )
    })
}

/// The IPv6 address of the first address of an IPv4 prefix by a mapping that contains it.
fn to_six(map: &Map, net: Ipv4Net) -> Ipv6Addr {
    let (four, six) = (32 - map.ipv4.prefix_len(), 128 - map.ipv6.prefix_len());
    let suffix = u128::from(u32::from(net.addr()) & !u32::from(map.ipv4.netmask()));
    Ipv6Addr::from(u128::from(map.ipv6.addr()) | suffix << (six - four))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings that overlap are those that a look at all of them finds.
    #[test]
    fn an_index_finds_all_mappings_that_overlap() {
        let (mut seen, mut found) = (Mappings::default(), 0);
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..500 {
            let (four, six) = (next(17) as u8 + 16, next(20) as u8 + 96);
            let address = Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(next(1 << 16)) << 12);
            let ipv4 =
                Ipv4Net::new((0xc612_0000 | next(1 << 16) as u32).into(), four).expect("a length").trunc();
            let map = Map { ipv4, ipv6: Ipv6Net::new(address, six).expect("a length").trunc() };
            let overlaps = |m: &&Map| {
                let (a, b) = (m.ipv4, map.ipv4);
                let (c, d) = (m.ipv6, map.ipv6);
                a.contains(&b) || b.contains(&a) || c.contains(&d) || d.contains(&c)
            };
            let all: Vec<&Map> = seen.all.iter().filter(overlaps).collect();
            // Of equal prefixes the index has the first one, and one suffices: the file is refused.
            let index: Vec<&Map> = seen.overlapping(&map).collect();
            assert!(index.iter().all(|m| all.contains(m)), "{map:?}");
            assert!(
                all.iter().all(|m| index.iter().any(|i| i == m || i.ipv4 == m.ipv4 || i.ipv6 == m.ipv6)),
                "{map:?}"
            );
            found += index.len();
            seen.push(map);
        }
        assert!(found > 500, "{found}");
    }
}
