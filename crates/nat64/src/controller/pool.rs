//! Which address and port of the pools a host gets (RFC 6146 section 3.5.1.1, RFC 6056, RFC 4787).
//!
//! A host's address and the place where the search for its port begins are a keyed function of the host, so nobody outside can predict them.

use std::collections::HashMap;
use std::hash::{Hash, Hasher as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use siphasher::sip::SipHasher13;

use super::{Inside, Outside};
use crate::{Pool, Stateful};

/// The first port that is not well known.
const FIRST: u16 = 1024;
const ICMP: u8 = 1;
const UDP: u8 = 17;

/// The pools, and how many of their ports are used.
pub(super) struct Pools {
    stateful: Stateful,
    /// The number of used ports by protocol and address, even ones and odd ones.
    used: HashMap<(u8, u32), [u32; 2]>,
}

impl Pools {
    /// Pools of which no port is used.
    pub fn new(stateful: Stateful) -> Pools {
        Pools { stateful, used: HashMap::new() }
    }

    /// Counts a port that is used, or no more. Well-known ports have a range of their own, which is small.
    pub fn count(&mut self, (protocol, address, port): Outside, used: bool) {
        if port < FIRST {
            return;
        }
        let cell = &mut self.used.entry((protocol, address)).or_default()[usize::from(port & 1)];
        *cell = if used { *cell + 1 } else { cell.saturating_sub(1) };
    }

    /// The first free port of a host's candidates: all ports of its range, for UDP those with the parity of its own (RFC 4787 REQ-4), from one on
    /// that the key and the host determine.
    pub fn choose(&self, inside: Inside, taken: impl Fn(&Outside) -> bool) -> Option<Outside> {
        let (protocol, host, port) = inside;
        let pool = self.pool_of(host)?;
        let (address, mut range) = self.ports_of(pool, host)?;
        if pool.low_ports && port < FIRST && protocol != ICMP {
            range = 1..=FIRST - 1;
        }
        let used = self.used.get(&(protocol, address)).copied().unwrap_or_default();
        let (first, step, used) = match protocol {
            UDP => {
                let parity = port & 1;
                (range.start() + ((range.start() & 1) ^ parity), 2, used[usize::from(parity)])
            }
            _ => (*range.start(), 1, used[0] + used[1]),
        };
        let first = u32::from(first);
        let count = (u32::from(*range.end()) + step).saturating_sub(first) / step;
        // A search of a full range would take as long as one of a range with one free port.
        if count == 0 || (range == pool.ports && used >= count) {
            return None;
        }
        let start = (self.keyed(&inside) % u64::from(count)) as u32;
        let candidate = |n: u32| (protocol, address, (first + step * ((start + n) % count)) as u16);
        (0..count).map(candidate).find(|outside| !taken(outside))
    }

    /// The pool of a host: that of the longest prefix.
    fn pool_of(&self, host: u128) -> Option<&Pool> {
        let host = Ipv6Addr::from(host);
        let fitting = self.stateful.pools.iter().filter(|pool| pool.hosts.contains(&host));
        fitting.max_by_key(|pool| pool.hosts.prefix_len())
    }

    /// The address of a host, and its ports. All hosts of a subscriber have one address (RFC 4787 REQ-2).
    fn ports_of(&self, pool: &Pool, host: u128) -> Option<(u32, RangeInclusive<u16>)> {
        if pool.block.is_some() {
            let (address, ports) = pool.block_of(Ipv6Addr::from(host))?;
            return Some((address.into(), ports));
        }
        let subscriber = host.checked_shr(128 - u32::from(pool.subscriber)).unwrap_or(0);
        let hash = self.keyed(&subscriber);
        let mut number = hash % pool.count().max(1);
        let address = pool.addresses.iter().find_map(|net| {
            let size = 1u64 << (32 - net.prefix_len());
            let at = Ipv4Addr::from(u32::from(net.network()).wrapping_add(number as u32));
            let found = (number < size).then_some(at);
            number = number.saturating_sub(size);
            found
        })?;
        let (all, most) = (pool.ports_of_address(), pool.most_ports());
        let place = (hash >> 32) as u32 % ((all - most) / 2 + 1) * 2;
        let first = pool.ports.start() + place as u16;
        Some((address.into(), first..=first + (most - 1) as u16))
    }

    fn keyed(&self, value: &impl Hash) -> u64 {
        let [key0, key1] = self.stateful.secret.unwrap_or_default();
        let mut hasher = SipHasher13::new_with_keys(key0, key1);
        value.hash(&mut hasher);
        hasher.finish()
    }
}
