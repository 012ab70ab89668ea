//! Completion of names that P4Info has: tables, actions, counters and others of the program that runs behind the server of the command line.
//!
//! The shell runs this program with the words of its line behind `--` (clap_complete's protocol). A server that does not answer at once completes nothing.

use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use proto::p4::config::v1::{P4Info, Preamble};

use super::clients::Server;

/// How long a shell waits for names.
const PATIENCE: Duration = Duration::from_secs(1);

/// A kind of names: those of a program.
type Names = fn(&P4Info) -> Vec<&Option<Preamble>>;

/// Completes the names of tables.
pub fn tables() -> ArgValueCompleter {
    of(|info| info.tables.iter().map(|table| &table.preamble).collect())
}

/// Completes the names of counters, also of those of entries.
fn counters() -> ArgValueCompleter {
    of(|info| {
        let own = info.counters.iter().map(|counter| &counter.preamble);
        own.chain(info.direct_counters.iter().map(|counter| &counter.preamble)).collect()
    })
}

/// Completes the names of meters, also of those of entries.
fn meters() -> ArgValueCompleter {
    of(|info| {
        let own = info.meters.iter().map(|meter| &meter.preamble);
        own.chain(info.direct_meters.iter().map(|meter| &meter.preamble)).collect()
    })
}

/// Completes the names of registers.
fn registers() -> ArgValueCompleter {
    of(|info| info.registers.iter().map(|register| &register.preamble).collect())
}

/// Completes the names of counters, meters or registers, whichever command the line has.
pub fn cells() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let command = typed().get(1).cloned().unwrap_or_default();
        let names = match command.as_str() {
            "counter" => counters(),
            "meter" => meters(),
            _ => registers(),
        };
        names.complete(current)
    })
}

/// Completes the names of digests.
pub fn digests() -> ArgValueCompleter {
    of(|info| info.digests.iter().map(|digest| &digest.preamble).collect())
}

/// Completes the names of action profiles.
pub fn profiles() -> ArgValueCompleter {
    of(|info| info.action_profiles.iter().map(|profile| &profile.preamble).collect())
}

/// Completes the words of an entry: its table, and behind `=>` an action of that table.
pub fn entries() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let words = typed();
        // `strait table add TABLE KEY… => ACTION`
        let entry = words.get(3..).unwrap_or_default();
        match entry.last().map(String::as_str) {
            None => tables().complete(current),
            // In a shell it is quoted.
            Some("=>" | "'=>'" | "\"=>\"") => candidates(current, |info| actions(info, &entry[0])),
            Some(_) => Vec::new(),
        }
    })
}

/// The actions of a table.
fn actions<'a>(info: &'a P4Info, table: &str) -> Vec<&'a Option<Preamble>> {
    let is =
        |preamble: &Option<Preamble>| preamble.as_ref().is_some_and(|p| p.name == table || p.alias == table);
    let Some(table) = info.tables.iter().find(|t| is(&t.preamble)) else { return Vec::new() };
    let has = |preamble: &&Option<Preamble>| {
        preamble.as_ref().is_some_and(|p| table.action_refs.iter().any(|action| action.id == p.id))
    };
    info.actions.iter().map(|action| &action.preamble).filter(has).collect()
}

fn of(names: Names) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| candidates(current, names))
}

/// The short names that begin as the word does that is being typed.
fn candidates(
    current: &OsStr,
    names: impl for<'a> Fn(&'a P4Info) -> Vec<&'a Option<Preamble>>,
) -> Vec<CompletionCandidate> {
    let (Some(current), Some(info)) = (current.to_str(), info()) else { return Vec::new() };
    let short = |preamble: &Option<Preamble>| preamble.as_ref().map(|p| p.alias.clone());
    let all = names(&info).into_iter().filter_map(short);
    all.filter(|name| name.starts_with(current)).map(CompletionCandidate::new).collect()
}

/// The words in front of the one that is being typed, without options and their values.
fn typed() -> Vec<String> {
    let words = line();
    let (mut plain, mut options) = (Vec::new(), words.iter().peekable());
    while let Some(word) = options.next() {
        match word.strip_prefix("--") {
            Some(option) => drop(options.next_if(|_| !option.contains('=') && takes_value(option))),
            None => plain.push(word.clone()),
        }
    }
    plain
}

/// The words in front of the one that is being typed.
fn line() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.skip_while(|word| word != "--").skip(1).collect();
    let at = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|text| text.parse().ok());
    let before = at.unwrap_or_else(|| words.len().saturating_sub(1)).min(words.len());
    words[..before].to_vec()
}

/// Whether an option of [`Server`] has a value.
fn takes_value(option: &str) -> bool {
    option != "json" && server_options().get_arguments().any(|arg| arg.get_long() == Some(option))
}

fn server_options() -> clap::Command {
    Server::augment_args(clap::Command::new("strait"))
}

/// The P4Info of the server that the line names.
fn info() -> Option<P4Info> {
    let (mut known, line) = (vec!["strait".to_string()], line());
    for (at, word) in line.iter().enumerate() {
        let Some(option) = word.strip_prefix("--") else { continue };
        match option.split_once('=') {
            Some((name, _)) if takes_value(name) => known.push(word.clone()),
            None if takes_value(option) => known.extend(line[at..].iter().take(2).cloned()),
            _ => {}
        }
    }
    let matches = server_options().try_get_matches_from(known).ok()?;
    let server = Server::from_arg_matches(&matches).ok()?;
    let (send, info) = mpsc::channel();
    std::thread::spawn(move || drop(send.send(crate::commands::client::info(&server))));
    info.recv_timeout(PATIENCE).ok().flatten()
}
