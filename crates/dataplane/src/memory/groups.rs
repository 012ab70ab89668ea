//! Multicast groups, mirroring sessions and parser value sets: what a controller sets and a program looks up by number.

use abi::native::MIRROR_GROUP;
use abi::{Bits, MatchValue};

use super::{Memory, Writer};

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// To one port, by its number.
    Port(u32),
    /// To every member of a multicast group, by the group's number.
    Group(u32),
}

impl Memory {
    /// Adds or replaces a multicast group. Each copy is (`egress_rid`, port).
    pub fn set_group(&self, group: u32, copies: &[(u32, u32)]) {
        let words = copies.iter().map(|(rid, port)| u64::from(*rid) << 32 | u64::from(*port)).collect();
        let Writer { groups, reclaimer, .. } = &mut *self.writer();
        groups.set(group, Some(words), &self.shared.groups, reclaimer);
    }

    /// Sets where the clones of a mirroring session go; `None` removes the session.
    pub fn set_mirror(&self, session: u32, to: Option<Mirror>) {
        let word = |to| match to {
            Mirror::Port(port) => vec![u64::from(port)],
            Mirror::Group(group) => vec![MIRROR_GROUP | u64::from(group)],
        };
        let Writer { mirrors, reclaimer, .. } = &mut *self.writer();
        mirrors.set(session, to.map(word), &self.shared.mirrors, reclaimer);
    }

    /// Sets whether a port is a port to the host (PNA). By default it is a port to the network.
    pub fn set_host_port(&self, port: u32, host: bool) {
        let Writer { host_ports, reclaimer, .. } = &mut *self.writer();
        host_ports.set(port, host.then(Vec::new), &self.shared.host_ports, reclaimer);
    }

    /// Replaces the members of a value set. Returns false, and changes nothing, if there is no such set, if there are more members
    /// than the set holds, or if a member does not have the set's fields.
    pub fn set_members(&self, name: &str, members: &[Vec<MatchValue>]) -> bool {
        let Some(at) = self.manifest.value_sets.iter().position(|s| s.name == name) else { return false };
        let set = &self.manifest.value_sets[at];
        let fits = |member: &Vec<MatchValue>| {
            let parts = member.iter().zip(&set.keys);
            member.len() == set.keys.len()
                && parts.into_iter().all(|(p, k)| p.width().is_none_or(|w| w == k.width))
        };
        if members.len() as u64 > set.size || !members.iter().all(fits) {
            return false;
        }
        let parts = members.iter().flat_map(|member| member.iter().zip(&set.keys));
        let words = parts.flat_map(|(part, key)| member_words(&key.unsigned(part), key.width)).collect();
        let Writer { value_sets, reclaimer, .. } = &mut *self.writer();
        value_sets.set(at as u32, Some(words), &self.shared.value_sets, reclaimer);
        true
    }
}

/// One field of a value set's member as four words: value and mask, or the lowest and highest value of a range. Each takes two
/// words, the low word first.
fn member_words(part: &MatchValue, width: u32) -> [u64; 4] {
    let (a, b) = match part {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => (v.clone(), Bits::ones(width)),
        MatchValue::Optional(None) => (Bits::zero(width), Bits::zero(width)),
        MatchValue::Lpm(v, len) => {
            let mask = Bits::prefix_mask(width, *len);
            (v.and(&mask), mask)
        }
        MatchValue::Ternary(v, mask) => (v.and(mask), mask.clone()),
        MatchValue::Range(low, high) => (low.clone(), high.clone()),
    };
    let [a, b] = [a, b].map(|v| v.to_u128().unwrap_or(u128::MAX));
    [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64]
}
