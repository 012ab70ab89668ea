//! Action profiles and selectors (P4Runtime specification, section 9.2). A table entry refers to a member of a profile, or to a group of
//! members, instead of calling an action itself.

use std::collections::{BTreeMap, HashMap};

use abi::id::TableId;
use abi::{ActionCall, MatchValue};

/// What an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Indirect {
    /// The member with this id.
    Member(u32),
    /// The group with this id. A hash selects one of its members for each packet.
    Group(u32),
}

/// The identity of an entry ([`abi::manifest::Table::identity`]).
type Identity = (Vec<MatchValue>, i32);

/// The members and groups of an action profile or selector, and the entries that refer to them. [`crate::device`] checks what is written.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, Vec<u32>>,
    users: HashMap<(TableId, Identity), Indirect>,
    /// The number of entries that refer to each member and group.
    references: HashMap<Indirect, usize>,
}

impl Profile {
    /// Sets or removes (`None`) a member. Its action has the number of the profile's first table.
    pub fn set_member(&mut self, id: u32, call: Option<ActionCall>) {
        match call {
            Some(call) => drop(self.members.insert(id, call)),
            None => drop(self.members.remove(&id)),
        }
    }

    /// Sets or removes (`None`) a group.
    pub fn set_group(&mut self, id: u32, members: Option<Vec<u32>>) {
        match members {
            Some(members) => drop(self.groups.insert(id, members)),
            None => drop(self.groups.remove(&id)),
        }
    }

    /// The members with their ids.
    pub fn members(&self) -> &BTreeMap<u32, ActionCall> {
        &self.members
    }

    /// The groups with their ids and members.
    pub fn groups(&self) -> &BTreeMap<u32, Vec<u32>> {
        &self.groups
    }

    /// The actions that an entry with this reference may run. An empty group has none.
    pub fn actions_of(&self, to: Indirect) -> Vec<ActionCall> {
        let ids = match &to {
            Indirect::Member(id) => std::slice::from_ref(id),
            Indirect::Group(id) => self.groups.get(id).map_or(&[][..], Vec::as_slice),
        };
        ids.iter().filter_map(|id| self.members.get(id).cloned()).collect()
    }

    /// Sets or removes (`None`) what an entry refers to.
    pub fn refer(&mut self, table: TableId, entry: Identity, to: Option<Indirect>) {
        let old = match to {
            Some(to) => self.users.insert((table, entry), to),
            None => self.users.remove(&(table, entry)),
        };
        if let Some(to) = to {
            *self.references.entry(to).or_default() += 1;
        }
        if let Some(count) = old.and_then(|old| self.references.get_mut(&old)) {
            *count -= 1;
        }
    }

    /// What an entry refers to.
    pub fn reference(&self, table: TableId, entry: &Identity) -> Option<Indirect> {
        self.users.get(&(table, entry.clone())).copied()
    }

    /// The number of entries that refer to a member or a group, and of the groups with a member.
    pub fn references(&self, to: Indirect) -> usize {
        let entries = self.references.get(&to).copied().unwrap_or(0);
        let groups = match to {
            Indirect::Member(id) => self.groups.values().filter(|members| members.contains(&id)).count(),
            Indirect::Group(_) => 0,
        };
        entries + groups
    }

    /// The entries that refer to this profile, each with its table and the actions that it may run now.
    pub fn users(&self) -> impl Iterator<Item = (TableId, &Identity, Vec<ActionCall>)> {
        self.users.iter().map(|((table, entry), to)| (*table, entry, self.actions_of(*to)))
    }
}
