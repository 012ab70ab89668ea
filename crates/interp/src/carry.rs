//! Carries wrong checksums over: a packet that arrives with a wrong checksum over its payload leaves with one that is wrong by the same
//! amount.
//!
//! The interpreter computes each checksum in full, as v1model requires. A compiled target derives it from the checksum that arrived
//! (section "Checksums" of `ir`'s specification). With this option, the interpreter's result is what a target must produce for any packet.

use std::collections::HashMap;

use ir::{ChecksumId, Program, checksum};

/// Which update derives from which verified checksum.
pub(crate) struct Carry {
    /// The source number of each verification.
    sources: HashMap<ChecksumId, usize>,
    /// The sources of each update. The first source that was verified applies.
    updates: HashMap<ChecksumId, Vec<usize>>,
}

impl Carry {
    pub fn of(program: &Program) -> Carry {
        let plan = checksum::plan(program);
        Carry {
            sources: plan.sources.iter().enumerate().map(|(i, source)| (source.statement, i)).collect(),
            updates: plan.updates.into_iter().map(|update| (update.statement, update.sources)).collect(),
        }
    }

    /// Records by how much a verified checksum is wrong.
    pub fn verified(&self, id: ChecksumId, found: u16, right: u16, wrong_by: &mut Vec<Option<u16>>) {
        let Some(&source) = self.sources.get(&id) else { return };
        wrong_by.resize(wrong_by.len().max(source + 1), None);
        // A checksum is the complement of a sum, so the difference of the checksums is the negated difference of the sums.
        wrong_by[source] = Some(plus(right, !found));
    }

    /// The correct checksum of an update, changed by the amount by which its source was wrong.
    pub fn updated(&self, id: ChecksumId, right: u16, wrong_by: &[Option<u16>]) -> u16 {
        let sources = self.updates.get(&id).map_or(&[][..], Vec::as_slice);
        let first = sources.iter().find_map(|&source| wrong_by.get(source).copied().flatten());
        match first {
            None | Some(0 | 0xffff) => right,
            Some(difference) => !plus(!right, difference),
        }
    }
}

/// The one's complement sum of two words.
fn plus(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use super::plus;

    #[test]
    fn differences_add_up() {
        // If the checksum 0x1234 arrived as 0x1233, then 0xabcd leaves as 0xabcc.
        let difference = plus(0x1234, !0x1233);
        assert_eq!(!plus(!0xabcd, difference), 0xabcc);
        assert_eq!(plus(0xffff, 0xffff), 0xffff);
    }
}
