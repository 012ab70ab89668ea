//! `strait table`: tables, entries and default actions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use p4runtime::notation;
use p4runtime::notation::bmv2::{self, Imported};
use proto::p4::config::v1::{self as config, match_field::MatchType};
use proto::p4::v1::{self, TableEntry, entity::Entity, update};
use serde_json::json;

use super::{Session, groups, make, mistake, watch, words};
use crate::cli::clients::{TableArgs, TableCommand};
use crate::frontend;

/// The updates of one request.
const BATCH: usize = 5000;

/// Runs a command about tables.
pub fn run(args: &TableArgs) -> anyhow::Result<ExitCode> {
    let mut session = Session::open(&args.server)?;
    match &args.command {
        TableCommand::List { table } => list(&session, table.as_deref())?,
        TableCommand::Dump { table, counters } => dump(&mut session, table.as_deref(), *counters)?,
        TableCommand::Add(given) => {
            let entry = notation::entry(&session.info, &words(&given.words)).map_err(mistake)?;
            session.write(update::Type::Insert, Entity::TableEntry(entry))?;
        }
        TableCommand::Set(given) => {
            let entry = notation::entry(&session.info, &words(&given.words)).map_err(mistake)?;
            session.write(update::Type::Modify, Entity::TableEntry(entry))?;
        }
        TableCommand::Remove(given) => {
            let entry = notation::key(&session.info, &words(&given.words)).map_err(mistake)?;
            // A default action is there always: without an action it gets back the one that the program declares.
            let kind = if entry.is_default_action { update::Type::Modify } else { update::Type::Delete };
            session.write(kind, Entity::TableEntry(entry))?;
        }
        TableCommand::Clear { table } => {
            let entries = entries(&mut session, table.as_deref(), false)?;
            let own = entries.into_iter().filter(|entry| !entry.is_const);
            let removed = own.map(|entry| make(update::Type::Delete, Entity::TableEntry(entry))).collect();
            write_all(&mut session, removed)?;
        }
        TableCommand::Load { file, replace } => load(&mut session, file, *replace)?,
        TableCommand::Diff { file } => return diff(&mut session, file),
        TableCommand::Watch { table, interval } => look(&mut session, table.as_deref(), *interval)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session, name: Option<&str>) -> anyhow::Result<()> {
    let info = &session.info;
    let tables: Vec<&config::Table> = match name {
        Some(name) => vec![notation::find(&info.tables, "table", name).map_err(mistake)?],
        None => info.tables.iter().collect(),
    };
    let kind = |f: &config::MatchField| match notation::match_type(f) {
        MatchType::Exact => "exact",
        MatchType::Lpm => "lpm",
        MatchType::Ternary => "ternary",
        MatchType::Range => "range",
        MatchType::Optional => "optional",
        MatchType::Unspecified => "?",
    };
    let mut all = Vec::new();
    for table in tables {
        let name = table.preamble.as_ref().map(|p| p.alias.clone()).unwrap_or_default();
        let keys: Vec<(String, i32, &str)> =
            table.match_fields.iter().map(|f| (f.name.clone(), f.bitwidth, kind(f))).collect();
        let actions: Vec<(String, Vec<String>)> = table
            .action_refs
            .iter()
            .filter_map(|r| notation::by_id(&info.actions, r.id))
            .map(|a| {
                let params = notation::params(info, a).iter().map(|p| p.name.to_string()).collect();
                (a.preamble.as_ref().map(|p| p.alias.clone()).unwrap_or_default(), params)
            })
            .collect();
        if session.json {
            let keys: Vec<_> =
                keys.iter().map(|(n, w, k)| json!({"name": n, "bits": w, "match": k})).collect();
            let actions: Vec<_> = actions.iter().map(|(n, p)| json!({"name": n, "parameters": p})).collect();
            all.push(json!({"table": name, "size": table.size, "keys": keys, "actions": actions}));
            continue;
        }
        println!("{name} (size {})", table.size);
        for (name, bits, kind) in keys {
            println!("    {kind:<9} {name}: {bits} bits");
        }
        for (name, params) in actions {
            println!("    => {name} {}", params.join(" "));
        }
    }
    if session.json {
        println!("{}", serde_json::Value::from(all));
    }
    Ok(())
}

/// The entries of a table, or of all tables.
fn entries(session: &mut Session, table: Option<&str>, counters: bool) -> anyhow::Result<Vec<TableEntry>> {
    let table_id = match table {
        Some(name) => {
            let found = notation::find(&session.info.tables, "table", name).map_err(mistake)?;
            found.preamble.as_ref().map_or(0, |p| p.id)
        }
        None => 0,
    };
    let counter_data = counters.then(v1::CounterData::default);
    let found =
        session.read(Entity::TableEntry(TableEntry { table_id, counter_data, ..TableEntry::default() }))?;
    // Servers before version 1.4, such as BMv2's, do not say of entries that they are const.
    let fixed = session.info.tables.iter().filter(|table| table.is_const_table);
    let fixed: HashSet<u32> = fixed.filter_map(|table| Some(table.preamble.as_ref()?.id)).collect();
    let entry = |entity| match entity {
        Entity::TableEntry(entry) => {
            Some(TableEntry { is_const: entry.is_const || fixed.contains(&entry.table_id), ..entry })
        }
        _ => None,
    };
    Ok(found.into_iter().filter_map(entry).collect())
}

/// The default actions that are not what the program declares.
fn changed_defaults(session: &mut Session, table: Option<&str>) -> anyhow::Result<Vec<TableEntry>> {
    let one =
        table.map(|name| notation::find(&session.info.tables, "table", name)).transpose().map_err(mistake)?;
    let tables: Vec<config::Table> = one.map_or_else(|| session.info.tables.clone(), |one| vec![one.clone()]);
    let mut changed = Vec::new();
    for table in tables.iter().filter(|table| table.const_default_action_id == 0) {
        let table_id = table.preamble.as_ref().map_or(0, |p| p.id);
        let request = TableEntry { table_id, is_default_action: true, ..TableEntry::default() };
        // Not every server reads default actions.
        let Ok(found) = session.read(Entity::TableEntry(request)) else { continue };
        let declared = table.initial_default_action.as_ref();
        let same = |entry: &TableEntry| match entry.action.as_ref().and_then(|action| action.r#type.as_ref())
        {
            Some(v1::table_action::Type::Action(action)) => {
                let arg = |id, value: &[u8]| {
                    declared.is_some_and(|d| {
                        d.arguments.iter().any(|a| a.param_id == id && trimmed(&a.value) == trimmed(value))
                    })
                };
                declared.is_some_and(|d| d.action_id == action.action_id)
                    && action.params.iter().all(|p| arg(p.param_id, &p.value))
            }
            _ => true,
        };
        changed.extend(found.into_iter().filter_map(|entity| match entity {
            Entity::TableEntry(entry) if !same(&entry) => Some(entry),
            _ => None,
        }));
    }
    Ok(changed)
}

/// A number's bytes without zeros in front.
fn trimmed(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

fn dump(session: &mut Session, table: Option<&str>, counters: bool) -> anyhow::Result<()> {
    let mut found = entries(session, table, counters)?;
    found.extend(changed_defaults(session, table)?);
    let counted = |entry: &TableEntry| entry.counter_data.map(|c| (c.packet_count, c.byte_count));
    if session.json {
        let one = |entry: &TableEntry| {
            let mut made =
                json!({"entry": notation::entry_text(&session.info, entry), "const": entry.is_const});
            if let Some((packets, bytes)) = counted(entry) {
                made["packets"] = packets.into();
                made["bytes"] = bytes.into();
            }
            made
        };
        println!("{}", serde_json::Value::from(found.iter().map(one).collect::<Vec<_>>()));
        return Ok(());
    }
    for entry in &found {
        let mut line = notation::entry_text(&session.info, entry);
        if let Some((packets, bytes)) = counted(entry) {
            line.push_str(&format!("  # {packets} packets, {bytes} bytes"));
        }
        if entry.is_const {
            // `load` does not write what the program has declared.
            line = format!("# const: {line}");
        }
        println!("{line}");
    }
    Ok(())
}

/// What distinguishes an entry from others.
type Key = (u32, Vec<Vec<u8>>, i32, bool);

fn key(entry: &TableEntry) -> Key {
    use prost::Message as _;
    let mut matches: Vec<Vec<u8>> = entry.r#match.iter().map(|m| m.encode_to_vec()).collect();
    matches.sort_unstable();
    (entry.table_id, matches, entry.priority, entry.is_default_action)
}

/// What a file fills a switch with: lines of `dump`, or a file of BMv2.
fn read(session: &Session, file: &Path) -> anyhow::Result<Imported> {
    let (name, text) = frontend::read(file)?;
    if bmv2::is_bmv2(&text) {
        return bmv2::import(&session.info, &text)
            .map_err(|mistakes| anyhow!("{name}: {}", mistakes.join("\n")));
    }
    let entries = read_lines(session, &text, &name)?;
    Ok(Imported { entries, ..Imported::default() })
}

/// The entries of lines. All mistakes are reported, each with its line.
fn read_lines(session: &Session, text: &str, name: &str) -> anyhow::Result<Vec<TableEntry>> {
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    let mut lines: HashMap<u64, usize> = HashMap::new();
    let hasher = RandomState::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match notation::entry(&session.info, &words) {
            Ok(entry) => {
                // A million keys would take more memory than the entries themselves. That two of them have one number is improbable.
                if let Some(first) = lines.insert(hasher.hash_one(key(&entry)), at + 1) {
                    mistakes.push(format!("{name}:{}: the entry of line {first} again", at + 1));
                }
                all.push(entry);
            }
            Err(why) => mistakes.push(format!("{name}:{}: {why}", at + 1)),
        }
    }
    const SHOWN: usize = 20;
    match mistakes.len() {
        0 => Ok(all),
        1..=SHOWN => bail!("{}", mistakes.join("\n")),
        more => bail!("{}\nand {} more", mistakes[..SHOWN].join("\n"), more - SHOWN),
    }
}

/// Writes updates in batches, with a progress bar on a terminal.
fn write_all(session: &mut Session, updates: Vec<v1::Update>) -> anyhow::Result<()> {
    let bar = ProgressBar::new(updates.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} updates") {
        bar.set_style(style);
    }
    let mut updates = updates.into_iter();
    loop {
        let batch: Vec<v1::Update> = updates.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let count = batch.len();
        session.client.write(batch)?;
        bar.inc(count as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The updates that make the device hold the entries of a file.
fn difference(
    session: &mut Session,
    wanted: Vec<TableEntry>,
    replace: bool,
) -> anyhow::Result<Vec<v1::Update>> {
    let mut held: BTreeMap<Key, TableEntry> =
        entries(session, None, false)?.into_iter().map(|entry| (key(&entry), entry)).collect();
    let mut updates = Vec::new();
    for entry in wanted {
        let kind = match held.remove(&key(&entry)) {
            Some(held) if held == entry => continue,
            Some(_) => update::Type::Modify,
            None if entry.is_default_action => update::Type::Modify,
            None => update::Type::Insert,
        };
        updates.push(make(kind, Entity::TableEntry(entry)));
    }
    if replace {
        let gone = held.into_values().filter(|entry| !entry.is_const);
        // What is removed makes room for what is added.
        updates.splice(0..0, gone.map(|entry| make(update::Type::Delete, Entity::TableEntry(entry))));
    }
    Ok(updates)
}

fn load(session: &mut Session, file: &Path, replace: bool) -> anyhow::Result<()> {
    let Imported { entries: wanted, groups: multicast, sessions } = read(session, file)?;
    let (count, mut updates) = (wanted.len(), difference(session, wanted, replace)?);
    for (number, replicas) in multicast {
        updates.push(groups::set_replicated(session, number, &replicas, false)?);
    }
    for (number, replicas) in sessions {
        updates.push(groups::set_replicated(session, number, &replicas, true)?);
    }
    let changed = updates.len();
    write_all(session, updates)?;
    match session.json {
        true => println!("{}", json!({"entries": count, "written": changed})),
        false => eprintln!("{count} entries, {changed} updates"),
    }
    Ok(())
}

fn diff(session: &mut Session, file: &Path) -> anyhow::Result<ExitCode> {
    let wanted = read(session, file)?.entries;
    let held = entries(session, None, false)?;
    let is_own = |entry: &&TableEntry| !entry.is_const;
    let text = |session: &Session, entry: &TableEntry| notation::entry_text(&session.info, entry);
    let on_device: BTreeMap<Key, String> =
        held.iter().filter(is_own).map(|entry| (key(entry), text(session, entry))).collect();
    let mut in_file: BTreeMap<Key, String> = BTreeMap::new();
    for entry in wanted.iter().filter(|entry| !entry.is_default_action) {
        in_file.insert(key(entry), text(session, entry));
    }
    let only = |a: &BTreeMap<Key, String>, b: &BTreeMap<Key, String>| {
        a.iter()
            .filter(|(key, line)| b.get(*key) != Some(line))
            .map(|(_, line)| line.clone())
            .collect::<Vec<_>>()
    };
    let (missing, more) = (only(&in_file, &on_device), only(&on_device, &in_file));
    match session.json {
        true => println!("{}", json!({"only_in_file": missing, "only_on_device": more})),
        false => {
            more.iter().for_each(|line| println!("- {line}"));
            missing.iter().for_each(|line| println!("+ {line}"));
        }
    }
    Ok(ExitCode::from(u8::from(!missing.is_empty() || !more.is_empty())))
}

fn look(session: &mut Session, table: Option<&str>, interval: f64) -> anyhow::Result<()> {
    let mut before: Option<BTreeMap<String, (i64, i64)>> = None;
    watch(interval, |seconds| {
        let found = entries(session, table, true)?;
        let now: BTreeMap<String, (i64, i64)> = found
            .iter()
            .map(|entry| {
                let count = entry.counter_data.unwrap_or_default();
                (notation::entry_text(&session.info, entry), (count.packet_count, count.byte_count))
            })
            .collect();
        let show = |sign: &str, line: &str, packets: f64, bits: f64| match session.json {
            true => println!(
                "{}",
                json!({"change": sign, "entry": line, "packets_per_second": packets, "bits_per_second": bits})
            ),
            false if sign == "=" => println!("  {line}: {packets:.0} packets/s, {bits:.0} bit/s"),
            false => println!("{sign} {line}"),
        };
        if let Some(before) = &before {
            before.keys().filter(|line| !now.contains_key(*line)).for_each(|line| show("-", line, 0.0, 0.0));
            for (line, (packets, bytes)) in &now {
                match before.get(line) {
                    None => show("+", line, 0.0, 0.0),
                    Some((p, b)) if packets > p => {
                        show("=", line, (packets - p) as f64 / seconds, (bytes - b) as f64 * 8.0 / seconds);
                    }
                    Some(_) => {}
                }
            }
        }
        before = Some(now);
        Ok(())
    })
}
