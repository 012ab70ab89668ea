//! What a running program consists of for whoever controls it: entities, each with a key. They map one to one onto `p4.v1.Entity`
//! (P4Runtime specification, section 8.1); the parts of `p4.v1.TableEntry` that are state of their own (default action, counter, meter) are
//! entities of their own.

use abi::id::{CounterId, DropId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use abi::{ActionCall, Bits, Entry, MatchValue};

use crate::{Count, Indirect, Rate};

/// What distinguishes a table entry from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// The table that has the entry.
    pub table: TableId,
    /// One value for each key field. Don't-care bits are zero in what a device returns, and ignored in what it gets.
    pub matches: Vec<MatchValue>,
    /// Of several matching entries the largest priority wins. It is 0 in tables without ternary, range or optional keys.
    pub priority: i32,
}

/// What runs on a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An action with its arguments.
    Call(ActionCall),
    /// The action of a member of the table's action profile.
    Member(u32),
    /// The action of a member of a group, which a hash selects for each packet.
    Group(u32),
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// The table, the match and the priority.
    pub key: EntryKey,
    /// What runs on a hit.
    pub action: Action,
    /// The time in microseconds without a hit after which the device reports the entry as idle ([`Event::Idle`](super::Event)).
    pub idle: Option<u64>,
}

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// To one port, by its number.
    Port(u32),
    /// To every member of a multicast group, by the group's number.
    Group(u32),
}

/// An entity: a key and its value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Entity {
    /// A table entry (`TableEntry`).
    Entry(TableEntry),
    /// The action that runs on a miss (`TableEntry` with `is_default_action`).
    Default { table: TableId, action: ActionCall },
    /// A member of an action profile (`ActionProfileMember`).
    Member { profile: ProfileId, id: u32, action: ActionCall },
    /// A group of members of an action selector (`ActionProfileGroup`).
    Group { profile: ProfileId, id: u32, members: Vec<u32> },
    /// A cell of an indexed counter (`CounterEntry`).
    Counter { counter: CounterId, index: u64, count: Count },
    /// The counter of a table entry (`DirectCounterEntry`).
    DirectCounter { entry: EntryKey, count: Count },
    /// The rates of a cell of an indexed meter, lowest first; none makes all packets green (`MeterEntry`).
    Meter { meter: MeterId, index: u64, rates: Vec<Rate> },
    /// The rates of a table entry's meter (`DirectMeterEntry`).
    DirectMeter { entry: EntryKey, rates: Vec<Rate> },
    /// The rates of every entry of a table with a direct meter, present and future. P4Runtime has no such message; BMv2 has.
    AllMeters { meter: MeterId, rates: Vec<Rate> },
    /// A cell of a register (`RegisterEntry`).
    Register { register: RegisterId, index: u64, value: Bits },
    /// The members of a parser's value set (`ValueSetEntry`).
    ValueSet { set: ValueSetId, members: Vec<Vec<MatchValue>> },
    /// A multicast group with its copies, each as `egress_rid` and port (`MulticastGroupEntry`).
    Multicast { group: u32, copies: Vec<(u32, u32)> },
    /// A mirroring session (`CloneSessionEntry`).
    Session { session: u32, to: Mirror },
    /// PNA: a port to the host. All other ports are ports to the network. P4Runtime has no such message.
    HostPort { port: u32 },
    /// PNA: the time in microseconds after which entries of an expire-time profile are removed; `None` for never. P4Runtime has no such
    /// message.
    ExpireTime { profile: u32, micros: Option<u64> },
    /// The packets dropped for a reason. It can only be read. P4Runtime has no such message.
    Drop { reason: DropId, count: Count },
}

/// What distinguishes an entity from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Key {
    Entry(EntryKey),
    Default(TableId),
    Member(ProfileId, u32),
    Group(ProfileId, u32),
    Counter(CounterId, u64),
    DirectCounter(EntryKey),
    Meter(MeterId, u64),
    DirectMeter(EntryKey),
    AllMeters(MeterId),
    Register(RegisterId, u64),
    ValueSet(ValueSetId),
    Multicast(u32),
    Session(u32),
    HostPort(u32),
    ExpireTime(u32),
    Drop(DropId),
}

impl Action {
    /// The member or group that is referred to, if there is one.
    pub fn indirect(&self) -> Option<Indirect> {
        match self {
            Action::Call(_) => None,
            Action::Member(id) => Some(Indirect::Member(*id)),
            Action::Group(id) => Some(Indirect::Group(*id)),
        }
    }
}

impl From<Indirect> for Action {
    fn from(to: Indirect) -> Action {
        match to {
            Indirect::Member(id) => Action::Member(id),
            Indirect::Group(id) => Action::Group(id),
        }
    }
}

impl EntryKey {
    /// The key of an entry of a table.
    pub fn of(table: TableId, entry: &Entry) -> EntryKey {
        EntryKey { table, matches: entry.matches.clone(), priority: entry.priority }
    }

    /// The key with zeros in all don't-care bits.
    pub fn canonical(&self) -> EntryKey {
        let matches = self.matches.iter().map(MatchValue::canonical).collect();
        EntryKey { table: self.table, matches, priority: self.priority }
    }

    /// An entry with this key.
    pub fn with(&self, action: ActionCall) -> Entry {
        Entry { matches: self.matches.clone(), priority: self.priority, action }
    }
}

impl TableEntry {
    /// An entry of a table without an idle timeout.
    pub fn of(table: TableId, entry: Entry) -> TableEntry {
        let Entry { matches, priority, action } = entry;
        TableEntry { key: EntryKey { table, matches, priority }, action: Action::Call(action), idle: None }
    }
}

impl Entity {
    /// A table entry without an idle timeout.
    pub fn entry(table: TableId, entry: Entry) -> Entity {
        Entity::Entry(TableEntry::of(table, entry))
    }

    /// The entity's key.
    pub fn key(&self) -> Key {
        match self {
            Entity::Entry(entry) => Key::Entry(entry.key.clone()),
            Entity::Default { table, .. } => Key::Default(*table),
            Entity::Member { profile, id, .. } => Key::Member(*profile, *id),
            Entity::Group { profile, id, .. } => Key::Group(*profile, *id),
            Entity::Counter { counter, index, .. } => Key::Counter(*counter, *index),
            Entity::DirectCounter { entry, .. } => Key::DirectCounter(entry.clone()),
            Entity::Meter { meter, index, .. } => Key::Meter(*meter, *index),
            Entity::DirectMeter { entry, .. } => Key::DirectMeter(entry.clone()),
            Entity::AllMeters { meter, .. } => Key::AllMeters(*meter),
            Entity::Register { register, index, .. } => Key::Register(*register, *index),
            Entity::ValueSet { set, .. } => Key::ValueSet(*set),
            Entity::Multicast { group, .. } => Key::Multicast(*group),
            Entity::Session { session, .. } => Key::Session(*session),
            Entity::HostPort { port } => Key::HostPort(*port),
            Entity::ExpireTime { profile, .. } => Key::ExpireTime(*profile),
            Entity::Drop { reason, .. } => Key::Drop(*reason),
        }
    }

    /// The count of a counter or of a drop reason.
    pub fn count(&self) -> Option<Count> {
        if let Entity::Counter { count, .. }
        | Entity::DirectCounter { count, .. }
        | Entity::Drop { count, .. } = self
        {
            Some(*count)
        } else {
            None
        }
    }

    /// The entity with zeros in the don't-care bits of its key.
    pub(super) fn canonical(&self) -> Entity {
        let mut entity = self.clone();
        if let Entity::Entry(TableEntry { key, .. })
        | Entity::DirectCounter { entry: key, .. }
        | Entity::DirectMeter { entry: key, .. } = &mut entity
        {
            *key = key.canonical();
        }
        entity
    }
}

impl Key {
    /// The key with zeros in all don't-care bits.
    pub(super) fn canonical(&self) -> Key {
        let mut canonical = self.clone();
        if let Key::Entry(key) | Key::DirectCounter(key) | Key::DirectMeter(key) = &mut canonical {
            *key = key.canonical();
        }
        canonical
    }

    /// The member or group that the key is of, which entries and groups may refer to.
    pub(super) fn indirect(&self) -> Option<(ProfileId, Indirect)> {
        use Key::*;
        match self {
            Member(profile, id) => Some((*profile, Indirect::Member(*id))),
            Group(profile, id) => Some((*profile, Indirect::Group(*id))),
            Entry(_) | Default(_) | Counter(..) | DirectCounter(_) | Meter(..) | DirectMeter(_)
            | AllMeters(_) | Register(..) | ValueSet(_) | Multicast(_) | Session(_) | HostPort(_)
            | ExpireTime(_) | Drop(_) => None,
        }
    }

    /// Whether the entity exists as long as the program, or as the table entry that it belongs to: it can be modified, but neither inserted
    /// nor deleted.
    pub(super) fn is_fixed(&self) -> bool {
        use Key::*;
        match self {
            Entry(_) | Member(..) | Group(..) | Multicast(_) | Session(_) | HostPort(_) => false,
            Default(_) | Counter(..) | DirectCounter(_) | Meter(..) | DirectMeter(_) | AllMeters(_)
            | Register(..) | ValueSet(_) | ExpireTime(_) | Drop(_) => true,
        }
    }
}
