//! Turns the statements of the control plane into updates of a device.

use std::collections::BTreeMap;

use abi::Manifest;
use abi::id::{MeterId, TableId};
use dataplane::device::{
    Action, Device, DeviceError, Entity, EntryKey, EntryQuery, Key, Query, TableEntry, Update,
};
use dataplane::{Count, Rate};

use super::{Call, Kind, TargetError, Value, resolve};

/// What the statements so far have said, as far as later ones refer to it.
#[derive(Default)]
pub struct Written {
    /// The entries that `add` has written, each with its `= ID`.
    entries: Vec<(TableEntry, Option<String>)>,
    /// The nodes of multicast groups: `egress_rid` and ports.
    nodes: Vec<(u32, Vec<u32>)>,
    /// The nodes of each multicast group.
    groups: BTreeMap<u32, Vec<u32>>,
}

type Updates = Result<Vec<Update>, TargetError>;

fn failed<T>(text: impl ToString) -> Result<T, TargetError> {
    Err(TargetError::failed(text))
}

impl Written {
    /// The updates that a statement asks for. A statement that only checks something has none.
    pub fn updates(&mut self, device: &mut dyn Device, kind: &Kind) -> Updates {
        let manifest = device.manifest();
        let one = |update| Ok(vec![update]);
        match kind {
            Kind::Add { table, priority, keys, action, id } => {
                let entry = entry(manifest, table, *priority, keys, action).map_err(TargetError::failed)?;
                let known = TableEntry { key: entry.key.canonical(), ..entry.clone() };
                self.entries.push((known, id.clone()));
                one(Update::Insert(Entity::Entry(entry)))
            }
            Kind::IdleTimeout(id, micros) => {
                let mut entry = self.named(id)?;
                entry.idle = Some(*micros);
                one(Update::Modify(Entity::Entry(entry)))
            }
            Kind::SetDefault { table, action } => {
                let table = resolve::table(manifest, table).map_err(TargetError::failed)?;
                let definition = &manifest.tables[table.index()];
                let action = resolve::action(definition, action).map_err(TargetError::failed)?;
                one(Update::Modify(Entity::Default { table, action }))
            }
            Kind::RemoveAll => self.remove_all(device),
            Kind::Member { profile, id, action } => {
                let (profile, action) =
                    resolve::member(manifest, profile, action).map_err(TargetError::failed)?;
                one(Update::Set(Entity::Member { profile, id: *id, action }))
            }
            Kind::MemberGroup { profile, id, members } => {
                let profile = resolve::profile(manifest, profile).map_err(TargetError::failed)?;
                one(Update::Set(Entity::Group { profile, id: *id, members: members.clone() }))
            }
            Kind::ValueSet(name, members) => {
                let (set, members) =
                    resolve::value_set(manifest, name, members).map_err(TargetError::failed)?;
                one(Update::Modify(Entity::ValueSet { set, members }))
            }
            Kind::Mirroring(session, Some(to)) => {
                one(Update::Set(Entity::Session { session: *session, to: *to }))
            }
            Kind::Mirroring(session, None) => one(Update::Unset(Key::Session(*session))),
            Kind::HostPort(port) => one(Update::Set(Entity::HostPort { port: *port })),
            Kind::ExpireTime(profile, micros) => {
                one(Update::Modify(Entity::ExpireTime { profile: *profile, micros: Some(*micros) }))
            }
            Kind::CounterWrite(name, index, packets, bytes) => {
                let counter = resolve::counter(manifest, name).map_err(TargetError::failed)?;
                let count = Count { packets: *packets, bytes: *bytes };
                one(Update::Modify(Entity::Counter { counter, index: *index, count }))
            }
            Kind::RegisterWrite(name, index, value) => {
                let register = resolve::register(manifest, name).map_err(TargetError::failed)?;
                let width = manifest.registers[register.index()].width;
                let value = value.to_bits(width).map_err(TargetError::failed)?;
                one(Update::Modify(Entity::Register { register, index: *index, value }))
            }
            Kind::RegisterReset(name) => {
                let register = resolve::register(manifest, name).map_err(TargetError::failed)?;
                let cells = 0..manifest.registers[register.index()].size;
                Ok(cells.map(|index| Update::Unset(Key::Register(register, index))).collect())
            }
            Kind::MeterRates { meter, index, rates } => {
                let meter = resolve::meter(manifest, meter).map_err(TargetError::failed)?;
                let rate = |&(per_microsecond, burst): &(f64, u64)| Rate { per_microsecond, burst };
                Ok(meter_rates(manifest, meter, *index, &rates.iter().map(rate).collect::<Vec<_>>()))
            }
            _ => self.group_command(kind),
        }
    }

    /// The entry of the `add` with this `= ID`.
    pub fn named(&self, id: &str) -> Result<TableEntry, TargetError> {
        let found = self.entries.iter().rev().find(|(_, name)| name.as_deref() == Some(id));
        let missing = || TargetError::failed(format!("no `add … = {id}` precedes this line"));
        found.map(|(entry, _)| entry.clone()).ok_or_else(missing)
    }

    /// The `= ID` of an entry.
    pub fn name_of(&self, key: &EntryKey) -> Option<&str> {
        let found = self.entries.iter().find(|(entry, _)| entry.key == *key);
        found.and_then(|(_, name)| name.as_deref())
    }

    /// The keys of the entries that were added to a table, each with its `= ID`.
    pub fn of_table(&self, table: TableId) -> impl Iterator<Item = (&EntryKey, Option<&String>)> {
        let of_table = self.entries.iter().filter(move |(entry, _)| entry.key.table == table);
        of_table.map(|(entry, id)| (&entry.key, id.as_ref()))
    }

    /// Removes every entry that the device has or that an earlier update of the same batch adds.
    fn remove_all(&mut self, device: &mut dyn Device) -> Updates {
        let fixed: Vec<bool> = device.manifest().tables.iter().map(|t| t.const_entries).collect();
        let present = device.read(&Query::Entries(EntryQuery::default()))?;
        let present = present.iter().map(Entity::key);
        let added = self.entries.drain(..).map(|(entry, _)| Key::Entry(entry.key));
        let can = |key: &Key| !matches!(key, Key::Entry(key) if fixed[key.table.index()]);
        Ok(present.chain(added).filter(can).map(Update::Unset).collect())
    }

    fn group_command(&mut self, kind: &Kind) -> Updates {
        match kind {
            Kind::GroupCreate(group) => {
                self.groups.insert(*group, Vec::new());
                Ok(vec![self.group(*group)])
            }
            Kind::NodeCreate { rid, ports } => {
                self.nodes.push((*rid, ports.clone()));
                Ok(Vec::new())
            }
            Kind::NodeUpdate { node, ports } => {
                let Some(entry) = self.nodes.get_mut(*node as usize) else {
                    return failed(format!("there is no node {node}"));
                };
                entry.1 = ports.clone();
                let users = self.groups.iter().filter(|(_, nodes)| nodes.contains(node));
                Ok(users.map(|(group, _)| self.group(*group)).collect())
            }
            Kind::NodeAssociate { group, node } => {
                if *node as usize >= self.nodes.len() {
                    return failed(format!("there is no node {node}"));
                }
                let Some(nodes) = self.groups.get_mut(group) else {
                    return failed(format!("there is no group {group}"));
                };
                nodes.push(*node);
                Ok(vec![self.group(*group)])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn group(&self, group: u32) -> Update {
        let nodes = self.groups.get(&group).into_iter().flatten().filter_map(|n| self.nodes.get(*n as usize));
        let copies = nodes.flat_map(|(rid, ports)| ports.iter().map(|p| (*rid, *p))).collect();
        Update::Set(Entity::Multicast { group, copies })
    }
}

fn entry(
    manifest: &Manifest,
    table: &str,
    priority: Option<i32>,
    keys: &[(String, Value)],
    call: &Call,
) -> Result<TableEntry, String> {
    let table = resolve::table(manifest, table)?;
    let definition = &manifest.tables[table.index()];
    let (matches, priority) = resolve::place(definition, priority, keys)?;
    let action = match resolve::indirect(definition, call) {
        Some(to) => to.into(),
        None => Action::Call(resolve::action(definition, call)?),
    };
    Ok(TableEntry { key: EntryKey { table, matches, priority }, action, idle: None })
}

/// Sets the rates of one cell of a meter, or of all its cells.
fn meter_rates(manifest: &Manifest, meter: MeterId, index: Option<u64>, rates: &[Rate]) -> Vec<Update> {
    let cell = |index| Update::Modify(Entity::Meter { meter, index, rates: rates.to_vec() });
    match (index, manifest.meters[meter.index()].size) {
        (Some(index), _) => vec![cell(index)],
        (None, Some(size)) => (0..size).map(cell).collect(),
        (None, None) => vec![Update::Modify(Entity::AllMeters { meter, rates: rates.to_vec() })],
    }
}

impl From<DeviceError> for TargetError {
    fn from(error: DeviceError) -> TargetError {
        match error {
            DeviceError::Unimplemented(what) => TargetError::Unsupported(what),
            other => TargetError::failed(other),
        }
    }
}
