//! A device without a program: it holds what is written. Tests of controllers write to it, and other devices must behave as it does.

use std::collections::HashMap;

use abi::Manifest;
use abi::id::{DropId, ProfileId};

use super::{
    Device, DeviceError, Entity, Event, Key, Kind, Query, Store, Update, WriteError, check, read, write,
};
use crate::{Count, Indirect};

/// A device that holds what is written. No packet changes it.
pub struct Model {
    manifest: Manifest,
    entities: HashMap<Key, Entity>,
    /// The order in which entities were added.
    order: Vec<Key>,
    /// The number of operations after which the model refuses one, as a kernel without memory would; `None` for never.
    pub refuses_after: Option<usize>,
    /// What [`Device::events`] returns next.
    pub told: Vec<Event>,
    /// The packets that were sent through the port of the controller.
    pub sent: Vec<Vec<u8>>,
    /// The count of each drop reason.
    pub drops: HashMap<DropId, Count>,
}

impl Model {
    /// A device with this manifest, and without entries.
    pub fn new(manifest: Manifest) -> Model {
        Model {
            manifest,
            entities: HashMap::new(),
            order: Vec::new(),
            refuses_after: None,
            told: Vec::new(),
            sent: Vec::new(),
            drops: HashMap::new(),
        }
    }

    fn is_of(kind: Kind, key: &Key) -> bool {
        match (kind, key) {
            (Kind::Entries(table), Key::Entry(entry)) => entry.table == table,
            (Kind::Members(of), Key::Member(profile, _)) => *profile == of,
            (Kind::Groups(of), Key::Group(profile, _)) => *profile == of,
            (Kind::Multicast, Key::Multicast(_))
            | (Kind::Sessions, Key::Session(_))
            | (Kind::HostPorts, Key::HostPort(_)) => true,
            _ => false,
        }
    }

    fn may_work(&mut self) -> Result<(), DeviceError> {
        match &mut self.refuses_after {
            Some(0) => {
                // It refuses one operation; the ones that undo the batch succeed.
                self.refuses_after = None;
                Err(DeviceError::ResourceExhausted("the model refuses".to_string()))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Device for Model {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        write(self, updates)
    }

    fn read(&mut self, query: &Query) -> Result<Vec<Entity>, DeviceError> {
        read(self, query)
    }

    fn packet_out(&mut self, packet: &[u8]) -> Result<(), DeviceError> {
        self.sent.push(packet.to_vec());
        Ok(())
    }

    fn events(&mut self) -> Result<Vec<Event>, DeviceError> {
        Ok(std::mem::take(&mut self.told))
    }

    fn listen(&mut self, _: bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Store for Model {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn get(&mut self, key: &Key) -> Result<Option<Entity>, DeviceError> {
        if let Some(entity) = self.entities.get(key) {
            return Ok(Some(entity.clone()));
        }
        let exists = if let Key::DirectCounter(entry) | Key::DirectMeter(entry) = key {
            self.entities.contains_key(&Key::Entry(entry.clone()))
        } else {
            key.is_fixed()
        };
        if exists { check::initial(self, key) } else { Ok(None) }
    }

    fn put(&mut self, entity: &Entity, exists: bool) -> Result<(), DeviceError> {
        self.may_work()?;
        if !exists {
            self.order.push(entity.key());
        }
        self.entities.insert(entity.key(), entity.clone());
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Result<(), DeviceError> {
        self.may_work()?;
        self.entities.remove(key);
        self.order.retain(|k| k != key);
        if let Key::Entry(entry) = key {
            self.entities.remove(&Key::DirectCounter(entry.clone()));
            self.entities.remove(&Key::DirectMeter(entry.clone()));
        }
        Ok(())
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<Entity>, DeviceError> {
        let of_kind = self.order.iter().filter(|key| Self::is_of(kind, key));
        Ok(of_kind.filter_map(|key| self.entities.get(key).cloned()).collect())
    }

    fn len(&mut self, kind: Kind) -> Result<Option<u64>, DeviceError> {
        Ok(Some(self.list(kind)?.len() as u64))
    }

    fn references(&mut self, profile: ProfileId, to: Indirect) -> usize {
        let refers = |entity: &&Entity| check::references(&self.manifest, entity).contains(&(profile, to));
        self.entities.values().filter(refers).count()
    }

    fn dropped(&mut self, reason: DropId) -> Result<Count, DeviceError> {
        Ok(self.drops.get(&reason).copied().unwrap_or_default())
    }
}
