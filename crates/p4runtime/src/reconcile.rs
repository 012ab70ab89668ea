//! Carries the state of one program over to another (`RECONCILE_AND_COMMIT`, P4Runtime specification, section 14).
//!
//! What both programs have is copied, by names: entries with their counters and meters, default actions, members, groups, counters, registers,
//! value sets, multicast groups, clone sessions. State of the old program for which the new one has no place is an error, so that nothing is lost
//! silently. Values that are what the program declares are no state.

use std::collections::HashSet;

use abi::Manifest;
use abi::id::{CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use dataplane::Device;
use dataplane::device::{
    Action, DeviceError, Entity, EntryKey, EntryQuery, Key, Query, TableEntry, Update, copy,
};

use super::Status;
use super::kept::Kept;

/// Writes into a device what another one holds. What is kept beside the old one becomes that of the new one.
pub fn reconcile(old: &mut dyn Device, new: &mut dyn Device, kept: &mut Kept) -> Result<(), Status> {
    let (from, to) = (old.manifest().clone(), new.manifest().clone());
    let map = Map { from: &from, to: &to };
    let queries = [
        Query::ValueSets(None),
        Query::Registers(None),
        Query::Counters(None),
        Query::Meters(None),
        Query::Multicast,
        Query::Sessions,
        Query::Defaults(None),
        Query::Members(None),
        Query::Groups(None),
        Query::Entries(EntryQuery::default()),
        Query::DirectCounters(EntryQuery::default()),
        Query::DirectMeters(EntryQuery::default()),
    ];
    let mut updates = Vec::new();
    for query in &queries {
        let found = match old.read(query) {
            Ok(found) => found,
            // What a target lacks has no state.
            Err(DeviceError::Unimplemented(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        for entity in found.into_iter().filter(|entity| !copy::is_declared(&from, entity)) {
            updates.push(Update::Set(map.entity(entity)?));
        }
    }
    // What the old program's controllers have removed from what both programs declare.
    let stay: HashSet<Key> = updates.iter().filter_map(set_key).collect();
    updates.splice(0..0, copy::removed(new, &stay)?);
    new.write(&updates)
        .map_err(|refused| Status::from(refused.error).at("the state cannot be carried over"))?;
    kept.renumber(|table| map.table(table).ok().map(|(_, to)| to), |profile| map.profile(profile).ok());
    Ok(())
}

fn set_key(update: &Update) -> Option<Key> {
    match update {
        Update::Set(entity) => Some(entity.key()),
        _ => None,
    }
}

/// The numbers of two programs.
struct Map<'m> {
    from: &'m Manifest,
    to: &'m Manifest,
}

fn lost(what: &str, name: &str) -> Status {
    Status::invalid(format!("the new program has no place for the state of the {what} `{name}`"))
}

impl Map<'_> {
    fn entity(&self, entity: Entity) -> Result<Entity, Status> {
        Ok(match entity {
            Entity::Entry(entry) => Entity::Entry(self.entry(entry)?),
            Entity::Default { table, action } => {
                let (from, to) = self.table(table)?;
                let called = self.from.tables[from.index()].call_for(&self.to.tables[to.index()], &action);
                let action = called
                    .ok_or_else(|| lost("default action of table", &self.from.tables[from.index()].name))?;
                Entity::Default { table: to, action }
            }
            Entity::Member { profile, id, action } => {
                let to = self.profile(profile)?;
                let first = |manifest: &Manifest, profile| manifest.profile_table(profile);
                let tables = first(self.from, profile).zip(first(self.to, to));
                let called = tables.and_then(|(a, b)| {
                    self.from.tables[a.index()].call_for(&self.to.tables[b.index()], &action)
                });
                let action = called
                    .ok_or_else(|| lost("member of profile", &self.from.profiles[profile.index()].name))?;
                Entity::Member { profile: to, id, action }
            }
            Entity::Group { profile, id, members } => {
                Entity::Group { profile: self.profile(profile)?, id, members }
            }
            Entity::Counter { counter, index, count } => {
                let name = &self.from.counters[counter.index()].name;
                let to = self.to.counters.iter().position(|c| c.name == *name && index < c.size);
                let counter = CounterId::from(to.ok_or_else(|| lost("counter", name))?);
                Entity::Counter { counter, index, count }
            }
            Entity::DirectCounter { entry, count } => {
                Entity::DirectCounter { entry: self.key(entry)?, count }
            }
            Entity::Meter { meter, index, rates } => {
                let name = &self.from.meters[meter.index()].name;
                let to = self
                    .to
                    .meters
                    .iter()
                    .position(|m| m.name == *name && m.size.is_some_and(|size| index < size));
                let meter = MeterId::from(to.ok_or_else(|| lost("meter", name))?);
                Entity::Meter { meter, index, rates }
            }
            Entity::DirectMeter { entry, rates } => Entity::DirectMeter { entry: self.key(entry)?, rates },
            Entity::Register { register, index, value } => {
                let name = &self.from.registers[register.index()].name;
                let fits = |r: &abi::manifest::Register| {
                    r.name == *name && index < r.size && r.width == value.width()
                };
                let to = self.to.registers.iter().position(fits);
                let register = RegisterId::from(to.ok_or_else(|| lost("register", name))?);
                Entity::Register { register, index, value }
            }
            Entity::ValueSet { set, members } => {
                let name = &self.from.value_sets[set.index()].name;
                let to = self.to.value_sets.iter().position(|s| s.name == *name);
                let set = ValueSetId::from(to.ok_or_else(|| lost("value set", name))?);
                Entity::ValueSet { set, members }
            }
            same @ (Entity::Multicast { .. }
            | Entity::Session { .. }
            | Entity::HostPort { .. }
            | Entity::ExpireTime { .. }
            | Entity::AllMeters { .. }
            | Entity::Drop { .. }) => same,
        })
    }

    fn entry(&self, entry: TableEntry) -> Result<TableEntry, Status> {
        let (from, to) = self.table(entry.key.table)?;
        let action = match entry.action {
            Action::Call(call) => {
                let called = self.from.tables[from.index()].call_for(&self.to.tables[to.index()], &call);
                Action::Call(called.ok_or_else(|| lost("table", &self.from.tables[from.index()].name))?)
            }
            indirect => indirect,
        };
        Ok(TableEntry { key: self.key(entry.key)?, action, idle: entry.idle })
    }

    /// A key in the new program, whose table must have the same fields.
    fn key(&self, key: EntryKey) -> Result<EntryKey, Status> {
        let (from, to) = self.table(key.table)?;
        let shape = |manifest: &Manifest, at: TableId| {
            let keys = manifest.tables[at.index()].keys.iter();
            keys.map(|k| (k.width, k.kind, k.signed)).collect::<Vec<_>>()
        };
        match shape(self.from, from) == shape(self.to, to) {
            true => Ok(EntryKey { table: to, ..key }),
            false => Err(lost("table", &self.from.tables[from.index()].name)),
        }
    }

    fn table(&self, from: TableId) -> Result<(TableId, TableId), Status> {
        let name = &self.from.tables[from.index()].name;
        let to = self.to.table_id(name).ok_or_else(|| lost("table", name))?;
        Ok((from, to))
    }

    fn profile(&self, from: ProfileId) -> Result<ProfileId, Status> {
        let name = &self.from.profiles[from.index()].name;
        let to = self.to.profiles.iter().position(|p| p.name == *name);
        Ok(ProfileId::from(to.ok_or_else(|| lost("action profile", name))?))
    }
}
