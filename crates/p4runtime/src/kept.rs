//! What P4Runtime asks a server to remember, and no device holds: metadata, exact timeouts, one-shots as they were written, weights, clone
//! sessions with several replicas, settings of digests.
//!
//! Every change has an inverse, so that a batch that the device refuses is forgotten as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use abi::id::{ProfileId, TableId};
use dataplane::device::EntryKey;
use proto::p4::v1;

use super::names::Names;

/// What is remembered beside a device.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The numbers of names.
    pub names: Names,
    entries: HashMap<EntryKey, EntryNote>,
    defaults: HashMap<TableId, EntryNote>,
    groups: HashMap<(ProfileId, u32), v1::ActionProfileGroup>,
    multicast: BTreeMap<u32, v1::MulticastGroupEntry>,
    sessions: BTreeMap<u32, Session>,
    digests: BTreeMap<u32, v1::digest_entry::Config>,
    /// The number of entries with a one-shot of each profile.
    one_shots: HashMap<ProfileId, usize>,
    /// The number of members of each profile that a controller has written.
    members: HashMap<ProfileId, usize>,
    /// The multicast groups of clone sessions.
    hidden_groups: BTreeSet<u32>,
    /// The last id that was given to a member or group of a one-shot.
    last_id: u32,
}

/// What is remembered of a table entry or of a default action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryNote {
    /// `TableEntry.controller_metadata`, which a server returns as it was written.
    pub controller_metadata: u64,
    /// `TableEntry.metadata`, which a server returns as it was written.
    pub metadata: Vec<u8>,
    /// `TableEntry.idle_timeout_ns`: the device has microseconds.
    pub idle_ns: i64,
    /// The one-shot, if the entry has one.
    pub one_shot: Option<OneShot>,
}

/// A one-shot with the members and the group that it has made.
#[derive(Clone, Debug, PartialEq)]
pub struct OneShot {
    /// The profile of the table.
    pub profile: ProfileId,
    /// What the controller has written.
    pub set: v1::ActionProfileActionSet,
    /// The number of the group that the device has for it.
    pub group: u32,
    /// The numbers of the members that the device has for it.
    pub members: Vec<u32>,
}

/// A clone session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// What the controller has written.
    pub entry: v1::CloneSessionEntry,
    /// The multicast group that the session uses, unless it has one plain replica.
    pub group: Option<u32>,
}

/// A change of what is remembered: a key and its new value.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Change {
    Entry(EntryKey, Option<EntryNote>),
    Default(TableId, Option<EntryNote>),
    Group(ProfileId, u32, Option<v1::ActionProfileGroup>),
    Multicast(u32, Option<v1::MulticastGroupEntry>),
    Session(u32, Option<Session>),
    Digest(u32, Option<v1::digest_entry::Config>),
    /// By how much the number of members of a profile changes.
    Members(ProfileId, isize),
}

impl EntryNote {
    /// Whether there is nothing to remember.
    fn is_plain(&self) -> bool {
        self.controller_metadata == 0
            && self.metadata.is_empty()
            && self.idle_ns == 0
            && self.one_shot.is_none()
    }
}

impl Kept {
    /// Makes a change. Returns the change that undoes it.
    pub fn change(&mut self, change: Change) -> Change {
        match change {
            Change::Entry(key, note) => {
                let note = note.filter(|note| !note.is_plain());
                self.count_one_shot(note.as_ref(), 1);
                let old = replace(&mut self.entries, key.clone(), note);
                self.count_one_shot(old.as_ref(), -1);
                Change::Entry(key, old)
            }
            Change::Default(table, note) => {
                let note = note.filter(|note| !note.is_plain());
                Change::Default(table, replace(&mut self.defaults, table, note))
            }
            Change::Group(profile, id, group) => {
                Change::Group(profile, id, replace(&mut self.groups, (profile, id), group))
            }
            Change::Multicast(id, group) => {
                let old = match group {
                    Some(group) => self.multicast.insert(id, group),
                    None => self.multicast.remove(&id),
                };
                Change::Multicast(id, old)
            }
            Change::Session(id, session) => {
                if let Some(group) = session.as_ref().and_then(|s| s.group) {
                    self.hidden_groups.insert(group);
                }
                let used = session.as_ref().and_then(|s| s.group);
                let old = match session {
                    Some(session) => self.sessions.insert(id, session),
                    None => self.sessions.remove(&id),
                };
                if let Some(group) = old.as_ref().and_then(|s| s.group).filter(|group| Some(*group) != used) {
                    self.hidden_groups.remove(&group);
                }
                Change::Session(id, old)
            }
            Change::Digest(id, config) => {
                let old = match config {
                    Some(config) => self.digests.insert(id, config),
                    None => self.digests.remove(&id),
                };
                Change::Digest(id, old)
            }
            Change::Members(profile, by) => {
                let count = self.members.entry(profile).or_default();
                *count = count.saturating_add_signed(by);
                Change::Members(profile, -by)
            }
        }
    }

    fn count_one_shot(&mut self, note: Option<&EntryNote>, by: isize) {
        if let Some(one_shot) = note.and_then(|note| note.one_shot.as_ref()) {
            let count = self.one_shots.entry(one_shot.profile).or_default();
            *count = count.saturating_add_signed(by);
        }
    }

    /// What is remembered of an entry.
    pub fn entry(&self, key: &EntryKey) -> Option<&EntryNote> {
        self.entries.get(key)
    }

    /// What is remembered of a default action.
    pub fn default_action(&self, table: TableId) -> Option<&EntryNote> {
        self.defaults.get(&table)
    }

    /// A group as it was written.
    pub fn group(&self, profile: ProfileId, id: u32) -> Option<&v1::ActionProfileGroup> {
        self.groups.get(&(profile, id))
    }

    /// All groups, with their profiles and numbers.
    pub fn groups(&self) -> impl Iterator<Item = (&(ProfileId, u32), &v1::ActionProfileGroup)> {
        self.groups.iter()
    }

    /// The one-shots of all entries.
    pub fn one_shots(&self) -> impl Iterator<Item = &OneShot> {
        self.entries.values().filter_map(|note| note.one_shot.as_ref())
    }

    /// A multicast group as it was written.
    pub fn multicast(&self, id: u32) -> Option<&v1::MulticastGroupEntry> {
        self.multicast.get(&id)
    }

    /// All multicast groups, with their numbers.
    pub fn multicasts(&self) -> impl Iterator<Item = (&u32, &v1::MulticastGroupEntry)> {
        self.multicast.iter()
    }

    /// A clone session.
    pub fn session(&self, id: u32) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// Whether a multicast group belongs to a clone session.
    pub fn is_hidden_group(&self, id: u32) -> bool {
        self.hidden_groups.contains(&id)
    }

    /// A multicast group for a clone session: the last free one below a limit.
    pub fn free_group(&self, below: u32) -> Option<u32> {
        (1..below).rev().find(|id| !self.hidden_groups.contains(id) && !self.multicast.contains_key(id))
    }

    /// The settings of a digest; `None` if it is not sent.
    pub fn digest(&self, id: u32) -> Option<&v1::digest_entry::Config> {
        self.digests.get(&id)
    }

    /// The digests that are sent, with their settings.
    pub fn digests(&self) -> &BTreeMap<u32, v1::digest_entry::Config> {
        &self.digests
    }

    /// Whether entries of a profile have one-shots.
    pub fn has_one_shots(&self, profile: ProfileId) -> bool {
        self.one_shots.get(&profile).is_some_and(|count| *count > 0)
    }

    /// Whether a controller has written members of a profile.
    pub fn has_members(&self, profile: ProfileId) -> bool {
        self.members.get(&profile).is_some_and(|count| *count > 0)
    }

    /// Gives what is remembered to another program. `table` and `profile` say which numbers it has there; what has none is forgotten.
    pub fn renumber(
        &mut self,
        table: impl Fn(TableId) -> Option<TableId>,
        profile: impl Fn(ProfileId) -> Option<ProfileId>,
    ) {
        let entries = std::mem::take(&mut self.entries);
        let entry = |(key, mut note): (EntryKey, EntryNote)| {
            if let Some(one_shot) = &mut note.one_shot {
                one_shot.profile = profile(one_shot.profile)?;
            }
            Some((EntryKey { table: table(key.table)?, ..key }, note))
        };
        self.entries = entries.into_iter().filter_map(entry).collect();
        let defaults = std::mem::take(&mut self.defaults);
        self.defaults = defaults.into_iter().filter_map(|(at, note)| Some((table(at)?, note))).collect();
        let groups = std::mem::take(&mut self.groups);
        self.groups =
            groups.into_iter().filter_map(|((at, id), group)| Some(((profile(at)?, id), group))).collect();
        for counts in [&mut self.one_shots, &mut self.members] {
            let old = std::mem::take(counts);
            *counts = old.into_iter().filter_map(|(at, count)| Some((profile(at)?, count))).collect();
        }
    }

    /// An id for a member or group of a one-shot.
    pub fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        self.last_id
    }
}

fn replace<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
