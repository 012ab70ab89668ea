//! Action profiles and selectors (P4Runtime specification, section 9.2): members, groups, and the entries that refer to them.
//!
//! The action data of an entry names a list of actions, which is immutable. When a member or a group changes, the host writes new lists, makes
//! the entries name them, and removes the old lists after a grace period. A packet thus sees the actions of an entry all old or all new.

use abi::id::{ProfileId, TableId};
use abi::manifest::{Table, TableLayout};
use abi::{ActionCall, Entry};
use dataplane::Profile;

use super::KernelProgram;
use super::table::misfit;
use crate::Result;
use crate::bpf;

/// The profiles of a program, as far as this process has written them.
#[derive(Debug)]
pub(super) struct Profiles {
    pub all: Vec<Profile>,
    /// The number of the last list.
    last: u32,
}

impl Profiles {
    pub fn new(manifest: &abi::Manifest) -> Profiles {
        Profiles { all: vec![Profile::default(); manifest.profiles.len()], last: 0 }
    }
}

impl KernelProgram {
    /// Changes a profile, and gives all entries that refer to it their present actions. After an error all is as before.
    pub(super) fn change_profile(&mut self, id: ProfileId, change: impl FnOnce(&mut Profile)) -> Result<()> {
        let before = self.profiles.all[id.index()].clone();
        change(&mut self.profiles.all[id.index()]);
        self.refresh(id).inspect_err(|_| {
            self.profiles.all[id.index()] = before;
            let _ = self.refresh(id);
        })
    }

    /// Adds an entry that runs one of these actions.
    pub(super) fn write_listed(&mut self, table: &Table, entry: &Entry, calls: &[ActionCall]) -> Result<()> {
        let data = self.write_list(table, calls)?;
        let written = self.write_with(table, entry, &data);
        if written.is_err() {
            // Nothing names the list yet.
            self.remove_list(table, &data)?;
        }
        written
    }

    /// Replaces the actions of an entry.
    pub(super) fn replace_listed(
        &mut self,
        table: &Table,
        entry: &Entry,
        calls: &[ActionCall],
    ) -> Result<()> {
        let old = self.data_of(table, &entry.matches)?;
        let data = self.write_list(table, calls)?;
        if let Err(error) = self.modify(table, entry, &data) {
            self.remove_list(table, &data)?;
            return Err(error);
        }
        self.retire_list(table, &old)
    }

    /// Removes a list that no entry names any more.
    pub(super) fn retire_list(&mut self, table: &Table, data: &[u8]) -> Result<()> {
        bpf::grace_period()?;
        self.remove_list(table, data)
    }

    /// The action data of the first action in the list of an entry. If the list is empty, it is that of the table's first action.
    pub(super) fn first_listed(&mut self, table: &Table, data: &[u8]) -> Result<Vec<u8>> {
        let (layout, map) = lists(table)?;
        let list = data.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let found = self.map(map)?.lookup(&list_key(list, 0))?;
        Ok(found.unwrap_or_else(|| vec![0; layout.data_size as usize]))
    }

    fn refresh(&mut self, id: ProfileId) -> Result<()> {
        let users = self.profiles.all[id.index()].users();
        let users: Vec<(TableId, Entry, Vec<ActionCall>)> = users
            .map(|(at, (matches, priority), calls)| {
                let action = ActionCall::default();
                let entry = Entry { matches: matches.clone(), priority: *priority, action };
                (at, entry, self.manifest.member_calls(id, at, calls))
            })
            .collect();
        for (at, entry, calls) in users {
            let table = self.manifest.tables[at.index()].clone();
            self.replace_listed(&table, &entry, &calls)?;
        }
        Ok(())
    }

    /// Writes a new list, and returns the action data that names it.
    fn write_list(&mut self, table: &Table, calls: &[ActionCall]) -> Result<Vec<u8>> {
        let (layout, map) = lists(table)?;
        let packed: Option<Vec<_>> = calls.iter().map(|call| table.pack_action(layout, call)).collect();
        let packed = packed.ok_or_else(|| misfit(table))?;
        self.profiles.last += 1;
        let list = self.profiles.last;
        let mut data = vec![0; layout.data_size as usize];
        data[..4].copy_from_slice(&list.to_ne_bytes());
        data[4..8].copy_from_slice(&(calls.len() as u32).to_ne_bytes());
        let map = self.map(map)?;
        for (place, action) in packed.iter().enumerate() {
            if let Err(error) = map.set(&list_key(list, place as u32), action) {
                (0..place).try_for_each(|p| map.delete(&list_key(list, p as u32)).map(|_| ()))?;
                return Err(error);
            }
        }
        Ok(data)
    }

    /// Removes the list that action data names. No packet may read it any more.
    fn remove_list(&mut self, table: &Table, data: &[u8]) -> Result<()> {
        let word = |at: usize| data.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
        let (Some(list), Some(count)) = (word(0), word(4)) else { return Ok(()) };
        let (_, map) = lists(table)?;
        let map = self.map(map)?;
        (0..count).try_for_each(|place| map.delete(&list_key(list, place)).map(|_| ()))
    }
}

fn lists(table: &Table) -> Result<(&TableLayout, &str)> {
    let found = table.layout.as_ref().and_then(|l| Some((l, l.lists.as_deref()?)));
    found.ok_or_else(|| misfit(table))
}

/// The key of an action in a list: a `u64` whose low half is the list's number.
fn list_key(list: u32, place: u32) -> [u8; 8] {
    (u64::from(place) << 32 | u64::from(list)).to_ne_bytes()
}
