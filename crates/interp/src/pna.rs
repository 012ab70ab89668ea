//! The Portable NIC Architecture (PNA sections 6 and 9): one pipeline for both directions, tables to which packets add entries, and entries
//! that expire.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use abi::{ActionCall, Bits, Entry, MatchValue, drops};
use dataplane::{Handle, Table};
use ir::{Expr, Place, PnaMetadata, Role, TableId, VarId};

use crate::eval::eval;
use crate::event::Event;
use crate::machine::{Half, Mirror, Run};
use crate::packet::{BitWriter, PacketState};

/// The state that PNA keeps between packets.
#[derive(Default)]
pub(crate) struct Pna {
    /// The ports to the host. All other ports are ports to the network.
    pub host_ports: BTreeSet<u32>,
    /// The expire time of each profile in microseconds. Entries of other profiles never expire.
    pub times: BTreeMap<u32, u64>,
    /// The entries that packets added, for each table.
    ages: HashMap<usize, HashMap<Handle, Age>>,
    /// The time of the last sweep.
    swept: u64,
    flows: u32,
}

/// The expire profile of an entry, and the time at which its timer was started last.
struct Age {
    profile: u32,
    since: u64,
}

impl Pna {
    /// Removes the entries that have expired.
    pub fn sweep(&mut self, now: u64, tables: &mut [Table]) {
        if now == self.swept {
            return;
        }
        self.swept = now;
        for (table, ages) in &mut self.ages {
            ages.retain(|entry, age| {
                let over =
                    self.times.get(&age.profile).is_some_and(|time| age.since.saturating_add(*time) <= now);
                if over {
                    // The control plane may have removed the entry and added another one. The handle identifies the old one only.
                    tables[*table].delete_row(*entry);
                }
                !over
            });
        }
    }
}

/// The table that is being applied: the key, and the entry that was hit.
pub(crate) struct Applying {
    pub table: TableId,
    pub key: Vec<Bits>,
    pub hit: Option<Handle>,
}

impl Run<'_, '_> {
    /// Starts a new packet in the main parser.
    pub(crate) fn arrive_pna(&mut self, port: u32, data: &[u8]) {
        self.s.clone_from(self.fresh);
        self.s.data.extend_from_slice(data);
        if let Some(pna) = &self.program.pna {
            self.state.pna.sweep(self.clock, &mut self.state.tables);
            self.enter(pna, port, 0);
        }
    }

    fn enter(&mut self, pna: &PnaMetadata, port: u32, pass: u128) {
        let direction = u128::from(self.state.pna.host_ports.contains(&port));
        for [to_direction, to_pass, to_loop, to_port] in [pna.parser, pna.pre, pna.main] {
            self.set(to_direction, direction);
            self.set(to_pass, pass);
            self.set(to_loop, 0);
            self.set(to_port, port as u128);
        }
        self.set(pna.timestamp, self.clock as u128);
        self.set(self.program.standard.packet_length, self.s.data.len() as u128);
    }

    /// Runs the whole pipeline for the current packet.
    pub(crate) fn pna(&mut self, pna: &PnaMetadata) {
        if !self.parse_all() {
            return self.dropped(drops::STEP_BUDGET);
        }
        let found = self.number(self.program.standard.parser_error) as u128;
        pna.errors.iter().for_each(|var: &VarId| self.set(*var, found));
        for role in [Role::PreControl, Role::Ingress] {
            if !self.control(role) {
                return self.dropped(drops::STEP_BUDGET);
            }
        }
        let asked = std::mem::take(&mut self.s.asked);
        self.outcome.digests.extend(asked.digests);
        if asked.port.is_none() && asked.mirrors.is_empty() && asked.recirculate.is_none() {
            return self.pna_dropped();
        }
        self.emitted = BitWriter::default();
        self.control(Role::Deparser);
        let mut bytes = std::mem::take(&mut self.emitted).finish();
        bytes.extend_from_slice(self.s.payload());
        for session in asked.mirrors.values() {
            self.mirrored(*session, &bytes);
        }
        if asked.recirculate.is_some() {
            return self.pna_again(pna, &bytes);
        }
        match asked.port {
            Some(port) => self.leave(port, bytes),
            None => self.pna_dropped(),
        }
    }

    fn pna_dropped(&mut self) {
        match self.s.site {
            Some(_) => self.drop_marked(),
            None => self.dropped(drops::DROP),
        }
    }

    fn leave(&mut self, port: u32, bytes: Vec<u8>) {
        if self.watched {
            self.observer.event(Event::Sent { port, bytes: &bytes });
        }
        self.outcome.sent.push((port, bytes));
    }

    /// Sends a copy of the packet for a mirroring session. An unknown session sends nothing.
    fn mirrored(&mut self, session: u32, bytes: &[u8]) {
        let Some(to) = self.state.mirrors.get(&session).copied() else { return };
        if self.watched {
            self.observer.event(Event::Again { how: "mirrored", session: Some(session) });
        }
        let ports = match to {
            Mirror::Port(port) => vec![port],
            Mirror::Group(group) => {
                let replicas = self.state.groups.get(&group).cloned().unwrap_or_default();
                replicas.into_iter().map(|(_, port)| port).collect()
            }
        };
        ports.into_iter().for_each(|port| self.leave(port, bytes.to_vec()));
    }

    /// Recirculates the packet: the deparsed bytes start the next pass.
    fn pna_again(&mut self, pna: &PnaMetadata, bytes: &[u8]) {
        if self.watched {
            self.observer.event(Event::Again { how: "recirculated", session: None });
        }
        let (port, pass) = (self.number(pna.main[3]) as u32, self.number(pna.main[1]));
        let mut packet: PacketState = self.fresh.clone();
        packet.data.extend_from_slice(bytes);
        self.s = packet;
        self.enter(pna, port, u128::from(pass) + 1);
        self.queue(self.s.clone(), Half::Ingress);
    }

    /// Runs `add_entry`: adds an entry for the key that missed.
    pub(crate) fn add_entry(
        &mut self,
        done: Option<&Place>,
        action: &str,
        args: &[Expr],
        profile: &Expr,
        loc: ir::Loc,
    ) {
        let p = self.program;
        let args: Vec<Bits> = args.iter().map(|e| eval(p, &self.s, e)).collect();
        let profile = eval(p, &self.s, profile).low_u64() as u32;
        let added = self.learn(action, args, profile);
        if let Some(done) = done {
            self.write(done, Bits::bit(added), loc);
        }
    }

    fn learn(&mut self, action: &str, args: Vec<Bits>, profile: u32) -> bool {
        let Some(applying) = self.applying.as_ref().filter(|a| a.hit.is_none()) else { return false };
        let id = applying.table;
        let definition = &self.program.tables[id.index()];
        let named =
            |full: &str| full == action || full.strip_suffix(action).is_some_and(|rest| rest.ends_with('.'));
        let actions = definition.actions.iter().map(|a| &self.program.actions[a.action.index()]);
        let Some(action) = actions.map(|a| &a.name).find(|name| named(name)).cloned() else { return false };
        let entry = Entry {
            matches: applying.key.iter().cloned().map(MatchValue::Exact).collect(),
            priority: 0,
            action: ActionCall { action, args },
        };
        let Ok(handle) = self.state.tables[id.index()].insert(&entry) else { return false };
        if definition.ages {
            let age = Age { profile, since: self.clock };
            self.state.pna.ages.entry(id.index()).or_default().insert(handle, age);
        }
        true
    }

    /// Restarts the expire timer of the entry that was hit (`restart_expire_timer`). A profile also replaces the entry's profile
    /// (`set_entry_expire_time`).
    pub(crate) fn restart_timer(&mut self, profile: Option<u32>) {
        let Some(Applying { table, hit: Some(hit), .. }) = &self.applying else { return };
        let ages = self.state.pna.ages.get_mut(&table.index());
        if let Some(age) = ages.and_then(|a| a.get_mut(hit)) {
            age.since = self.clock;
            age.profile = profile.unwrap_or(age.profile);
        }
    }

    /// Runs `allocate_flow_id`: returns a new flow id.
    pub(crate) fn flow_id(&mut self) -> u32 {
        self.state.pna.flows = self.state.pna.flows.wrapping_add(1);
        self.state.pna.flows
    }
}
