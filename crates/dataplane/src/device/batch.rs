//! Applies a batch of updates, and undoes it if the target refuses one of them.

use super::check::{Checker, Step};
use super::{DeviceError, Entity, Key, Kind, Store, Update, WriteError};

/// Applies a batch to a store: whole or not at all.
pub fn write(store: &mut dyn Store, updates: &[Update]) -> Result<(), WriteError> {
    let mut checker = Checker::default();
    let check = |(index, update)| checker.check(store, update).map_err(|error| WriteError { index, error });
    let steps: Vec<Step> = updates.iter().enumerate().map(check).collect::<Result<_, _>>()?;
    let mut undo = Vec::new();
    for (index, (step, update)) in steps.iter().zip(updates).enumerate() {
        let done = match update {
            Update::Set(_) | Update::Unset(_) => settle(step, |step| apply(store, step, &mut undo)),
            Update::Insert(_) | Update::Modify(_) | Update::Delete(_) => apply(store, step, &mut undo),
        };
        if let Err(error) = done {
            let error = roll_back(store, undo).err().unwrap_or(error);
            return Err(WriteError { index, error });
        }
    }
    Ok(())
}

/// Applies a step although a packet may have added or removed the entry since it was checked (in a table that learns).
fn settle(step: &Step, mut apply: impl FnMut(&Step) -> Result<(), DeviceError>) -> Result<(), DeviceError> {
    match (step, apply(step)) {
        (Step::Put(entity, false), Err(DeviceError::AlreadyExists(_))) => {
            apply(&Step::Put(entity.clone(), true))
        }
        (Step::Put(entity, true), Err(DeviceError::NotFound(_))) => apply(&Step::Put(entity.clone(), false)),
        (Step::Remove(_), Err(DeviceError::NotFound(_))) => Ok(()),
        (_, done) => done,
    }
}

/// Applies one step. `undo` gets the steps that restore what was there before, to be applied from its end.
fn apply(store: &mut dyn Store, step: &Step, undo: &mut Vec<Step>) -> Result<(), DeviceError> {
    match step {
        Step::Nothing => Ok(()),
        Step::Put(entity, false) => {
            store.put(entity, false)?;
            undo.push(Step::Remove(entity.key()));
            Ok(())
        }
        Step::Put(entity, true) => {
            let before = before(store, &entity.key())?;
            store.put(entity, true)?;
            undo.extend(before.into_iter().rev().map(|entity| Step::Put(entity, true)));
            Ok(())
        }
        Step::Remove(key) => {
            let before = before(store, key)?;
            store.remove(key)?;
            // The first one is the entity itself; the others exist with it.
            let again = before.into_iter().enumerate().map(|(at, entity)| Step::Put(entity, at > 0));
            undo.extend(again.rev());
            Ok(())
        }
    }
}

/// The entity with a key and what would be lost with it: the counter and the meter of an entry, and the meters that another rate replaces.
fn before(store: &mut dyn Store, key: &Key) -> Result<Vec<Entity>, DeviceError> {
    let mut all: Vec<Entity> = store.get(key)?.into_iter().collect();
    if let Key::Entry(entry) = key {
        let table = &store.manifest().tables[entry.table.index()];
        let counter = table.direct_counter.is_some().then(|| Key::DirectCounter(entry.clone()));
        let meter = table.direct_meter.is_some().then(|| Key::DirectMeter(entry.clone()));
        for key in counter.into_iter().chain(meter) {
            all.extend(store.get(&key)?);
        }
    }
    if let Key::AllMeters(meter) = key {
        let Some(table) = store.manifest().metered_table(*meter) else { return Ok(all) };
        for entity in store.list(Kind::Entries(table))? {
            let Entity::Entry(entry) = entity else { continue };
            all.extend(store.get(&Key::DirectMeter(entry.key))?);
        }
    }
    Ok(all)
}

fn roll_back(store: &mut dyn Store, undo: Vec<Step>) -> Result<(), DeviceError> {
    let mut failed = None;
    for step in undo.iter().rev() {
        let done = settle(step, |step| match step {
            Step::Put(entity, exists) => store.put(entity, *exists),
            Step::Remove(key) => store.remove(key),
            Step::Nothing => Ok(()),
        });
        // The other steps are tried all the same, so that as little as possible differs.
        failed = failed.or(done.err());
    }
    let lost = |error| DeviceError::Internal(format!("a part of the batch could not be undone: {error}"));
    failed.map(lost).map_or(Ok(()), Err)
}
