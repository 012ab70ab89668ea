//! Action profiles and selectors: entries of tables lead to members, or to groups of members, instead of to actions of their own
//! (P4Runtime specification, section 9.2).

use std::collections::BTreeMap;

use abi::ActionCall;
use thiserror::Error;

use crate::table::Handle;

/// What an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indirect {
    /// One action.
    Member(u32),
    /// One of the group's members, chosen for each packet.
    Group(u32),
}

/// Why a profile could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// No such member.
    #[error("profile `{0}` has no member {1} (NOT_FOUND)")]
    NoMember(String, u32),
    /// No such group.
    #[error("profile `{0}` has no group {1} (NOT_FOUND)")]
    NoGroup(String, u32),
    /// A profile without a selector has no groups.
    #[error("profile `{0}` has no selector, so it has no groups (INVALID_ARGUMENT)")]
    NoSelector(String),
    /// It holds as many members as its size allows.
    #[error("profile `{0}` is full: its size is {1} (RESOURCE_EXHAUSTED)")]
    Full(String, u64),
}

/// An action profile or selector and what it holds.
#[derive(Clone, Debug)]
pub struct Profile<E = Handle> {
    name: String,
    size: u64,
    selector: bool,
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, Vec<u32>>,
    /// Entries that lead here: the table's number, and the entry.
    users: Vec<(usize, E, Indirect)>,
}

impl<E: Clone + PartialEq> Profile<E> {
    /// An empty one; a size of 0 says that there is no limit.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a member, or gives it another action.
    pub fn set_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        let full = self.size != 0 && self.members.len() as u64 >= self.size;
        if full && !self.members.contains_key(&id) {
            return Err(ProfileError::Full(self.name.clone(), self.size));
        }
        self.members.insert(id, call);
        Ok(())
    }

    /// Makes a group, or gives it other members.
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

    /// The actions that an entry may run: none in an empty group.
    pub fn choices(&self, indirect: Indirect) -> Result<Vec<ActionCall>, ProfileError> {
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

    /// Notes that an entry leads here.
    pub fn used_by(&mut self, table: usize, entry: E, indirect: Indirect) {
        self.users.push((table, entry, indirect));
    }

    /// Notes that an entry leads here no more.
    pub fn left_by(&mut self, table: usize, entry: &E) {
        self.users.retain(|(t, e, _)| (*t, e) != (table, entry));
    }

    /// The entries that lead here, and what they may run now.
    pub fn users(&self) -> impl Iterator<Item = (usize, E, Vec<ActionCall>)> {
        self.users.iter().filter_map(|(table, entry, indirect)| {
            Some((*table, entry.clone(), self.choices(*indirect).ok()?))
        })
    }
}
