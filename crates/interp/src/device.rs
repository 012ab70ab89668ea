//! The interpreter as a [`Device`].

use abi::id::{DropId, ProfileId, TableId};
use abi::{ActionCall, Entry, Manifest};
use dataplane::device::{
    self, Action, Device, DeviceError, Entity, EntryKey, Event, Key, Kind, Query, Store, TableEntry, Update,
    WriteError,
};
use dataplane::{Count, Handle, Indirect, Meter, Row};

use crate::event::Silent;
use crate::machine::{Interpreter, State};

type Done<T> = Result<T, DeviceError>;

impl Device for Interpreter<'_> {
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
        let mut events: Vec<Event> = self.reported.drain(..).collect();
        for at in 0..self.state.tables.len() {
            let idle = self.state.tables[at].take_idle(self.clock);
            events.extend(idle.iter().filter_map(|handle| self.entry(at.into(), *handle)).map(Event::Idle));
        }
        Ok(events)
    }

    fn listen(&mut self, messages: bool) -> Done<()> {
        self.state.listens = messages;
        Ok(())
    }

    /// Nothing happens between two packets.
    fn write_atomically(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        self.write(updates)
    }

    fn since_last_hit(&mut self, entry: &EntryKey) -> Done<u64> {
        let row = self.state.row(&entry.canonical());
        let row = row.ok_or_else(|| DeviceError::NotFound("there is no such entry".to_string()))?;
        Ok(self.clock.saturating_sub(row.last_hit()))
    }

    fn packet_out(&mut self, packet: &[u8]) -> Done<()> {
        let Some(port) = self.controller_port else {
            return Err(DeviceError::FailedPrecondition("no port belongs to the controller".to_string()));
        };
        let outcome = self.process(port, packet, &mut Silent);
        self.injected.extend(outcome.sent);
        Ok(())
    }
}

impl Store for Interpreter<'_> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn get(&mut self, key: &Key) -> Done<Option<Entity>> {
        let state = &mut self.state;
        Ok(match key {
            Key::Entry(key) => {
                let row = state.tables[key.table.index()].find(&bare(key)).map(|row| row.handle);
                row.and_then(|handle| self.entry(key.table, handle)).map(Entity::Entry)
            }
            Key::Default(table) => {
                let action = state.tables[table.index()].default().call.clone();
                action.map(|action| Entity::Default { table: *table, action })
            }
            Key::Member(profile, id) => {
                let action = state.profiles[profile.index()].members().get(id).cloned();
                action.map(|action| Entity::Member { profile: *profile, id: *id, action })
            }
            Key::Group(profile, id) => {
                let members = state.profiles[profile.index()].groups().get(id).cloned();
                members.map(|members| Entity::Group { profile: *profile, id: *id, members })
            }
            Key::Counter(counter, index) => {
                let count = state.counters[counter.index()].get(*index).copied();
                count.map(|count| Entity::Counter { counter: *counter, index: *index, count })
            }
            Key::DirectCounter(entry) => state
                .row(entry)
                .map(|row| row.count)
                .map(|count| Entity::DirectCounter { entry: entry.clone(), count }),
            Key::Meter(meter, index) => {
                let rates = state.meters[meter.index()].cells.get(*index).map(Meter::rates);
                rates.map(|rates| Entity::Meter { meter: *meter, index: *index, rates })
            }
            Key::DirectMeter(entry) => {
                let cell = state.direct_meter(&self.manifest, entry);
                cell.map(|cell| Entity::DirectMeter { entry: entry.clone(), rates: cell.rates() })
            }
            Key::AllMeters(meter) => {
                let rates = state.meters[meter.index()].template.rates();
                Some(Entity::AllMeters { meter: *meter, rates })
            }
            Key::Register(register, index) => {
                let value = state.registers[register.index()].get(*index).cloned();
                value.map(|value| Entity::Register { register: *register, index: *index, value })
            }
            Key::ValueSet(set) => {
                let members = state.value_sets[set.index()].clone();
                Some(Entity::ValueSet { set: *set, members })
            }
            Key::Multicast(group) => {
                let copies = state.groups.get(group).cloned();
                copies.map(|copies| Entity::Multicast { group: *group, copies })
            }
            Key::Session(session) => {
                state.mirrors.get(session).map(|to| Entity::Session { session: *session, to: *to })
            }
            Key::HostPort(port) => {
                state.pna.host_ports.contains(port).then_some(Entity::HostPort { port: *port })
            }
            Key::ExpireTime(profile) => {
                let micros = state.pna.times.get(profile).copied();
                Some(Entity::ExpireTime { profile: *profile, micros })
            }
            Key::Drop(_) => None,
        })
    }

    fn put(&mut self, entity: &Entity, exists: bool) -> Done<()> {
        let (state, clock) = (&mut self.state, self.clock);
        match entity {
            Entity::Entry(entry) => return self.put_entry(entry, exists),
            Entity::Default { table, action } => state.tables[table.index()].set_default(action)?,
            Entity::Member { profile, id, action } => {
                state.profiles[profile.index()].set_member(*id, Some(action.clone()));
                self.refresh(*profile);
            }
            Entity::Group { profile, id, members } => {
                state.profiles[profile.index()].set_group(*id, Some(members.clone()));
                self.refresh(*profile);
            }
            Entity::Counter { counter, index, count } => {
                if let Some(cell) = state.counters[counter.index()].get_mut(*index) {
                    *cell = *count;
                }
            }
            Entity::DirectCounter { entry, count } => {
                if let Some(handle) = state.row(entry).map(|row| row.handle) {
                    state.tables[entry.table.index()].set_count(handle, *count);
                }
            }
            Entity::Meter { meter, index, rates } => {
                if let Some(cell) = state.meters[meter.index()].cells.get_mut(*index) {
                    *cell = Meter::new(rates, clock);
                }
            }
            Entity::DirectMeter { entry, rates } => {
                if let Some(cell) = state.direct_meter(&self.manifest, entry) {
                    *cell = Meter::new(rates, clock);
                }
            }
            Entity::AllMeters { meter, rates } => {
                state.meters[meter.index()].set_all(Meter::new(rates, clock))
            }
            Entity::Register { register, index, value } => {
                if let Some(cell) = state.registers[register.index()].get_mut(*index) {
                    *cell = value.clone();
                }
            }
            Entity::ValueSet { set, members } => state.value_sets[set.index()] = members.clone(),
            Entity::Multicast { group, copies } => drop(state.groups.insert(*group, copies.clone())),
            Entity::Session { session, to } => drop(state.mirrors.insert(*session, *to)),
            Entity::HostPort { port } => drop(state.pna.host_ports.insert(*port)),
            Entity::ExpireTime { profile, micros: Some(micros) } => {
                state.pna.times.insert(*profile, *micros);
            }
            Entity::ExpireTime { profile, micros: None } => {
                state.pna.times.remove(profile);
            }
            Entity::Drop { .. } => {}
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Done<()> {
        let state = &mut self.state;
        match key {
            Key::Entry(key) => {
                let table = &mut state.tables[key.table.index()];
                let row = table.delete(&bare(key))?;
                if let Some(profile) = self.manifest.profile_of(key.table) {
                    let identity = table.definition().identity(&row.entry);
                    state.profiles[profile.index()].refer(key.table, identity, None);
                }
                if let Some(meter) = self.manifest.direct_meter_of(key.table) {
                    state.meters[meter.index()].forget(row.handle);
                }
                state.pna.forget_register(key.table, row.handle);
            }
            Key::Member(profile, id) => state.profiles[profile.index()].set_member(*id, None),
            Key::Group(profile, id) => state.profiles[profile.index()].set_group(*id, None),
            Key::Multicast(group) => drop(state.groups.remove(group)),
            Key::Session(session) => drop(state.mirrors.remove(session)),
            Key::HostPort(port) => drop(state.pna.host_ports.remove(port)),
            Key::Default(_)
            | Key::Counter(..)
            | Key::DirectCounter(_)
            | Key::Meter(..)
            | Key::DirectMeter(_)
            | Key::AllMeters(_)
            | Key::Register(..)
            | Key::ValueSet(_)
            | Key::ExpireTime(_)
            | Key::Drop(_) => {}
        }
        Ok(())
    }

    fn list(&mut self, kind: Kind) -> Done<Vec<Entity>> {
        let state = &self.state;
        Ok(match kind {
            Kind::Entries(table) => {
                let handles: Vec<Handle> =
                    state.tables[table.index()].rows().iter().map(|r| r.handle).collect();
                handles.into_iter().filter_map(|h| self.entry(table, h)).map(Entity::Entry).collect()
            }
            Kind::Members(profile) => {
                let members = state.profiles[profile.index()].members().iter();
                members
                    .map(|(id, action)| Entity::Member { profile, id: *id, action: action.clone() })
                    .collect()
            }
            Kind::Groups(profile) => {
                let groups = state.profiles[profile.index()].groups().iter();
                groups
                    .map(|(id, members)| Entity::Group { profile, id: *id, members: members.clone() })
                    .collect()
            }
            Kind::Multicast => {
                let group = |(group, copies): (&u32, &Vec<_>)| Entity::Multicast {
                    group: *group,
                    copies: copies.clone(),
                };
                state.groups.iter().map(group).collect()
            }
            Kind::HostPorts => {
                state.pna.host_ports.iter().map(|port| Entity::HostPort { port: *port }).collect()
            }
            Kind::Sessions => {
                let mirrors = state.mirrors.iter();
                mirrors.map(|(session, to)| Entity::Session { session: *session, to: *to }).collect()
            }
        })
    }

    fn len(&mut self, kind: Kind) -> Done<Option<u64>> {
        let length = match kind {
            Kind::Entries(table) => self.state.tables[table.index()].len(),
            Kind::Members(profile) => self.state.profiles[profile.index()].members().len(),
            Kind::Groups(profile) => self.state.profiles[profile.index()].groups().len(),
            Kind::Multicast => self.state.groups.len(),
            Kind::Sessions => self.state.mirrors.len(),
            Kind::HostPorts => self.state.pna.host_ports.len(),
        };
        Ok(Some(length as u64))
    }

    fn references(&mut self, profile: ProfileId, to: Indirect) -> usize {
        self.state.profiles[profile.index()].references(to)
    }

    fn dropped(&mut self, reason: DropId) -> Done<Count> {
        Ok(self.state.drops[reason.index()])
    }
}

impl State {
    fn row(&self, key: &EntryKey) -> Option<&Row> {
        self.tables[key.table.index()].find(&bare(key))
    }

    /// The cell of an entry in its table's direct meter.
    fn direct_meter(&mut self, manifest: &Manifest, key: &EntryKey) -> Option<&mut Meter> {
        let handle = self.row(key)?.handle;
        let meter = manifest.direct_meter_of(key.table)?;
        Some(self.meters[meter.index()].of_entry(handle))
    }
}

impl Interpreter<'_> {
    fn entry(&self, at: TableId, handle: Handle) -> Option<TableEntry> {
        let table = &self.state.tables[at.index()];
        let row = table.row(handle)?;
        let reference = self.manifest.profile_of(at).and_then(|profile| {
            self.state.profiles[profile.index()].reference(at, &table.definition().identity(&row.entry))
        });
        let action = reference.map_or_else(|| Action::Call(row.entry.action.clone()), Action::from);
        Some(TableEntry { key: EntryKey::of(at, &row.entry), action, idle: row.idle_timeout() })
    }

    fn put_entry(&mut self, entry: &TableEntry, exists: bool) -> Done<()> {
        let TableEntry { key, action, idle } = entry;
        let table = &mut self.state.tables[key.table.index()];
        let stored = match action {
            Action::Call(call) => key.with(call.clone()),
            Action::Member(_) | Action::Group(_) => bare(key),
        };
        let handle = match exists {
            true => table.modify(&stored)?,
            false => table.insert(&stored)?,
        };
        table.set_idle_timeout(handle, *idle, self.clock);
        self.state.pna.forget_register(key.table, handle);
        if let Some(profile) = self.manifest.profile_of(key.table) {
            let (identity, to) = (table.definition().identity(&stored), action.indirect());
            let profiles = &mut self.state.profiles[profile.index()];
            profiles.refer(key.table, identity, to);
            if let Some(to) = to {
                let calls = self.manifest.member_calls(profile, key.table, profiles.actions_of(to));
                table.set_members(handle, calls);
            }
        }
        Ok(())
    }

    /// Passes the current members of a profile to all entries that refer to them.
    fn refresh(&mut self, profile: ProfileId) {
        for (at, (matches, priority), calls) in self.state.profiles[profile.index()].users() {
            let table = &mut self.state.tables[at.index()];
            let entry =
                Entry { matches: matches.clone(), priority: *priority, action: ActionCall::default() };
            if let Some(handle) = table.find(&entry).map(|row| row.handle) {
                table.set_members(handle, self.manifest.member_calls(profile, at, calls));
            }
        }
    }
}

/// An entry with this key, for operations that ignore its action.
fn bare(key: &EntryKey) -> Entry {
    key.with(ActionCall::default())
}
