//! Table entries, default actions and what belongs to an entry (P4Runtime specification, section 9.1).

use abi::id::TableId;
use dataplane::device::{Action, Entity, EntryKey, Key, TableEntry, Update};
use proto::p4::v1::{self, table_action};

use super::super::entry::{self, check_scope};
use super::super::kept::{Change, EntryNote};
use super::super::pipeline::Table;
use super::super::{Code, Status, objects};
use super::{Batch, Kind, Made, modify_only, put};

impl<'a> Batch<'a> {
    pub(super) fn table_entry(&mut self, kind: Kind, given: &v1::TableEntry) -> Made {
        let pipeline = self.pipeline;
        let (at, table) = pipeline.table_of(given.table_id)?;
        if given.is_default_action {
            return self.default_action(kind, given, at, table);
        }
        let key = objects::entry_key(pipeline, &mut self.kept.names, self.device.manifest(), given)?;
        if kind == Kind::Delete {
            return self.delete_entry(key);
        }
        if given.is_const {
            return Err(Status::invalid("`is_const` is set: a controller adds no const entries"));
        }
        let manifest = &self.device.manifest().tables[at.index()];
        let idle = idle_timeout(given, manifest)?;
        if manifest.const_entries {
            return self.resources_of_const_entry(kind, given, table, key);
        }
        let mut note = EntryNote {
            controller_metadata: metadata_cookie(given),
            metadata: given.metadata.clone(),
            idle_ns: given.idle_timeout_ns,
            one_shot: None,
        };
        let (mut made, action, mut after) = match &given.action {
            Some(action) => self.action(kind, at, table, action, &key, &mut note)?,
            None if kind == Kind::Insert => return Err(Status::invalid("the entry has no action")),
            None => {
                note.one_shot = self.kept.entry(&key).and_then(|note| note.one_shot.clone());
                let found = self.get(&Key::Entry(key.clone()))?;
                let Some(Entity::Entry(found)) = found else {
                    return Err(Status::not_found(format!("table `{}` has no such entry", table.name)));
                };
                (Vec::new(), found.action, Vec::new())
            }
        };
        made.push(put(kind, Entity::Entry(TableEntry { key: key.clone(), action, idle })));
        made.extend(self.direct_resources(kind, given, table, &key)?);
        made.append(&mut after);
        self.change(Change::Entry(key, Some(note)));
        Ok(made)
    }

    fn delete_entry(&mut self, key: EntryKey) -> Made {
        let mut made = vec![Update::Delete(Key::Entry(key.clone()))];
        if let Some(one_shot) = self.kept.entry(&key).and_then(|note| note.one_shot.clone()) {
            made.extend(Self::delete_one_shot(&one_shot));
        }
        self.change(Change::Entry(key, None));
        Ok(made)
    }

    /// The action of an entry: the updates before the entry is written, the action, and the updates after it.
    fn action(
        &mut self,
        kind: Kind,
        at: TableId,
        table: &Table,
        action: &v1::TableAction,
        key: &EntryKey,
        note: &mut EntryNote,
    ) -> Result<(Vec<Update>, Action, Vec<Update>), Status> {
        let old = match kind {
            Kind::Modify => self.kept.entry(key).and_then(|note| note.one_shot.clone()),
            _ => None,
        };
        let after: Vec<Update> = old.iter().flat_map(Self::delete_one_shot).collect();
        let given = action.r#type.as_ref().ok_or_else(|| Status::invalid("the action is not set"))?;
        let indirect = table.profile != 0;
        if indirect == matches!(given, table_action::Type::Action(_)) {
            let takes = if indirect { "members or groups of an action profile" } else { "actions" };
            return Err(Status::invalid(format!("entries of table `{}` have {takes}", table.name)));
        }
        let action = match given {
            table_action::Type::Action(call) => {
                let call = entry::call(table, call, &mut self.kept.names)?;
                check_scope(&self.device.manifest().tables[at.index()], &call, false)?;
                Action::Call(call)
            }
            table_action::Type::ActionProfileMemberId(id) => {
                self.no_one_shots(table)?;
                Action::Member(*id)
            }
            table_action::Type::ActionProfileGroupId(id) => {
                self.no_one_shots(table)?;
                Action::Group(*id)
            }
            table_action::Type::ActionProfileActionSet(set) => {
                let (made, one_shot) = self.one_shot(table, set)?;
                let group = one_shot.group;
                note.one_shot = Some(one_shot);
                return Ok((made, Action::Group(group), after));
            }
        };
        Ok((Vec::new(), action, after))
    }

    /// The counter and the meter of an entry that is being written.
    fn direct_resources(
        &mut self,
        kind: Kind,
        given: &v1::TableEntry,
        table: &Table,
        entry: &EntryKey,
    ) -> Made {
        let mut made = Vec::new();
        if let Some(data) = &given.counter_data {
            if !table.counter {
                return Err(Status::invalid(format!("entries of table `{}` have no counter", table.name)));
            }
            made.push(Update::Modify(Entity::DirectCounter {
                entry: entry.clone(),
                count: objects::count(data)?,
            }));
        }
        if given.meter_config.is_some() && table.meter == 0 {
            return Err(Status::invalid(format!("entries of table `{}` have no meter", table.name)));
        }
        objects::no_meter_counters(&given.meter_counter_data)?;
        if table.meter != 0 && (given.meter_config.is_some() || kind == Kind::Modify) {
            let kind = self.pipeline.meter_kinds.get(&table.meter).copied().unwrap_or_default();
            let rates = objects::rates(given.meter_config.as_ref(), kind)?;
            made.push(Update::Modify(Entity::DirectMeter { entry: entry.clone(), rates }));
        }
        Ok(made)
    }

    /// Of a const entry only the counter and the meter can be written (section 9.1.4).
    fn resources_of_const_entry(
        &mut self,
        kind: Kind,
        given: &v1::TableEntry,
        table: &Table,
        key: EntryKey,
    ) -> Made {
        if kind != Kind::Modify || given.action.is_some() {
            let text = format!(
                "table `{}` has const entries: only their counters and meters are written",
                table.name
            );
            return Err(Status::new(Code::PermissionDenied, text));
        }
        if self.get(&Key::Entry(key.clone()))?.is_none() {
            return Err(Status::not_found(format!("table `{}` has no such entry", table.name)));
        }
        self.direct_resources(kind, given, table, &key)
    }

    fn default_action(&mut self, kind: Kind, given: &v1::TableEntry, at: TableId, table: &Table) -> Made {
        modify_only(kind, "the default action")?;
        if !given.r#match.is_empty() || given.priority != 0 {
            return Err(Status::invalid("the default action has neither matches nor a priority"));
        }
        if given.idle_timeout_ns != 0 || given.time_since_last_hit.is_some() {
            return Err(Status::invalid("the default action has no idle timeout"));
        }
        if given.counter_data.is_some() || given.meter_config.is_some() {
            return Err(Status::unimplemented("default actions have no counters and meters of their own"));
        }
        objects::no_meter_counters(&given.meter_counter_data)?;
        let manifest = &self.device.manifest().tables[at.index()];
        if manifest.const_default {
            let text = format!("table `{}` has a const default action", table.name);
            return Err(Status::new(Code::PermissionDenied, text));
        }
        let action = given.action.as_ref().and_then(|action| action.r#type.as_ref());
        let made = match action {
            None => {
                self.change(Change::Default(at, None));
                return Ok(vec![Update::Unset(Key::Default(at))]);
            }
            Some(table_action::Type::Action(call)) => entry::call(table, call, &mut self.kept.names)?,
            Some(_) => return Err(Status::invalid("a default action is an action, not a member or a group")),
        };
        check_scope(&self.device.manifest().tables[at.index()], &made, true)?;
        let note = EntryNote {
            controller_metadata: metadata_cookie(given),
            metadata: given.metadata.clone(),
            ..EntryNote::default()
        };
        self.change(Change::Default(at, Some(note)));
        Ok(vec![Update::Modify(Entity::Default { table: at, action: made })])
    }

    pub(super) fn direct_counter(&mut self, kind: Kind, given: &v1::DirectCounterEntry) -> Made {
        modify_only(kind, "the counter of an entry")?;
        let (entry, table) = self.entry_of(&given.table_entry)?;
        if !table.counter {
            return Err(Status::invalid(format!("entries of table `{}` have no counter", table.name)));
        }
        match &given.data {
            Some(data) => {
                Ok(vec![Update::Modify(Entity::DirectCounter { entry, count: objects::count(data)? })])
            }
            // The entry must exist all the same.
            None => self.get(&Key::Entry(entry))?.map(|_| Vec::new()).ok_or_else(no_entry),
        }
    }

    pub(super) fn direct_meter(&mut self, kind: Kind, given: &v1::DirectMeterEntry) -> Made {
        modify_only(kind, "the meter of an entry")?;
        objects::no_meter_counters(&given.counter_data)?;
        let (entry, table) = self.entry_of(&given.table_entry)?;
        if table.meter == 0 {
            return Err(Status::invalid(format!("entries of table `{}` have no meter", table.name)));
        }
        let kind = self.pipeline.meter_kinds.get(&table.meter).copied().unwrap_or_default();
        let rates = objects::rates(given.config.as_ref(), kind)?;
        Ok(vec![Update::Modify(Entity::DirectMeter { entry, rates })])
    }

    fn entry_of(&mut self, given: &Option<v1::TableEntry>) -> Result<(EntryKey, &'a Table), Status> {
        let given = given.as_ref().ok_or_else(|| Status::invalid("the table entry is not set"))?;
        let pipeline = self.pipeline;
        let (_, table) = pipeline.table_of(given.table_id)?;
        if given.is_default_action {
            return Err(Status::unimplemented("default actions have no counters and meters of their own"));
        }
        let key = objects::entry_key(pipeline, &mut self.kept.names, self.device.manifest(), given)?;
        Ok((key, table))
    }
}

fn no_entry() -> Status {
    Status::not_found("there is no such entry")
}

/// The deprecated cookie, which a server still returns.
#[allow(deprecated)]
fn metadata_cookie(given: &v1::TableEntry) -> u64 {
    given.controller_metadata
}

/// The idle timeout in microseconds: at least one if there is one.
fn idle_timeout(given: &v1::TableEntry, table: &abi::manifest::Table) -> Result<Option<u64>, Status> {
    if given.time_since_last_hit.is_some() {
        return Err(Status::invalid("`time_since_last_hit` can only be read"));
    }
    match u64::try_from(given.idle_timeout_ns) {
        Err(_) => Err(Status::invalid("the idle timeout is negative")),
        Ok(0) => Ok(None),
        Ok(_) if !table.notifies_idle => {
            Err(Status::invalid(format!("table `{}` does not support idle timeouts", table.name)))
        }
        Ok(ns) => Ok(Some(ns.div_ceil(1000))),
    }
}
