//! Reads (P4Runtime specification, section 13): what a request omits matches everything.

use abi::MatchValue;
use abi::id::{ProfileId, TableId};
use dataplane::Device;
use dataplane::device::{Action, DeviceError, Entity, EntryKey, EntryQuery, Key, Mirror, Query, TableEntry};
use proto::p4::v1::{
    self, action_profile_group as group, entity, packet_replication_engine_entry as pre, table_action,
};

use super::data::Cut;
use super::kept::Kept;
use super::objects::{replica, replication};
use super::pipeline::{Ids, Pipeline, Table, no_such};
use super::role::Scope;
use super::{Status, data, entry, objects};

/// Where entities go that are read.
pub type Sink<'a> = &'a mut dyn FnMut(entity::Entity);

/// Reads what one request of a batch selects.
pub fn read(
    pipeline: &Pipeline,
    kept: &mut Kept,
    device: &mut dyn Device,
    scope: &Scope,
    request: &v1::Entity,
    sink: Sink<'_>,
) -> Result<(), Status> {
    let request = request.entity.as_ref().ok_or_else(|| Status::invalid("the entity is not set"))?;
    let done = Reader { pipeline, kept, device, scope }.read(request, sink);
    kept.names.forget();
    done
}

struct Reader<'a> {
    pipeline: &'a Pipeline,
    kept: &'a mut Kept,
    device: &'a mut dyn Device,
    scope: &'a Scope,
}

type Done = Result<(), Status>;

impl Reader<'_> {
    fn read(&mut self, request: &entity::Entity, sink: Sink<'_>) -> Done {
        match request {
            entity::Entity::TableEntry(entry) => self.table_entries(entry, sink),
            entity::Entity::DirectCounterEntry(counter) => self.direct_counters(counter, sink),
            entity::Entity::DirectMeterEntry(meter) => self.direct_meters(meter, sink),
            entity::Entity::ActionProfileMember(member) => self.members(member, sink),
            entity::Entity::ActionProfileGroup(group) => self.groups(group, sink),
            entity::Entity::CounterEntry(counter) => self.counters(counter, sink),
            entity::Entity::MeterEntry(meter) => self.meters(meter, sink),
            entity::Entity::RegisterEntry(register) => self.registers(register, sink),
            entity::Entity::ValueSetEntry(set) => self.value_sets(set, sink),
            entity::Entity::PacketReplicationEngineEntry(entry) => match &entry.r#type {
                Some(pre::Type::MulticastGroupEntry(group)) => self.multicast(group.multicast_group_id, sink),
                Some(pre::Type::CloneSessionEntry(session)) => self.sessions(session.session_id, sink),
                None => {
                    self.multicast(0, sink)?;
                    self.sessions(0, sink)
                }
            },
            entity::Entity::DigestEntry(digest) => self.digests(digest, sink),
            // No program has externs of other architectures.
            entity::Entity::ExternEntry(entry) if entry.extern_type_id == 0 && entry.extern_id == 0 => Ok(()),
            entity::Entity::ExternEntry(entry) => Err(no_such("extern", entry.extern_id)),
        }
    }

    /// The tables that a request selects: one, or all that the role sees.
    fn tables(&self, id: u32) -> Result<Vec<(TableId, u32)>, Status> {
        if id != 0 {
            let at = self.pipeline.tables.get(&id).ok_or_else(|| no_such("table", id))?.at;
            // A table that the program does not apply has no entries.
            return Ok(at.filter(|_| self.scope.has(id)).map(|at| (at, id)).into_iter().collect());
        }
        let ids = self.pipeline.table_ids.iter().enumerate();
        let seen =
            |(at, id): (usize, &Option<u32>)| id.filter(|id| self.scope.has(*id)).map(|id| (at.into(), id));
        Ok(ids.filter_map(seen).collect())
    }

    fn table_entries(&mut self, given: &v1::TableEntry, sink: Sink<'_>) -> Done {
        objects::no_meter_counters(&given.meter_counter_data)?;
        for (at, id) in self.tables(given.table_id)? {
            let pipeline = self.pipeline;
            let table = &pipeline.tables[&id];
            if given.is_default_action {
                sink(entity::Entity::TableEntry(self.default_entry(given, at, id, table)?));
                continue;
            }
            let notifies = self.device.manifest().tables[at.index()].notifies_idle;
            if given.table_id != 0 && given.time_since_last_hit.is_some() && !notifies {
                let text = format!("table `{}` does not support idle timeouts", table.name);
                return Err(Status::invalid(text));
            }
            for found in self.select(given, at, table)? {
                if self.selects(given, table, &found)? {
                    sink(entity::Entity::TableEntry(self.entry_message(given, id, table, &found)?));
                }
            }
        }
        Ok(())
    }

    /// The entries with the matches and the priority of a request.
    fn select(
        &mut self,
        given: &v1::TableEntry,
        at: TableId,
        table: &Table,
    ) -> Result<Vec<TableEntry>, Status> {
        let manifest = &self.device.manifest().tables[at.index()];
        if manifest.keys.is_empty() {
            return Ok(Vec::new());
        }
        let needs_priority = manifest.needs_priority();
        let query = match given.r#match.is_empty() {
            true => Query::Entries(EntryQuery {
                table: Some(at),
                matches: Vec::new(),
                priority: Some(given.priority).filter(|priority| *priority != 0),
            }),
            false => {
                let matches = entry::matches(&table.fields, &given.r#match, &mut self.kept.names)?;
                match needs_priority && given.priority == 0 {
                    true => {
                        let matches: Vec<Option<MatchValue>> = matches.into_iter().map(Some).collect();
                        Query::Entries(EntryQuery { table: Some(at), matches, priority: None })
                    }
                    false => {
                        let key = EntryKey { table: at, matches, priority: given.priority };
                        Query::One(Key::Entry(key))
                    }
                }
            }
        };
        let entry = |entity| match entity {
            Entity::Entry(entry) => Some(entry),
            _ => None,
        };
        Ok(self.device.read(&query)?.into_iter().filter_map(entry).collect())
    }

    /// Whether an entry has the action and the metadata that a request asks for (section 9.1.6).
    #[allow(deprecated)]
    fn selects(&self, given: &v1::TableEntry, table: &Table, found: &TableEntry) -> Result<bool, Status> {
        if given.table_id == 0 {
            return Ok(true);
        }
        if let Some(table_action::Type::Action(wanted)) =
            given.action.as_ref().and_then(|a| a.r#type.as_ref())
        {
            let wanted = entry::action_of(table, wanted.action_id)?;
            if !matches!(&found.action, Action::Call(call) if call.action == wanted) {
                return Ok(false);
            }
        }
        if given.controller_metadata == 0 && given.metadata.is_empty() {
            return Ok(true);
        }
        let note = self.kept.entry(&found.key).cloned().unwrap_or_default();
        let same = |wanted: bool, equal: bool| !wanted || equal;
        Ok(same(given.controller_metadata != 0, note.controller_metadata == given.controller_metadata)
            && same(!given.metadata.is_empty(), note.metadata == given.metadata))
    }

    /// The message of an entry, with what the request asks for.
    #[allow(deprecated)]
    fn entry_message(
        &mut self,
        given: &v1::TableEntry,
        id: u32,
        table: &Table,
        found: &TableEntry,
    ) -> Result<v1::TableEntry, Status> {
        let mut message = self.key_message(id, table, &found.key);
        let note = self.kept.entry(&found.key);
        let action = match (&found.action, note.and_then(|note| note.one_shot.as_ref())) {
            (Action::Group(_), Some(one_shot)) => {
                Some(table_action::Type::ActionProfileActionSet(one_shot.set.clone()))
            }
            (Action::Call(call), _) => {
                entry::action(table, call, &self.kept.names).map(table_action::Type::Action)
            }
            (Action::Member(id), _) => Some(table_action::Type::ActionProfileMemberId(*id)),
            (Action::Group(id), _) => Some(table_action::Type::ActionProfileGroupId(*id)),
        };
        message.action = Some(v1::TableAction { r#type: action });
        message.idle_timeout_ns = idle_ns(found, note.map_or(0, |note| note.idle_ns));
        if let Some(note) = note {
            message.controller_metadata = note.controller_metadata;
            message.metadata = note.metadata.clone();
        }
        let manifest = &self.device.manifest().tables[found.key.table.index()];
        let notifies = manifest.notifies_idle;
        message.is_const = manifest.const_entries;
        if given.counter_data.is_some() && table.counter {
            let count = self.device.count(&Key::DirectCounter(found.key.clone()))?;
            message.counter_data = Some(objects::counter_data(count));
        }
        if given.meter_config.is_some() && table.meter != 0 {
            message.meter_config = self.meter_of(&found.key)?;
        }
        if given.time_since_last_hit.is_some() && notifies {
            let micros = self.device.since_last_hit(&found.key)?;
            let elapsed_ns = i64::try_from(micros.saturating_mul(1000)).unwrap_or(i64::MAX);
            message.time_since_last_hit = Some(v1::table_entry::IdleTimeout { elapsed_ns });
        }
        Ok(message)
    }

    fn meter_of(&mut self, key: &EntryKey) -> Result<Option<v1::MeterConfig>, Status> {
        match self.device.get(&Key::DirectMeter(key.clone()))? {
            Entity::DirectMeter { rates, .. } => Ok(objects::meter_config(&rates)),
            _ => Ok(None),
        }
    }

    fn key_message(&self, id: u32, table: &Table, key: &EntryKey) -> v1::TableEntry {
        v1::TableEntry {
            table_id: id,
            r#match: entry::field_matches(&table.fields, &key.matches, &self.kept.names),
            priority: key.priority,
            ..v1::TableEntry::default()
        }
    }

    #[allow(deprecated)]
    fn default_entry(
        &mut self,
        given: &v1::TableEntry,
        at: TableId,
        id: u32,
        table: &Table,
    ) -> Result<v1::TableEntry, Status> {
        if given.table_id != 0 && (!given.r#match.is_empty() || given.priority != 0) {
            return Err(Status::invalid("the default action has neither matches nor a priority"));
        }
        if given.table_id != 0 && given.time_since_last_hit.is_some() {
            return Err(Status::invalid("the default action has no idle timeout"));
        }
        if given.counter_data.is_some() || given.meter_config.is_some() {
            return Err(Status::unimplemented("default actions have no counters and meters of their own"));
        }
        let action = match self.device.get(&Key::Default(at)) {
            Ok(Entity::Default { action, .. }) => entry::action(table, &action, &self.kept.names),
            Ok(_) | Err(DeviceError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let action =
            action.map(|action| v1::TableAction { r#type: Some(table_action::Type::Action(action)) });
        let note = self.kept.default_action(at).cloned().unwrap_or_default();
        Ok(v1::TableEntry {
            table_id: id,
            action,
            is_default_action: true,
            controller_metadata: note.controller_metadata,
            metadata: note.metadata,
            is_const: self.device.manifest().tables[at.index()].const_default,
            ..v1::TableEntry::default()
        })
    }

    /// The entries that a request for counters or meters selects, each with its table's id.
    fn entries_of(
        &mut self,
        given: &Option<v1::TableEntry>,
        has: impl Fn(&Table) -> bool,
        what: &str,
    ) -> Result<Vec<(u32, EntryKey)>, Status> {
        let given = given.clone().unwrap_or_default();
        if given.is_default_action {
            return Err(Status::unimplemented(format!("default actions have no {what} of their own")));
        }
        let mut all = Vec::new();
        for (at, id) in self.tables(given.table_id)? {
            let pipeline = self.pipeline;
            let table = &pipeline.tables[&id];
            if !has(table) {
                match given.table_id {
                    0 => continue,
                    _ => {
                        return Err(Status::invalid(format!(
                            "entries of table `{}` have no {what}",
                            table.name
                        )));
                    }
                }
            }
            let found = self.select(&given, at, table)?;
            if found.is_empty() && !given.r#match.is_empty() {
                return Err(Status::not_found(format!("table `{}` has no such entry", table.name)));
            }
            all.extend(found.into_iter().map(|entry| (id, entry.key)));
        }
        Ok(all)
    }

    fn direct_counters(&mut self, given: &v1::DirectCounterEntry, sink: Sink<'_>) -> Done {
        for (id, key) in self.entries_of(&given.table_entry, |table| table.counter, "counters")? {
            let count = self.device.count(&Key::DirectCounter(key.clone()))?;
            let table_entry = Some(self.key_message(id, &self.pipeline.tables[&id], &key));
            let data = Some(objects::counter_data(count));
            sink(entity::Entity::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data }));
        }
        Ok(())
    }

    fn direct_meters(&mut self, given: &v1::DirectMeterEntry, sink: Sink<'_>) -> Done {
        objects::no_meter_counters(&given.counter_data)?;
        for (id, key) in self.entries_of(&given.table_entry, |table| table.meter != 0, "meters")? {
            let table_entry = Some(self.key_message(id, &self.pipeline.tables[&id], &key));
            let config = self.meter_of(&key)?;
            sink(entity::Entity::DirectMeterEntry(v1::DirectMeterEntry {
                table_entry,
                config,
                counter_data: None,
            }));
        }
        Ok(())
    }

    /// The profiles that a request selects.
    fn profiles(&self, id: u32) -> Result<Vec<(ProfileId, u32)>, Status> {
        let all: Vec<(ProfileId, u32)> = match id {
            0 => {
                let ids = self.pipeline.profile_ids.iter().enumerate();
                ids.filter_map(|(at, id)| id.map(|id| (at.into(), id))).collect()
            }
            id => vec![(self.pipeline.profile_of(id)?.at, id)],
        };
        // The members and groups of one-shots are not a controller's.
        let seen = |(at, id): &(ProfileId, u32)| self.scope.has(*id) && !self.kept.has_one_shots(*at);
        Ok(all.into_iter().filter(seen).collect())
    }

    fn members(&mut self, given: &v1::ActionProfileMember, sink: Sink<'_>) -> Done {
        for (at, id) in self.profiles(given.action_profile_id)? {
            let query = match given.member_id {
                0 => Query::Members(Some(at)),
                member => Query::One(Key::Member(at, member)),
            };
            for found in self.device.read(&query)? {
                let Entity::Member { id: member_id, action, .. } = found else { continue };
                let table = self.pipeline.tables.get(&self.pipeline.profiles[&id].table);
                let action = table.and_then(|table| entry::action(table, &action, &self.kept.names));
                let message = v1::ActionProfileMember { action_profile_id: id, member_id, action };
                sink(entity::Entity::ActionProfileMember(message));
            }
        }
        Ok(())
    }

    fn groups(&mut self, given: &v1::ActionProfileGroup, sink: Sink<'_>) -> Done {
        for (at, id) in self.profiles(given.action_profile_id)? {
            if !self.pipeline.profiles[&id].info.with_selector {
                continue;
            }
            let query = match given.group_id {
                0 => Query::Groups(Some(at)),
                group => Query::One(Key::Group(at, group)),
            };
            for found in self.device.read(&query)? {
                let Entity::Group { id: group_id, members, .. } = found else { continue };
                let written = self.kept.group(at, group_id).cloned();
                let made = || {
                    let member = |id: &u32| group::Member { member_id: *id, weight: 1, watch_kind: None };
                    let members = members.iter().map(member).collect();
                    v1::ActionProfileGroup { action_profile_id: id, group_id, members, max_size: 0 }
                };
                sink(entity::Entity::ActionProfileGroup(written.unwrap_or_else(made)));
            }
        }
        Ok(())
    }

    /// The arrays that a request selects.
    fn arrays<I: Copy>(&self, ids: &Ids<I>, id: u32, what: &str) -> Result<Vec<(I, u32)>, Status> {
        if id != 0 {
            let at = ids.get(id, what)?;
            return Ok(if self.scope.has(id) { vec![(at, id)] } else { Vec::new() });
        }
        let known = ids.ids.iter().flatten().filter(|id| self.scope.has(**id));
        Ok(known.filter_map(|id| ids.at.get(id).map(|at| (*at, *id))).collect())
    }

    fn counters(&mut self, given: &v1::CounterEntry, sink: Sink<'_>) -> Done {
        for (counter, counter_id) in self.arrays(&self.pipeline.counters, given.counter_id, "counter")? {
            let size = self.device.manifest().counters[counter.index()].size;
            for cell in objects::cells(given.index.as_ref(), size)? {
                let data = Some(objects::counter_data(self.device.count(&Key::Counter(counter, cell))?));
                sink(entity::Entity::CounterEntry(v1::CounterEntry {
                    counter_id,
                    index: objects::index(cell),
                    data,
                }));
            }
        }
        Ok(())
    }

    fn meters(&mut self, given: &v1::MeterEntry, sink: Sink<'_>) -> Done {
        objects::no_meter_counters(&given.counter_data)?;
        for (meter, meter_id) in self.arrays(&self.pipeline.meters, given.meter_id, "meter")? {
            let size = self.device.manifest().meters[meter.index()].size.unwrap_or_default();
            for cell in objects::cells(given.index.as_ref(), size)? {
                let Entity::Meter { rates, .. } = self.device.get(&Key::Meter(meter, cell))? else {
                    continue;
                };
                sink(entity::Entity::MeterEntry(v1::MeterEntry {
                    meter_id,
                    index: objects::index(cell),
                    config: objects::meter_config(&rates),
                    counter_data: None,
                }));
            }
        }
        Ok(())
    }

    fn registers(&mut self, given: &v1::RegisterEntry, sink: Sink<'_>) -> Done {
        for (register, register_id) in self.arrays(&self.pipeline.registers, given.register_id, "register")? {
            let size = self.device.manifest().registers[register.index()].size;
            let spec = objects::register_type(&self.pipeline.info, register_id)?;
            for cell in objects::cells(given.index.as_ref(), size)? {
                let found = self.device.get(&Key::Register(register, cell))?;
                let Entity::Register { value, .. } = found else { continue };
                let data = data::read(&self.pipeline.info, spec, &mut Cut::of(value));
                let message = v1::RegisterEntry { register_id, index: objects::index(cell), data };
                sink(entity::Entity::RegisterEntry(message));
            }
        }
        Ok(())
    }

    fn value_sets(&mut self, given: &v1::ValueSetEntry, sink: Sink<'_>) -> Done {
        let pipeline = self.pipeline;
        let mut ids: Vec<u32> = match given.value_set_id {
            0 => pipeline.value_sets.keys().copied().collect(),
            id if pipeline.value_sets.contains_key(&id) => vec![id],
            id => return Err(no_such("value set", id)),
        };
        ids.sort_unstable();
        for id in ids.into_iter().filter(|id| self.scope.has(*id)) {
            let (set, fields) = &pipeline.value_sets[&id];
            let Entity::ValueSet { members, .. } = self.device.get(&Key::ValueSet(*set))? else { continue };
            let member = |values: &Vec<MatchValue>| v1::ValueSetMember {
                r#match: entry::field_matches(fields, values, &self.kept.names),
            };
            let members = members.iter().map(member).collect();
            sink(entity::Entity::ValueSetEntry(v1::ValueSetEntry { value_set_id: id, members }));
        }
        Ok(())
    }

    fn multicast(&mut self, id: u32, sink: Sink<'_>) -> Done {
        let query = if id == 0 { Query::Multicast } else { Query::One(Key::Multicast(id)) };
        for found in unless_unimplemented(self.device.read(&query), id == 0)? {
            let Entity::Multicast { group, copies } = found else { continue };
            if self.kept.is_hidden_group(group) {
                continue;
            }
            let made = || v1::MulticastGroupEntry {
                multicast_group_id: group,
                replicas: copies.iter().map(|(instance, port)| replica(*instance, *port)).collect(),
                metadata: Vec::new(),
            };
            let entry = self.kept.multicast(group).cloned().unwrap_or_else(made);
            sink(replication(pre::Type::MulticastGroupEntry(entry)));
        }
        Ok(())
    }

    fn sessions(&mut self, id: u32, sink: Sink<'_>) -> Done {
        let query = if id == 0 { Query::Sessions } else { Query::One(Key::Session(id)) };
        for found in unless_unimplemented(self.device.read(&query), id == 0)? {
            let Entity::Session { session, to } = found else { continue };
            let replicas = match to {
                Mirror::Port(port) => vec![replica(0, port)],
                Mirror::Group(_) => Vec::new(),
            };
            let made = || v1::CloneSessionEntry {
                session_id: session,
                replicas,
                ..v1::CloneSessionEntry::default()
            };
            let entry = self.kept.session(session).map_or_else(made, |kept| kept.entry.clone());
            sink(replication(pre::Type::CloneSessionEntry(entry)));
        }
        Ok(())
    }

    fn digests(&mut self, given: &v1::DigestEntry, sink: Sink<'_>) -> Done {
        for (_, digest_id) in self.arrays(&self.pipeline.digests, given.digest_id, "digest")? {
            if let Some(config) = self.kept.digest(digest_id) {
                sink(entity::Entity::DigestEntry(v1::DigestEntry { digest_id, config: Some(*config) }));
            }
        }
        Ok(())
    }
}

/// A timeout as it was written, unless another controller of the device has set it.
fn idle_ns(found: &TableEntry, written: i64) -> i64 {
    match found.idle {
        None => 0,
        Some(micros) if written > 0 && (written as u64).div_ceil(1000) == micros => written,
        Some(micros) => i64::try_from(micros.saturating_mul(1000)).unwrap_or(i64::MAX),
    }
}

/// A program without multicast has no groups: a wildcard read returns none.
fn unless_unimplemented(found: Result<Vec<Entity>, DeviceError>, all: bool) -> Result<Vec<Entity>, Status> {
    match found {
        Err(DeviceError::Unimplemented(_)) if all => Ok(Vec::new()),
        found => Ok(found?),
    }
}
