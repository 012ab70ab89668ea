//! Action profiles and selectors (P4Runtime specification, section 9.2): members, groups, and the entries that refer to them.
//!
//! The action data of an entry names a list of actions, which is immutable. When a member or a group changes, the host writes new lists, makes
//! the entries name them, and removes the old lists after a grace period. A packet thus sees the actions of an entry all old or all new.

use abi::manifest::{EntryError, Table, TableLayout};
use abi::{ActionCall, Entry};
use dataplane::{Indirect, Profile};

use super::KernelProgram;
use crate::bpf;
use crate::{Error, Result};

/// The profiles of a program, as far as this process has written them.
#[derive(Debug)]
pub(super) struct Profiles {
    all: Vec<Profile<Entry>>,
    /// The number of the last list.
    last: u32,
}

impl Profiles {
    pub fn new(manifest: &abi::Manifest) -> Profiles {
        let all = manifest.profiles.iter().map(|p| Profile::new(&p.name, p.size, p.selector)).collect();
        Profiles { all, last: 0 }
    }
}

impl KernelProgram {
    /// Adds a member to an action profile, or changes the action of an existing member.
    pub fn set_member(&mut self, profile: &str, id: u32, call: &ActionCall) -> Result<()> {
        let at = self.profile(profile)?;
        self.profiles.all[at].set_member(id, call.clone())?;
        self.refresh(at)
    }

    /// Adds a group of members, or changes the members of an existing group.
    pub fn set_member_group(&mut self, profile: &str, id: u32, members: &[u32]) -> Result<()> {
        let at = self.profile(profile)?;
        self.profiles.all[at].set_group(id, members.to_vec())?;
        self.refresh(at)
    }

    /// Adds an entry that refers to a member or a group. The action that `entry` names is ignored.
    pub fn insert_indirect(&mut self, table: &str, entry: &Entry, to: Indirect) -> Result<()> {
        let table = self.table(table)?;
        let at = self.profile_of(&table)?;
        let calls = self.profiles.all[at].actions_of(to)?;
        self.write_listed(&table, entry, &calls)?;
        let position = self.position(&table);
        self.profiles.all[at].used_by(position, entry.clone(), to);
        Ok(())
    }

    /// Adds an entry that runs one of these actions.
    pub(super) fn write_listed(&mut self, table: &Table, entry: &Entry, calls: &[ActionCall]) -> Result<()> {
        let data = self.write_list(table, calls)?;
        let list = data.clone();
        let written = self.write_with(table, entry, data);
        if written.is_err() {
            // Nothing names the list yet.
            self.remove_list(table, &list)?;
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
        let data = self.write_list(table, calls)?;
        let old = self.data_of(table, entry)?;
        self.modify_with(table, entry, data)?;
        bpf::grace_period()?;
        self.remove_list(table, &old)
    }

    /// Removes the list of an entry that was removed, and forgets what it referred to.
    pub(super) fn forget_listed(&mut self, table: &Table, entry: &Entry, data: &[u8]) -> Result<()> {
        let (at, position) = (self.profile_of(table)?, self.position(table));
        let profile = &mut self.profiles.all[at];
        let known = profile.references(position).map(|(known, _)| known).find(|known| is_same(known, entry));
        if let Some(known) = known.cloned() {
            profile.left_by(position, &known);
        }
        bpf::grace_period()?;
        self.remove_list(table, data)
    }

    /// What an entry refers to, if it refers to a member or a group.
    pub fn reference(&self, table: &str, entry: &Entry) -> Option<Indirect> {
        let table = self.manifest.table(table)?;
        let at = self.profile_of(table).ok()?;
        let mut users = self.profiles.all[at].references(self.position(table));
        users.find(|(known, _)| is_same(known, entry)).map(|(_, to)| to)
    }

    /// The action data of the first action in the list of an entry. If the list is empty, it is that of the table's first action.
    pub(super) fn first_listed(&mut self, table: &Table, data: &[u8]) -> Result<Vec<u8>> {
        let (layout, map) = lists(table)?;
        let list = data.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let found = self.map(map)?.lookup(&list_key(list, 0))?;
        Ok(found.unwrap_or_else(|| vec![0; layout.data_size as usize]))
    }

    /// Gives all entries that refer to a profile its present actions.
    fn refresh(&mut self, profile: usize) -> Result<()> {
        let users: Vec<_> = self.profiles.all[profile].users().collect();
        for (position, entry, calls) in users {
            let table = self.manifest.tables[position].clone();
            self.replace_listed(&table, &entry, &calls)?;
        }
        Ok(())
    }

    /// Writes a new list, and returns the action data that names it.
    fn write_list(&mut self, table: &Table, calls: &[ActionCall]) -> Result<Vec<u8>> {
        let (layout, map) = lists(table)?;
        let packed: Option<Vec<_>> = calls.iter().map(|call| table.pack_action(layout, call)).collect();
        let packed = packed.ok_or_else(|| super::table::misfit(table))?;
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

    fn profile(&self, name: &str) -> Result<usize> {
        let found = self.manifest.profiles.iter().position(|p| p.name == name);
        found.ok_or_else(|| Error::NotFound(format!("action profile `{name}`")))
    }

    fn profile_of(&self, table: &Table) -> Result<usize> {
        match &table.implementation {
            Some(name) => self.profile(name),
            None => Err(Error::Table {
                table: table.name.clone(),
                problem: "it has no action profile: its entries name actions directly".into(),
            }),
        }
    }

    fn position(&self, table: &Table) -> usize {
        self.manifest.tables.iter().position(|t| t.name == table.name).unwrap_or(0)
    }
}

fn lists(table: &Table) -> Result<(&TableLayout, &str)> {
    let layout = table.layout.as_ref();
    let found = layout.and_then(|l| Some((l, l.lists.as_deref()?)));
    found.ok_or_else(|| EntryError::NoTable(table.name.clone()).into())
}

/// The key of an action in a list: a `u64` whose low half is the list's number.
fn list_key(list: u32, place: u32) -> [u8; 8] {
    (u64::from(place) << 32 | u64::from(list)).to_ne_bytes()
}

/// Whether two entries have the same key.
fn is_same(a: &Entry, b: &Entry) -> bool {
    (&a.matches, a.priority) == (&b.matches, b.priority)
}
