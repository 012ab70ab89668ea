//! v1model around the program: what runs when, where packets go, and the state that outlives them.

use std::collections::BTreeMap;

use abi::{Bits, DROP_PORT, Manifest, drops};
use dataplane::{Cells, Count, Table, TableError};
use ir::{Role, Verified};

use crate::event::{Event, Observer};
use crate::exec::Flow;
use crate::manifest;
use crate::packet::{BitWriter, PacketState};

/// Parser states and loop rounds that one packet may take: far more than any packet has headers, and little enough
/// that a program which loops for ever is seen to.
const STEPS: u32 = 100_000;

/// Instance type of a packet that multicast made (v1model, BMv2).
const REPLICATION: u128 = 5;

/// What became of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What left, by port, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Why it was dropped (each time: replicas count one by one), as numbers of the manifest's drop reasons.
    pub dropped: Vec<usize>,
}

/// A program and its state.
pub struct Interpreter<'p> {
    program: &'p Verified,
    manifest: Manifest,
    state: State,
    fresh: PacketState,
    clock: u64,
}

/// What outlives a packet.
pub(crate) struct State {
    pub tables: Vec<Table>,
    pub counters: Vec<Cells<Count>>,
    pub registers: Vec<Cells<Bits>>,
    pub drops: Vec<Count>,
    /// Multicast groups: replicas as (rid, port).
    pub groups: BTreeMap<u32, Vec<(u32, u32)>>,
    seed: u64,
}

impl State {
    /// The next random number (xorshift64*, Vigna 2016).
    pub fn dice(&mut self) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// One packet on its way.
pub(crate) struct Run<'p, 'o> {
    pub program: &'p Verified,
    pub state: &'o mut State,
    pub s: PacketState,
    pub observer: &'o mut dyn Observer,
    pub watched: bool,
    pub steps: u32,
    pub emitted: BitWriter,
}

impl<'p> Interpreter<'p> {
    /// A program at rest, its tables as it declares them.
    pub fn new(program: &'p Verified) -> Result<Interpreter<'p>, TableError> {
        let manifest = manifest::of(program);
        let state = State {
            tables: manifest.tables.iter().map(Table::new).collect::<Result<_, _>>()?,
            counters: program.counters.iter().map(|c| Cells::new(c.size, Count::default())).collect(),
            registers: program
                .registers
                .iter()
                .map(|r| Cells::new(r.size, Bits::zero(r.ty.width())))
                .collect(),
            drops: vec![Count::default(); manifest.drops.len()],
            groups: BTreeMap::new(),
            seed: 0x9e37_79b9_7f4a_7c15,
        };
        let fresh = PacketState::new(program);
        Ok(Interpreter { program, manifest, state, fresh, clock: 0 })
    }

    /// What the program offers to a controller.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// A table by its full name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.state.tables.iter().find(|t| t.definition().name == name)
    }

    /// A table, to be written.
    pub fn table_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.state.tables.iter_mut().find(|t| t.definition().name == name)
    }

    /// A cell of an indexed counter.
    pub fn counter(&self, name: &str, index: u64) -> Option<Count> {
        let at = self.program.counters.iter().position(|c| c.name == name)?;
        self.state.counters[at].get(index).copied()
    }

    /// Writes a cell of an indexed counter; whether there is such a cell.
    pub fn set_counter(&mut self, name: &str, index: u64, count: Count) -> bool {
        let at = self.program.counters.iter().position(|c| c.name == name);
        let cell = at.and_then(|at| self.state.counters[at].get_mut(index));
        cell.map(|c| *c = count).is_some()
    }

    /// A cell of a register.
    pub fn register(&self, name: &str, index: u64) -> Option<Bits> {
        let at = self.program.registers.iter().position(|r| r.name == name)?;
        self.state.registers[at].get(index).cloned()
    }

    /// Writes a cell of a register; whether there is such a cell.
    pub fn set_register(&mut self, name: &str, index: u64, value: &Bits) -> bool {
        let Some(at) = self.program.registers.iter().position(|r| r.name == name) else { return false };
        let width = self.program.registers[at].ty.width();
        let cell = self.state.registers[at].get_mut(index);
        cell.map(|c| *c = value.resize(width)).is_some()
    }

    /// All cells of a register back to zero; whether there is such a register.
    pub fn reset_register(&mut self, name: &str) -> bool {
        let at = self.program.registers.iter().position(|r| r.name == name);
        at.map(|at| self.state.registers[at].reset()).is_some()
    }

    /// Packets dropped for a reason of the manifest.
    pub fn drops(&self, reason: usize) -> Count {
        self.state.drops.get(reason).copied().unwrap_or_default()
    }

    /// Makes or replaces a multicast group: replicas as (rid, port).
    pub fn set_group(&mut self, group: u32, replicas: Vec<(u32, u32)>) {
        self.state.groups.insert(group, replicas);
    }

    /// The clock that packets see, in microseconds; it stands still unless it is set.
    pub fn set_clock(&mut self, micros: u64) {
        self.clock = micros;
    }

    /// Runs one packet through the program.
    pub fn process(&mut self, port: u32, packet: &[u8], observer: &mut dyn Observer) -> Outcome {
        let watched = observer.wants_events();
        if watched {
            observer.event(Event::Arrived { port, bytes: packet });
        }
        let mut s = self.fresh.clone();
        s.data = packet.to_vec();
        let mut run = Run {
            program: self.program,
            state: &mut self.state,
            s,
            observer,
            watched,
            steps: STEPS,
            emitted: BitWriter::default(),
        };
        run.arrive(port, self.clock);
        run.pipeline()
    }
}

impl Run<'_, '_> {
    fn arrive(&mut self, port: u32, clock: u64) {
        let standard = self.program.standard;
        self.set(standard.ingress_port, port as u128);
        self.set(standard.packet_length, self.s.data.len() as u128);
        self.set(standard.ingress_global_timestamp, clock as u128);
        self.set(standard.egress_global_timestamp, clock as u128);
    }

    fn pipeline(mut self) -> Outcome {
        let program = self.program;
        for parser in &program.parsers {
            self.parse(parser);
        }
        let mut outcome = Outcome::default();
        for role in [Role::VerifyChecksum, Role::Ingress] {
            if !self.control(role) {
                self.dropped(drops::STEP_BUDGET, &mut outcome);
                return outcome;
            }
        }
        let group = self.number(program.standard.mcast_grp) as u32;
        if group != 0 {
            self.replicate(group, &mut outcome);
        } else {
            let port = self.number(program.standard.egress_spec) as u32;
            self.leave(port, &mut outcome);
        }
        outcome
    }

    /// Each replica runs egress with the state that ingress left.
    fn replicate(&mut self, group: u32, outcome: &mut Outcome) {
        let replicas = self.state.groups.get(&group).cloned().unwrap_or_default();
        if replicas.is_empty() {
            self.dropped(drops::NO_SUCH_GROUP, outcome);
        }
        let standard = self.program.standard;
        let after_ingress = self.s.clone();
        for (rid, port) in replicas {
            self.s = after_ingress.clone();
            self.set(standard.egress_rid, rid as u128);
            self.set(standard.instance_type, REPLICATION);
            self.set(standard.egress_spec, 0);
            self.leave(port, outcome);
        }
    }

    /// The traffic manager's other side.
    fn leave(&mut self, port: u32, outcome: &mut Outcome) {
        let standard = self.program.standard;
        if port == DROP_PORT {
            self.drop_marked(outcome);
            return;
        }
        self.set(standard.egress_port, port as u128);
        if !self.control(Role::Egress) {
            self.dropped(drops::STEP_BUDGET, outcome);
            return;
        }
        if self.number(standard.egress_spec) as u32 == DROP_PORT {
            self.drop_marked(outcome);
            return;
        }
        self.control(Role::ComputeChecksum);
        self.emitted = BitWriter::default();
        self.control(Role::Deparser);
        let mut bytes = std::mem::take(&mut self.emitted).finish();
        bytes.extend_from_slice(self.s.payload());
        if self.watched {
            self.observer.event(Event::Sent { port, bytes: &bytes });
        }
        outcome.sent.push((port, bytes));
    }

    /// Runs a control; false if it did not come to an end.
    fn control(&mut self, role: Role) -> bool {
        let Some(control) = self.program.control(role) else { return true };
        if self.watched {
            self.observer.event(Event::Control { name: &control.name, loc: control.loc });
        }
        self.block(&control.body) != Flow::Exhausted
    }

    fn number(&self, var: ir::VarId) -> u64 {
        self.s.vars[var.index()].low_u64()
    }

    fn drop_marked(&mut self, outcome: &mut Outcome) {
        match self.s.site {
            Some(site) => self.drop_for(site, outcome),
            None => self.dropped(drops::EGRESS_SPEC, outcome),
        }
    }

    fn dropped(&mut self, name: &str, outcome: &mut Outcome) {
        let own = self.program.drop_sites.len();
        let fixed = [drops::EGRESS_SPEC, drops::NO_SUCH_GROUP, drops::STEP_BUDGET];
        let at = fixed.iter().position(|f| *f == name).unwrap_or(0);
        self.drop_for(own + at, outcome);
    }

    fn drop_for(&mut self, reason: usize, outcome: &mut Outcome) {
        let bytes = self.s.data.len() as u64;
        if let Some(count) = self.state.drops.get_mut(reason) {
            count.add(bytes);
        }
        if self.watched {
            let fixed = [drops::EGRESS_SPEC, drops::NO_SUCH_GROUP, drops::STEP_BUDGET];
            let sites = &self.program.drop_sites;
            let name = match sites.get(reason) {
                Some(site) => site.name.as_str(),
                None => fixed.get(reason - sites.len()).copied().unwrap_or("?"),
            };
            self.observer.event(Event::Dropped { reason: name });
        }
        outcome.dropped.push(reason);
    }
}
