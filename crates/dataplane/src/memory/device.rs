//! The memory of a native program as a [`Device`]. Workers read what is written here without any lock; `Memory::turn` makes controllers take
//! turns.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use abi::id::{DropId, ProfileId, RegisterId, TableId};
use abi::native::MIRROR_GROUP;
use abi::{ActionCall, Bits, Entry, Manifest};

use super::directory::Directory;
use super::view::View;
use super::worker::{self, Counts};
use super::{Memory, ROWS_AT_ONCE, Writer, sum};
use crate::device::{
    self, Action, Device, DeviceError, Entity, EntryKey, Event, Key, Kind, Mirror, Query, Store, TableEntry,
    Update, WriteError,
};
use crate::{Count, Indirect};

type Done<T> = Result<T, DeviceError>;

impl Device for Arc<Memory> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        device::write(&mut &**self, updates)
    }

    fn read(&mut self, query: &Query) -> Done<Vec<Entity>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        device::read(&mut &**self, query)
    }

    fn events(&mut self) -> Done<Vec<Event>> {
        let mut events = self.take_reported();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        events.extend(self.take_idle());
        Ok(events)
    }

    fn since_last_hit(&mut self, entry: &EntryKey) -> Done<u64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &*self.writer();
        let (table, bare) = (&writer.tables[entry.table.index()], bare(&entry.canonical()));
        let found = table.cell(&bare).zip(table.added(&bare));
        let (cell, added) =
            found.ok_or_else(|| DeviceError::NotFound("there is no such entry".to_string()))?;
        let hit = last_hit(writer, entry.table.index(), cell);
        Ok(self.now.load(Relaxed).saturating_sub(hit.max(added)))
    }

    fn listen(&mut self, messages: bool) -> Done<()> {
        self.shared.listens.store(messages.into(), Relaxed);
        Ok(())
    }
}

impl Store for &Memory {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn get(&mut self, key: &Key) -> Done<Option<Entity>> {
        let writer = self.writer();
        Ok(match key {
            Key::Entry(key) => self.entry(&writer, key).map(Entity::Entry),
            Key::Default(table) => {
                let action = writer.tables[table.index()].default_action();
                action.map(|action| Entity::Default { table: *table, action })
            }
            Key::Member(profile, id) => {
                let action = writer.profiles[profile.index()].members().get(id).cloned();
                action.map(|action| Entity::Member { profile: *profile, id: *id, action })
            }
            Key::Group(profile, id) => {
                let members = writer.profiles[profile.index()].groups().get(id).cloned();
                members.map(|members| Entity::Group { profile: *profile, id: *id, members })
            }
            Key::Counter(counter, index) => {
                let of = |w: &Arc<Counts>| worker::pair(&w.counters[counter.index()], *index);
                let counted = sum(writer.workers.iter().map(of)).unwrap_or_default();
                let offset = writer.offsets.get(&(*counter, *index)).copied().unwrap_or_default();
                let count = counted.wrapping_add(offset);
                Some(Entity::Counter { counter: *counter, index: *index, count })
            }
            Key::DirectCounter(key) => {
                let cell = writer.tables[key.table.index()].cell(&bare(key));
                cell.map(|cell| {
                    let offset = writer.direct_offsets.get(&(key.table, cell)).copied().unwrap_or_default();
                    let count = counted(&writer, key.table, cell).wrapping_add(offset);
                    Entity::DirectCounter { entry: key.clone(), count }
                })
            }
            Key::Meter(meter, index) => {
                let rates = writer.meters[meter.index()].rates(*index);
                rates.map(|rates| Entity::Meter { meter: *meter, index: *index, rates })
            }
            Key::DirectMeter(key) => {
                let cell = writer.tables[key.table.index()].cell(&bare(key));
                let meter = writer.direct_meters[key.table.index()];
                let rates = cell.zip(meter).and_then(|(cell, meter)| writer.meters[meter].rates(cell));
                rates.map(|rates| Entity::DirectMeter { entry: key.clone(), rates })
            }
            Key::AllMeters(meter) => {
                let rates = writer.meters[meter.index()].template().to_vec();
                Some(Entity::AllMeters { meter: *meter, rates })
            }
            Key::Register(register, index) => {
                let cell = usize::try_from(*index).ok().and_then(|i| self.registers[register.index()].get(i));
                let width = self.manifest.registers[register.index()].width;
                let value = cell.map(|cell| Bits::new(width, cell.load(Relaxed).into()));
                value.map(|value| Entity::Register { register: *register, index: *index, value })
            }
            Key::ValueSet(set) => {
                let members = writer.set_members[set.index()].clone();
                Some(Entity::ValueSet { set: *set, members })
            }
            Key::Multicast(group) => writer.groups.get(*group).map(|words| group_of(*group, words)),
            Key::Session(session) => writer.mirrors.get(*session).map(|words| session_of(*session, words)),
            Key::HostPort(port) => writer.host_ports.get(*port).map(|_| Entity::HostPort { port: *port }),
            Key::ExpireTime(profile) => {
                let micros =
                    Some(writer.expire_times[*profile as usize]).filter(|micros| *micros != u64::MAX);
                Some(Entity::ExpireTime { profile: *profile, micros })
            }
            Key::Drop(_) => None,
        })
    }

    fn put(&mut self, entity: &Entity, exists: bool) -> Done<()> {
        if let Entity::Entry(entry) = entity {
            return self.put_entry(entry, exists);
        }
        let now = self.now.load(Relaxed);
        let writer = &mut *self.writer();
        writer.reclaim();
        let Writer { tables, reclaimer, workers, profiles, meters, direct_meters, .. } = writer;
        match entity {
            Entity::Entry(_) | Entity::Drop { .. } => {}
            Entity::Default { table, action } => {
                let view = &mut View { table: &self.roots[table.index()], reclaimer };
                tables[table.index()].set_default(action, view)?;
            }
            Entity::Member { profile, id, action } => {
                profiles[profile.index()].set_member(*id, Some(action.clone()));
                self.refresh(writer, *profile);
            }
            Entity::Group { profile, id, members } => {
                profiles[profile.index()].set_group(*id, Some(members.clone()));
                self.refresh(writer, *profile);
            }
            Entity::Counter { counter, index, count } => {
                let of = |w: &Arc<Counts>| worker::pair(&w.counters[counter.index()], *index);
                let counted = sum(workers.iter().map(of)).unwrap_or_default();
                writer.offsets.insert((*counter, *index), count.wrapping_sub(counted));
            }
            Entity::DirectCounter { entry, count } => {
                if let Some(cell) = tables[entry.table.index()].cell(&bare(entry)) {
                    let offset = count.wrapping_sub(counted(writer, entry.table, cell));
                    writer.direct_offsets.insert((entry.table, cell), offset);
                }
            }
            Entity::Meter { meter, index, rates } => meters[meter.index()].set(*index, rates, now),
            Entity::DirectMeter { entry, rates } => {
                let cell = tables[entry.table.index()].cell(&bare(entry));
                if let Some((cell, meter)) = cell.zip(direct_meters[entry.table.index()]) {
                    meters[meter].set(cell, rates, now);
                }
            }
            Entity::AllMeters { meter, rates } => meters[meter.index()].set_all(rates, now),
            Entity::Register { register, index, value } => {
                let cells = &self.registers[register.index()];
                if let Some(cell) = usize::try_from(*index).ok().and_then(|i| cells.get(i)) {
                    cell.store(value.low_u64(), Relaxed);
                }
            }
            Entity::ValueSet { set, members } => {
                let keys = &self.manifest.value_sets[set.index()].keys;
                let parts = members.iter().flat_map(|member| member.iter().zip(keys));
                let words = parts.flat_map(|(part, key)| key.member_words(part)).collect();
                writer.value_sets.set(set.0, Some(words), &self.shared.value_sets, reclaimer);
                writer.set_members[set.index()] = members.clone();
            }
            Entity::Multicast { group, copies } => {
                let word = |(rid, port): &(u32, u32)| u64::from(*rid) << 32 | u64::from(*port);
                let words = copies.iter().map(word).collect();
                writer.groups.set(*group, Some(words), &self.shared.groups, reclaimer);
            }
            Entity::HostPort { port } => {
                writer.host_ports.set(*port, Some(Vec::new()), &self.shared.host_ports, reclaimer);
            }
            Entity::ExpireTime { profile, micros } => {
                writer.expire_times[*profile as usize] = micros.unwrap_or(u64::MAX);
            }
            Entity::Session { session, to } => {
                let word = match to {
                    Mirror::Port(port) => u64::from(*port),
                    Mirror::Group(group) => MIRROR_GROUP | u64::from(*group),
                };
                writer.mirrors.set(*session, Some(vec![word]), &self.shared.mirrors, reclaimer);
            }
        }
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Done<()> {
        if let Key::Entry(key) = key {
            return self.remove_entry(key);
        }
        let writer = &mut *self.writer();
        let Writer { reclaimer, profiles, groups, mirrors, host_ports, .. } = writer;
        match key {
            Key::Member(profile, id) => {
                profiles[profile.index()].set_member(*id, None);
                self.refresh(writer, *profile);
            }
            Key::Group(profile, id) => profiles[profile.index()].set_group(*id, None),
            Key::Multicast(group) => groups.set(*group, None, &self.shared.groups, reclaimer),
            Key::Session(session) => mirrors.set(*session, None, &self.shared.mirrors, reclaimer),
            Key::HostPort(port) => host_ports.set(*port, None, &self.shared.host_ports, reclaimer),
            Key::Entry(_)
            | Key::Default(_)
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
        let writer = self.writer();
        let rows = |directory: &Directory, entity: fn(u32, &[u64]) -> Entity| {
            directory.rows().map(|(id, words)| entity(id, words)).collect()
        };
        Ok(match kind {
            Kind::Entries(table) => {
                let entry = |entry| Entity::Entry(self.table_entry(&writer, table, entry));
                writer.tables[table.index()].entries().into_iter().map(entry).collect()
            }
            Kind::Members(profile) => {
                let member = |(id, action): (&u32, &ActionCall)| Entity::Member {
                    profile,
                    id: *id,
                    action: action.clone(),
                };
                writer.profiles[profile.index()].members().iter().map(member).collect()
            }
            Kind::Groups(profile) => {
                let group = |(id, members): (&u32, &Vec<u32>)| Entity::Group {
                    profile,
                    id: *id,
                    members: members.clone(),
                };
                writer.profiles[profile.index()].groups().iter().map(group).collect()
            }
            Kind::Multicast => rows(&writer.groups, group_of),
            Kind::Sessions => rows(&writer.mirrors, session_of),
            Kind::HostPorts => rows(&writer.host_ports, |port, _| Entity::HostPort { port }),
        })
    }

    fn len(&mut self, kind: Kind) -> Done<Option<u64>> {
        let writer = self.writer();
        Ok(Some(match kind {
            Kind::Entries(table) => writer.tables[table.index()].count(),
            Kind::Members(profile) => writer.profiles[profile.index()].members().len() as u64,
            Kind::Groups(profile) => writer.profiles[profile.index()].groups().len() as u64,
            Kind::Multicast => writer.groups.rows().count() as u64,
            Kind::Sessions => writer.mirrors.rows().count() as u64,
            Kind::HostPorts => writer.host_ports.rows().count() as u64,
        }))
    }

    fn references(&mut self, profile: ProfileId, to: Indirect) -> usize {
        self.writer().profiles[profile.index()].references(to)
    }

    fn initial(&self, register: RegisterId) -> Bits {
        Bits::new(self.manifest.registers[register.index()].width, self.initial[register.index()].into())
    }

    fn dropped(&mut self, reason: DropId) -> Done<Count> {
        Ok(self.drops(reason))
    }
}

impl Memory {
    fn entry(&self, writer: &Writer, key: &EntryKey) -> Option<TableEntry> {
        let action = writer.tables[key.table.index()].action(&bare(key))?;
        Some(self.table_entry(writer, key.table, key.with(action)))
    }

    /// An entry that a table has returned, with what belongs to it.
    fn table_entry(&self, writer: &Writer, table: TableId, entry: Entry) -> TableEntry {
        let stored = &writer.tables[table.index()];
        let reference = self
            .manifest
            .profile_of(table)
            .and_then(|profile| writer.profiles[profile.index()].reference(table, &stored.identity(&entry)));
        let idle = stored.idle_timeout(&entry);
        let key = EntryKey::of(table, &entry);
        let action = reference.map_or(Action::Call(entry.action), Action::from);
        TableEntry { key, action, idle }
    }

    fn put_entry(&self, entry: &TableEntry, exists: bool) -> Done<()> {
        let TableEntry { key, action, idle } = entry;
        let (at, now) = (key.table.index(), self.now.load(Relaxed));
        let profile = self.manifest.profile_of(key.table);
        let to = action.indirect();
        self.write_all(key.table, |writer, root| {
            let Writer { tables, reclaimer, profiles, .. } = writer;
            let (stored, runs) = match (action, profile.zip(to)) {
                (_, Some((profile, to))) => {
                    let calls = profiles[profile.index()].actions_of(to);
                    (bare(key), self.manifest.member_calls(profile, key.table, calls))
                }
                (Action::Call(call), None) => (key.with(call.clone()), vec![call.clone()]),
                (_, None) => (bare(key), Vec::new()),
            };
            let view = &mut View { table: root, reclaimer };
            match exists {
                true => tables[at].modify(&stored, &runs, view)?,
                false => tables[at].insert(&stored, &runs, view)?,
            }
            if let Some(profile) = profile {
                profiles[profile.index()].refer(key.table, tables[at].identity(&stored), to);
            }
            tables[at].set_idle_timeout(&stored, *idle, now);
            Ok(())
        })?;
        Ok(())
    }

    fn remove_entry(&self, key: &EntryKey) -> Done<()> {
        let profile = self.manifest.profile_of(key.table);
        self.write_all(key.table, |writer, root| {
            let Writer { tables, reclaimer, profiles, .. } = writer;
            let table = &mut tables[key.table.index()];
            table.delete(&bare(key), &mut View { table: root, reclaimer })?;
            if let Some(profile) = profile {
                profiles[profile.index()].refer(key.table, table.identity(&bare(key)), None);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Publishes the current members of a profile to all entries that refer to them.
    fn refresh(&self, writer: &mut Writer, profile: ProfileId) {
        let Writer { tables, profiles, reclaimer, .. } = writer;
        for (table, entry, calls) in profiles[profile.index()].users() {
            let calls = self.manifest.member_calls(profile, table, calls);
            tables[table.index()].set_members(entry, &calls, reclaimer);
        }
    }

    /// The entries that have become idle since the last call. Other writers have their turns between two pieces of a large table.
    fn take_idle(&self) -> Vec<Event> {
        let now = self.now.load(Relaxed);
        let mut all = Vec::new();
        for at in 0..self.manifest.tables.len() {
            let mut from = Some(0);
            while let Some(cell) = from {
                let writer = &mut *self.writer();
                let Writer { tables, workers, .. } = writer;
                let hit = |cell: u64| {
                    let of = |w: &Arc<Counts>| w.hits[at].get(cell as usize).map_or(0, |c| c.load(Relaxed));
                    workers.iter().map(of).max().unwrap_or(0)
                };
                let (idle, next) = tables[at].take_idle(now, cell, ROWS_AT_ONCE as usize, hit);
                let event = |entry| Event::Idle(self.table_entry(writer, at.into(), entry));
                all.extend(idle.into_iter().map(event));
                from = next;
            }
        }
        all
    }
}

/// The time of the last packet that hit the entry of a cell.
fn last_hit(writer: &Writer, table: usize, cell: u64) -> u64 {
    let of = |w: &Arc<Counts>| w.hits[table].get(cell as usize).map_or(0, |c| c.load(Relaxed));
    writer.workers.iter().map(of).max().unwrap_or(0)
}

/// An entry with this key, for operations that ignore its action.
fn bare(key: &EntryKey) -> Entry {
    key.with(ActionCall::default())
}

/// What the workers have counted in a cell of a table.
fn counted(writer: &Writer, table: TableId, cell: u64) -> Count {
    let of = |w: &Arc<Counts>| worker::pair(&w.direct[table.index()], cell);
    sum(writer.workers.iter().map(of)).unwrap_or_default()
}

fn group_of(group: u32, words: &[u64]) -> Entity {
    Entity::Multicast {
        group,
        copies: words.iter().map(|word| ((word >> 32) as u32, *word as u32)).collect(),
    }
}

fn session_of(session: u32, words: &[u64]) -> Entity {
    let word = words.first().copied().unwrap_or(0);
    let to = match word & MIRROR_GROUP {
        0 => Mirror::Port(word as u32),
        _ => Mirror::Group(word as u32),
    };
    Entity::Session { session, to }
}
