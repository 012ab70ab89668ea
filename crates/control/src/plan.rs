//! Configuration as a plan: what a device shall hold, compared with what it holds, gives the updates that make the difference. They are
//! applied as one batch, so a device holds the old configuration or the new one, and never a mixture. Entities that stay as they are are not
//! touched, so their counters go on.

use std::collections::HashMap;

use abi::Manifest;
use abi::id::TableId;
use dataplane::device::{Device, DeviceError, Entity, EntryQuery, Key, Query, Update, WriteError};
use thiserror::Error;

/// What a device shall hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// The tables whose entries are all named here: other entries of these tables are removed.
    pub tables: Vec<TableId>,
    /// The entries of these tables, and any other entities.
    pub entities: Vec<Entity>,
    /// Entities that must not exist, and that are not among the others.
    pub absent: Vec<Key>,
}

/// Why a configuration was not applied. The device is as it was before.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// The device could not be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device refused an update.
    #[error("{error}; nothing was changed ({update})")]
    Refused {
        /// Why the device refused it.
        error: DeviceError,
        /// The update that it refused, in words.
        update: String,
    },
}

/// What has been changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Number of entities that were added.
    pub added: usize,
    /// Number of entities that were changed.
    pub changed: usize,
    /// Number of entities that were removed.
    pub removed: usize,
}

impl Desired {
    /// Checks that the entries of each table fit into it, without a device.
    pub fn fits(&self, manifest: &Manifest) -> Result<(), String> {
        for (id, table) in manifest.numbered_tables() {
            let entries = self.entries().filter(|e| e.key.table == id).count() as u64;
            if entries > table.size {
                return Err(format!("{entries} mappings, and there is room for {}", table.size));
            }
        }
        Ok(())
    }

    fn entries(&self) -> impl Iterator<Item = &dataplane::device::TableEntry> {
        self.entities.iter().filter_map(|entity| match entity {
            Entity::Entry(entry) => Some(entry),
            _ => None,
        })
    }
}

/// What a device holds now of what a configuration names. Applied later, it restores that.
pub fn present(device: &mut dyn Device, named: &Desired) -> Result<Desired, DeviceError> {
    let mut entities = Vec::new();
    for table in &named.tables {
        entities.extend(device.read(&Query::Entries(EntryQuery::table(*table)))?);
    }
    let others = named.entities.iter().map(Entity::key).filter(|key| !owned(named, key));
    for key in others.chain(named.absent.iter().cloned()) {
        entities.extend(device.read(&Query::One(key))?);
    }
    Ok(Desired { tables: named.tables.clone(), entities, absent: Vec::new() })
}

/// Whether an entity is an entry of a table whose entries are all named.
fn owned(named: &Desired, key: &Key) -> bool {
    matches!(key, Key::Entry(entry) if named.tables.contains(&entry.table))
}

/// The updates that lead from `present` to `desired`. What refers to other entities comes after them, and is removed before them. Entries
/// are added before others are removed, as far as the tables have room, so that packets never miss both.
pub fn difference(manifest: &Manifest, present: &Desired, desired: &Desired) -> Vec<Update> {
    let mut old: HashMap<Key, &Entity> = present.entities.iter().map(|e| (canonical(e.key()), e)).collect();
    let (mut writes, mut added) = (Vec::new(), Vec::new());
    for entity in &desired.entities {
        let key = canonical(entity.key());
        match old.remove(&key) {
            Some(before) if same(before, entity) => {}
            Some(_) => writes.push(Update::Modify(entity.clone())),
            None => {
                added.push(key);
                writes.push(Update::Set(entity.clone()));
            }
        }
    }
    writes.sort_by_key(rank);
    // The order of the device, so that equal configurations give equal plans.
    let gone = present.entities.iter().map(|e| canonical(e.key())).filter(|key| old.contains_key(key));
    let mut removals: Vec<Update> = gone.map(Update::Unset).collect();
    removals.sort_by_key(|update| std::cmp::Reverse(rank(update)));
    let count = |keys: &mut dyn Iterator<Item = Key>, table: TableId| {
        keys.filter(|key| matches!(key, Key::Entry(e) if e.table == table)).count() as u64
    };
    let room = |table: &TableId| {
        let before = count(&mut present.entities.iter().map(Entity::key), *table);
        before + count(&mut added.iter().cloned(), *table) <= manifest.tables[table.index()].size
    };
    match desired.tables.iter().all(room) {
        true => writes.into_iter().chain(removals).collect(),
        false => removals.into_iter().chain(writes).collect(),
    }
}

/// Makes a device hold what is desired. Either all of it is applied or nothing.
pub fn apply(device: &mut dyn Device, desired: &Desired) -> Result<Changes, PlanError> {
    let present = present(device, desired)?;
    let updates = difference(device.manifest(), &present, desired);
    device.write(&updates).map_err(|WriteError { index, error }| PlanError::Refused {
        error,
        update: described(device.manifest(), &updates[index]),
    })?;
    let count = |kind: fn(&Update) -> bool| updates.iter().filter(|u| kind(u)).count();
    Ok(Changes {
        added: count(|u| matches!(u, Update::Set(_))),
        changed: count(|u| matches!(u, Update::Modify(_))),
        removed: count(|u| matches!(u, Update::Unset(_))),
    })
}

/// Members come before groups, groups before entries; what nothing refers to comes last.
fn rank(update: &Update) -> u8 {
    let key = match update {
        Update::Insert(entity) | Update::Modify(entity) | Update::Set(entity) => entity.key(),
        Update::Delete(key) | Update::Unset(key) => key.clone(),
    };
    match key {
        Key::Member(..) => 0,
        Key::Group(..) => 1,
        Key::Entry(_) => 2,
        _ => 3,
    }
}

/// An entity in words, for the message that it was refused.
fn described(manifest: &Manifest, update: &Update) -> String {
    let key = match update {
        Update::Insert(entity) | Update::Modify(entity) | Update::Set(entity) => entity.key(),
        Update::Delete(key) | Update::Unset(key) => key.clone(),
    };
    match key {
        Key::Entry(entry) => format!("an entry of table `{}`", manifest.tables[entry.table.index()].name),
        Key::Default(table) => {
            format!("the default action of table `{}`", manifest.tables[table.index()].name)
        }
        other => format!("{other:?}"),
    }
}

fn canonical(key: Key) -> Key {
    match key {
        Key::Entry(entry) => Key::Entry(entry.canonical()),
        other => other,
    }
}

/// Whether two entities with equal keys have equal values.
fn same(a: &Entity, b: &Entity) -> bool {
    match (a, b) {
        (Entity::Entry(a), Entity::Entry(b)) => a.action == b.action && a.idle == b.idle,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use abi::id::ActionId;
    use abi::{ActionCall, Bits, MatchValue};
    use dataplane::Count;
    use dataplane::device::{EntryKey, Model};

    use super::*;
    use crate::testing::model;

    const TABLE: TableId = TableId(0);

    fn device(size: u64) -> Model {
        model("p", &[("t", &[32], "go", &[9], size)], &[])
    }

    fn key(n: u128) -> EntryKey {
        EntryKey { table: TABLE, matches: vec![MatchValue::Exact(Bits::new(32, n))], priority: 0 }
    }

    fn desired(entries: &[(u128, u128)]) -> Desired {
        let entity = |(n, port): &(u128, u128)| {
            let action = ActionCall { action: ActionId(0), args: vec![Bits::new(9, *port)] };
            Entity::entry(TABLE, key(*n).with(action))
        };
        Desired { tables: vec![TABLE], entities: entries.iter().map(entity).collect(), ..Desired::default() }
    }

    fn held(device: &mut Model) -> Desired {
        let mut held = present(device, &desired(&[])).expect("it reads");
        held.entities.sort_by_key(|e| format!("{e:?}"));
        held
    }

    #[test]
    fn a_plan_is_what_differs_and_applying_it_twice_changes_nothing() {
        let mut device = device(4);
        let first = desired(&[(1, 1), (2, 2), (3, 3)]);
        let second = desired(&[(2, 2), (3, 9), (4, 4)]);
        assert_eq!(apply(&mut device, &first), Ok(Changes { added: 3, changed: 0, removed: 0 }));
        assert_eq!(apply(&mut device, &second), Ok(Changes { added: 1, changed: 1, removed: 1 }));
        assert_eq!(held(&mut device), second);
        assert_eq!(apply(&mut device, &second), Ok(Changes::default()));
        let updates = difference(device.manifest(), &second, &first);
        assert!(
            matches!(updates.last(), Some(Update::Unset(_))),
            "there is room, so the old entry goes last"
        );
    }

    #[test]
    fn a_table_without_room_is_emptied_first() {
        let mut device = device(3);
        let (first, second) = (desired(&[(1, 1), (2, 2), (3, 3)]), desired(&[(4, 1), (5, 2), (6, 3)]));
        apply(&mut device, &first).expect("it fits");
        apply(&mut device, &second).expect("it fits, too");
        assert_eq!(held(&mut device), second);
        assert!(desired(&[(1, 1), (2, 2), (3, 3), (4, 4)]).fits(device.manifest()).is_err());
    }

    #[test]
    fn a_refused_plan_changes_nothing_and_says_what_was_refused() {
        let mut device = device(8);
        let (first, second) = (desired(&[(1, 1), (2, 2)]), desired(&[(2, 3), (3, 3), (4, 4)]));
        apply(&mut device, &first).expect("it fits");
        for refused in 0..4 {
            device.refuses_after = Some(refused);
            let error = apply(&mut device, &second).expect_err("it refuses").to_string();
            assert!(
                error.contains("the model refuses") && error.contains("an entry of table `t`"),
                "{error}"
            );
            assert_eq!(held(&mut device), first, "after the refusal of update {refused}");
        }
        let count = Count { packets: 1, bytes: 64 };
        let wrong =
            Desired { entities: vec![Entity::DirectCounter { entry: key(1), count }], ..first.clone() };
        assert!(matches!(apply(&mut device, &wrong), Err(PlanError::Device(_))));
        assert_eq!(held(&mut device), first);
    }
}
