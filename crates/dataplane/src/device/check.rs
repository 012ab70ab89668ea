//! Checks updates before any of them is applied: against the manifest, and against what exists when the updates before it have been applied.

use std::collections::HashMap;

use abi::id::{ProfileId, TableId};
use abi::manifest::{KeyField, Table};
use abi::{ActionCall, Manifest, MatchValue};

use super::{Action, DeviceError, Entity, EntryKey, Key, Kind, Store, TableEntry, Update};
use crate::Indirect;

/// What is left of an update when its check has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes an entity, which exists or not.
    Put(Entity, bool),
    /// Removes an entity that exists.
    Remove(Key),
    /// There is nothing to do.
    Nothing,
}

/// What the updates so far have changed.
#[derive(Default)]
pub struct Checker {
    /// The entities that were written (`Some`) or removed (`None`).
    written: HashMap<Key, Option<Entity>>,
    /// By how much the number of entries and members has changed.
    added: HashMap<Place, i64>,
    /// By how much the number of references to members and groups has changed.
    referred: HashMap<(ProfileId, Indirect), i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Table(TableId),
    Profile(ProfileId),
}

impl Place {
    /// The place whose room something with this key takes, if its room is limited.
    fn of(key: &Key) -> Option<Place> {
        use Key::*;
        match key {
            Entry(entry) => Some(Place::Table(entry.table)),
            Member(profile, _) => Some(Place::Profile(*profile)),
            Default(_) | Group(..) | Counter(..) | DirectCounter(_) | Meter(..) | DirectMeter(_)
            | AllMeters(_) | Register(..) | ValueSet(_) | Multicast(_) | Session(_) | HostPort(_)
            | ExpireTime(_) | Drop(_) => None,
        }
    }
}

type Done<T> = Result<T, DeviceError>;

fn invalid<T>(text: impl Into<String>) -> Done<T> {
    Err(DeviceError::InvalidArgument(text.into()))
}

impl Checker {
    /// Checks an update, and notes what it changes.
    pub fn check(&mut self, store: &mut dyn Store, update: &Update) -> Done<Step> {
        let step = match update {
            Update::Insert(entity) | Update::Modify(entity) | Update::Set(entity) => {
                self.put(store, update, entity.canonical())?
            }
            Update::Delete(key) | Update::Unset(key) => self.remove(store, update, key.canonical())?,
        };
        match &step {
            Step::Put(entity, exists) => self.note(store, entity.key(), Some(entity), *exists)?,
            Step::Remove(key) => self.note(store, key.clone(), None, true)?,
            Step::Nothing => {}
        }
        Ok(step)
    }

    fn put(&mut self, store: &mut dyn Store, update: &Update, entity: Entity) -> Done<Step> {
        let key = entity.key();
        check_key(store.manifest(), &key)?;
        check_value(store.manifest(), &entity)?;
        store.supports(&key)?;
        if key.is_fixed() && matches!(update, Update::Insert(_)) {
            return invalid("this always exists, so it can be modified only");
        }
        let exists = self.exists(store, &key)?;
        if exists && matches!(update, Update::Insert(_)) {
            let name = named(store.manifest(), &key);
            return Err(DeviceError::AlreadyExists(format!("{name} exists already")));
        }
        // A cell that belongs to an entry exists with the entry only.
        let only_modifies = matches!(update, Update::Modify(_)) || key.is_fixed();
        if !exists && only_modifies {
            return Err(missing(store.manifest(), &key));
        }
        if !exists {
            self.check_room(store, &key)?;
        }
        self.check_references(store, &entity)?;
        Ok(Step::Put(entity, exists))
    }

    fn remove(&mut self, store: &mut dyn Store, update: &Update, key: Key) -> Done<Step> {
        check_key(store.manifest(), &key)?;
        store.supports(&key)?;
        if key.is_fixed() {
            if let Update::Delete(_) = update {
                return invalid("this always exists, so it cannot be deleted");
            }
            return match initial(store, &key)? {
                Some(entity) => self.put(store, &Update::Modify(entity.clone()), entity),
                None => Ok(Step::Nothing),
            };
        }
        if let Key::Entry(entry) = &key {
            check_writable(table(store.manifest(), entry.table)?)?;
        }
        match (self.exists(store, &key)?, update) {
            (true, _) => {}
            (false, Update::Unset(_)) => return Ok(Step::Nothing),
            (false, _) => return Err(missing(store.manifest(), &key)),
        }
        if let Some((profile, to)) = key.indirect() {
            let changed = self.referred.get(&(profile, to)).copied().unwrap_or(0);
            if store.references(profile, to) as i64 + changed > 0 {
                let name = named(store.manifest(), &key);
                return Err(DeviceError::FailedPrecondition(format!(
                    "entries or groups still refer to {name}"
                )));
            }
        }
        Ok(Step::Remove(key))
    }

    /// The entity as the updates so far leave it.
    fn get(&self, store: &mut dyn Store, key: &Key) -> Done<Option<Entity>> {
        match self.written.get(key) {
            Some(written) => Ok(written.clone()),
            None => store.get(key),
        }
    }

    fn exists(&self, store: &mut dyn Store, key: &Key) -> Done<bool> {
        if let Key::DirectCounter(entry) | Key::DirectMeter(entry) = key {
            return self.exists(store, &Key::Entry(entry.clone()));
        }
        Ok(key.is_fixed() || self.get(store, key)?.is_some())
    }

    fn check_room(&self, store: &mut dyn Store, key: &Key) -> Done<()> {
        let Some(place) = Place::of(key) else { return Ok(()) };
        let (kind, capacity) = match place {
            Place::Table(table) => (Kind::Entries(table), store.capacity(table)?),
            Place::Profile(profile) => {
                let size = store.manifest().profiles[profile.index()].size;
                (Kind::Members(profile), if size == 0 { u64::MAX } else { size })
            }
        };
        let added = self.added.get(&place).copied().unwrap_or(0);
        let full = match store.len(kind)? {
            Some(length) => length.saturating_add_signed(added) >= capacity,
            None => added >= 0 && added as u64 >= capacity,
        };
        match full {
            false => Ok(()),
            true => {
                let manifest = store.manifest();
                let of = match place {
                    Place::Table(at) => format!("table `{}`", manifest.tables[at.index()].name),
                    Place::Profile(at) => format!("profile `{}`", manifest.profiles[at.index()].name),
                };
                Err(DeviceError::ResourceExhausted(format!("{of} is full: its size is {capacity}")))
            }
        }
    }

    /// Checks that what the entity refers to exists.
    fn check_references(&self, store: &mut dyn Store, entity: &Entity) -> Done<()> {
        for (profile, to) in references(store.manifest(), entity) {
            let key = match to {
                Indirect::Member(id) => Key::Member(profile, id),
                Indirect::Group(id) => Key::Group(profile, id),
            };
            if !self.exists(store, &key)? {
                return Err(missing(store.manifest(), &key));
            }
        }
        Ok(())
    }

    fn note(&mut self, store: &mut dyn Store, key: Key, new: Option<&Entity>, existed: bool) -> Done<()> {
        if let Key::Entry(_) | Key::Group(..) = &key {
            let old = if existed { self.get(store, &key)? } else { None };
            for (entity, change) in [(old.as_ref(), -1), (new, 1)] {
                for to in entity.map(|e| references(store.manifest(), e)).into_iter().flatten() {
                    *self.referred.entry(to).or_default() += change;
                }
            }
        }
        if let Some(place) = Place::of(&key) {
            *self.added.entry(place).or_default() += i64::from(new.is_some()) - i64::from(existed);
        }
        if !key.is_fixed() {
            self.written.insert(key, new.cloned());
        }
        Ok(())
    }
}

/// The members and groups that an entity refers to.
pub fn references(manifest: &Manifest, entity: &Entity) -> Vec<(ProfileId, Indirect)> {
    match entity {
        Entity::Entry(TableEntry { key, action, .. }) => {
            manifest.profile_of(key.table).zip(action.indirect()).into_iter().collect()
        }
        Entity::Group { profile, members, .. } => {
            members.iter().map(|id| (*profile, Indirect::Member(*id))).collect()
        }
        Entity::Default { .. }
        | Entity::Member { .. }
        | Entity::Counter { .. }
        | Entity::DirectCounter { .. }
        | Entity::Meter { .. }
        | Entity::DirectMeter { .. }
        | Entity::AllMeters { .. }
        | Entity::Register { .. }
        | Entity::ValueSet { .. }
        | Entity::Multicast { .. }
        | Entity::Session { .. }
        | Entity::HostPort { .. }
        | Entity::ExpireTime { .. }
        | Entity::Drop { .. } => Vec::new(),
    }
}

/// The value of a fixed entity that the program declares. An entry's meter has none.
pub fn initial(store: &mut dyn Store, key: &Key) -> Done<Option<Entity>> {
    let count = crate::Count::default();
    Ok(match key {
        Key::Counter(counter, index) => Some(Entity::Counter { counter: *counter, index: *index, count }),
        Key::DirectCounter(entry) => Some(Entity::DirectCounter { entry: entry.clone(), count }),
        Key::Meter(meter, index) => Some(Entity::Meter { meter: *meter, index: *index, rates: Vec::new() }),
        Key::DirectMeter(entry) => Some(Entity::DirectMeter { entry: entry.clone(), rates: Vec::new() }),
        Key::AllMeters(meter) => Some(Entity::AllMeters { meter: *meter, rates: Vec::new() }),
        Key::Register(register, index) => {
            let value = store.initial(*register);
            Some(Entity::Register { register: *register, index: *index, value })
        }
        Key::ValueSet(set) => Some(Entity::ValueSet { set: *set, members: Vec::new() }),
        Key::Default(at) => {
            let action = table(store.manifest(), *at)?.default_action.clone();
            action.map(|action| Entity::Default { table: *at, action })
        }
        Key::ExpireTime(profile) => Some(Entity::ExpireTime { profile: *profile, micros: None }),
        Key::Drop(_) => return invalid("drop counts can only be read"),
        Key::Entry(_)
        | Key::Member(..)
        | Key::Group(..)
        | Key::Multicast(_)
        | Key::Session(_)
        | Key::HostPort(_) => None,
    })
}

fn table(manifest: &Manifest, id: TableId) -> Done<&Table> {
    let table = manifest.tables.get(id.index());
    table.ok_or_else(|| DeviceError::InvalidArgument(format!("there is no table number {id}")))
}

fn check_writable(table: &Table) -> Done<()> {
    match table.const_entries {
        true => Err(abi::manifest::EntryError::ConstEntries(table.name.clone()).into()),
        false => Ok(()),
    }
}

/// The largest number of an expire-time profile (`ExpireTimeProfileId_t`, a bit<8>).
const EXPIRE_PROFILES: u32 = 255;

/// Checks that a key names something that the program has.
pub fn check_key(manifest: &Manifest, key: &Key) -> Done<()> {
    let known = |known: bool, what: &str, number: u32| match known {
        true => Ok(()),
        false => invalid(format!("there is no {what} number {number}")),
    };
    match key {
        Key::Entry(entry) => check_entry_key(manifest, entry).map(drop),
        Key::DirectCounter(entry) => match check_entry_key(manifest, entry)? {
            table if table.direct_counter.is_some() => Ok(()),
            table => invalid(format!("table `{}` has no direct counter", table.name)),
        },
        Key::DirectMeter(entry) => match check_entry_key(manifest, entry)? {
            table if table.direct_meter.is_some() => Ok(()),
            table => invalid(format!("table `{}` has no direct meter", table.name)),
        },
        Key::Default(at) => table(manifest, *at).map(drop),
        Key::Member(profile, _) => {
            known(profile.index() < manifest.profiles.len(), "action profile", profile.0)
        }
        Key::Group(profile, _) => match manifest.profiles.get(profile.index()) {
            Some(found) if !found.selector => {
                invalid(format!("profile `{}` has no selector, so it has no groups", found.name))
            }
            found => known(found.is_some(), "action profile", profile.0),
        },
        Key::Counter(at, index) => {
            let found = manifest.counters.get(at.index()).map(|c| (&c.name, Some(c.size)));
            check_cell("counter", at.0, found, *index)
        }
        Key::Register(at, index) => {
            let found = manifest.registers.get(at.index()).map(|r| (&r.name, Some(r.size)));
            check_cell("register", at.0, found, *index)
        }
        Key::Meter(at, index) => {
            check_cell("meter", at.0, manifest.meters.get(at.index()).map(|m| (&m.name, m.size)), *index)
        }
        Key::AllMeters(at) => match manifest.meters.get(at.index()) {
            Some(meter) if meter.size.is_some() => invalid(format!(
                "meter `{}` belongs to no table: its cells are written one by one",
                meter.name
            )),
            found => known(found.is_some(), "meter", at.0),
        },
        Key::ValueSet(at) => known(at.index() < manifest.value_sets.len(), "value set", at.0),
        Key::Drop(at) => known(at.index() < manifest.drops.len(), "drop reason", at.0),
        Key::ExpireTime(profile) if *profile > EXPIRE_PROFILES => {
            invalid(format!("an expire-time profile is at most {EXPIRE_PROFILES}, not {profile}"))
        }
        Key::Multicast(_) | Key::Session(_) | Key::HostPort(_) | Key::ExpireTime(_) => Ok(()),
    }
}

fn check_entry_key<'m>(manifest: &'m Manifest, key: &EntryKey) -> Done<&'m Table> {
    let table = table(manifest, key.table)?;
    table.check_matches(&key.matches)?;
    match key.priority == 0 || table.needs_priority() {
        true => Ok(table),
        false => invalid(format!("table `{}` has no priorities", table.name)),
    }
}

fn check_cell(what: &str, number: u32, found: Option<(&String, Option<u64>)>, index: u64) -> Done<()> {
    match found {
        None => invalid(format!("there is no {what} number {number}")),
        Some((name, None)) => invalid(format!("{what} `{name}` has a cell for each entry of its table")),
        Some((name, Some(size))) if index >= size => {
            invalid(format!("{what} `{name}` has {size} cells, not a cell {index}"))
        }
        Some(_) => Ok(()),
    }
}

/// Checks the value of an entity whose key is right.
fn check_value(manifest: &Manifest, entity: &Entity) -> Done<()> {
    match entity {
        Entity::Entry(entry) => check_entry(manifest, entry),
        Entity::Default { table, action } => {
            let table = &manifest.tables[table.index()];
            table.check_action(action, true)?;
            match table.const_default {
                true => Err(abi::manifest::EntryError::ConstDefault(table.name.clone()).into()),
                false => Ok(()),
            }
        }
        Entity::Member { profile, action, .. } => check_member(manifest, *profile, action),
        Entity::Meter { rates, .. } | Entity::DirectMeter { rates, .. } | Entity::AllMeters { rates, .. } => {
            match rates.len() {
                0..=2 => Ok(()),
                more => invalid(format!("a meter has two rates at most, not {more}")),
            }
        }
        Entity::Register { register, value, .. } => {
            let register = &manifest.registers[register.index()];
            match register.width == value.width() {
                true => Ok(()),
                false => invalid(format!(
                    "register `{}` has cells of {} bits, not {}",
                    register.name,
                    register.width,
                    value.width()
                )),
            }
        }
        Entity::ValueSet { set, members } => {
            let set = &manifest.value_sets[set.index()];
            if members.len() as u64 > set.size {
                let text =
                    format!("value set `{}` holds {} members, not {}", set.name, set.size, members.len());
                return Err(DeviceError::ResourceExhausted(text));
            }
            members.iter().try_for_each(|member| check_member_of_set(&set.name, &set.keys, member))
        }
        Entity::Drop { .. } => invalid("drop counts can only be read"),
        Entity::Group { .. }
        | Entity::Counter { .. }
        | Entity::DirectCounter { .. }
        | Entity::Multicast { .. }
        | Entity::Session { .. }
        | Entity::HostPort { .. }
        | Entity::ExpireTime { .. } => Ok(()),
    }
}

fn check_entry(manifest: &Manifest, entry: &TableEntry) -> Done<()> {
    let table = &manifest.tables[entry.key.table.index()];
    check_writable(table)?;
    if table.keys.is_empty() {
        return invalid(format!("table `{}` has no key, so it has no entries", table.name));
    }
    if entry.idle.is_some() && !table.notifies_idle {
        return invalid(format!("table `{}` does not support idle timeouts", table.name));
    }
    match &entry.action {
        Action::Call(call) => Ok(table.check_action(call, false)?),
        Action::Member(_) | Action::Group(_) if table.implementation.is_none() => {
            invalid(format!("table `{}` has no action profile", table.name))
        }
        Action::Group(_) => {
            let profile = manifest.profile_of(entry.key.table).map(|p| &manifest.profiles[p.index()]);
            match profile {
                Some(profile) if !profile.selector => {
                    invalid(format!("profile `{}` has no selector, so it has no groups", profile.name))
                }
                _ => Ok(()),
            }
        }
        Action::Member(_) => Ok(()),
    }
}

/// Checks the action of a member: every table that refers to the profile must have it.
fn check_member(manifest: &Manifest, profile: ProfileId, action: &ActionCall) -> Done<()> {
    let profile_name = &manifest.profiles[profile.index()].name;
    let first = manifest.profile_table(profile).map(|t| &manifest.tables[t.index()]);
    let Some(first) = first else {
        return invalid(format!("no table uses the action profile `{profile_name}`"));
    };
    first.check_action(action, false)?;
    let users = manifest.tables.iter().filter(|t| t.implementation.as_ref() == Some(profile_name));
    for other in users {
        if first.call_for(other, action).is_none() {
            let name = first.action(action).map_or("", |a| a.name.as_str());
            return invalid(format!(
                "table `{}` of profile `{profile_name}` has no action `{name}`",
                other.name
            ));
        }
    }
    Ok(())
}

fn check_member_of_set(set: &str, keys: &[KeyField], member: &[MatchValue]) -> Done<()> {
    let fits = |(key, value): (&KeyField, &MatchValue)| value.width().is_none_or(|w| w == key.width);
    match member.len() == keys.len() && keys.iter().zip(member).all(fits) {
        true => Ok(()),
        false => invalid(format!("a member of value set `{set}` does not have the fields of the set")),
    }
}

fn missing(manifest: &Manifest, key: &Key) -> DeviceError {
    DeviceError::NotFound(format!("{} does not exist", named(manifest, key)))
}

/// An entity in words. Its key fits the manifest.
fn named(manifest: &Manifest, key: &Key) -> String {
    match key {
        Key::Entry(e) | Key::DirectCounter(e) | Key::DirectMeter(e) => {
            format!("an entry of table `{}` with this match", manifest.tables[e.table.index()].name)
        }
        Key::Member(profile, id) => {
            format!("member {id} of profile `{}`", manifest.profiles[profile.index()].name)
        }
        Key::Group(profile, id) => {
            format!("group {id} of profile `{}`", manifest.profiles[profile.index()].name)
        }
        Key::Multicast(group) => format!("multicast group {group}"),
        Key::Session(session) => format!("mirroring session {session}"),
        Key::HostPort(port) => format!("host port {port}"),
        Key::Default(_)
        | Key::Counter(..)
        | Key::Meter(..)
        | Key::AllMeters(_)
        | Key::Register(..)
        | Key::ValueSet(_)
        | Key::ExpireTime(_)
        | Key::Drop(_) => "this".to_string(),
    }
}
