//! Files that BMv2's users have: `runtime.json` of p4lang's tutorials, and commands of `simple_switch_CLI`.
//!
//! Both become what Strait's own lines say. Of the commands, those that fill a switch are known: `table_add`, `table_set_default`, `mc_mgrp_create`,
//! `mc_node_create`, `mc_node_associate`, `mirroring_add`. A priority of the CLI counts the other way round: its smallest wins.

use std::collections::BTreeMap;

use proto::p4::config::v1::{self as config, P4Info, match_field::MatchType};
use proto::p4::v1::TableEntry;
use serde_json::Value;

use super::{Mistake, entry, find, match_type};

/// What a file fills a switch with.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// Entries and default actions.
    pub entries: Vec<TableEntry>,
    /// Multicast groups: pairs of instance and port.
    pub groups: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Clone sessions, in the same form.
    pub sessions: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// The priority in P4Runtime of the CLI's priority 0.
const FIRST: i64 = 1 << 20;

/// Whether a text is one of these files, and not Strait's own lines.
pub fn is_bmv2(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        line.starts_with('{') || COMMANDS.contains(&line.split(' ').next().unwrap_or_default())
    })
}

const COMMANDS: [&str; 6] = [
    "table_add",
    "table_set_default",
    "mc_mgrp_create",
    "mc_node_create",
    "mc_node_associate",
    "mirroring_add",
];

/// Reads a file. All mistakes are returned.
pub fn import(info: &P4Info, text: &str) -> Result<Imported, Vec<Mistake>> {
    match text.trim_start().starts_with('{') {
        true => json(info, text),
        false => commands(info, text),
    }
}

fn json(info: &P4Info, text: &str) -> Result<Imported, Vec<Mistake>> {
    let file: Value = serde_json::from_str(text).map_err(|why| vec![format!("no JSON: {why}")])?;
    let (mut all, mut mistakes) = (Imported::default(), Vec::new());
    let list = |name: &str| file[name].as_array().cloned().unwrap_or_default();
    for (at, one) in list("table_entries").iter().enumerate() {
        match table_entry(info, one) {
            Ok(entry) => all.entries.push(entry),
            Err(why) => mistakes.push(format!("table_entries[{at}]: {why}")),
        }
    }
    let kinds =
        [("multicast_group_entries", "multicast_group_id"), ("clone_session_entries", "clone_session_id")];
    for (list_name, id) in kinds {
        for (at, one) in list(list_name).iter().enumerate() {
            let replica = |r: &Value| {
                Some((r["instance"].as_u64().unwrap_or(0) as u32, r["egress_port"].as_u64()? as u32))
            };
            let replicas = one["replicas"].as_array().cloned().unwrap_or_default();
            let made = one[id].as_u64().zip(replicas.iter().map(replica).collect::<Option<Vec<_>>>());
            let to = if list_name.starts_with('m') { &mut all.groups } else { &mut all.sessions };
            match made {
                Some((number, replicas)) => drop(to.insert(number as u32, replicas)),
                None => mistakes
                    .push(format!("{list_name}[{at}]: `{id}` or a replica's `egress_port` is no number")),
            }
        }
    }
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

/// A value of JSON as a word.
fn word(value: &Value) -> Result<String, Mistake> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Array(one) if one.len() == 1 => word(&one[0]),
        other => Err(format!("`{other}` is no value")),
    }
}

fn table_entry(info: &P4Info, one: &Value) -> Result<TableEntry, Mistake> {
    let name = one["table"].as_str().ok_or("`table` is missing")?;
    let table = find(&info.tables, "table", name)?;
    let mut words = vec![name.to_string()];
    if one["default_action"].as_bool() == Some(true) {
        words.push("default".to_string());
    }
    for (field, value) in one["match"].as_object().into_iter().flatten() {
        let found = table.match_fields.iter().find(|f| f.name == *field);
        let found = found.ok_or_else(|| format!("table `{name}` has no key `{field}`"))?;
        words.push(format!("{field}={}", match_word(found, value)?));
    }
    words.push("=>".to_string());
    let action = one["action_name"].as_str().ok_or("`action_name` is missing")?;
    words.push(action.to_string());
    for (param, value) in one["action_params"].as_object().into_iter().flatten() {
        words.push(format!("{param}={}", word(value)?));
    }
    if let Some(priority) = one["priority"].as_i64() {
        words.extend(["priority".to_string(), priority.to_string()]);
    }
    entry(info, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// `["10.0.1.1", 32]` and the like, as a word.
fn match_word(field: &config::MatchField, value: &Value) -> Result<String, Mistake> {
    let pair = match value.as_array().map(Vec::as_slice) {
        Some([a, b]) => Some((word(a)?, word(b)?)),
        _ => None,
    };
    Ok(match (match_type(field), pair) {
        (MatchType::Lpm, Some((value, length))) => format!("{value}/{length}"),
        (MatchType::Ternary, Some((value, mask))) => format!("{value}&&&{mask}"),
        (MatchType::Range, Some((low, high))) => format!("{low}..{high}"),
        _ => word(value)?,
    })
}

fn commands(info: &P4Info, text: &str) -> Result<Imported, Vec<Mistake>> {
    let (mut all, mut mistakes) = (Imported::default(), Vec::new());
    // The nodes in the order of their creation: their handles.
    let mut nodes: Vec<Vec<(u32, u32)>> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if let Err(why) = command(info, &words, &mut all, &mut nodes) {
            mistakes.push(format!("line {}: {why}", at + 1));
        }
    }
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

fn command(
    info: &P4Info,
    words: &[&str],
    all: &mut Imported,
    nodes: &mut Vec<Vec<(u32, u32)>>,
) -> Result<(), Mistake> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is no number"));
    match words {
        [] => {}
        ["table_add", table, action, rest @ ..] => all.entries.push(added(info, table, action, rest)?),
        ["table_set_default", table, action, args @ ..] => {
            let words = [&[*table, "default", "=>", *action], args].concat();
            all.entries.push(entry(info, &words)?);
        }
        ["mc_mgrp_create", group] => drop(all.groups.entry(number(group)?).or_default()),
        ["mc_node_create", instance, ports @ ..] => {
            let instance = number(instance)?;
            let node =
                ports.iter().map(|port| Ok((instance, number(port)?))).collect::<Result<_, Mistake>>()?;
            nodes.push(node);
        }
        ["mc_node_associate", group, node] => {
            let node = nodes.get(number(node)? as usize).ok_or_else(|| format!("there is no node {node}"))?;
            all.groups.entry(number(group)?).or_default().extend(node);
        }
        ["mirroring_add", session, port] => {
            all.sessions.insert(number(session)?, vec![(0, number(port)?)]);
        }
        [other, ..] => return Err(format!("`{other}` is not imported; known are {}", COMMANDS.join(", "))),
    }
    Ok(())
}

/// `table_add TABLE ACTION KEY… => ARGUMENT… [PRIORITY]`
fn added(info: &P4Info, name: &str, action: &str, rest: &[&str]) -> Result<TableEntry, Mistake> {
    let table = find(&info.tables, "table", name)?;
    let arrow = rest.iter().position(|word| *word == "=>").ok_or("`=>` is missing")?;
    let (keys, mut args) = (&rest[..arrow], &rest[arrow + 1..]);
    let needs = |f: &config::MatchField| {
        matches!(match_type(f), MatchType::Ternary | MatchType::Range | MatchType::Optional)
    };
    let mut priority = None;
    if table.match_fields.iter().any(needs) {
        let (last, others) = args.split_last().ok_or("the priority is missing")?;
        let given: i64 = last.parse().map_err(|_| format!("`{last}` is no priority"))?;
        (priority, args) = (Some((FIRST - given).clamp(1, i64::from(i32::MAX)).to_string()), others);
    }
    let mut words = [&[name], keys, &["=>", action], args].concat();
    if let Some(priority) = &priority {
        words.extend(["priority", priority.as_str()]);
    }
    entry(info, &words)
}
