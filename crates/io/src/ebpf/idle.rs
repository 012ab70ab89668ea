//! Entries that no packet has hit for their idle timeout.
//!
//! Packets write the time of their hit into the entry. The host knows the timeouts, and looks at an entry only when it may have become idle:
//! about once in each timeout, however many entries there are. Timeouts are in this process, so a process that takes over sets them again.

use std::collections::{BTreeMap, HashMap};

use abi::manifest::HIT;
use dataplane::device::EntryKey;

use super::KernelProgram;
use crate::Result;

/// The idle timeouts of entries.
#[derive(Debug, Default)]
pub(super) struct Timeouts {
    of: HashMap<EntryKey, Timeout>,
    /// When entries were added, with a timeout or without.
    added: HashMap<EntryKey, u64>,
    /// The entries by the time when they are looked at next. The second number distinguishes those of the same time.
    due: BTreeMap<(u64, u64), EntryKey>,
    last: u64,
    /// Whether packets write each hit, as with the clock of a test. Otherwise the time of a hit may be up to [`HIT`] too early.
    pub exact: bool,
}

#[derive(Clone, Copy, Debug)]
struct Timeout {
    micros: u64,
    /// The latest of: the timeout was set, the entry was reported as idle.
    since: u64,
    due: (u64, u64),
}

impl Timeouts {
    /// Sets or removes (`None`) the timeout of an entry in microseconds.
    pub fn set(&mut self, entry: &EntryKey, micros: Option<u64>, now: u64) {
        self.cancel(entry);
        self.added.entry(entry.clone()).or_insert(now);
        if let Some(micros) = micros {
            self.schedule(entry.clone(), micros, now, now.saturating_add(micros));
        }
    }

    /// Forgets an entry.
    pub fn forget(&mut self, entry: &EntryKey) {
        self.cancel(entry);
        self.added.remove(entry);
    }

    fn cancel(&mut self, entry: &EntryKey) {
        if let Some(old) = self.of.remove(entry) {
            self.due.remove(&old.due);
        }
    }

    /// The timeout of an entry in microseconds.
    pub fn of(&self, entry: &EntryKey) -> Option<u64> {
        self.of.get(entry).map(|timeout| timeout.micros)
    }

    /// When an entry was added.
    pub fn added(&self, entry: &EntryKey) -> Option<u64> {
        self.added.get(entry).copied()
    }

    fn schedule(&mut self, entry: EntryKey, micros: u64, since: u64, at: u64) {
        self.last += 1;
        let due = (at.saturating_add(self.late()), self.last);
        self.due.insert(due, entry.clone());
        self.of.insert(entry, Timeout { micros, since, due });
    }

    /// How much later an entry may have been hit than its time says.
    fn late(&self) -> u64 {
        if self.exact { 0 } else { HIT }
    }

    /// Takes an entry that may be idle.
    fn next(&mut self, now: u64) -> Option<(EntryKey, Timeout)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let entry = first.remove();
        let timeout = self.of.remove(&entry)?;
        Some((entry, timeout))
    }
}

impl KernelProgram {
    /// The entries that have become idle since the last call. An entry that stays idle is reported again after each timeout.
    pub(super) fn take_idle(&mut self) -> Result<Vec<EntryKey>> {
        let (now, mut idle) = (self.time(), Vec::new());
        while let Some((entry, Timeout { micros, since, .. })) = self.timeouts.next(now) {
            let table = self.manifest.tables[entry.table.index()].clone();
            // An entry that was there is gone if another process has removed it.
            let Some(hit) = self.last_hit(&table, &entry.matches)? else {
                self.timeouts.forget(&entry);
                continue;
            };
            let since = since.max(hit);
            let until = since.saturating_add(micros);
            if until.saturating_add(self.timeouts.late()) <= now {
                idle.push(entry.clone());
                self.timeouts.schedule(entry, micros, now, now.saturating_add(micros));
            } else {
                self.timeouts.schedule(entry, micros, since, until);
            }
        }
        Ok(idle)
    }
}

#[cfg(test)]
mod tests {
    use abi::id::TableId;

    use super::*;

    #[test]
    fn entries_are_looked_at_when_they_may_be_idle_and_only_then() {
        let entry = |priority| EntryKey { table: TableId(0), matches: Vec::new(), priority };
        let mut timeouts = Timeouts::default();
        timeouts.set(&entry(1), Some(5000), 100);
        timeouts.set(&entry(2), Some(3000), 100);
        timeouts.set(&entry(3), Some(3000), 100);
        timeouts.set(&entry(3), None, 100);
        timeouts.set(&entry(4), Some(u64::MAX), 100);
        timeouts.set(&entry(2), Some(3000), 100);
        timeouts.forget(&entry(4));
        assert_eq!((timeouts.added(&entry(3)), timeouts.added(&entry(4))), (Some(100), None));
        assert_eq!(timeouts.of(&entry(2)), Some(3000));
        assert_eq!(timeouts.of(&entry(3)), None);
        let mut next = |now| timeouts.next(now).map(|(entry, _)| entry.priority);
        assert_eq!(next(3000 + HIT), None);
        assert_eq!((next(3100 + HIT), next(3100 + HIT)), (Some(2), None));
        assert_eq!((next(1 << 60), next(1 << 60)), (Some(1), None));
        // A timeout that is set again begins again.
        timeouts.set(&entry(1), Some(100), 0);
        timeouts.set(&entry(1), Some(100), 50);
        assert!(timeouts.next(100 + HIT).is_none());
        assert!(timeouts.next(150 + HIT).is_some());
    }
}
