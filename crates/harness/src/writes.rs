//! Writes of one entry each, by the name of the table, for tests of single tables. A name that the program does not have, and a refused read, panic.
#![expect(clippy::missing_panics_doc, reason = "each function here panics if the test is wrong")]

use abi::id::TableId;
use abi::{ActionCall, Entry};
use dataplane::Count;
use dataplane::device::{Action, Device, DeviceError, Entity, EntryKey, EntryQuery, Key, Query, Update};

/// What the device says.
pub type Done = Result<(), DeviceError>;

fn table(device: &dyn Device, name: &str) -> TableId {
    device.manifest().table_id(name).unwrap_or_else(|| panic!("there is no table {name}"))
}

fn write(device: &mut dyn Device, update: Update) -> Done {
    device.write(&[update]).map_err(|refused| refused.error)
}

/// Inserts an entry.
pub fn insert(device: &mut dyn Device, name: &str, entry: &Entry) -> Done {
    let table = table(device, name);
    write(device, Update::Insert(Entity::entry(table, entry.clone())))
}

/// Modifies an entry.
pub fn modify(device: &mut dyn Device, name: &str, entry: &Entry) -> Done {
    let table = table(device, name);
    write(device, Update::Modify(Entity::entry(table, entry.clone())))
}

/// Deletes an entry.
pub fn delete(device: &mut dyn Device, name: &str, entry: &Entry) -> Done {
    let table = table(device, name);
    write(device, Update::Delete(Key::Entry(EntryKey::of(table, entry))))
}

/// Modifies the default action of a table.
pub fn set_default(device: &mut dyn Device, name: &str, action: &ActionCall) -> Done {
    let table = table(device, name);
    write(device, Update::Modify(Entity::Default { table, action: action.clone() }))
}

/// The entries of a table whose entries name actions.
pub fn entries(device: &mut dyn Device, name: &str) -> Vec<Entry> {
    let table = table(device, name);
    let entry = |entity| match entity {
        Entity::Entry(entry) => match entry.action {
            Action::Call(call) => Some(entry.key.with(call)),
            _ => None,
        },
        _ => None,
    };
    device
        .read(&Query::Entries(EntryQuery::table(table)))
        .expect("it reads")
        .into_iter()
        .filter_map(entry)
        .collect()
}

/// Removes all entries of a table.
pub fn clear(device: &mut dyn Device, name: &str) -> Done {
    let table = table(device, name);
    let all = device.read(&Query::Entries(EntryQuery::table(table)))?;
    let all: Vec<Update> = all.iter().map(|entity| Update::Delete(entity.key())).collect();
    device.write(&all).map_err(|refused| refused.error)
}

/// The value of an entry's counter.
pub fn direct_count(device: &mut dyn Device, name: &str, entry: &Entry) -> Count {
    let table = table(device, name);
    device.count(&Key::DirectCounter(EntryKey::of(table, entry))).expect("it counts")
}
