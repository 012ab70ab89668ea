//! Writes (P4Runtime specification, section 12): each update becomes updates of a device, and what the device cannot hold is kept beside it.

mod entries;
mod objects;
mod profiles;
mod replication;

pub(super) use self::profiles::repeated;
pub(super) use self::replication::{copies, decisive};

use std::collections::HashMap;

use dataplane::Device;
use dataplane::device::{Entity, Key, Update, WriteError};
use proto::p4::v1::{self, entity, packet_replication_engine_entry as pre, update, write_request::Atomicity};

use super::kept::{Change, Kept};
use super::links::Links;
use super::pipeline::Pipeline;
use super::role::Scope;
use super::{Code, Status};

/// The outcome of each update of a batch of which at least one failed.
pub type Outcomes = Vec<Result<(), Status>>;

/// Applies a batch.
pub fn write(
    pipeline: &Pipeline,
    kept: &mut Kept,
    device: &mut dyn Device,
    links: &Links,
    scope: &Scope,
    updates: &[v1::Update],
    atomicity: Atomicity,
) -> Result<(), Outcomes> {
    let mut batch = Batch { pipeline, kept, device, links, scope, pending: HashMap::new(), undo: Vec::new() };
    match atomicity {
        Atomicity::ContinueOnError => batch.continue_on_error(updates),
        Atomicity::RollbackOnError => batch.whole(updates, false),
        Atomicity::DataplaneAtomic => batch.whole(updates, true),
    }
}

/// A batch that is being applied.
struct Batch<'a> {
    pipeline: &'a Pipeline,
    kept: &'a mut Kept,
    device: &'a mut dyn Device,
    links: &'a Links,
    scope: &'a Scope,
    /// What the updates so far write, before the device has it.
    pending: HashMap<Key, Option<Entity>>,
    /// What undoes the changes of what is kept.
    undo: Vec<Change>,
}

/// What an update asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Modify,
    Delete,
}

type Made = Result<Vec<Update>, Status>;

impl Batch<'_> {
    /// Every update is tried. If all of them succeed, which is the common case, the device gets one batch.
    fn continue_on_error(&mut self, updates: &[v1::Update]) -> Result<(), Outcomes> {
        if self.whole(updates, false).is_ok() {
            return Ok(());
        }
        let outcomes: Outcomes = updates.iter().map(|update| self.one(update)).collect();
        match outcomes.iter().all(Result::is_ok) {
            true => Ok(()),
            false => Err(outcomes),
        }
    }

    fn one(&mut self, update: &v1::Update) -> Result<(), Status> {
        let made = self.translate(update);
        let done =
            made.and_then(|made| self.device.write(&made).map_err(|refused| Status::from(refused.error)));
        self.settle(done.is_ok());
        done
    }

    /// All updates or none.
    fn whole(&mut self, updates: &[v1::Update], atomic: bool) -> Result<(), Outcomes> {
        let mut all = Vec::with_capacity(updates.len());
        // The number of the update that each update of the device belongs to.
        let mut owners = Vec::with_capacity(updates.len());
        let mut failed = None;
        for (at, update) in updates.iter().enumerate() {
            match self.translate(update) {
                Ok(made) => {
                    owners.extend(std::iter::repeat_n(at, made.len()));
                    all.extend(made);
                }
                Err(status) => {
                    failed = Some((at, status));
                    break;
                }
            }
        }
        if failed.is_none() {
            let done = match atomic {
                true => self.device.write_atomically(&all),
                false => self.device.write(&all),
            };
            failed = done.err().map(|WriteError { index, error }| {
                (owners.get(index).copied().unwrap_or_default(), Status::from(error))
            });
        }
        self.settle(failed.is_none());
        let Some((at, status)) = failed else { return Ok(()) };
        let aborted = || {
            Status::new(Code::Aborted, format!("update {at} failed, and nothing of the batch was applied"))
        };
        let mut outcomes: Outcomes = updates.iter().map(|_| Err(aborted())).collect();
        outcomes[at] = Err(status);
        Err(outcomes)
    }

    /// Forgets what was pending: because the device has it, or because it was refused.
    fn settle(&mut self, done: bool) {
        self.pending.clear();
        match done {
            true => self.kept.names.keep(),
            false => self.kept.names.forget(),
        }
        for change in self.undo.drain(..).rev() {
            if !done {
                self.kept.change(change);
            }
        }
    }

    fn change(&mut self, change: Change) {
        let undo = self.kept.change(change);
        self.undo.push(undo);
    }

    /// An entity as the updates so far leave it.
    fn get(&mut self, key: &Key) -> Result<Option<Entity>, Status> {
        match self.pending.get(key) {
            Some(pending) => Ok(pending.clone()),
            None => match self.device.get(key) {
                Ok(entity) => Ok(Some(entity)),
                Err(dataplane::device::DeviceError::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn translate(&mut self, update: &v1::Update) -> Made {
        let kind = match update.r#type() {
            update::Type::Insert => Kind::Insert,
            update::Type::Modify => Kind::Modify,
            update::Type::Delete => Kind::Delete,
            update::Type::Unspecified => return Err(Status::invalid("the update has no type")),
        };
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        let entity = entity.ok_or_else(|| Status::invalid("the update has no entity"))?;
        self.scope.check_write(entity)?;
        let made = match entity {
            entity::Entity::TableEntry(entry) => self.table_entry(kind, entry),
            entity::Entity::ActionProfileMember(member) => self.member(kind, member),
            entity::Entity::ActionProfileGroup(group) => self.group(kind, group),
            entity::Entity::MeterEntry(meter) => self.meter(kind, meter),
            entity::Entity::DirectMeterEntry(meter) => self.direct_meter(kind, meter),
            entity::Entity::CounterEntry(counter) => self.counter(kind, counter),
            entity::Entity::DirectCounterEntry(counter) => self.direct_counter(kind, counter),
            entity::Entity::PacketReplicationEngineEntry(entry) => match &entry.r#type {
                Some(pre::Type::MulticastGroupEntry(group)) => self.multicast(kind, group),
                Some(pre::Type::CloneSessionEntry(session)) => self.session(kind, session),
                None => Err(Status::invalid("neither a multicast group nor a clone session is set")),
            },
            entity::Entity::ValueSetEntry(set) => self.value_set(kind, set),
            entity::Entity::RegisterEntry(register) => self.register(kind, register),
            entity::Entity::DigestEntry(digest) => self.digest(kind, digest),
            entity::Entity::ExternEntry(_) => {
                Err(Status::invalid("the program has no externs of other architectures"))
            }
        }?;
        for update in &made {
            match update {
                Update::Insert(entity) | Update::Modify(entity) | Update::Set(entity) => {
                    self.pending.insert(entity.key(), Some(entity.clone()));
                }
                Update::Delete(key) | Update::Unset(key) => drop(self.pending.insert(key.clone(), None)),
            }
        }
        Ok(made)
    }
}

/// Refuses what always exists, so that it can be modified only.
fn modify_only(kind: Kind, what: &str) -> Result<(), Status> {
    match kind {
        Kind::Modify => Ok(()),
        Kind::Insert | Kind::Delete => {
            Err(Status::invalid(format!("{what} always exists: it can be modified only")))
        }
    }
}

/// An update that inserts or modifies.
fn put(kind: Kind, entity: Entity) -> Update {
    match kind {
        Kind::Insert => Update::Insert(entity),
        Kind::Modify | Kind::Delete => Update::Modify(entity),
    }
}
