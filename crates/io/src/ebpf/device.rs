//! A program in the kernel as a [`Device`]. A program has one writer at a time: controllers in one process share the value
//! ([`dataplane::device::Shared`]), and processes exclude each other ([`crate::bpf::lock`]).

use abi::id::{DropId, ProfileId, TableId};
use abi::manifest::Table;
use abi::{ActionCall, Entry, Manifest};
use dataplane::device::{
    self, Action, Device, DeviceError, Entity, EntryKey, Event, Key, Kind, Query, Store, TableEntry, Update,
    WriteError,
};
use dataplane::{Count, Indirect};

use super::KernelProgram;
use crate::{Error, controller};

type Done<T> = Result<T, DeviceError>;

impl From<Error> for DeviceError {
    fn from(error: Error) -> DeviceError {
        match error {
            Error::Device(error) => error,
            Error::Entry(error) => error.into(),
            error if error.is_permission() => DeviceError::PermissionDenied(error.to_string()),
            error => match error.errno() {
                // A hash map that is full reports E2BIG, a trie ENOSPC.
                Some(libc::E2BIG | libc::ENOSPC | libc::ENOMEM) => {
                    DeviceError::ResourceExhausted(format!("the kernel has no room: {error}"))
                }
                _ => DeviceError::Internal(error.to_string()),
            },
        }
    }
}

impl Device for KernelProgram {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        device::write(self, updates)
    }

    fn read(&mut self, query: &Query) -> Done<Vec<Entity>> {
        device::read(self, query)
    }

    fn events(&mut self) -> Done<Vec<Event>> {
        let mut events = self.take_told()?;
        for key in self.take_idle()? {
            if let Some(Entity::Entry(entry)) = Store::get(self, &Key::Entry(key))? {
                events.push(Event::Idle(entry));
            }
        }
        controller::packets_in(&self.controller, &mut events)?;
        Ok(events)
    }

    fn since_last_hit(&mut self, entry: &EntryKey) -> Done<u64> {
        let (entry, now) = (entry.canonical(), self.time());
        let table = self.definition(entry.table);
        let hit = self.last_hit(&table, &entry.matches)?;
        let hit = hit.ok_or_else(|| DeviceError::NotFound("there is no such entry".to_string()))?;
        Ok(now.saturating_sub(hit.max(self.timeouts.added(&entry).unwrap_or_default())))
    }

    fn listen(&mut self, messages: bool) -> Done<()> {
        Ok(self.set_listening(messages)?)
    }

    fn packet_out(&mut self, packet: &[u8]) -> Done<()> {
        controller::packet_out(&self.controller, packet)
    }
}

impl KernelProgram {
    fn definition(&self, table: TableId) -> Table {
        self.manifest.tables[table.index()].clone()
    }
}

impl Store for KernelProgram {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn supports(&self, key: &Key) -> Done<()> {
        let what = match key {
            Key::Entry(_) | Key::Default(_) | Key::Counter(..) | Key::DirectCounter(_) => return Ok(()),
            Key::Register(..) | Key::Drop(_) | Key::Member(..) | Key::Group(..) => return Ok(()),
            Key::Meter(..) | Key::DirectMeter(_) | Key::AllMeters(_) => return Ok(()),
            Key::ValueSet(_) => return Ok(()),
            Key::Multicast(number) | Key::Session(number) => return self.has_copies(*number),
            Key::HostPort(_) | Key::ExpireTime(_) if self.maps_of()?.host_ports.is_some() => return Ok(()),
            Key::ExpireTime(_) if self.manifest.tables.iter().any(|t| t.ages) => return Ok(()),
            Key::HostPort(_) => "ports to the host, except in programs for PNA,",
            Key::ExpireTime(_) => "expire times, except of tables whose entries expire,",
        };
        Err(DeviceError::Unimplemented(format!("{what} in the kernel")))
    }

    fn get(&mut self, key: &Key) -> Done<Option<Entity>> {
        Ok(match key {
            Key::Entry(key) => {
                let found = self.find(&self.definition(key.table), &key.matches)?;
                // The kernel holds one entry for a match, with one priority.
                let same = found.filter(|(entry, _)| entry.priority == key.priority);
                same.map(|(entry, _)| self.table_entry(key.table, entry))
            }
            Key::DirectCounter(key) => {
                let found = self.find(&self.definition(key.table), &key.matches)?;
                let same = found.filter(|(entry, _)| entry.priority == key.priority);
                let count = same.and_then(|(_, count)| count);
                count.map(|count| Entity::DirectCounter { entry: key.clone(), count })
            }
            Key::Member(profile, id) => {
                let action = self.profiles.all[profile.index()].members().get(id).cloned();
                action.map(|action| Entity::Member { profile: *profile, id: *id, action })
            }
            Key::Group(profile, id) => {
                let members = self.profiles.all[profile.index()].groups().get(id).cloned();
                members.map(|members| Entity::Group { profile: *profile, id: *id, members })
            }
            Key::Meter(meter, index) => {
                let rates = self.rates(*meter, *index)?;
                Some(Entity::Meter { meter: *meter, index: *index, rates })
            }
            Key::DirectMeter(entry) => {
                let rates = self.rates_of(entry.table, &entry.matches)?;
                rates.map(|rates| Entity::DirectMeter { entry: entry.clone(), rates })
            }
            Key::AllMeters(meter) => {
                let rates = self.template(*meter)?;
                Some(Entity::AllMeters { meter: *meter, rates })
            }
            Key::ValueSet(set) => {
                let members = self.members(*set)?;
                Some(Entity::ValueSet { set: *set, members })
            }
            Key::Multicast(group) => self.group(*group)?,
            Key::Session(session) => self.session(*session)?,
            Key::HostPort(port) => {
                self.all_host_ports()?.contains(port).then_some(Entity::HostPort { port: *port })
            }
            Key::ExpireTime(profile) => {
                Some(Entity::ExpireTime { profile: *profile, micros: self.expire_time(*profile) })
            }
            Key::Default(table) => {
                let action = self.default_action(&self.definition(*table))?;
                action.map(|action| Entity::Default { table: *table, action })
            }
            Key::Counter(counter, index) => {
                let count = self.counter(*counter, *index)?;
                Some(Entity::Counter { counter: *counter, index: *index, count })
            }
            Key::Register(register, index) => {
                let value = self.register(*register, *index)?;
                Some(Entity::Register { register: *register, index: *index, value })
            }
            _ => None,
        })
    }

    fn put(&mut self, entity: &Entity, exists: bool) -> Done<()> {
        match entity {
            Entity::Entry(entry) => self.put_entry(entry, exists)?,
            Entity::Member { profile, id, action } => {
                self.change_profile(*profile, |p| p.set_member(*id, Some(action.clone())))?;
            }
            Entity::Group { profile, id, members } => {
                self.change_profile(*profile, |p| p.set_group(*id, Some(members.clone())))?;
            }
            Entity::Meter { meter, index, rates } => self.set_rates(*meter, *index, rates)?,
            Entity::DirectMeter { entry, rates } => self.set_rates_of(entry.table, &entry.matches, rates)?,
            Entity::AllMeters { meter, rates } => self.set_template(*meter, rates)?,
            Entity::ValueSet { set, members } => self.set_members(*set, members)?,
            Entity::Multicast { group, copies } => self.set_group(*group, Some(copies))?,
            Entity::Session { session, to } => self.set_session(*session, Some(*to))?,
            Entity::HostPort { port } => self.set_host_port(*port, true)?,
            Entity::ExpireTime { profile, micros } => self.set_expire_time(*profile, *micros),
            Entity::Default { table, action } => self.write_default(&self.definition(*table), action)?,
            Entity::Counter { counter, index, count } => self.set_counter(*counter, *index, *count)?,
            Entity::DirectCounter { entry, count } => {
                self.set_count(&self.definition(entry.table), &entry.matches, *count)?;
            }
            Entity::Register { register, index, value } => self.set_register(*register, *index, value)?,
            other => self.supports(&other.key())?,
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Done<()> {
        match key {
            Key::Entry(key) => Ok(self.remove_entry(key)?),
            Key::Multicast(group) => Ok(self.set_group(*group, None)?),
            Key::Session(session) => Ok(self.set_session(*session, None)?),
            Key::HostPort(port) => Ok(self.set_host_port(*port, false)?),
            // Nothing refers to it.
            Key::Member(profile, id) => {
                self.profiles.all[profile.index()].set_member(*id, None);
                Ok(())
            }
            Key::Group(profile, id) => {
                self.profiles.all[profile.index()].set_group(*id, None);
                Ok(())
            }
            other => self.supports(other),
        }
    }

    fn list(&mut self, kind: Kind) -> Done<Vec<Entity>> {
        Ok(match kind {
            Kind::Entries(table) => {
                let listed = KernelProgram::list(self, &self.definition(table))?;
                listed.into_iter().map(|(entry, _)| self.table_entry(table, entry)).collect()
            }
            Kind::Members(profile) => {
                let members = self.profiles.all[profile.index()].members().iter();
                members
                    .map(|(id, action)| Entity::Member { profile, id: *id, action: action.clone() })
                    .collect()
            }
            Kind::Groups(profile) => {
                let groups = self.profiles.all[profile.index()].groups().iter();
                groups
                    .map(|(id, members)| Entity::Group { profile, id: *id, members: members.clone() })
                    .collect()
            }
            Kind::Multicast => self.each_copied(Self::group)?,
            Kind::Sessions => self.each_copied(Self::session)?,
            Kind::HostPorts if self.maps_of()?.host_ports.is_none() => Vec::new(),
            Kind::HostPorts => {
                self.all_host_ports()?.into_iter().map(|port| Entity::HostPort { port }).collect()
            }
        })
    }

    /// The kernel does not count the elements of a map; it says when a map is full.
    fn len(&mut self, kind: Kind) -> Done<Option<u64>> {
        Ok(match kind {
            Kind::Members(profile) => Some(self.profiles.all[profile.index()].members().len() as u64),
            _ => None,
        })
    }

    fn references(&mut self, profile: ProfileId, to: Indirect) -> usize {
        self.profiles.all[profile.index()].references(to)
    }

    fn capacity(&mut self, table: TableId) -> Done<u64> {
        Ok(self.room(&self.definition(table))?)
    }

    fn dropped(&mut self, reason: DropId) -> Done<Count> {
        Ok(self.drop_count(reason)?)
    }
}

impl KernelProgram {
    /// An entry that was read, with what it refers to.
    fn table_entry(&self, table: TableId, entry: Entry) -> Entity {
        let reference = self.manifest.profile_of(table).and_then(|profile| {
            let identity = self.manifest.tables[table.index()].identity(&entry);
            self.profiles.all[profile.index()].reference(table, &identity)
        });
        let key = EntryKey::of(table, &entry);
        let action = reference.map_or(Action::Call(entry.action), Action::from);
        let idle = self.timeouts.of(&key);
        Entity::Entry(TableEntry { key, action, idle })
    }

    fn put_entry(&mut self, entry: &TableEntry, exists: bool) -> Done<()> {
        let TableEntry { key, action, idle } = entry;
        let table = self.definition(key.table);
        let call = if let Action::Call(call) = action { call.clone() } else { ActionCall::default() };
        let stored = key.with(call.clone());
        let written = match self.manifest.profile_of(key.table) {
            Some(profile) => self.put_listed(profile, key.table, &stored, action, exists),
            None if exists => {
                let data = self.pack_action(&table, &call)?;
                self.modify(&table, &stored, &data)
            }
            None => self.write_new(&table, &stored),
        };
        written?;
        if self.manifest.tables[key.table.index()].notifies_idle {
            let now = self.time();
            self.timeouts.set(key, *idle, now);
        }
        Ok(())
    }

    /// Writes an entry of a table with an action profile.
    fn put_listed(
        &mut self,
        profile: ProfileId,
        at: TableId,
        entry: &Entry,
        action: &Action,
        exists: bool,
    ) -> Result<(), Error> {
        let (table, to) = (self.definition(at), action.indirect());
        let runs = match to {
            Some(to) => {
                let calls = self.profiles.all[profile.index()].actions_of(to);
                self.manifest.member_calls(profile, at, calls)
            }
            None => vec![entry.action.clone()],
        };
        match exists {
            true => self.replace_listed(&table, entry, &runs)?,
            false => self.write_listed(&table, entry, &runs)?,
        }
        self.profiles.all[profile.index()].refer(at, table.identity(entry), to);
        Ok(())
    }

    fn remove_entry(&mut self, key: &EntryKey) -> Result<(), Error> {
        let table = self.definition(key.table);
        let data = self.delete(&table, &key.matches)?;
        self.timeouts.forget(key);
        if let Some(profile) = self.manifest.profile_of(key.table) {
            let identity = table.identity(&key.with(ActionCall::default()));
            self.profiles.all[profile.index()].refer(key.table, identity, None);
            self.retire_list(&table, &data)?;
        }
        Ok(())
    }
}
