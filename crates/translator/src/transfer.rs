//! `export` and `import`: bindings and sessions as text, for an upgrade of the machine or for a second router.
//!
//! The text has an object of JSON in each line. The first one is the header: `{"format": "strait-nat64-sessions", "version": 1}`. The others are
//! bindings and sessions. Times are relative to that of the export, so that a machine with another clock can read them.
//!
//! | key | of | what |
//! |---|---|---|
//! | `kind` | both | `binding` or `session` |
//! | `protocol` | both | `tcp`, `udp` or `icmp` |
//! | `host` | both | the IPv6 address and port of the host |
//! | `address` | both | the IPv4 address and port that it has |
//! | `remote` | session | the IPv4 address and port of the other end |
//! | `opened` | session | 1 if the IPv6 host has opened it, 2 if the IPv4 host has, 8 if the IPv6 host has on another router |
//! | `state` | session | of TCP: the number of the state in the order of RFC 6146 section 3.5.2.1, from 1 on |
//! | `established` | binding | the number of its established TCP connections |
//! | `profile` | both | the number of the expire profile |
//! | `idle` | both | milliseconds since the timer was started |
//!
//! Static bindings are in the configuration, and not here. What packets of a second make of it meanwhile is not in the export.

use std::io::{BufRead as _, BufReader, Read};
use std::net::{SocketAddrV4, SocketAddrV6};

use anyhow::{Context, bail, ensure};
use dataplane::device::{Device as _, Entity, EntryKey, Key, Update};
use io::ebpf::{KernelProgram, Learnt};
use nat64::Protocol;
use nat64::flows::{Binding, OPENED, STATES, Session, Timer};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::flows::Running;
use crate::flows::lists::end6;
use crate::select::Select;

const FORMAT: &str = "strait-nat64-sessions";
const VERSION: u32 = 1;
/// What apps/nat64/sessions.p4 adds to the expire profile of a session for those of its binding, by its host and by its port.
const BINDING: u8 = 8;
const OWNER: u8 = 16;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: Kind,
    protocol: String,
    host: SocketAddrV6,
    address: SocketAddrV4,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<SocketAddrV4>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opened: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    established: Option<u32>,
    profile: u8,
    idle: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Binding,
    Session,
}

/// Calls `each` with the lines of all bindings and sessions.
pub fn export(select: &Select, each: &mut dyn FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut running = Running::open(select)?;
    let now = KernelProgram::now();
    let idle = |timer: Timer| timer.map(|(profile, since)| (profile, now.saturating_sub(since) / 1000));
    each(&json!({"format": FORMAT, "version": VERSION}).to_string())?;
    let mut line = |line: &Line| each(&serde_json::to_string(line)?);
    running.each_binding(|binding| {
        // A static one is in the configuration. A port that was claimed for nothing has no host.
        let Some((profile, idle)) = idle(binding.timer).filter(|(profile, _)| *profile >= OWNER) else {
            return Ok(());
        };
        line(&Line {
            kind: Kind::Binding,
            protocol: binding.protocol.name().to_string(),
            host: end6(binding.host),
            address: SocketAddrV4::new(binding.address.0, binding.address.1),
            remote: None,
            opened: None,
            state: None,
            established: Some(binding.established),
            profile,
            idle,
        })
    })?;
    running.each_session(|session| {
        let Some((profile, idle)) = idle(session.timer) else { return Ok(()) };
        line(&Line {
            kind: Kind::Session,
            protocol: session.protocol.name().to_string(),
            host: end6(session.host),
            address: SocketAddrV4::new(session.address.0, session.address.1),
            remote: Some(SocketAddrV4::new(session.remote.0, session.remote.1)),
            opened: Some(session.opened),
            state: Some(session.state()).filter(|state| *state != 0),
            established: None,
            profile,
            idle,
        })
    })
}

/// What has become of the lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The device of the translator.
    #[serde(skip)]
    pub device: String,
    /// The number of bindings that were added.
    pub bindings: u64,
    /// The number of sessions that were added.
    pub sessions: u64,
    /// The number of those that are there already, or whose key something else has.
    pub known: u64,
    /// The number of those that the configuration does not allow.
    pub refused: u64,
    /// The number of those whose time has passed, or whose binding was not imported.
    pub dead: u64,
}

/// Adds the bindings and sessions of a text. `name` is that of its file. A text that is not good changes nothing.
pub fn import(select: &Select, name: &str, text: impl Read) -> anyhow::Result<Imported> {
    let lines = read(name, text)?;
    let (mut running, _alone) = Running::alone(select)?;
    let (now, mut counts) = (KernelProgram::now(), Imported::default());
    for line in &lines {
        add(&mut running, line, now, &mut counts)?;
    }
    running.program.free_all_retired()?;
    Ok(Imported { device: running.device, ..counts })
}

/// Reads and checks the whole text.
fn read(name: &str, text: impl Read) -> anyhow::Result<Vec<Line>> {
    let mut all = BufReader::new(text).lines();
    let first = all.next().transpose()?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).with_context(|| {
        format!("{name} line 1: this is not what `strait nat64 export` writes; nothing was changed")
    })?;
    ensure!(
        header.format == FORMAT && header.version == VERSION,
        "{name} line 1: `{}` of version {} is not `{FORMAT}` of version {VERSION}; nothing was changed",
        header.format,
        header.version
    );
    let mut lines = Vec::new();
    for (at, text) in all.enumerate() {
        let place = || format!("{name} line {}: nothing was changed", at + 2);
        let line: Line = serde_json::from_str(&text?).with_context(place)?;
        check(&line).with_context(place)?;
        lines.push(line);
    }
    // Sessions without their bindings would be of no use.
    lines.sort_by_key(|line| line.kind == Kind::Session);
    Ok(lines)
}

fn check(line: &Line) -> anyhow::Result<()> {
    if Protocol::named(&line.protocol).is_none() {
        bail!("`{}` has no bindings", line.protocol);
    }
    let session = line.kind == Kind::Session;
    ensure!(
        session == line.remote.is_some() && session == line.opened.is_some(),
        "`remote` and `opened` are of sessions"
    );
    ensure!(
        line.state.is_none_or(|state| (1..STATES.len() as u8).contains(&state)),
        "there is no such `state`"
    );
    ensure!(line.opened.is_none_or(|opened| OPENED.contains(&opened)), "`opened` is 1, 2 or 8");
    let profile = if session { line.profile } else { line.profile.wrapping_sub(OWNER) };
    ensure!(profile < 4, "there is no such `profile` of a {:?}", line.kind);
    Ok(())
}

fn add(running: &mut Running, line: &Line, now: u64, counts: &mut Imported) -> anyhow::Result<()> {
    let Some(protocol) = Protocol::named(&line.protocol) else { return Ok(()) };
    let (host, address) = ((*line.host.ip(), line.host.port()), (*line.address.ip(), line.address.port()));
    if !running.stateful.allows(protocol, host.0, address.0, address.1) {
        counts.refused += 1;
        return Ok(());
    }
    let time = nat64::flows::time_of(line.profile, &running.stateful.timeouts).unwrap_or(0);
    // A timer cannot have started before the clock has.
    let Some(since) = now.checked_sub(line.idle.saturating_mul(1000)).filter(|_| line.idle / 1000 < time)
    else {
        counts.dead += 1;
        return Ok(());
    };
    let timer = Some((line.profile, since));
    let (manifest, flows) = (running.program.manifest().clone(), running.flows);
    let misfit = || anyhow::anyhow!("the program has other tables");
    match (line.kind, line.remote) {
        (Kind::Session, Some(remote)) => {
            let session = Session {
                protocol,
                host,
                address,
                remote: (*remote.ip(), remote.port()),
                opened: line.opened.unwrap_or(1),
                register: line.state.unwrap_or(0).into(),
                timer,
            };
            let binding = Binding { protocol, host, address, established: 0, timer };
            let entry = binding.entry4(&manifest, &flows).ok_or_else(misfit)?;
            let held = running.program.get(&Key::Entry(EntryKey::of(flows.bib4, &entry)));
            let same = |found: Entity| found == Entity::entry(flows.bib4, entry.clone());
            if !held.is_ok_and(same) {
                counts.dead += 1;
                return Ok(());
            }
            let entry = session.entry(&manifest, &flows).ok_or_else(misfit)?;
            let learnt = Learnt { entry, timer, register: Some(session.register) };
            match running.program.teach(flows.sessions, &learnt)? {
                true => counts.sessions += 1,
                false => counts.known += 1,
            }
        }
        _ => {
            let established = line.established.unwrap_or(0);
            let binding = Binding { protocol, host, address, established, timer };
            let entry4 = binding.entry4(&manifest, &flows).ok_or_else(misfit)?;
            let entry6 = binding.entry6(&manifest, &flows).ok_or_else(misfit)?;
            let address = Key::Entry(EntryKey::of(flows.bib4, &entry4));
            let learnt = Learnt { entry: entry4, timer, register: Some(established.into()) };
            if !running.program.teach(flows.bib4, &learnt)? {
                counts.known += 1;
                return Ok(());
            }
            // Its entry by the host has a profile of its own, which ends a bit before.
            let timer = Some((line.profile - (OWNER - BINDING), since));
            let taught = running.program.teach(flows.bib6, &Learnt { entry: entry6, timer, register: None });
            if !matches!(taught, Ok(true)) {
                // The port of the host has another binding, or there is no room: half a binding would take an address from others.
                running.program.write(&[Update::Unset(address)]).map_err(|refused| refused.error)?;
                taught?;
                counts.known += 1;
                return Ok(());
            }
            counts.bindings += 1;
        }
    }
    Ok(())
}
