//! Action profiles of a native program (P4Runtime specification, section 9.2): members, groups, and the entries that refer to them.

use abi::{ActionCall, Entry};

use super::{Memory, View, Writer};
use crate::{Indirect, ProfileError, TableError};

/// Why an entry that refers to a member or a group could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndirectError {
    /// The table has no action profile: its entries name actions directly.
    #[error("table `{0}` has no action profile")]
    NoProfile(String),
    /// The profile has no such member or group.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The table does not accept the entry.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Memory {
    /// Adds a member to an action profile, or changes the action of an existing member; `None` if there is no such profile.
    pub fn set_member(&self, profile: &str, id: u32, call: ActionCall) -> Option<Result<(), ProfileError>> {
        let at = self.manifest.profiles.iter().position(|p| p.name == profile)?;
        let writer = &mut *self.writer();
        Some(writer.profiles[at].set_member(id, call).map(|()| refresh(writer, at)))
    }

    /// Adds a group of members, or changes the members of an existing group; `None` if there is no such profile.
    pub fn set_member_group(
        &self,
        profile: &str,
        id: u32,
        members: Vec<u32>,
    ) -> Option<Result<(), ProfileError>> {
        let at = self.manifest.profiles.iter().position(|p| p.name == profile)?;
        let writer = &mut *self.writer();
        Some(writer.profiles[at].set_group(id, members).map(|()| refresh(writer, at)))
    }

    /// Adds an entry that refers to a member or a group. The action that `entry` names is ignored.
    pub fn insert_indirect(&self, table: &str, entry: &Entry, to: Indirect) -> Result<(), IndirectError> {
        let missing = || IndirectError::NoProfile(table.to_owned());
        let at = self.position(table).ok_or_else(missing)?;
        let profile = self.profile_of(at).ok_or_else(missing)?;
        self.write_all(table, |writer, at, root| {
            let Writer { tables, reclaimer, profiles, .. } = &mut *writer;
            // An unknown member or group is reported before anything is written.
            let calls = match profiles[profile].actions_of(to) {
                Ok(calls) => calls,
                Err(error) => return Ok(Err(error.into())),
            };
            tables[at].insert_indirect(entry, &calls, &mut View { table: root, reclaimer })?;
            profiles[profile].used_by(at, tables[at].identity(entry), to);
            refresh(writer, profile);
            Ok(Ok(()))
        })?
    }

    /// The number of a table's action profile, if the table has one.
    pub(super) fn profile_of(&self, table: usize) -> Option<usize> {
        let name = self.manifest.tables[table].implementation.as_ref()?;
        self.manifest.profiles.iter().position(|p| p.name == *name)
    }
}

/// Publishes the current members of a profile to all entries that refer to them.
fn refresh(writer: &mut Writer, profile: usize) {
    let Writer { tables, profiles, reclaimer, .. } = writer;
    for (table, entry, calls) in profiles[profile].users() {
        tables[table].set_members(&entry, &calls, reclaimer);
    }
}
