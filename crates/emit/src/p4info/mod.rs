//! P4Info: the description of a program for the control plane, as a message of P4Runtime (specification 1.5, section 6), in protobuf's
//! binary and text formats. The ids equal those that p4c chooses, so that controllers work with either compiler.

mod annotations;
mod ids;
mod types;

use ::proto::p4::config::v1 as proto;
use ir::api::{self, Api};

use annotations::{preamble, split};
use ids::{Kind, Symbols};

/// The size in entries of a table without a `size` property, as in BMv2 and p4c.
const DEFAULT_SIZE: i64 = 1024;

/// Something in a program that P4Runtime cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The description, with the control-plane name of the object.
    pub what: String,
}

/// Makes the message for a program.
pub fn message(program: &Api) -> Result<proto::P4Info, Problem> {
    let symbols = Symbols::of(program)?;
    let seen = |object: &&api::Object| api::annotation(&object.annotations, "hidden").is_none();
    let mut info = proto::P4Info { type_info: Some(types::type_info(&program.types)), ..Default::default() };
    if program.has_main {
        info.pkg_info = Some(annotations::package(program));
    }
    info.tables = program
        .tables
        .iter()
        .filter(|t| seen(&&t.object))
        .map(|t| table(t, &symbols))
        .collect::<Result<_, _>>()?;
    for a in program.actions.iter().filter(|a| seen(&&a.object)) {
        if let Some(p) = a.params.iter().find(|p| p.width.is_none() && p.type_name.is_none()) {
            let (param, action) = (&p.object.name, &a.object.name);
            let what =
                format!("parameter `{param}` of action `{action}` is no number, boolean, `type` or enum");
            return Err(Problem { what });
        }
        let head = preamble(&a.object, &symbols, Kind::Action, &[]);
        let ids = ids::fields(a.params.iter().map(|p| &p.object))?;
        let params = a.params.iter().zip(ids).map(|(p, id)| param(p, id)).collect();
        info.actions.push(proto::Action { preamble: Some(head), params });
    }
    info.action_profiles = program.profiles.iter().map(|p| profile(p, program, &symbols)).collect();
    for c in &program.counters {
        let unit = match c.unit {
            api::Unit::Packets => proto::counter_spec::Unit::Packets,
            api::Unit::Bytes => proto::counter_spec::Unit::Bytes,
            api::Unit::Both => proto::counter_spec::Unit::Both,
        };
        let spec = Some(proto::CounterSpec { unit: unit.into() });
        match &c.table {
            Some(table) if table.is_empty() => {}
            Some(table) => info.direct_counters.push(proto::DirectCounter {
                preamble: Some(preamble(&c.object, &symbols, Kind::DirectCounter, &[])),
                spec,
                direct_table_id: symbols.id(Kind::Table, table),
            }),
            None => info.counters.push(proto::Counter {
                preamble: Some(preamble(&c.object, &symbols, Kind::Counter, &[])),
                spec,
                size: c.size,
                index_type_name: c.index.as_ref().map(types::named),
            }),
        }
    }
    for m in &program.meters {
        let unit = match m.unit {
            api::Unit::Bytes => proto::meter_spec::Unit::Bytes,
            api::Unit::Packets | api::Unit::Both => proto::meter_spec::Unit::Packets,
        };
        let spec = Some(proto::MeterSpec { unit: unit.into(), r#type: 0 });
        match &m.table {
            Some(table) if table.is_empty() => {}
            Some(table) => info.direct_meters.push(proto::DirectMeter {
                preamble: Some(preamble(&m.object, &symbols, Kind::DirectMeter, &[])),
                spec,
                direct_table_id: symbols.id(Kind::Table, table),
            }),
            None => info.meters.push(proto::Meter {
                preamble: Some(preamble(&m.object, &symbols, Kind::Meter, &[])),
                spec,
                size: m.size,
                index_type_name: m.index.as_ref().map(types::named),
            }),
        }
    }
    for r in &program.registers {
        info.registers.push(proto::Register {
            preamble: Some(preamble(&r.object, &symbols, Kind::Register, &[])),
            type_spec: Some(types::data_type(&r.ty)),
            size: i32::try_from(r.size).unwrap_or(i32::MAX),
            index_type_name: r.index.as_ref().map(types::named),
        });
    }
    for d in &program.digests {
        info.digests.push(proto::Digest {
            preamble: Some(preamble(&d.object, &symbols, Kind::Digest, &[])),
            type_spec: Some(types::data_type(&d.ty)),
        });
    }
    for v in &program.value_sets {
        let ids = ids::fields(v.keys.iter().map(|k| &k.object))?;
        info.value_sets.push(proto::ValueSet {
            preamble: Some(preamble(&v.object, &symbols, Kind::ValueSet, &[])),
            r#match: v.keys.iter().zip(ids).map(|(k, id)| key(k, id, &["match"])).collect(),
            size: i32::try_from(v.size).unwrap_or(i32::MAX),
        });
    }
    for h in program.controller_headers.iter().filter(|h| seen(&&h.object)) {
        let ids = ids::fields(h.fields.iter().map(|f| &f.object))?;
        let mut head = preamble(&h.object, &symbols, Kind::ControllerHeader, &[]);
        (head.name, head.alias) = (h.role.clone(), h.role.clone());
        let metadata = h.fields.iter().zip(ids).map(|(f, id)| metadata(f, id)).collect();
        info.controller_packet_metadata
            .push(proto::ControllerPacketMetadata { preamble: Some(head), metadata });
    }
    Ok(info)
}

fn table(t: &api::Table, symbols: &Symbols) -> Result<proto::Table, Problem> {
    use proto::action_ref::Scope;
    let visible: Vec<&api::Key> = t.keys.iter().collect();
    let ids = ids::fields(visible.iter().map(|k| &k.object))?;
    let fields = visible.into_iter().zip(ids);
    // The selector's fields are not part of the key that a controller writes.
    let match_fields = fields.filter(|(k, _)| k.match_kind != "selector").map(|(k, id)| key(k, id, &[]));
    let action_refs = t.actions.iter().map(|a| {
        let says = |name: &str| api::annotation(&a.annotations, name).is_some();
        let scope = match (says("tableonly"), says("defaultonly")) {
            (true, _) => Scope::TableOnly,
            (_, true) => Scope::DefaultOnly,
            _ => Scope::TableAndDefault,
        };
        let (annotations, structured_annotations) = split(&a.annotations, &[]);
        proto::ActionRef {
            id: symbols.id(Kind::Action, &a.action),
            annotations,
            scope: scope.into(),
            structured_annotations,
            annotation_locations: Vec::new(),
        }
    });
    let default = symbols.id(Kind::Action, &t.default.0);
    let arguments = t.default.1.iter().zip(symbols.params(&t.default.0));
    let arguments = arguments
        .map(|(value, param_id)| proto::table_action_call::Argument { param_id, value: value.clone() });
    Ok(proto::Table {
        preamble: Some(preamble(&t.object, symbols, Kind::Table, &[])),
        match_fields: match_fields.collect(),
        action_refs: action_refs.collect(),
        const_default_action_id: if t.const_default { default } else { 0 },
        initial_default_action: Some(proto::TableActionCall {
            action_id: default,
            arguments: arguments.collect(),
        }),
        implementation_id: t.implementation.as_ref().map_or(0, |n| symbols.id(Kind::Profile, n)),
        direct_resource_ids: t
            .direct
            .iter()
            .map(|d| match d {
                api::Direct::Counter(n) => symbols.id(Kind::DirectCounter, n),
                api::Direct::Meter(n) => symbols.id(Kind::DirectMeter, n),
            })
            .collect(),
        size: if t.size == 0 { DEFAULT_SIZE } else { t.size },
        idle_timeout_behavior: i32::from(t.notifies_idle),
        is_const_table: t.is_const,
        has_initial_entries: t.has_entries,
        other_properties: None,
    })
}

fn key(k: &api::Key, id: u32, hidden: &[&str]) -> proto::MatchField {
    use proto::match_field::{Match, MatchType};
    let standard = match k.match_kind.as_str() {
        "exact" => Some(MatchType::Exact),
        "lpm" => Some(MatchType::Lpm),
        "ternary" => Some(MatchType::Ternary),
        "range" => Some(MatchType::Range),
        "optional" => Some(MatchType::Optional),
        _ => None,
    };
    let (annotations, structured_annotations) = split(&k.object.annotations, hidden);
    proto::MatchField {
        id,
        name: k.object.name.clone(),
        annotations,
        annotation_locations: Vec::new(),
        bitwidth: k.width as i32,
        doc: annotations::documentation(&k.object.annotations),
        type_name: k.type_name.as_ref().map(types::named),
        structured_annotations,
        r#match: Some(match standard {
            Some(kind) => Match::MatchType(kind.into()),
            None => Match::OtherMatchType(k.match_kind.clone()),
        }),
    }
}

fn param(p: &api::Param, id: u32) -> proto::action::Param {
    let (annotations, structured_annotations) = split(&p.object.annotations, &[]);
    proto::action::Param {
        id,
        name: p.object.name.clone(),
        annotations,
        annotation_locations: Vec::new(),
        bitwidth: p.width.unwrap_or(0) as i32,
        doc: annotations::documentation(&p.object.annotations),
        type_name: p.type_name.as_ref().map(types::named),
        structured_annotations,
    }
}

fn metadata(p: &api::Param, id: u32) -> proto::controller_packet_metadata::Metadata {
    let (annotations, structured_annotations) = split(&p.object.annotations, &[]);
    proto::controller_packet_metadata::Metadata {
        id,
        name: p.object.name.clone(),
        annotations,
        annotation_locations: Vec::new(),
        bitwidth: p.width.unwrap_or(0) as i32,
        type_name: p.type_name.as_ref().map(types::named),
        structured_annotations,
    }
}

fn profile(p: &api::Profile, program: &Api, symbols: &Symbols) -> proto::ActionProfile {
    use proto::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
    let hidden = ["max_group_size", "selector_size_semantics", "max_member_weight"];
    let number = |name: &str| {
        let found = api::annotation(&p.object.annotations, name);
        found.and_then(annotations::number).and_then(|n| i32::try_from(n).ok()).unwrap_or(0)
    };
    let semantics =
        api::annotation(&p.object.annotations, "selector_size_semantics").and_then(annotations::string);
    let semantics = match semantics.map(|s| s.to_lowercase()).as_deref() {
        Some("sum_of_weights") => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
        Some("sum_of_members") => {
            let max_member_weight = number("max_member_weight");
            Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers { max_member_weight }))
        }
        _ => None,
    };
    let mut users: Vec<&str> = program
        .tables
        .iter()
        .filter(|t| t.implementation.as_deref() == Some(&p.object.name))
        .map(|t| t.object.name.as_str())
        .collect();
    users.sort_unstable();
    proto::ActionProfile {
        preamble: Some(preamble(&p.object, symbols, Kind::Profile, &hidden)),
        table_ids: users.into_iter().map(|t| symbols.id(Kind::Table, t)).collect(),
        with_selector: p.selector,
        size: p.size,
        max_group_size: if p.selector { number("max_group_size") } else { 0 },
        weights_disallowed: false,
        selector_size_semantics: semantics.filter(|_| p.selector),
    }
}
