//! The one interface to a running program, whatever it runs on: what a controller writes and reads, and what the program tells it.
//!
//! * An [`Entity`] is a piece of the program's state: a table entry, a default action, a counter's cell, a multicast group. Its [`Key`]
//!   distinguishes it from others. Numbers come from the manifest ([`abi::id`]); names do not occur.
//! * [`Device::write`] takes a batch of [`Update`]s. **It applies the whole batch or nothing of it.** All updates are checked first, against
//!   the manifest and against what exists; then they are applied in order. If the target refuses one in the middle (the kernel's map is
//!   full), those before it are undone in reverse order. Packets that pass meanwhile may see a prefix of the batch, and, if it is undone, see
//!   it go again; but each entry whole or not at all. This is P4Runtime's `ROLLBACK_ON_ERROR`.
//! * [`Device::read`] takes a [`Query`], whose omitted parts match everything. It never sees a part of a batch.
//! * [`Device::events`] returns digests, messages, idle entries, and packets for the controller.
//!
//! Writes and reads of several controllers take turns; packets take no lock. A controller that reads a value in order to write a new one
//! must keep others out meanwhile ([`Shared::with`]).
//!
//! What a target contributes is a [`Store`]: small operations on one entity. `check` says which updates are right, `batch` applies them
//! and undoes them, `query` reads: once for all targets.

mod batch;
mod check;
pub mod copy;
mod entity;
mod error;
mod model;
mod query;
mod shared;
mod told;

#[cfg(test)]
mod tests;

use abi::id::{DropId, ProfileId, TableId};
use abi::{Bits, Digest, Manifest, Message};

use crate::{Count, Indirect};

pub use batch::write;
pub use entity::{Action, Entity, EntryKey, Key, Mirror, TableEntry};
pub use error::{DeviceError, WriteError};
pub use model::Model;
pub use query::{EntryQuery, Query, read};
pub use shared::Shared;
pub use told::event;

/// One change. The first three are P4Runtime's (section 12.1.2 of its specification).
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Adds an entity that does not exist ([`DeviceError::AlreadyExists`] otherwise). Cells, default actions and value sets always exist.
    Insert(Entity),
    /// Changes an entity that exists ([`DeviceError::NotFound`] otherwise). An entry keeps its counter and its meter.
    Modify(Entity),
    /// Removes an entity that exists ([`DeviceError::NotFound`] otherwise).
    Delete(Key),
    /// Inserts or modifies, whichever is possible.
    Set(Entity),
    /// Removes an entity if it exists. Cells, default actions and value sets get the value that the program declares.
    Unset(Key),
}

/// What a running program tells its controllers.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A packet sent a digest.
    Digest(Digest),
    /// A packet logged a message. Messages are reported only to who listens ([`Device::listen`]).
    Message(Message),
    /// No packet has hit this entry for its idle timeout. An entry that stays idle is reported again after each timeout.
    Idle(TableEntry),
    /// A packet left through the port of the controller.
    Packet(Vec<u8>),
}

/// A running program, as its controllers see it.
pub trait Device {
    /// What the program has. Numbers of entities are indexes of its lists.
    fn manifest(&self) -> &Manifest;

    /// Applies a batch in order: whole or not at all. The error names the update that is refused.
    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError>;

    /// The entities that a query selects: entries in the order of the device, others by number.
    fn read(&mut self, query: &Query) -> Result<Vec<Entity>, DeviceError>;

    /// What the program has told since the last call, in order.
    fn events(&mut self) -> Result<Vec<Event>, DeviceError>;

    /// Says whether the messages that the program logs (v1model's `log_msg`) become events. At first they do not, because programs that nobody
    /// debugs should not spend time on them.
    fn listen(&mut self, messages: bool) -> Result<(), DeviceError>;

    /// Sends a packet into the program through the port of the controller.
    fn packet_out(&mut self, _packet: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::Unimplemented("this target has no port for packets of the controller".to_string()))
    }

    /// Like [`Device::write`], but every packet sees the whole batch or nothing of it.
    fn write_atomically(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        match updates.len() {
            0 | 1 => self.write(updates),
            several => {
                let text = format!(
                    "{several} updates at once, between two packets: this target changes one at a time"
                );
                Err(WriteError { index: 0, error: DeviceError::Unimplemented(text) })
            }
        }
    }

    /// The time in microseconds since a packet has hit an entry, or since the entry was added. Only tables with idle timeouts have it.
    fn since_last_hit(&mut self, _entry: &EntryKey) -> Result<u64, DeviceError> {
        Err(DeviceError::Unimplemented("the times of the last hits".to_string()))
    }

    /// The entity with a key.
    fn get(&mut self, key: &Key) -> Result<Entity, DeviceError> {
        let mut found = self.read(&Query::One(key.clone()))?;
        found.pop().ok_or_else(|| DeviceError::NotFound("there is no such entity".to_string()))
    }

    /// The value of a counter's cell, of an entry's counter or of a drop reason; zero for other entities.
    fn count(&mut self, key: &Key) -> Result<Count, DeviceError> {
        Ok(self.get(key)?.count().unwrap_or_default())
    }

    /// The packets dropped for each reason, in the order of the manifest.
    fn drops(&mut self) -> Result<Vec<Count>, DeviceError> {
        Ok(self.read(&Query::Drops(None))?.iter().filter_map(Entity::count).collect())
    }
}

/// A kind of entity whose number changes while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Entries(TableId),
    Members(ProfileId),
    Groups(ProfileId),
    Multicast,
    Sessions,
    HostPorts,
}

/// What a target contributes to a device: operations on one entity each. [`write`] and [`read`] call them with keys and values that fit the
/// manifest, and with don't-care bits of zero. A store checks only what it alone can know, such as the room in the kernel.
pub trait Store {
    /// What the program has.
    fn manifest(&self) -> &Manifest;

    /// Why this target can never hold an entity; the default holds everything.
    fn supports(&self, _key: &Key) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The entity with a key, if it exists.
    fn get(&mut self, key: &Key) -> Result<Option<Entity>, DeviceError>;

    /// Writes an entity: adds it, or, if it `exists`, replaces it.
    fn put(&mut self, entity: &Entity, exists: bool) -> Result<(), DeviceError>;

    /// Removes an entity that exists.
    fn remove(&mut self, key: &Key) -> Result<(), DeviceError>;

    /// All entities of a kind.
    fn list(&mut self, kind: Kind) -> Result<Vec<Entity>, DeviceError>;

    /// The number of entities of a kind. `None` if only the target can say, when an entity is added, whether there is room.
    fn len(&mut self, kind: Kind) -> Result<Option<u64>, DeviceError>;

    /// The number of entries that a table can hold.
    fn capacity(&mut self, table: TableId) -> Result<u64, DeviceError> {
        Ok(self.manifest().tables[table.index()].size)
    }

    /// The number of entries and groups that refer to a member or a group of an action profile.
    fn references(&mut self, _profile: ProfileId, _to: Indirect) -> usize {
        0
    }

    /// The value that the program declares for a cell of a register.
    fn initial(&self, register: abi::id::RegisterId) -> Bits {
        let register = &self.manifest().registers[register.index()];
        register.initial.clone().unwrap_or_else(|| Bits::zero(register.width))
    }

    /// The count of a drop reason.
    fn dropped(&mut self, reason: DropId) -> Result<Count, DeviceError>;
}
