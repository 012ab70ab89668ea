//! Removes bindings and sessions.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use abi::id::TableId;
use dataplane::device::{Device as _, EntryKey, Key, Update};
use nat64::flows::{Binding, Filter, Session};
use nat64::{Protocol, Stateful, StaticBinding};
use serde::Serialize;

use super::Running;
use crate::select::Select;

/// The number of entries that are removed in one batch.
const BATCH: usize = 1024;

/// What was removed. The fields of its JSON are in the order of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flushed {
    /// The number of bindings.
    pub bindings: u64,
    /// The device of the translator.
    pub device: String,
    /// The number of sessions.
    pub sessions: u64,
}

/// Removes what a filter selects: sessions, and the bindings, if the filter names nothing that only sessions have. Static bindings stay.
pub fn flush(select: &Select, filter: &Filter) -> anyhow::Result<Flushed> {
    let (mut running, _alone) = Running::alone(select)?;
    let (bindings, sessions) = remove(&mut running, |b| filter.has_binding(b), |s| filter.has_session(s))?;
    Ok(Flushed { bindings, device: running.device, sessions })
}

/// Removes what packets have added in the places of static bindings, before these are written: as entries of packets, they would end. The caller has
/// the lock ([`bpf::lock`]).
pub(crate) fn make_way(instance: &str, stateful: &Stateful) -> anyhow::Result<()> {
    let Some(mut running) = Running::at(instance, stateful) else { return Ok(()) };
    let fixed = |protocol, host, address| {
        let same = |b: &StaticBinding| b.protocol == protocol && (b.ipv6 == host || b.ipv4 == address);
        stateful.bindings.iter().any(same)
    };
    if !stateful.bindings.is_empty() {
        remove(&mut running, |b| fixed(b.protocol, b.host, b.address), |_| false)?;
    }
    Ok(())
}

/// Removes the bindings and sessions that a configuration does not allow: their addresses are in no pool of their hosts any more. Returns how many. The caller
/// has the lock ([`bpf::lock`]).
pub(crate) fn keep_allowed(instance: &str, stateful: &Stateful) -> anyhow::Result<(u64, u64)> {
    let Some(mut running) = Running::at(instance, stateful) else { return Ok((0, 0)) };
    let allows = |protocol, host: (Ipv6Addr, u16), address: (Ipv4Addr, u16)| {
        stateful.allows(protocol, host.0, address.0, address.1)
    };
    remove(
        &mut running,
        |binding| !allows(binding.protocol, binding.host, binding.address),
        |session| !allows(session.protocol, session.host, session.address),
    )
}

/// Removes bindings and sessions, with what belongs to the bindings. The caller has the lock ([`bpf::lock`]).
fn remove(
    running: &mut Running,
    of_bindings: impl Fn(&Binding) -> bool,
    of_sessions: impl Fn(&Session) -> bool,
) -> anyhow::Result<(u64, u64)> {
    let (manifest, flows) = (running.program.manifest().clone(), running.flows);
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    running.each_session(|session| {
        if of_sessions(&session) {
            found.push(session);
        }
        Ok(())
    })?;
    let sessions = found.len() as u64;
    let key = |table: TableId, entry: abi::Entry| Key::Entry(EntryKey::of(table, &entry));
    gone.extend(found.iter().filter_map(|s| Some(key(flows.sessions, s.entry(&manifest, &flows)?))));
    let mut found = Vec::new();
    running.each_binding(|binding| {
        if binding.timer.is_some() && of_bindings(&binding) {
            found.push(binding);
        }
        Ok(())
    })?;
    let bindings = found.len() as u64;
    // The binding by its host goes first: without the other one, a packet of the host gives up its port, and with it, the port goes to nobody else.
    gone.extend(found.iter().filter_map(|b| Some(key(flows.bib6, b.entry6(&manifest, &flows)?))));
    gone.extend(found.iter().filter_map(|b| Some(key(flows.bib4, b.entry4(&manifest, &flows)?))));
    let removed: HashSet<_> = found.iter().map(|b| (b.protocol, b.address)).collect();
    let mut peers = Vec::new();
    running.program.each_learnt(flows.peers, |learnt| {
        let value = |at: usize| match learnt.entry.matches.get(at) {
            Some(abi::MatchValue::Exact(bits)) => bits.to_u128().unwrap_or(0),
            _ => 0,
        };
        let address = (Ipv4Addr::from(value(1) as u32), value(2) as u16);
        let known = Protocol::numbered(value(0) as u8).is_some_and(|p| removed.contains(&(p, address)));
        if known {
            peers.push(learnt.entry);
        }
    })?;
    gone.extend(peers.into_iter().map(|entry| key(flows.peers, entry)));
    let updates: Vec<Update> = gone.into_iter().map(Update::Unset).collect();
    for batch in updates.chunks(BATCH) {
        running.program.write(batch).map_err(|refused| refused.error)?;
    }
    running.program.free_all_retired()?;
    Ok((bindings, sessions))
}
