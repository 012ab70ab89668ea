//! The architecture of a program as data: the stages of its pipeline, what a stage knows about a packet that enters it, and what happens to
//! the packet afterwards.
//!
//! A packet arrives at the first stage. The steps of a stage run in order, until a [`Decision`] drops the packet or sends it on a
//! [`Path`]: to a stage, or out of a port. A copy of the packet may take a path while the packet itself continues with the next step.
//!
//! What a program *requests* with extern functions (`clone`, `resubmit`, `truncate`, `send_to_port`, …) is a value of a variable of the
//! architecture: the call is an assignment, and a decision tests the variable.
//!
//! # Paths
//! A packet that takes a path to a stage gets its state as follows. The steps are the same for every architecture, so a target needs no
//! knowledge of it:
//! 1. The state is the old one ([`Carry::All`]), or a new one, whose variables are zero and whose headers are invalid. The new state
//!    receives what is passed to it, then the path's inputs, then the path's settings. If the headers are to be parsed
//!    ([`Headers::Parsed`]), the parser runs, and what is passed and the settings are written once more, because the parser may have
//!    written there.
//! 2. For each port where the packet goes, the stage's inputs are written, then the path's settings.
//!
//! Expressions of a path are evaluated in the old state.

use abi::Bits;

use crate::expr::Expr;
use crate::program::{HeaderId, Loc, Role, StageId, VarId};

/// The stages of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// The stages. Packets arrive at the first one.
    pub stages: Vec<Stage>,
}

/// A part of the pipeline between two decisions about a packet's way, such as v1model's ingress and egress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// The name of the stage in the architecture.
    pub name: &'static str,
    /// The variables that are written when a packet enters the stage.
    pub inputs: Vec<Input>,
    /// Whether packets wait in a queue of their port before they enter the stage, if the port has one. The inputs are then those of a packet that
    /// leaves the queue.
    pub queued: bool,
    /// The steps. The last step is a decision that always ends the stage.
    pub steps: Vec<Step>,
}

/// A variable that the architecture writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The variable that is written.
    pub var: VarId,
    /// Its new value, truncated to its width.
    pub value: Source,
}

/// A value that the architecture writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The port where the packet arrived or, after the first stage, the port where it goes.
    Port,
    /// The replication id of a member of a multicast group; 0 for a packet that goes to a port.
    Replica,
    /// The number of bytes of the packet.
    Length,
    /// The time in microseconds.
    Clock,
    /// What the packet knows about the queue in front of the stage.
    Queue(Queueing),
    /// PNA: 0 for a port to the network, and 1 for a port to the host.
    Direction,
    /// A value that is the same for every packet.
    Const(Bits),
    /// The value of an expression in the state that the packet leaves.
    Value(Expr),
}

/// What a packet knows about the queue of its port when it leaves it. A port without a rate has no queue: the time is the packet's, and the other
/// values are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// The time when the packet entered the queue, in microseconds.
    Entered,
    /// The number of packets that waited when it entered.
    Before,
    /// The microseconds that it waited.
    Waited,
    /// The number of packets that wait when it leaves.
    Behind,
}

/// A step of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a parser. Then each of these variables receives the parser's error.
    Parse(Role, Vec<VarId>),
    /// Runs a control.
    Control(Role),
    /// Runs a deparser. The packet becomes what it emits, followed by the payload.
    Deparse(Role),
    /// Truncates the packet to one byte less than the value of this `bit<32>`. If the value is 0, the packet stays as it is.
    Truncate(VarId, Loc),
    /// Lets the packet leave as IPv6 fragments.
    Fragment(Fragment),
    /// Decides about the packet.
    Decide(Box<Decision>),
}

impl Step {
    /// The decision, if the step is one.
    pub fn decision(&self) -> Option<&Decision> {
        let Step::Decide(decision) = self else { return None };
        Some(decision)
    }
}

/// How a packet leaves as IPv6 fragments (RFC 8200 section 4.5), which only the last steps of a pipeline are about.
///
/// If `size` is not 0, and the packet is an Ethernet frame with an IPv6 packet of more than `size` bytes, the packet becomes its last fragment,
/// and the others leave before it. `dataplane::fragment` has every detail.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// The greatest number of bytes of a fragment: a `bit<32>`.
    pub size: VarId,
    /// The identification of the fragments, if the packet has no fragment header: a `bit<32>`.
    pub identification: VarId,
    /// The port where the fragments leave.
    pub port: Expr,
    /// The location of the first call that requests it.
    pub loc: Loc,
}

/// A decision about a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When the decision applies.
    pub when: When,
    /// What happens if it applies.
    pub then: Fate,
    /// The location of the call that requests it, or of nothing.
    pub loc: Loc,
}

/// The condition of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// The decision always applies.
    Always,
    /// The decision applies if this bool is true.
    Holds(Expr),
    /// The decision applies if this `bit<32>`, a request, has this value.
    Requested(VarId, u32),
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// The packet is dropped at the drop site that ran last. If none ran, this is the name of the reason (`abi::drops`).
    Drop(&'static str),
    /// The packet takes a path, which ends the stage.
    Go(Path),
    /// A copy of the packet takes a path. The packet continues with the next step.
    Copy(Path),
}

/// The way of a packet to a stage or out of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The kind of the path, for traces and messages.
    pub kind: PathKind,
    /// Where the packet goes.
    pub to: To,
    /// The stage that the packet enters; `None` if it leaves.
    pub stage: Option<StageId>,
    /// The bytes of the packet that takes the path.
    pub bytes: Bytes,
    /// The state of the packet that takes the path.
    pub carry: Carry,
    /// The variables that are written for this path, after all others.
    pub sets: Vec<Input>,
}

/// The kinds of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of PSA and v1model.
pub enum PathKind {
    Unicast,
    Multicast,
    Clone,
    Mirror,
    Resubmit,
    Recirculate,
    Leave,
}

impl PathKind {
    /// The kind in words, if it is more than the ordinary way of a packet.
    pub fn done(self) -> Option<&'static str> {
        match self {
            PathKind::Unicast | PathKind::Multicast | PathKind::Leave => None,
            PathKind::Clone => Some("cloned"),
            PathKind::Mirror => Some("mirrored"),
            PathKind::Resubmit => Some("resubmitted"),
            PathKind::Recirculate => Some("recirculated"),
        }
    }
}

/// The destination of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// The port with this number.
    Port(Expr),
    /// All members of a multicast group. A group without members drops the packet.
    Group(Expr),
    /// The port or the group of a mirroring session. An unknown session has no destination.
    Session(Expr),
}

/// The bytes of a packet that takes a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The bytes with which the packet entered the stage.
    Entered,
    /// The bytes after the deparser and truncation.
    Deparsed,
}

/// The state of a packet that takes a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Carry {
    /// The packet keeps its state.
    All,
    /// The packet gets a new state.
    New {
        /// The variables that are written before `sets`.
        inputs: Vec<Input>,
        /// The headers of the new state.
        headers: Headers,
        /// What the new state receives from the old one.
        passed: Vec<Passed>,
    },
}

/// The headers of a new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// All headers are invalid, and the parser is at the beginning of the packet.
    Invalid,
    /// The headers and the position of the parser are those of the old state.
    Kept,
    /// The headers are those that this parser extracts from the packet.
    Parsed(Role),
}

/// A value that a new state receives from the old one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passed {
    /// The value is a scalar.
    Var {
        /// The variable of the old state.
        from: VarId,
        /// The variable of the new state.
        to: VarId,
    },
    /// The value is a header.
    Header {
        /// The header of the old state.
        from: HeaderId,
        /// The header of the new state.
        to: HeaderId,
    },
}

/// Something that the pipeline mentions.
pub enum Mention<'a> {
    /// A variable that is written.
    Written(&'a VarId),
    /// A variable that is read.
    Read(&'a VarId),
    /// An expression that is evaluated.
    Expr(&'a Expr),
    /// A header that is read or written as a whole.
    Header(&'a HeaderId),
}

/// Something that the pipeline mentions, to be changed.
pub enum MentionMut<'a> {
    /// A variable that is read or written.
    Var(&'a mut VarId),
    /// An expression that is evaluated.
    Expr(&'a mut Expr),
    /// A header that is read or written as a whole.
    Header(&'a mut HeaderId),
}

impl Pipeline {
    /// The stage with this id.
    pub fn stage(&self, id: StageId) -> &Stage {
        &self.stages[id.index()]
    }

    /// How packets leave as IPv6 fragments, if they may.
    pub fn fragment(&self) -> Option<&Fragment> {
        self.stages.iter().flat_map(|s| &s.steps).find_map(|step| {
            let Step::Fragment(fragment) = step else { return None };
            Some(fragment)
        })
    }

    /// All decisions, in the order of stages and steps.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.stages.iter().flat_map(|s| &s.steps).filter_map(Step::decision)
    }

    /// Calls `f` for everything that the pipeline mentions.
    pub fn mentions(&self, f: &mut dyn FnMut(Mention<'_>)) {
        for stage in &self.stages {
            stage.inputs.iter().for_each(|i| input(i, f));
            stage.steps.iter().for_each(|s| step(s, f));
        }
    }

    /// Whether the pipeline writes a variable.
    pub fn writes(&self, var: VarId) -> bool {
        let mut found = false;
        self.mentions(&mut |mention| found |= matches!(mention, Mention::Written(v) if *v == var));
        found
    }

    /// Calls `f` for everything that the pipeline mentions, which may be changed.
    pub fn mentions_mut(&mut self, f: &mut dyn FnMut(MentionMut<'_>)) {
        for stage in &mut self.stages {
            stage.inputs.iter_mut().for_each(|i| input_mut(i, f));
            stage.steps.iter_mut().for_each(|s| step_mut(s, f));
        }
    }

    /// Calls `f` for every expression of the pipeline.
    pub fn exprs<'a>(&'a self, f: &mut impl FnMut(&'a Expr)) {
        for stage in &self.stages {
            stage.inputs.iter().for_each(|i| i.exprs(f));
        }
        for Decision { when, then, loc: _ } in self.decisions() {
            if let When::Holds(e) = when {
                f(e);
            }
            let Some(path) = then.path() else { continue };
            match &path.to {
                To::Port(e) | To::Group(e) | To::Session(e) => f(e),
            }
            if let Carry::New { inputs, .. } = &path.carry {
                inputs.iter().for_each(|i| i.exprs(f));
            }
            path.sets.iter().for_each(|i| i.exprs(f));
        }
    }

    /// The variables that the pipeline may write after the first parser.
    pub fn written_later(&self) -> Vec<VarId> {
        let mut all = Vec::new();
        let inputs = self.stages.iter().skip(1).flat_map(|s| &s.inputs);
        inputs.for_each(|i| all.push(i.var));
        for stage in &self.stages {
            stage.steps.iter().for_each(|s| {
                step(s, &mut |mention| {
                    if let Mention::Written(var) = mention {
                        all.push(*var);
                    }
                });
            });
        }
        all
    }
}

impl Input {
    /// Whether the value is known only when the packet leaves the queue.
    pub fn is_of_the_queue(&self) -> bool {
        matches!(self.value, Source::Clock | Source::Queue(_))
    }

    fn exprs<'a>(&'a self, f: &mut impl FnMut(&'a Expr)) {
        if let Source::Value(e) = &self.value {
            f(e);
        }
    }
}

impl Fate {
    /// The path of a packet that goes on, or of its copy.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Fate::Drop(_) => None,
            Fate::Go(path) | Fate::Copy(path) => Some(path),
        }
    }
}

impl Path {
    /// The variables that are written to a new state before all others.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        match &self.carry {
            Carry::All => [].iter(),
            Carry::New { inputs, .. } => inputs.iter(),
        }
    }

    /// What a new state receives from the old one.
    pub fn passed(&self) -> &[Passed] {
        match &self.carry {
            Carry::All => &[],
            Carry::New { passed, .. } => passed,
        }
    }
}

fn input(i: &Input, f: &mut dyn FnMut(Mention<'_>)) {
    f(Mention::Written(&i.var));
    match &i.value {
        Source::Value(e) => f(Mention::Expr(e)),
        Source::Port
        | Source::Replica
        | Source::Length
        | Source::Clock
        | Source::Queue(_)
        | Source::Direction
        | Source::Const(_) => {}
    }
}

fn step(s: &Step, f: &mut dyn FnMut(Mention<'_>)) {
    match s {
        Step::Parse(_, errors) => errors.iter().for_each(|v| f(Mention::Written(v))),
        Step::Control(_) | Step::Deparse(_) => {}
        Step::Truncate(var, _) => f(Mention::Read(var)),
        Step::Fragment(Fragment { size, identification, port, loc: _ }) => {
            f(Mention::Read(size));
            f(Mention::Read(identification));
            f(Mention::Expr(port));
        }
        Step::Decide(decision) => {
            let Decision { when, then, loc: _ } = &**decision;
            match when {
                When::Always => {}
                When::Holds(e) => f(Mention::Expr(e)),
                When::Requested(var, _) => f(Mention::Read(var)),
            }
            if let Some(path) = then.path() {
                self::path(path, f);
            }
        }
    }
}

fn path(p: &Path, f: &mut dyn FnMut(Mention<'_>)) {
    let Path { kind: _, to, stage: _, bytes: _, carry, sets } = p;
    match to {
        To::Port(e) | To::Group(e) | To::Session(e) => f(Mention::Expr(e)),
    }
    if let Carry::New { inputs, headers: _, passed } = carry {
        for item in passed {
            match item {
                Passed::Var { from, to } => {
                    f(Mention::Read(from));
                    f(Mention::Written(to));
                }
                Passed::Header { from, to } => {
                    f(Mention::Header(from));
                    f(Mention::Header(to));
                }
            }
        }
        inputs.iter().for_each(|i| input(i, f));
    }
    sets.iter().for_each(|i| input(i, f));
}

fn input_mut(i: &mut Input, f: &mut dyn FnMut(MentionMut<'_>)) {
    f(MentionMut::Var(&mut i.var));
    match &mut i.value {
        Source::Value(e) => f(MentionMut::Expr(e)),
        Source::Port
        | Source::Replica
        | Source::Length
        | Source::Clock
        | Source::Queue(_)
        | Source::Direction
        | Source::Const(_) => {}
    }
}

fn step_mut(s: &mut Step, f: &mut dyn FnMut(MentionMut<'_>)) {
    match s {
        Step::Parse(_, errors) => errors.iter_mut().for_each(|v| f(MentionMut::Var(v))),
        Step::Control(_) | Step::Deparse(_) => {}
        Step::Truncate(var, _) => f(MentionMut::Var(var)),
        Step::Fragment(Fragment { size, identification, port, loc: _ }) => {
            f(MentionMut::Var(size));
            f(MentionMut::Var(identification));
            f(MentionMut::Expr(port));
        }
        Step::Decide(decision) => {
            let Decision { when, then, loc: _ } = &mut **decision;
            match when {
                When::Always => {}
                When::Holds(e) => f(MentionMut::Expr(e)),
                When::Requested(var, _) => f(MentionMut::Var(var)),
            }
            match then {
                Fate::Drop(_) => {}
                Fate::Go(path) | Fate::Copy(path) => path_mut(path, f),
            }
        }
    }
}

fn path_mut(p: &mut Path, f: &mut dyn FnMut(MentionMut<'_>)) {
    let Path { kind: _, to, stage: _, bytes: _, carry, sets } = p;
    match to {
        To::Port(e) | To::Group(e) | To::Session(e) => f(MentionMut::Expr(e)),
    }
    if let Carry::New { inputs, headers: _, passed } = carry {
        for item in passed {
            match item {
                Passed::Var { from, to } => [from, to].into_iter().for_each(|v| f(MentionMut::Var(v))),
                Passed::Header { from, to } => [from, to].into_iter().for_each(|h| f(MentionMut::Header(h))),
            }
        }
        inputs.iter_mut().for_each(|i| input_mut(i, f));
    }
    sets.iter_mut().for_each(|i| input_mut(i, f));
}
