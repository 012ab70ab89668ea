//! Built-in control planes of the bundled apps. They run in this process, and do what an external controller would do over P4Runtime.
//!
//! They are sans-I/O: the input is an [`Event`] and the time, and the output is a batch of updates. [`tell`] passes an event to a control
//! plane and writes the batch to the device. A batch is applied whole or not at all. A refused batch is an event for the control plane, so
//! that it never assumes an entry that does not exist.

mod l2;
mod nat44;

use std::str::FromStr;

use abi::id::{ActionId, DigestId, TableId};
use abi::{ActionCall, Bits, Digest, Manifest, MatchValue};
use dataplane::device::{self, Action, Device, Entity, EntryKey, Key, TableEntry, Update, WriteError};

pub use l2::L2;
pub use nat44::Nat44;

/// An event that a control plane handles.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The program has started, with these ports.
    Started(&'a [u32]),
    /// What the device held when the control plane began: it goes on where another one has ended.
    Found(&'a [Entity]),
    /// The program told something.
    Told(&'a device::Event),
    /// The device refused a batch of this control plane, so nothing of it was written.
    Refused(&'a [Update], &'a WriteError),
}

/// A control plane of one program.
pub trait Controller: Send {
    /// Handles an event, and returns the batch of updates that it asks for. `now` is in microseconds and never decreases.
    fn event(&mut self, now: u64, event: Event<'_>) -> Vec<Update>;
}

/// Passes an event to a control plane, and writes the batch that it asks for. Returns the errors of refused batches.
pub fn tell(
    controller: &mut dyn Controller,
    now: u64,
    event: Event<'_>,
    device: &mut dyn Device,
) -> Vec<WriteError> {
    let mut updates = controller.event(now, event);
    let mut refused = Vec::new();
    while !updates.is_empty() {
        let Err(error) = device.write(&updates) else { break };
        updates = controller.event(now, Event::Refused(&updates, &error));
        refused.push(error);
    }
    refused
}

/// A built-in control plane with its arguments, as on the command line: `l2`, `l2:SECONDS`, `nat44:POOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// The control plane of apps/l2. Stations are removed after this number of seconds.
    L2(u32),
    /// The control plane of apps/nat44, with its pool of outside addresses.
    Nat44(ipnet::Ipv4Net),
}

impl FromStr for BuiltIn {
    type Err = String;

    fn from_str(text: &str) -> Result<BuiltIn, String> {
        let (name, arg) = text.split_once(':').map_or((text, None), |(name, arg)| (name, Some(arg)));
        match (name, arg) {
            ("l2", None) => Ok(BuiltIn::L2(l2::AGEING)),
            ("l2", Some(arg)) => match arg.parse() {
                Ok(seconds) if seconds > 0 => Ok(BuiltIn::L2(seconds)),
                _ => Err(format!("`{arg}` is no number of seconds")),
            },
            ("nat44", Some(arg)) => {
                let host = arg.parse().ok().and_then(|ip| ipnet::Ipv4Net::new(ip, 32).ok());
                let pool = host.or_else(|| arg.parse().ok());
                pool.map(BuiltIn::Nat44).ok_or_else(|| format!("`{arg}` is no IPv4 address or prefix"))
            }
            ("nat44", None) => {
                Err("nat44 needs its pool: nat44:203.0.113.1 or nat44:203.0.113.0/28".to_string())
            }
            _ => Err(format!("there is no control plane `{name}`; there are l2[:SECONDS] and nat44:POOL")),
        }
    }
}

impl BuiltIn {
    /// The name of the app's program.
    pub fn program(&self) -> &'static str {
        match self {
            BuiltIn::L2(_) => "l2",
            BuiltIn::Nat44(_) => "nat44",
        }
    }

    /// Constructs the control plane in its initial state, for the program that the manifest describes.
    pub fn make(&self, manifest: &Manifest) -> Result<Box<dyn Controller>, String> {
        if manifest.program != self.program() {
            let (own, other) = (self.program(), &manifest.program);
            return Err(format!(
                "this control plane is of apps/{own}/{own}.p4, and the program is {other}.p4"
            ));
        }
        Ok(match self {
            BuiltIn::L2(seconds) => Box::new(L2::new(manifest, *seconds)?),
            BuiltIn::Nat44(pool) => Box::new(Nat44::new(manifest, *pool)?),
        })
    }
}

/// A type of digests, and the places of some of its fields.
#[derive(Clone, Copy, Debug)]
struct Fields<const N: usize> {
    digest: DigestId,
    at: [usize; N],
}

impl<const N: usize> Fields<N> {
    /// Finds a type of digests and its fields by their names.
    fn find(manifest: &Manifest, name: &str, fields: [&str; N]) -> Result<Fields<N>, String> {
        let id = manifest.digest_id(name).ok_or_else(|| format!("the program has no digest `{name}`"))?;
        let known = &manifest.digests[id.index()].fields;
        let mut at = [0; N];
        for (at, field) in at.iter_mut().zip(fields) {
            let found = known.iter().position(|(name, _)| name == field);
            *at = found.ok_or_else(|| format!("digest `{name}` has no field `{field}`"))?;
        }
        Ok(Fields { digest: id, at })
    }

    /// The values of the fields; `None` for a digest of another type.
    fn values(&self, digest: &Digest) -> Option<[u64; N]> {
        let own = Some(digest).filter(|digest| digest.digest == self.digest)?;
        let value = |at: &usize| Some(own.values.get(*at)?.low_u64());
        self.at.iter().map(value).collect::<Option<Vec<u64>>>()?.try_into().ok()
    }
}

/// A table with exact keys, and the action of its entries.
#[derive(Clone, Copy, Debug)]
struct Exact {
    table: TableId,
    action: ActionId,
}

impl Exact {
    /// Finds a table and one of its actions by their full names.
    fn find(manifest: &Manifest, table: &str, action: &str) -> Result<Exact, String> {
        let id = manifest.table_id(table).ok_or_else(|| format!("the program has no table `{table}`"))?;
        let action = manifest.tables[id.index()].action_id(action);
        let action = action.ok_or_else(|| format!("table `{table}` has no such action"))?;
        Ok(Exact { table: id, action })
    }

    /// The key of an entry. Each match value is given as width and value.
    fn key(&self, keys: &[(u32, u64)]) -> EntryKey {
        let matches = keys.iter().map(|key| MatchValue::Exact(bits(key))).collect();
        EntryKey { table: self.table, matches, priority: 0 }
    }

    /// Sets an entry. `idle` is its idle timeout in microseconds.
    fn set(&self, keys: &[(u32, u64)], args: &[(u32, u64)], idle: Option<u64>) -> Update {
        let action = ActionCall { action: self.action, args: args.iter().map(bits).collect() };
        let entry = TableEntry { key: self.key(keys), action: Action::Call(action), idle };
        Update::Set(Entity::Entry(entry))
    }

    /// Removes an entry if it exists.
    fn unset(&self, keys: &[(u32, u64)]) -> Update {
        Update::Unset(Key::Entry(self.key(keys)))
    }

    /// The match values of an entry of this table; `None` for an entry of another table.
    fn values<const N: usize>(&self, key: &EntryKey) -> Option<[u64; N]> {
        let value = |value: &MatchValue| match value {
            MatchValue::Exact(value) => Some(value.low_u64()),
            _ => None,
        };
        let own = Some(key).filter(|key| key.table == self.table)?;
        own.matches.iter().map(value).collect::<Option<Vec<u64>>>()?.try_into().ok()
    }
}

/// The arguments of an entry's action.
fn args<const N: usize>(entry: &TableEntry) -> Option<[u64; N]> {
    let Action::Call(call) = &entry.action else { return None };
    call.args.iter().map(Bits::low_u64).collect::<Vec<u64>>().try_into().ok()
}

fn bits((width, value): &(u32, u64)) -> Bits {
    Bits::new(*width, u128::from(*value))
}

/// The keys of the entries that a batch sets.
fn keys_set(updates: &[Update]) -> impl Iterator<Item = &EntryKey> {
    updates.iter().filter_map(|update| match update {
        Update::Set(Entity::Entry(entry)) => Some(&entry.key),
        _ => None,
    })
}

/// The keys of the entries that a batch removes.
fn keys_unset(updates: &[Update]) -> impl Iterator<Item = &EntryKey> {
    updates.iter().filter_map(|update| match update {
        Update::Unset(Key::Entry(key)) => Some(key),
        _ => None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use abi::MatchKind;
    use abi::manifest::{Action, DigestType, KeyField, Param, Table};
    use dataplane::device::{EntryQuery, Model, Query};

    use super::*;

    /// A table with its key widths, its action and the widths of the action's parameters, and its size.
    pub type Shape = (&'static str, &'static [u32], &'static str, &'static [u32], u64);

    /// A type of digests: its name, and the name and the width of each field.
    pub type Told = (&'static str, &'static [(&'static str, u32)]);

    /// A device with these tables and digests, and no program.
    pub fn model(program: &str, tables: &[Shape], digests: &[Told]) -> Model {
        let digest = |(name, fields): &Told| DigestType {
            name: name.to_string(),
            fields: fields.iter().map(|(name, width)| (name.to_string(), *width)).collect(),
        };
        let table = |(name, keys, action, params, size): &Shape| Table {
            name: name.to_string(),
            keys: keys
                .iter()
                .map(|width| KeyField {
                    name: "k".to_string(),
                    width: *width,
                    kind: MatchKind::Exact,
                    signed: false,
                })
                .collect(),
            actions: vec![Action {
                name: action.to_string(),
                params: params
                    .iter()
                    .map(|width| Param { name: "p".to_string(), width: *width, offset: 0 })
                    .collect(),
                default_only: false,
                table_only: false,
            }],
            size: *size,
            default_action: None,
            const_default: false,
            const_entries: false,
            initial_entries: Vec::new(),
            direct_counter: None,
            implementation: None,
            notifies_idle: true,
            ages: false,
            direct_meter: None,
            layout: None,
        };
        Model::new(Manifest {
            program: program.to_string(),
            tables: tables.iter().map(table).collect(),
            digests: digests.iter().map(digest).collect(),
            ..Manifest::default()
        })
    }

    /// The match values of a table's entries.
    pub fn entries(device: &mut Model, table: &str) -> Vec<Vec<u64>> {
        let table = device.manifest().table_id(table).expect("there is such a table");
        let found = device.read(&Query::Entries(EntryQuery::table(table))).expect("it reads");
        let values = |entity: &Entity| match entity {
            Entity::Entry(entry) => entry.key.matches.iter().map(value).collect(),
            _ => Vec::new(),
        };
        found.iter().map(values).collect()
    }

    fn value(value: &MatchValue) -> u64 {
        match value {
            MatchValue::Exact(value) => value.low_u64(),
            _ => panic!("the keys are exact"),
        }
    }

    /// A digest of a type, with values for all its fields.
    pub fn digest(device: &Model, name: &str, values: &[u64]) -> device::Event {
        let digest = device.manifest().digest_id(name).expect("there is such a digest");
        let fields = &device.manifest().digests[digest.index()].fields;
        let values = fields.iter().zip(values).map(|((_, width), value)| bits(&(*width, *value))).collect();
        device::Event::Digest(Digest { digest, values })
    }

    /// An idle entry of a table.
    pub fn idle(device: &Model, table: &str, keys: &[(u32, u64)]) -> device::Event {
        let table = device.manifest().table_id(table).expect("there is such a table");
        let key = Exact { table, action: ActionId(0) }.key(keys);
        let action = device::Action::Call(ActionCall::default());
        device::Event::Idle(TableEntry { key, action, idle: Some(1) })
    }
}
