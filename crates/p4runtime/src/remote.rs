//! The other direction: a device behind a P4Runtime server, for control planes that know devices only.
//!
//! P4Info has no layouts, and what it does not say of a program is not needed here: names, keys, actions, sizes.

use abi::id::{DigestId, TableId};
use abi::manifest::{Action, DigestType, KeyField, Param, Table};
use abi::{ActionCall, Digest, Manifest, MatchKind};
use dataplane::device::{self, Entity, EntryKey, Key, Mirror, TableEntry, Update};
use proto::p4::config::v1::{self as config, P4Info, match_field::MatchType};
use proto::p4::v1::{self, entity, packet_replication_engine_entry as pre, table_action, update};

use super::kept::Kept;
use super::objects::{self, replication, written_replica};
use super::pipeline::Pipeline;
use super::{Status, bytes, data, entry};

/// The manifest of a program, as far as P4Info has it.
pub fn manifest(info: &P4Info, program: &str) -> Manifest {
    Manifest {
        version: 1,
        program: program.to_string(),
        target: "p4runtime".to_string(),
        tables: info.tables.iter().map(|t| table(info, t)).collect(),
        digests: info.digests.iter().map(|d| digest_type(info, d)).collect(),
        counters: info
            .counters
            .iter()
            .map(|c| abi::manifest::Counter {
                name: name(&c.preamble),
                size: c.size.max(0) as u64,
                first: None,
            })
            .collect(),
        meters: info.meters.iter().map(meter).collect(),
        ..Manifest::default()
    }
}

fn name(preamble: &Option<config::Preamble>) -> String {
    preamble.as_ref().map(|p| p.name.clone()).unwrap_or_default()
}

fn table(info: &P4Info, table: &config::Table) -> Table {
    let key = |f: &config::MatchField| KeyField {
        name: f.name.clone(),
        width: f.bitwidth.max(0) as u32,
        kind: match super::notation::match_type(f) {
            MatchType::Lpm => MatchKind::Lpm,
            MatchType::Ternary => MatchKind::Ternary,
            MatchType::Range => MatchKind::Range,
            MatchType::Optional => MatchKind::Optional,
            MatchType::Exact | MatchType::Unspecified => MatchKind::Exact,
        },
        signed: false,
    };
    let action = |reference: &config::ActionRef| {
        let found =
            info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.id == reference.id))?;
        let param = |p: &config::action::Param| Param {
            name: p.name.clone(),
            width: p.bitwidth.max(0) as u32,
            offset: 0,
        };
        let scope = reference.scope();
        Some(Action {
            name: name(&found.preamble),
            params: found.params.iter().map(param).collect(),
            default_only: scope == config::action_ref::Scope::DefaultOnly,
            table_only: scope == config::action_ref::Scope::TableOnly,
        })
    };
    let has = |all: &[Option<config::Preamble>]| {
        let is = |p: &&Option<config::Preamble>| {
            p.as_ref().is_some_and(|p| table.direct_resource_ids.contains(&p.id))
        };
        all.iter().find(is).map(name)
    };
    let counters: Vec<_> = info.direct_counters.iter().map(|c| c.preamble.clone()).collect();
    Table {
        name: name(&table.preamble),
        keys: table.match_fields.iter().map(key).collect(),
        actions: table.action_refs.iter().filter_map(action).collect(),
        size: table.size.max(0) as u64,
        default_action: None,
        const_default: table.const_default_action_id != 0,
        const_entries: table.is_const_table,
        initial_entries: Vec::new(),
        direct_counter: has(&counters),
        implementation: None,
        notifies_idle: table.idle_timeout_behavior != 0,
        ages: false,
        direct_meter: None,
        layout: None,
    }
}

fn meter(meter: &config::Meter) -> abi::manifest::Meter {
    abi::manifest::Meter { name: name(&meter.preamble), size: Some(meter.size.max(0) as u64), map: None }
}

fn digest_type(info: &P4Info, digest: &config::Digest) -> DigestType {
    let spec = digest.type_spec.as_ref().filter(|spec| data::is_finite(info, spec));
    let fields = spec.and_then(|spec| data::leaves(info, spec)).unwrap_or_default();
    DigestType { name: name(&digest.preamble), fields }
}

/// The message of an update. `exists` says whether the entity exists, for updates that leave it open; `None`: there is nothing to do.
pub fn update(
    pipeline: &Pipeline,
    kept: &Kept,
    update: &Update,
    exists: impl Fn(&Key) -> bool,
) -> Result<Option<v1::Update>, Status> {
    let made = |kind: update::Type, entity: entity::Entity| {
        Some(v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entity) }) })
    };
    Ok(match update {
        Update::Insert(entity) => made(update::Type::Insert, entity_message(pipeline, kept, entity)?),
        Update::Modify(entity) => made(update::Type::Modify, entity_message(pipeline, kept, entity)?),
        // They always exist.
        Update::Set(entity @ (Entity::Default { .. } | Entity::Meter { .. })) => {
            made(update::Type::Modify, entity_message(pipeline, kept, entity)?)
        }
        Update::Set(entity) => {
            let kind = if exists(&entity.key()) { update::Type::Modify } else { update::Type::Insert };
            made(kind, entity_message(pipeline, kept, entity)?)
        }
        Update::Unset(key) if !exists(key) => None,
        Update::Delete(key) | Update::Unset(key) => {
            made(update::Type::Delete, key_message(pipeline, kept, key)?)
        }
    })
}

fn no_message() -> Status {
    Status::unimplemented("P4Runtime has no message for this")
}

fn entity_message(pipeline: &Pipeline, kept: &Kept, entity: &Entity) -> Result<entity::Entity, Status> {
    match entity {
        Entity::Entry(entry) => {
            let mut message = entry_key(pipeline, kept, &entry.key)?;
            let device::Action::Call(call) = &entry.action else { return Err(no_message()) };
            message.action = Some(action(pipeline, kept, entry.key.table, call)?);
            message.idle_timeout_ns = entry.idle.map_or(0, |micros| micros.saturating_mul(1000) as i64);
            Ok(entity::Entity::TableEntry(message))
        }
        Entity::Default { table, action: call } => {
            let (table_id, _) = pipeline.table_at(*table).ok_or_else(no_message)?;
            let action = Some(action(pipeline, kept, *table, call)?);
            let entry =
                v1::TableEntry { table_id, is_default_action: true, action, ..v1::TableEntry::default() };
            Ok(entity::Entity::TableEntry(entry))
        }
        Entity::Meter { meter, index, rates } => {
            let meter_id =
                pipeline.meters.ids.get(meter.index()).copied().flatten().ok_or_else(no_message)?;
            let (index, config) = (objects::index(*index), objects::meter_config(rates));
            Ok(entity::Entity::MeterEntry(v1::MeterEntry { meter_id, index, config, counter_data: None }))
        }
        Entity::Multicast { group, copies } => {
            let replicas = copies.iter().map(|(instance, port)| written_replica(*instance, *port)).collect();
            let entry =
                v1::MulticastGroupEntry { multicast_group_id: *group, replicas, metadata: Vec::new() };
            Ok(replication(pre::Type::MulticastGroupEntry(entry)))
        }
        Entity::Session { session, to: Mirror::Port(port) } => {
            let replicas = vec![written_replica(0, *port)];
            let entry = v1::CloneSessionEntry { session_id: *session, replicas, ..Default::default() };
            Ok(replication(pre::Type::CloneSessionEntry(entry)))
        }
        _ => Err(no_message()),
    }
}

fn action(
    pipeline: &Pipeline,
    kept: &Kept,
    table: TableId,
    call: &ActionCall,
) -> Result<v1::TableAction, Status> {
    let (_, table) = pipeline.table_at(table).ok_or_else(no_message)?;
    let action = entry::action(table, call, &kept.names).ok_or_else(no_message)?;
    Ok(v1::TableAction { r#type: Some(table_action::Type::Action(action)) })
}

fn key_message(pipeline: &Pipeline, kept: &Kept, key: &Key) -> Result<entity::Entity, Status> {
    match key {
        Key::Entry(key) => Ok(entity::Entity::TableEntry(entry_key(pipeline, kept, key)?)),
        Key::Multicast(group) => {
            let entry = v1::MulticastGroupEntry { multicast_group_id: *group, ..Default::default() };
            Ok(replication(pre::Type::MulticastGroupEntry(entry)))
        }
        Key::Session(session) => {
            let entry = v1::CloneSessionEntry { session_id: *session, ..Default::default() };
            Ok(replication(pre::Type::CloneSessionEntry(entry)))
        }
        _ => Err(no_message()),
    }
}

fn entry_key(pipeline: &Pipeline, kept: &Kept, key: &EntryKey) -> Result<v1::TableEntry, Status> {
    let (table_id, table) = pipeline.table_at(key.table).ok_or_else(no_message)?;
    let r#match = entry::field_matches(&table.fields, &key.matches, &kept.names);
    Ok(v1::TableEntry { table_id, r#match, priority: key.priority, ..v1::TableEntry::default() })
}

/// An entry that a server has sent. `None` if it is of no table that is known, or calls no action.
pub fn entry(pipeline: &Pipeline, kept: &mut Kept, message: &v1::TableEntry) -> Option<TableEntry> {
    let (at, table) = pipeline.table_of(message.table_id).ok()?;
    let matches = entry::matches(&table.fields, &message.r#match, &mut kept.names).ok()?;
    let action = match message.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(table_action::Type::Action(action)) => entry::call(table, action, &mut kept.names).ok()?,
        Some(_) => return None,
        // A notification of an idle entry has none.
        None => ActionCall::default(),
    };
    let idle = u64::try_from(message.idle_timeout_ns).ok().filter(|ns| *ns > 0).map(|ns| ns.div_ceil(1000));
    let key = EntryKey { table: at, matches, priority: message.priority };
    Some(TableEntry { key, action: device::Action::Call(action), idle })
}

/// The digests of a list that a server has sent.
pub fn digests(pipeline: &Pipeline, manifest: &Manifest, list: &v1::DigestList) -> Vec<Digest> {
    let Some(at) = pipeline.digests.at.get(&list.digest_id).copied() else { return Vec::new() };
    let at: DigestId = at;
    let widths: Vec<u32> = manifest.digests[at.index()].fields.iter().map(|(_, width)| *width).collect();
    let digest = |message: &v1::P4Data| {
        let mut all = Vec::new();
        data::flatten(message, &mut all);
        let value = |(bytes, width): (&Vec<u8>, &u32)| bytes::value(bytes, *width).ok();
        let values = all.iter().zip(&widths).map(value).collect::<Option<Vec<_>>>()?;
        (values.len() == widths.len()).then_some(Digest { digest: at, values })
    };
    list.data.iter().filter_map(digest).collect()
}
