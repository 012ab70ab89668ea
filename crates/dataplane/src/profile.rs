//! Action profiles and selectors (P4Runtime specification, section 9.2). A table entry refers to a member of a profile, or to a group of
//! members, instead of calling an action itself.

use std::collections::BTreeMap;

use abi::ActionCall;
use thiserror::Error;

use crate::table::Handle;

/// What an entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indirect {
    /// The member with this id.
    Member(u32),
    /// The group with this id. A hash selects one of its members for each packet.
    Group(u32),
}

/// Why a profile could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// The profile has no member with this id.
    #[error("profile `{0}` has no member {1} (NOT_FOUND)")]
    NoMember(String, u32),
    /// The profile has no group with this id.
    #[error("profile `{0}` has no group {1} (NOT_FOUND)")]
    NoGroup(String, u32),
    /// A group was written to a profile without a selector, which cannot have groups.
    #[error("profile `{0}` has no selector, so it has no groups (INVALID_ARGUMENT)")]
    NoSelector(String),
    /// The profile holds as many members as its size allows.
    #[error("profile `{0}` is full: its size is {1} (RESOURCE_EXHAUSTED)")]
    Full(String, u64),
}

/// An action profile or selector, its members and groups, and the entries that refer to them. `E` identifies an entry.
#[derive(Clone, Debug)]
pub struct Profile<E = Handle> {
    name: String,
    size: u64,
    selector: bool,
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, Vec<u32>>,
    /// The entries that refer to this profile: the number of the table, the entry, the member or group.
    users: Vec<(usize, E, Indirect)>,
}

impl<E: Clone + PartialEq> Profile<E> {
    /// An empty profile for at most `size` members; 0 means no limit.
    pub fn new(name: &str, size: u64, selector: bool) -> Self {
        Profile {
            name: name.to_string(),
            size,
            selector,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            users: Vec::new(),
        }
    }

    /// The full control-plane name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a member, or changes the action of an existing member.
    pub fn set_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        let full = self.size != 0 && self.members.len() as u64 >= self.size;
        if full && !self.members.contains_key(&id) {
            return Err(ProfileError::Full(self.name.clone(), self.size));
        }
        self.members.insert(id, call);
        Ok(())
    }

    /// Adds a group, or replaces the members of an existing group.
    pub fn set_group(&mut self, id: u32, members: Vec<u32>) -> Result<(), ProfileError> {
        if !self.selector {
            return Err(ProfileError::NoSelector(self.name.clone()));
        }
        if let Some(unknown) = members.iter().find(|m| !self.members.contains_key(m)) {
            return Err(ProfileError::NoMember(self.name.clone(), *unknown));
        }
        self.groups.insert(id, members);
        Ok(())
    }

    /// The actions that an entry with this reference may run. An empty group has none.
    pub fn actions_of(&self, indirect: Indirect) -> Result<Vec<ActionCall>, ProfileError> {
        let member = |id: &u32| {
            let found = self.members.get(id).cloned();
            found.ok_or_else(|| ProfileError::NoMember(self.name.clone(), *id))
        };
        match indirect {
            Indirect::Member(id) => Ok(vec![member(&id)?]),
            Indirect::Group(id) => {
                let group = self.groups.get(&id);
                let group = group.ok_or_else(|| ProfileError::NoGroup(self.name.clone(), id))?;
                group.iter().map(member).collect()
            }
        }
    }

    /// Records that an entry refers to this profile.
    pub fn used_by(&mut self, table: usize, entry: E, indirect: Indirect) {
        self.users.push((table, entry, indirect));
    }

    /// Removes the record of an entry.
    pub fn left_by(&mut self, table: usize, entry: &E) {
        self.users.retain(|(t, e, _)| (*t, e) != (table, entry));
    }

    /// The entries of a table that refer to this profile, each with what it refers to.
    pub fn references(&self, table: usize) -> impl Iterator<Item = (&E, Indirect)> {
        self.users.iter().filter(move |(t, ..)| *t == table).map(|(_, entry, to)| (entry, *to))
    }

    /// The entries that refer to this profile, each with the number of its table and the actions that it may run now.
    pub fn users(&self) -> impl Iterator<Item = (usize, E, Vec<ActionCall>)> {
        self.users.iter().filter_map(|(table, entry, indirect)| {
            Some((*table, entry.clone(), self.actions_of(*indirect).ok()?))
        })
    }
}
