//! Built-in control planes of the bundled apps. They run in this process, or as P4Runtime clients.
//!
//! They are sans-I/O: the input is an [`Event`] and the time, and the output is [`Effects`]: a batch of updates, and packets that the program gets
//! when the device has taken the batch. [`tell`] passes events to a control plane and brings their effects about. A batch is applied whole or not at all.
//! A control plane undoes what it assumed of a refused one, so that it never knows of an entry that does not exist.

mod journal;
mod l2;
mod nat44;
mod nat64;

use std::str::FromStr;

use abi::id::{ActionId, DigestId, TableId};
use abi::{ActionCall, Bits, Digest, Manifest, MatchValue};
use dataplane::device::{self, Action, Device, DeviceError, Entity, EntryKey, Key, TableEntry, Update};

use crate::nat64::Config;
pub use l2::L2;
pub use nat44::Nat44;
pub use nat64::Nat64;

/// An event that a control plane handles.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The program has started, with these ports.
    Started(&'a [u32]),
    /// What the device held when the control plane began: it goes on where another one has ended.
    Found(&'a [Entity]),
    /// The program told something.
    Told(&'a device::Event),
}

/// What a control plane asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// A batch of updates.
    pub updates: Vec<Update>,
    /// Packets for the program, with their headers, when the batch is applied.
    pub packets: Vec<Vec<u8>>,
}

impl From<Vec<Update>> for Effects {
    fn from(updates: Vec<Update>) -> Effects {
        Effects { updates, packets: Vec::new() }
    }
}

impl Effects {
    fn packet(packet: Vec<u8>) -> Effects {
        Effects { updates: Vec::new(), packets: vec![packet] }
    }

    fn add(&mut self, mut other: Effects) {
        self.updates.append(&mut other.updates);
        self.packets.append(&mut other.packets);
    }
}

/// A control plane of one program.
pub trait Controller: Send {
    /// Handles an event, and returns what it asks for. `now` is in microseconds and never decreases.
    fn event(&mut self, now: u64, event: Event<'_>) -> Effects;

    /// The effects of the events since the last call have been brought about.
    fn settled(&mut self);

    /// The device has refused the updates since the last call of [`Controller::settled`], so nothing of them was written: forgets what they assumed.
    /// Takes the packets that were to follow, and returns those that shall be sent instead.
    fn refused(&mut self, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>>;
}

/// Passes events to a control plane, and brings their effects about, in one batch if the device takes it. Returns the errors of what it refused.
pub fn tell(
    controller: &mut dyn Controller,
    now: u64,
    events: &[Event<'_>],
    device: &mut dyn Device,
) -> Vec<DeviceError> {
    let mut all = Effects::default();
    for event in events {
        all.add(controller.event(now, *event));
    }
    let written = if all.updates.is_empty() { Ok(()) } else { device.write(&all.updates) };
    let Err(error) = written else {
        controller.settled();
        return send(&all.packets, device);
    };
    let instead = controller.refused(all.packets);
    match events {
        [_] => std::iter::once(error.error).chain(send(&instead, device)).collect(),
        // One by one, so that a wrong update takes no others with it.
        several => {
            let one = |event: &Event<'_>| tell(controller, now, std::slice::from_ref(event), device);
            several.iter().flat_map(one).collect()
        }
    }
}

fn send(packets: &[Vec<u8>], device: &mut dyn Device) -> Vec<DeviceError> {
    packets.iter().filter_map(|packet| device.packet_out(packet).err()).collect()
}

/// A built-in control plane with its arguments, as on the command line: `l2`, `l2:SECONDS`, `nat44:POOL`.
#[derive(Clone, Debug, PartialEq)]
pub enum BuiltIn {
    /// The control plane of apps/l2. Stations are removed after this number of seconds.
    L2(u32),
    /// The control plane of apps/nat44, with its pool of outside addresses.
    Nat44(ipnet::Ipv4Net),
    /// The control plane of apps/nat64-controller, with its configuration.
    Nat64(Box<Config>),
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
            BuiltIn::Nat64(_) => "nat64-controller",
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
            BuiltIn::Nat64(config) => Box::new(Nat64::new(manifest, config)?),
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
    fn key<T: Into<u128> + Copy>(&self, keys: &[(u32, T)]) -> EntryKey {
        let matches = keys.iter().map(|key| MatchValue::Exact(bits(key))).collect();
        EntryKey { table: self.table, matches, priority: 0 }
    }

    /// An entry. `idle` is its idle timeout in microseconds.
    fn entry<T: Into<u128> + Copy>(
        &self,
        keys: &[(u32, T)],
        args: &[(u32, T)],
        idle: Option<u64>,
    ) -> TableEntry {
        let action = ActionCall { action: self.action, args: args.iter().map(bits).collect() };
        TableEntry { key: self.key(keys), action: Action::Call(action), idle }
    }

    /// Sets an entry. `idle` is its idle timeout in microseconds.
    fn set(&self, keys: &[(u32, u64)], args: &[(u32, u64)], idle: Option<u64>) -> Update {
        Update::Set(Entity::Entry(self.entry(keys, args, idle)))
    }

    /// Removes an entry if it exists.
    fn unset(&self, keys: &[(u32, u64)]) -> Update {
        Update::Unset(Key::Entry(self.key(keys)))
    }

    /// The match values of an entry of this table; `None` for an entry of another table.
    fn values<T: TryFrom<u128>, const N: usize>(&self, key: &EntryKey) -> Option<[T; N]> {
        let value = |value: &MatchValue| match value {
            MatchValue::Exact(value) => number(value),
            _ => None,
        };
        let own = Some(key).filter(|key| key.table == self.table)?;
        own.matches.iter().map(value).collect::<Option<Vec<T>>>()?.try_into().ok()
    }
}

/// The arguments of an entry's action.
fn args<T: TryFrom<u128>, const N: usize>(entry: &TableEntry) -> Option<[T; N]> {
    let Action::Call(call) = &entry.action else { return None };
    call.args.iter().map(number).collect::<Option<Vec<T>>>()?.try_into().ok()
}

fn number<T: TryFrom<u128>>(bits: &Bits) -> Option<T> {
    bits.to_u128()?.try_into().ok()
}

fn bits<T: Into<u128> + Copy>((width, value): &(u32, T)) -> Bits {
    Bits::new(*width, (*value).into())
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
    pub fn idle<T: Into<u128> + Copy>(device: &Model, table: &str, keys: &[(u32, T)]) -> device::Event {
        let table = device.manifest().table_id(table).expect("there is such a table");
        let key = Exact { table, action: ActionId(0) }.key(keys);
        let action = device::Action::Call(ActionCall::default());
        device::Event::Idle(TableEntry { key, action, idle: Some(1) })
    }
}
