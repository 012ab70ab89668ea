//! Carries wrong checksums over: a packet that arrives with a wrong checksum over its payload leaves with one that is wrong by the same
//! amount.
//!
//! The interpreter computes each checksum in full, as v1model requires. A compiled target derives it from the checksum that arrived
//! (section "Checksums" of `ir`'s specification). With this option, the interpreter's result is what a target must produce for any packet.

use std::collections::HashMap;

use ir::{ChecksumId, Program, checksum};

/// Which update derives from which verified checksum.
pub(crate) struct Carry {
    /// The number of the sum of each verification and update.
    sums: HashMap<ChecksumId, usize>,
}

impl Carry {
    pub fn of(program: &Program) -> Carry {
        let plan = checksum::plan(program);
        let of_sum = |(i, sum): (usize, &checksum::Sum)| {
            sum.verifies.iter().chain(&sum.updates).map(|d| (d.statement, i)).collect::<Vec<_>>()
        };
        Carry { sums: plan.sums.iter().enumerate().flat_map(of_sum).collect() }
    }

    /// Records by how much a verified checksum is wrong. The first verification of a checksum counts.
    pub fn verified(&self, id: ChecksumId, found: u16, right: u16, wrong_by: &mut Vec<Option<u16>>) {
        let Some(&sum) = self.sums.get(&id) else { return };
        wrong_by.resize(wrong_by.len().max(sum + 1), None);
        // A checksum is the complement of a sum, so the difference of the checksums is the negated difference of the sums.
        wrong_by[sum].get_or_insert(plus(right, !found));
    }

    /// The correct checksum of an update, changed by the amount by which it was wrong on arrival.
    pub fn updated(&self, id: ChecksumId, right: u16, wrong_by: &[Option<u16>]) -> u16 {
        match self.sums.get(&id).and_then(|&sum| wrong_by.get(sum).copied().flatten()) {
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
