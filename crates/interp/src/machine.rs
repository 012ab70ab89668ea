//! A running program: the state that is kept between packets, and the control plane's access to it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use abi::{ActionCall, Bits, Digest, Entry, Manifest, MatchValue, drops};
use dataplane::{Cells, Count, Handle, Indirect, Meter, Profile, ProfileError, Rate, Table, TableError};
use ir::{Role, StageId, VarId, Verified};

use crate::carry::Carry;
use crate::event::{Event, Observer};
use crate::exec::Flow;
use crate::manifest;
use crate::packet::{BitWriter, PacketState};
use crate::pna::{Applying, Pna};

/// The budget of one packet: how many parser states and loop iterations it may take. No packet has that many headers, and a program that
/// loops for ever exceeds it quickly.
const STEPS: u32 = 100_000;

/// The drop reasons of the interpreter. They come after the program's own reasons.
const FIXED: [&str; 4] = [drops::EGRESS_SPEC, drops::NO_SUCH_GROUP, drops::STEP_BUDGET, drops::DROP];

/// The result of processing a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The sent packets in order, each with its port.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// The drops of the packet and its replicas, as indexes into the manifest's drop reasons.
    pub dropped: Vec<usize>,
    /// The digests that the packet sent, in order.
    pub digests: Vec<Digest>,
}

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// To one port, by its number.
    Port(u32),
    /// To every member of a multicast group, by the group's number.
    Group(u32),
}

/// The cells of one meter.
pub(crate) struct Meters {
    /// The initial value of a direct meter's new cells.
    template: Meter,
    pub cells: Cells<Meter>,
    entries: HashMap<Handle, Meter>,
}

impl Meters {
    fn new(size: u64) -> Meters {
        let template = Meter::default();
        Meters { cells: Cells::new(size, template.clone()), template, entries: HashMap::new() }
    }

    /// The cell of a table entry, for a direct meter.
    pub fn of_entry(&mut self, entry: Handle) -> &mut Meter {
        self.entries.entry(entry).or_insert_with(|| self.template.clone())
    }

    fn set(&mut self, index: Option<u64>, meter: Meter) -> bool {
        match index {
            Some(index) => self.cells.get_mut(index).map(|cell| *cell = meter).is_some(),
            None => {
                self.cells = Cells::new(self.cells.size(), meter.clone());
                self.entries.clear();
                self.template = meter;
                true
            }
        }
    }
}

/// A running program with its state.
pub struct Interpreter<'p> {
    program: &'p Verified,
    manifest: Manifest,
    state: State,
    fresh: PacketState,
    /// The state of the previous packet, whose memory the next packet reuses.
    spare: PacketState,
    clock: u64,
    carry: Option<Carry>,
}

/// The state that is kept between packets.
pub(crate) struct State {
    pub tables: Vec<Table>,
    pub counters: Vec<Cells<Count>>,
    pub registers: Vec<Cells<Bits>>,
    pub drops: Vec<Count>,
    /// The replicas of each multicast group, as (rid, port).
    pub groups: BTreeMap<u32, Vec<(u32, u32)>>,
    pub mirrors: BTreeMap<u32, Mirror>,
    pub meters: Vec<Meters>,
    pub value_sets: Vec<Vec<Vec<MatchValue>>>,
    pub pna: Pna,
    pub profiles: Vec<Profile>,
    seed: u64,
}

impl State {
    /// The next random number (xorshift64*, Vigna 2016).
    pub fn random_u64(&mut self) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The processing of one packet.
pub(crate) struct Run<'p, 'o> {
    pub program: &'p Verified,
    pub state: &'o mut State,
    pub s: PacketState,
    pub carry: Option<&'o Carry>,
    pub observer: &'o mut dyn Observer,
    pub watched: bool,
    pub steps: u32,
    /// Rounds so far: further passes through the first stage, and copies that later stages make ([`abi::ROUNDS`]).
    pub rounds: u32,
    pub emitted: BitWriter,
    /// PNA: the table that is being applied.
    pub applying: Option<Applying>,
    /// The time that the packet sees, in microseconds.
    pub clock: u64,
    pub fresh: &'o PacketState,
    /// The remaining jobs of the packet, in the order of the switch's queues.
    pub jobs: VecDeque<Job>,
    pub outcome: Outcome,
}

/// A packet that waits to enter a stage.
pub(crate) struct Job {
    pub state: PacketState,
    pub stage: StageId,
}

impl<'p> Interpreter<'p> {
    /// Loads a program, with its tables as it declares them.
    pub fn new(program: &'p Verified) -> Result<Interpreter<'p>, TableError> {
        let manifest = manifest::of(program);
        let state = State {
            tables: manifest.tables.iter().map(Table::new).collect::<Result<_, _>>()?,
            counters: program.counters.iter().map(|c| Cells::new(c.size, Count::default())).collect(),
            registers: program.registers.iter().map(|r| Cells::new(r.size, r.initial.clone())).collect(),
            drops: vec![Count::default(); manifest.drops.len()],
            groups: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            meters: program.meters.iter().map(|m| Meters::new(m.size.unwrap_or(0))).collect(),
            value_sets: vec![Vec::new(); program.value_sets.len()],
            pna: Pna::default(),
            profiles: program
                .profiles
                .iter()
                .map(|p| Profile::new(&p.name, p.size, p.selector.is_some()))
                .collect(),
            seed: 0x9e37_79b9_7f4a_7c15,
        };
        let fresh = PacketState::new(program);
        Ok(Interpreter {
            program,
            manifest,
            state,
            fresh,
            spare: PacketState::default(),
            clock: 0,
            carry: None,
        })
    }

    /// The manifest of the program.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The table with this full control-plane name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.state.tables.iter().find(|t| t.definition().name == name)
    }

    /// The table with this full control-plane name, for writing.
    pub fn table_mut(&mut self, name: &str) -> Option<&mut Table> {
        self.state.tables.iter_mut().find(|t| t.definition().name == name)
    }

    /// The value of an indexed counter's cell; `None` if there is no such cell.
    pub fn counter(&self, name: &str, index: u64) -> Option<Count> {
        let at = self.program.counters.iter().position(|c| c.name == name)?;
        self.state.counters[at].get(index).copied()
    }

    /// Writes a cell of an indexed counter. Returns whether there is such a cell.
    pub fn set_counter(&mut self, name: &str, index: u64, count: Count) -> bool {
        let at = self.program.counters.iter().position(|c| c.name == name);
        let cell = at.and_then(|at| self.state.counters[at].get_mut(index));
        cell.map(|c| *c = count).is_some()
    }

    /// The value of a register's cell; `None` if there is no such cell.
    pub fn register(&self, name: &str, index: u64) -> Option<Bits> {
        let at = self.program.registers.iter().position(|r| r.name == name)?;
        self.state.registers[at].get(index).cloned()
    }

    /// Writes a cell of a register. Returns whether there is such a cell.
    pub fn set_register(&mut self, name: &str, index: u64, value: &Bits) -> bool {
        let Some(at) = self.program.registers.iter().position(|r| r.name == name) else { return false };
        let width = self.program.registers[at].ty.width();
        let cell = self.state.registers[at].get_mut(index);
        cell.map(|c| *c = value.resize(width)).is_some()
    }

    /// Sets all cells of a register to their initial value. Returns whether there is such a register.
    pub fn reset_register(&mut self, name: &str) -> bool {
        let at = self.program.registers.iter().position(|r| r.name == name);
        at.map(|at| self.state.registers[at].reset()).is_some()
    }

    /// The packets dropped for a reason. `reason` is an index into the manifest's drop reasons.
    pub fn drops(&self, reason: usize) -> Count {
        self.state.drops.get(reason).copied().unwrap_or_default()
    }

    /// Adds or replaces a multicast group. Each replica is (rid, port).
    pub fn set_group(&mut self, group: u32, replicas: Vec<(u32, u32)>) {
        self.state.groups.insert(group, replicas);
    }

    /// Sets where the clones of a mirroring session go; `None` removes the session.
    pub fn set_mirror(&mut self, session: u32, to: Option<Mirror>) {
        match to {
            Some(to) => drop(self.state.mirrors.insert(session, to)),
            None => drop(self.state.mirrors.remove(&session)),
        }
    }

    /// Sets the rates of one cell of a meter, or of all its cells (`None`). The lowest rate comes first. Returns whether there is such a
    /// cell.
    pub fn set_rates(&mut self, name: &str, index: Option<u64>, rates: &[Rate]) -> bool {
        let at = self.program.meters.iter().position(|m| m.name == name);
        at.is_some_and(|at| self.state.meters[at].set(index, Meter::new(rates, self.clock)))
    }

    /// Replaces the members of a value set. Returns false if there is no such set, if there are more members than its size, or if a member
    /// does not have the set's fields.
    pub fn set_members(&mut self, name: &str, members: Vec<Vec<MatchValue>>) -> bool {
        let at = self.program.value_sets.iter().position(|s| s.name == name);
        at.is_some_and(|at| {
            let set = &self.program.value_sets[at];
            let fits = |member: &Vec<MatchValue>| {
                member.len() == set.keys.len()
                    && member
                        .iter()
                        .zip(&set.keys)
                        .all(|(part, key)| part.width().is_none_or(|w| w == key.width))
            };
            let fit = members.len() as u64 <= set.size && members.iter().all(fits);
            if fit {
                self.state.value_sets[at] = members;
            }
            fit
        })
    }

    /// Sets the time that packets see, in microseconds. The clock does not advance by itself.
    pub fn set_clock(&mut self, micros: u64) {
        self.clock = micros;
    }

    /// The number of the action profile with this name.
    fn profile(&mut self, name: &str) -> Option<usize> {
        self.state.profiles.iter().position(|p| p.name() == name)
    }

    /// Adds a member to an action profile, or changes the action of an existing member; `None` if there is no such profile.
    pub fn set_member(
        &mut self,
        profile: &str,
        id: u32,
        call: ActionCall,
    ) -> Option<Result<(), ProfileError>> {
        let at = self.profile(profile)?;
        Some(self.state.profiles[at].set_member(id, call).map(|()| self.refresh(at)))
    }

    /// Adds a group of members, or replaces the members of an existing group; `None` if there is no such profile.
    pub fn set_member_group(
        &mut self,
        profile: &str,
        id: u32,
        members: Vec<u32>,
    ) -> Option<Result<(), ProfileError>> {
        let at = self.profile(profile)?;
        Some(self.state.profiles[at].set_group(id, members).map(|()| self.refresh(at)))
    }

    /// Makes an entry refer to a member or a group of its table's action profile; `None` if the table has no profile.
    pub fn set_indirect(
        &mut self,
        table: &str,
        entry: Handle,
        to: Indirect,
    ) -> Option<Result<(), ProfileError>> {
        let number = self.state.tables.iter().position(|t| t.definition().name == table)?;
        let at = self.program.tables[number].profile?.index();
        Some(self.state.profiles[at].actions_of(to).map(|_| {
            self.state.profiles[at].used_by(number, entry, to);
            self.refresh(at);
        }))
    }

    /// Passes the current members of a profile to all entries that refer to them.
    fn refresh(&mut self, profile: usize) {
        for (table, entry, calls) in self.state.profiles[profile].users() {
            self.state.tables[table].set_members(entry, &calls);
        }
    }

    /// Sets an entry's idle timeout in microseconds; `None` switches it off.
    pub fn set_idle_timeout(
        &mut self,
        table: &str,
        entry: Handle,
        timeout: Option<u64>,
    ) -> Result<(), TableError> {
        let missing = || TableError::NotFound(table.to_owned());
        let at = self.program.tables.iter().position(|t| t.name == table).ok_or_else(missing)?;
        if !self.program.tables[at].notifies_idle {
            return Err(TableError::NoIdleTimeout(table.to_owned()));
        }
        let found = self.state.tables[at].set_idle_timeout(entry, timeout, self.clock);
        if found { Ok(()) } else { Err(missing()) }
    }

    /// The entries that have become idle since the last call, each with its table's name.
    pub fn take_idle(&mut self) -> Vec<(String, Entry)> {
        let of_table = |table: &mut Table| {
            let name = table.definition().name.clone();
            table.take_idle(self.clock).into_iter().map(move |entry| (name.clone(), entry))
        };
        self.state.tables.iter_mut().flat_map(of_table).collect()
    }

    /// PNA: sets whether a port is a port to the host. By default it is a port to the network.
    pub fn set_host_port(&mut self, port: u32, host: bool) {
        match host {
            true => self.state.pna.host_ports.insert(port),
            false => self.state.pna.host_ports.remove(&port),
        };
    }

    /// PNA: sets the expire time of a profile in microseconds; `None` means that its entries never expire.
    pub fn set_expire_time(&mut self, profile: u32, micros: Option<u64>) {
        match micros {
            Some(micros) => self.state.pna.times.insert(profile, micros),
            None => self.state.pna.times.remove(&profile),
        };
    }

    /// Switches on the carrying of wrong checksums. A packet that arrives with a wrong checksum over the payload then leaves with one that
    /// is wrong by the same amount, as on compiled targets, instead of a correct one.
    pub fn carry_wrong_sums(&mut self) {
        self.carry = Some(Carry::of(self.program));
    }

    /// Runs one packet through the program.
    pub fn process(&mut self, port: u32, packet: &[u8], observer: &mut dyn Observer) -> Outcome {
        let watched = observer.wants_events();
        if watched {
            observer.event(Event::Arrived { port, bytes: packet });
        }
        let mut run = Run {
            program: self.program,
            state: &mut self.state,
            s: std::mem::take(&mut self.spare),
            carry: self.carry.as_ref(),
            observer,
            watched,
            steps: STEPS,
            rounds: 0,
            emitted: BitWriter::default(),
            applying: None,
            clock: self.clock,
            fresh: &self.fresh,
            jobs: VecDeque::new(),
            outcome: Outcome::default(),
        };
        run.state.pna.sweep(run.clock, &mut run.state.tables);
        run.arrive(port, packet);
        self.spare = run.s;
        run.outcome
    }
}

/// A packet was dropped before the end of a parser or control, for the reason with this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped(pub usize);

impl Dropped {
    /// What a parser or control results in that ended with this flow.
    pub(crate) fn unless_ended(flow: Flow) -> Result<(), Dropped> {
        match flow {
            Flow::Drop(reason) => Err(Dropped(reason)),
            _ => Ok(()),
        }
    }
}

impl Run<'_, '_> {
    /// Runs a control.
    pub(crate) fn control(&mut self, role: Role) -> Result<(), Dropped> {
        let Some(control) = self.program.control(role) else { return Ok(()) };
        if self.watched {
            self.observer.event(Event::Control { name: &control.name, loc: control.loc });
        }
        Dropped::unless_ended(self.block(&control.body))
    }

    pub(crate) fn number(&self, var: VarId) -> u64 {
        self.s.vars[var.index()].low_u64()
    }

    pub(crate) fn dropped(&mut self, name: &str) {
        self.drop_for(self.reason(name));
    }

    /// The number of one of the interpreter's own drop reasons.
    pub(crate) fn reason(&self, name: &str) -> usize {
        self.program.drop_sites.len() + FIXED.iter().position(|f| *f == name).unwrap_or(0)
    }

    pub(crate) fn drop_for(&mut self, reason: usize) {
        let bytes = self.s.data.len() as u64;
        if let Some(count) = self.state.drops.get_mut(reason) {
            count.add(bytes);
        }
        if self.watched {
            let sites = &self.program.drop_sites;
            let name = match sites.get(reason) {
                Some(site) => site.name.as_str(),
                None => FIXED.get(reason - sites.len()).copied().unwrap_or("?"),
            };
            self.observer.event(Event::Dropped { reason: name });
        }
        self.outcome.dropped.push(reason);
    }
}
