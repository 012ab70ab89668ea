//! A running program: the state that is kept between packets, and the control plane's access to it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use abi::{Bits, Manifest, MatchValue, drops};
use dataplane::device::{Event as Reported, Mirror};
use dataplane::{Cells, Count, Handle, Meter, Profile, Table, TableError};
use ir::{Role, StageId, VarId, Verified};

use crate::carry::Carry;
use crate::event::{Event, Observer, Silent};
use crate::exec::Flow;
use crate::manifest;
use crate::packet::{BitWriter, PacketState};
use crate::pna::{Applying, Pna};
use crate::queue::Queues;

/// The budget of one packet: how many parser states and loop iterations it may take. No packet has that many headers, and a program that
/// loops for ever exceeds it quickly.
const STEPS: u32 = 100_000;

/// The number of events that are kept until the controller asks for them.
const EVENTS: usize = 1 << 16;

/// The drop reasons of the interpreter. They come after the program's own reasons.
const FIXED: [&str; 5] =
    [drops::EGRESS_SPEC, drops::NO_SUCH_GROUP, drops::STEP_BUDGET, drops::QUEUE_FULL, drops::DROP];

/// The result of processing a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The sent packets in order, each with its port.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// The drops of the packet and its replicas, as indexes into the manifest's drop reasons.
    pub dropped: Vec<usize>,
}

/// The cells of one meter.
pub(crate) struct Meters {
    /// The initial value of a direct meter's new cells.
    pub template: Meter,
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

    /// Removes the cell of an entry.
    pub fn forget(&mut self, entry: Handle) {
        self.entries.remove(&entry);
    }

    /// Sets the cells of all entries, present and future, of a direct meter.
    pub fn set_all(&mut self, meter: Meter) {
        self.entries.clear();
        self.template = meter;
    }
}

/// The program of an interpreter.
pub(crate) enum Source<'p> {
    Borrowed(&'p Verified),
    Shared(Arc<Verified>),
}

impl Deref for Source<'_> {
    type Target = Verified;

    fn deref(&self) -> &Verified {
        match self {
            Source::Borrowed(program) => program,
            Source::Shared(program) => program,
        }
    }
}

/// A running program with its state.
pub struct Interpreter<'p> {
    pub(crate) program: Source<'p>,
    pub(crate) manifest: Manifest,
    pub(crate) state: State,
    fresh: PacketState,
    /// The state of the previous packet, whose memory the next packet reuses.
    spare: PacketState,
    pub(crate) clock: u64,
    pub(crate) queues: Queues,
    carry: Option<Carry>,
    /// The port whose packets go to the controller, and through which the controller's packets come.
    pub(crate) controller_port: Option<u32>,
    /// What the program has told, until [`dataplane::Device::events`] takes it.
    pub(crate) reported: VecDeque<Reported>,
    /// The packets that left because of the controller's packets, until [`Interpreter::take_injected`].
    pub(crate) injected: Vec<(u32, Vec<u8>)>,
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
    /// The digests and the controller's packets of the packet that is being processed.
    pub reported: Vec<Reported>,
    /// Whether the messages that the program logs are reported.
    pub listens: bool,
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
    pub manifest: &'p Manifest,
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
    pub queues: &'o mut Queues,
    /// The remaining jobs of the packet, in the order of the switch's queues.
    pub jobs: VecDeque<Job>,
    pub outcome: Outcome,
}

/// A packet that waits to enter a stage.
#[derive(Debug)]
pub(crate) struct Job {
    pub state: PacketState,
    pub stage: StageId,
    /// The port where the packet goes.
    pub port: u32,
}

impl Interpreter<'static> {
    /// Like [`Interpreter::new`], for an interpreter that outlives its caller.
    pub fn of(program: Arc<Verified>) -> Result<Interpreter<'static>, TableError> {
        Interpreter::load(Source::Shared(program))
    }
}

impl<'p> Interpreter<'p> {
    /// Loads a program, with its tables as it declares them.
    pub fn new(program: &'p Verified) -> Result<Interpreter<'p>, TableError> {
        Interpreter::load(Source::Borrowed(program))
    }

    fn load(program: Source<'p>) -> Result<Interpreter<'p>, TableError> {
        let manifest = manifest::of(&program);
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
            profiles: vec![Profile::default(); program.profiles.len()],
            reported: Vec::new(),
            listens: false,
            seed: 0x9e37_79b9_7f4a_7c15,
        };
        let fresh = PacketState::new(&program);
        Ok(Interpreter {
            program,
            manifest,
            state,
            fresh,
            spare: PacketState::default(),
            clock: 0,
            queues: Queues::new(),
            carry: None,
            controller_port: None,
            reported: VecDeque::new(),
            injected: Vec::new(),
        })
    }

    /// The manifest of the program.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Sets the time that packets see, in microseconds. The clock does not advance by itself.
    pub fn set_clock(&mut self, micros: u64) {
        self.clock = micros;
    }

    /// Switches on the carrying of wrong checksums. A packet that arrives with a wrong checksum over the payload then leaves with one that
    /// is wrong by the same amount, as on compiled targets, instead of a correct one.
    pub fn carry_wrong_sums(&mut self) {
        self.carry = Some(Carry::of(&self.program));
    }

    /// Gives a port to the controller: packets that leave through it become events, and [`dataplane::Device::packet_out`] sends into it.
    pub fn set_controller_port(&mut self, port: Option<u32>) {
        self.controller_port = port;
    }

    /// The packets that left through other ports because of the controller's packets, since the last call.
    pub fn take_injected(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.injected)
    }

    /// Keeps what a packet has told for the controller. If nobody asks, the newest events are lost.
    fn report(&mut self, outcome: &mut Outcome) {
        let mut told = std::mem::take(&mut self.state.reported);
        if let Some(own) = self.controller_port {
            let sent = std::mem::take(&mut outcome.sent);
            let (to_controller, sent) = sent.into_iter().partition(|(port, _)| *port == own);
            outcome.sent = sent;
            let packets: Vec<(u32, Vec<u8>)> = to_controller;
            told.extend(packets.into_iter().map(|(_, packet)| Reported::Packet(packet)));
        }
        let room = EVENTS.saturating_sub(self.reported.len());
        self.reported.extend(told.into_iter().take(room));
    }

    /// The value of a variable when a packet has passed a control of the first stage; `None` if it is dropped before. Nothing leaves, and nobody is
    /// told.
    pub fn value_after(&mut self, port: u32, packet: &[u8], control: Role, variable: VarId) -> Option<Bits> {
        let mut value = None;
        self.run(&mut Silent, |run| {
            value = run.reach(port, packet, control).then(|| run.s.vars[variable.index()].clone());
        });
        value
    }

    /// Runs one packet through the program.
    pub fn process(&mut self, port: u32, packet: &[u8], observer: &mut dyn Observer) -> Outcome {
        if observer.wants_events() {
            observer.event(Event::Arrived { port, bytes: packet });
        }
        self.run(observer, |run| {
            run.state.pna.sweep(run.clock, &mut run.state.tables);
            run.arrive(port, packet);
        })
    }

    /// Runs one packet: `go` lets it begin somewhere.
    pub(crate) fn run(&mut self, observer: &mut dyn Observer, go: impl FnOnce(&mut Run<'_, '_>)) -> Outcome {
        let watched = observer.wants_events();
        let mut run = Run {
            program: &self.program,
            manifest: &self.manifest,
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
            queues: &mut self.queues,
            jobs: VecDeque::new(),
            outcome: Outcome::default(),
        };
        go(&mut run);
        self.spare = run.s;
        let mut outcome = run.outcome;
        self.report(&mut outcome);
        outcome
    }
}

/// A packet was dropped before the end of a parser or control, for the reason with this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped(pub usize);

impl Dropped {
    /// What a parser or control results in that ended with this flow.
    pub(crate) fn unless_ended(flow: Flow) -> Result<(), Dropped> {
        if let Flow::Drop(reason) = flow { Err(Dropped(reason)) } else { Ok(()) }
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
