//! Copies of a device's state: what a packet's way depends on.

use std::collections::HashSet;

use abi::Manifest;

use super::{Device, DeviceError, Entity, EntryQuery, Key, Query, Update, WriteError};

/// What decides about packets, in an order in which it can be written. Counts decide nothing.
const DECISIVE: [Query; 11] = [
    Query::ValueSets(None),
    Query::Registers(None),
    Query::Meters(None),
    Query::Multicast,
    Query::Sessions,
    Query::HostPorts,
    Query::Defaults(None),
    Query::Members(None),
    Query::Groups(None),
    Query::Entries(EntryQuery { table: None, matches: Vec::new(), priority: None }),
    Query::DirectMeters(EntryQuery { table: None, matches: Vec::new(), priority: None }),
];

/// What a device holds beyond what its program declares, and what decides about packets. `None` if these are more than `most` entities.
///
/// The tokens of meters and the time of the last hits are not part of it: no device can say them.
pub fn state(device: &mut dyn Device, most: usize) -> Result<Option<Vec<Entity>>, DeviceError> {
    let manifest = device.manifest().clone();
    let mut all = Vec::new();
    for query in &DECISIVE {
        let found = match device.read(query) {
            Ok(found) => found,
            // What a target lacks has no state.
            Err(DeviceError::Unimplemented(_)) => continue,
            Err(error) => return Err(error),
        };
        all.extend(found.into_iter().filter(|entity| !is_declared(&manifest, entity)));
        if all.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

/// Writes a state into a device of the same program that holds what the program declares.
pub fn restore(device: &mut dyn Device, state: &[Entity]) -> Result<(), WriteError> {
    let stay: HashSet<Key> = state.iter().map(Entity::key).collect();
    let mut updates = removed(device, &stay).map_err(|error| WriteError { index: 0, error })?;
    updates.extend(state.iter().cloned().map(Update::Set));
    device.write(&updates)
}

/// Updates that remove the entries that a device's program declares, except those that stay.
pub fn removed(device: &mut dyn Device, stay: &HashSet<Key>) -> Result<Vec<Update>, DeviceError> {
    let declared = device.read(&Query::Entries(EntryQuery::default()))?;
    let tables = &device.manifest().tables;
    let is_const = |key: &Key| matches!(key, Key::Entry(key) if tables[key.table.index()].const_entries);
    let keys = declared.iter().map(Entity::key);
    Ok(keys.filter(|key| !is_const(key) && !stay.contains(key)).map(Update::Unset).collect())
}

/// Whether an entity has the value that the program declares.
pub fn is_declared(manifest: &Manifest, entity: &Entity) -> bool {
    match entity {
        Entity::Counter { count, .. } | Entity::DirectCounter { count, .. } => *count == Default::default(),
        Entity::Meter { rates, .. } | Entity::DirectMeter { rates, .. } => rates.is_empty(),
        Entity::ValueSet { members, .. } => members.is_empty(),
        Entity::Register { register, value, .. } => {
            let initial = &manifest.registers[register.index()].initial;
            initial.as_ref().map_or(value.is_zero(), |initial| initial == value)
        }
        Entity::Default { table, action } => {
            manifest.tables[table.index()].default_action.as_ref() == Some(action)
        }
        Entity::Entry(entry) => manifest.tables[entry.key.table.index()].const_entries,
        Entity::Member { .. }
        | Entity::Group { .. }
        | Entity::AllMeters { .. }
        | Entity::Multicast { .. }
        | Entity::Session { .. }
        | Entity::HostPort { .. }
        | Entity::ExpireTime { .. }
        | Entity::Drop { .. } => false,
    }
}
