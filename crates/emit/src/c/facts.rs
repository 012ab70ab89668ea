//! What an emitter must know about a program before it writes the first line.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use abi::manifest::{DigestType, MessageType};
use ir::cells::Cell;
use ir::checksum::Plan;
use ir::effects::{self, Effect};
use ir::partial::Tracked;
use ir::pipeline::Mention;
use ir::{Call, HeaderId, Program, Role, Stmt, StmtKind, Transition, VarId, VarKind, Verified, visit};

use super::header;
use super::parser;
use super::pipeline::{has_rounds, is_straight, stage_name};
use super::place::Unit;

/// The most iterations that a packet may take of loops whose bound the compiler does not know. A packet that takes more is dropped.
pub const LOOP_BUDGET: u64 = 100_000;

/// The most statements of a program for the kernel whose stages are one function: calls cost the smallest programs much of their time. In one
/// function, the kernel's verifier follows every path through all stages, and their locals share 512 bytes of stack.
const MOST_IN_ONE: usize = 128;

/// What executes the C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The kernel. A program has 512 bytes of stack, and uses maps and helpers. The verifier follows every path.
    Bpf,
    /// The processor, with ordinary memory.
    Native,
}

impl Machine {
    /// How often a packet may enter parser states that are part of a loop.
    pub fn parser_budget(self) -> u64 {
        match self {
            Machine::Bpf => 128,
            Machine::Native => LOOP_BUDGET,
        }
    }

    /// Whether the iterations of a loop with this bound need not be counted.
    pub fn ends(self, bound: Option<u64>) -> bool {
        let most = match self {
            Machine::Bpf => 256, // the kernel's verifier follows each iteration
            Machine::Native => LOOP_BUDGET,
        };
        bound.is_some_and(|bound| bound <= most)
    }
}

/// Where packets meet the program, and so the form that they have in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The kernel's traffic control: a `struct __sk_buff`.
    Tc,
    /// The kernel's express data path: a `struct xdp_md`.
    Xdp,
    /// A buffer of this process: a `struct packet` with its frame.
    Frame,
}

impl Hook {
    /// The machine that runs programs of this hook.
    pub fn machine(self) -> Machine {
        match self {
            Hook::Tc | Hook::Xdp => Machine::Bpf,
            Hook::Frame => Machine::Native,
        }
    }

    /// The parameter of emitted functions that is the packet.
    pub fn packet(self) -> &'static str {
        match self {
            Hook::Tc => "skb",
            Hook::Xdp => "xdp",
            Hook::Frame => "pkt",
        }
    }

    /// The C type of that parameter.
    pub fn packet_type(self) -> &'static str {
        match self {
            Hook::Tc => "struct __sk_buff",
            Hook::Xdp => "struct xdp_md",
            Hook::Frame => "struct packet",
        }
    }

    /// The C of the packet's length in bytes.
    pub fn length(self) -> &'static str {
        match self {
            Hook::Tc => "skb->len",
            Hook::Xdp => "frame_length(xdp)",
            Hook::Frame => "pkt->length",
        }
    }

    /// Whether the deparser writes a header that the program touches as a whole. Otherwise it writes the fields that the program changed, and
    /// needs the others only in headers that the program creates.
    pub fn writes_whole_headers(self) -> bool {
        self == Hook::Tc
    }

    /// Whether the sums of headers are folded before they are kept. The helpers of tc want folded ones. Elsewhere, folding the difference once is
    /// faster.
    pub fn folds_sums(self) -> bool {
        self == Hook::Tc
    }
}

/// The facts about a program that decide what is emitted.
pub struct Facts {
    /// Where packets meet the program.
    pub hook: Hook,
    /// The checksums over the payload that are updated incrementally.
    pub plan: Rc<Plan>,
    /// The sums that update checksums of packets; none at a hook without partial checksums.
    pub partial: Rc<Tracked>,
    /// Variables that must be zero when a packet arrives. Clearing any others would cost time for every packet (docs/device-mode.md).
    pub cleared: BTreeSet<VarId>,
    /// Headers whose fields must be zero when a packet arrives.
    pub cleared_headers: BTreeSet<HeaderId>,
    /// Fields that something reads after extraction.
    pub used: HashSet<(HeaderId, u32)>,
    /// Headers that the program creates: it sets them valid, copies them, or changes every byte; and those with a varbit field. All their
    /// fields are extracted and written.
    pub created: HashSet<HeaderId>,
    /// Fields that statements other than extraction write, and the fields that share bytes with them.
    pub changed: HashSet<(HeaderId, u32)>,
    /// Headers that the program changes or creates.
    pub touched: HashSet<HeaderId>,
    /// Headers whose bytes the deparser may have to copy, because it does not write them as a whole.
    pub raw: Vec<u32>,
    /// Whether the program reads `checksum_error`.
    pub checks: bool,
    /// The number of statements that apply each table.
    pub applications: Vec<u32>,
    /// Whether there is one packet at any time, which passes the stages of the pipeline in order.
    pub straight: bool,
    /// Whether the packet of a straight program may pass the stages again.
    pub rounds: bool,
    /// Whether the stages are one function, on eBPF.
    pub is_small: bool,
    /// Whether the egress control has so many statements that the kernel verifies it separately, and not once for each path through ingress.
    pub is_egress_large: bool,
    /// Whether a loop may use up the packet's budget, which drops the packet.
    pub endless: bool,
    /// Whether a packet may be dropped before the end of a control: by such a loop, or by an assertion.
    pub ends: bool,
    /// The number of the drop reason of packets that use up their budget.
    pub step_budget: usize,
    /// The number of each digest that the program sends.
    pub digests: Rc<HashMap<DigestType, u32>>,
    /// The number of each message that the program logs.
    pub messages: Rc<HashMap<MessageType, u32>>,
}

/// The numbers of things by their order.
fn numbers<T: Eq + std::hash::Hash>(all: Vec<T>) -> Rc<HashMap<T, u32>> {
    Rc::new(all.into_iter().zip(0..).collect())
}

impl Facts {
    /// Computes the facts about a program.
    pub fn new(program: &Verified, hook: Hook) -> Facts {
        let plan = Rc::new(ir::checksum::plan(program));
        let partial = if hook.has_partial_checksums() { Tracked::new(program) } else { Tracked::default() };
        let (mut used, mut checks) = (HashSet::new(), false);
        let error = program.standard.checksum_error;
        all_needs(program, &mut |cell| match cell {
            Cell::Field(h, f) => drop(used.insert((h, f))),
            Cell::Var(var) => checks |= var == error,
            Cell::Valid(_) | Cell::Next(_) => {}
        });
        let metadata = |(i, v): (usize, &ir::Var)| (v.kind == VarKind::Metadata).then_some(VarId(i as u32));
        let mut cleared = program.liveness().read_first(program);
        cleared.extend(program.vars.iter().enumerate().filter_map(metadata));
        let changed = changed(program);
        let mut created = created(program, &changed);
        created.extend(variable(program));
        let touched: HashSet<_> = changed.iter().map(|(h, _)| *h).chain(created.iter().copied()).collect();
        let whole = if hook.writes_whole_headers() { &touched } else { &created };
        let raw = (0..program.headers.len() as u32).filter(|h| !whole.contains(&HeaderId(*h))).collect();
        let mut applications = vec![0; program.tables.len()];
        let (mut endless, mut ends, mut loops, mut statements) = (false, false, false, 0);
        visit::all_stmts(program, &mut |stmt| {
            statements += 1;
            if let StmtKind::Apply { table, .. } = &stmt.kind {
                applications[table.index()] += 1;
            }
            if let StmtKind::Loop { bound, .. } = &stmt.kind {
                loops = true;
                endless |= !hook.machine().ends(*bound);
            }
            ends |= matches!(&stmt.kind, StmtKind::Call(Call::Assert { .. }));
        });
        loops |= program.parsers.iter().any(|p| parser::loops(p).iter().any(Option::is_some));
        let straight = is_straight(program, hook);
        Facts {
            hook,
            plan,
            partial: Rc::new(partial),
            cleared,
            cleared_headers: ir::unset::read_unset(program),
            used,
            created,
            changed,
            touched,
            raw,
            checks,
            applications,
            straight,
            rounds: straight && has_rounds(program, hook),
            is_small: straight && !loops && statements <= MOST_IN_ONE,
            is_egress_large: program
                .control(Role::Egress)
                .is_some_and(|c| statements_of(&c.body) > MOST_IN_ONE),
            endless,
            ends: ends || endless,
            step_budget: 0,
            digests: numbers(ir::manifest::digests(program)),
            messages: numbers(ir::manifest::messages(program)),
        }
    }

    /// What executes the C.
    pub fn machine(&self) -> Machine {
        self.hook.machine()
    }

    /// Whether the kernel verifies the function of a unit separately. Any other function is inlined, which saves some nanoseconds for each
    /// call, and is verified with its caller: that costs no more if there is one caller.
    pub fn is_alone(&self, unit: Unit) -> bool {
        match unit {
            Unit::Role(_) if self.is_small => false,
            Unit::Role(Role::Egress) => self.is_egress_large,
            Unit::Role(role) => matches!(
                role,
                Role::Parser | Role::EgressParser | Role::Ingress | Role::IngressDeparser | Role::Deparser
            ),
            Unit::Table(index) => self.applications[index as usize] != 1,
            Unit::Frame => false,
        }
    }

    /// Whether the function of a unit gets the packet's state from its caller, instead of looking it up again. A function that the kernel verifies
    /// separately has no pointer but that of the packet.
    pub fn gets_state(&self, unit: Unit) -> bool {
        self.machine() == Machine::Bpf && !self.is_alone(unit)
    }

    /// The C of a call of the function of a unit.
    pub fn call(&self, name: &str, unit: Unit) -> String {
        let packet = self.hook.packet();
        match self.gets_state(unit) {
            true => format!("{name}({packet}, packet)"),
            false => format!("{name}({packet})"),
        }
    }

    /// The C of a call of the function of a parser or control.
    pub fn call_stage(&self, role: Role) -> String {
        self.call(stage_name(role), Unit::Role(role))
    }

    /// Whether the parser must copy a field to the state when it extracts the header.
    pub fn extracts(&self, h: HeaderId, field: u32) -> bool {
        let whole = if self.hook.writes_whole_headers() { &self.touched } else { &self.created };
        whole.contains(&h) || self.changed.contains(&(h, field)) || self.used.contains(&(h, field))
    }
}

/// Whether a statement updates a checksum over the payload. The deparser makes this update in the packet; the statement changes no field.
fn is_deferred(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Call(Call::UpdateChecksum { payload: true, .. }))
}

/// Calls `f` for each cell whose value a statement needs. An emit statement needs no values: the deparser can leave the bytes in the
/// packet.
pub fn needs(program: &Program, stmt: &Stmt, f: &mut dyn FnMut(Cell)) {
    if let StmtKind::Emit(_) = &stmt.kind {
        return;
    }
    if let StmtKind::Call(Call::UpdateChecksum { payload: true, cond, data, .. }) = &stmt.kind {
        return data.iter().chain([cond]).for_each(|e| effects::reads(program, e, f));
    }
    effects::of(program, stmt, &mut |effect| {
        if let Effect::Read(cell) = effect {
            f(cell);
        }
    });
}

/// Calls `f` for each cell that some statement [`needs`] or some parser state selects by.
fn all_needs(program: &Program, f: &mut dyn FnMut(Cell)) {
    visit::all_stmts(program, &mut |stmt| needs(program, stmt, f));
    for state in program.parsers.iter().flat_map(|p| &p.states) {
        if let Transition::Select(select) = &state.next {
            select.keys.iter().for_each(|k| effects::reads(program, k, f));
        }
    }
}

/// The number of statements of a block, with those of the blocks in it.
fn statements_of(block: &ir::Block) -> usize {
    let mut count = 0;
    visit::stmts(block, &mut |_| count += 1);
    count
}

/// Fields that statements write individually, and the fields that share bytes with them. Headers that are written as a whole are
/// [`created`].
fn changed(program: &Program) -> HashSet<(HeaderId, u32)> {
    let mut changed = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        if is_deferred(stmt) || is_whole(stmt) {
            return;
        }
        effects::writes(program, stmt, &mut |cell| {
            let Cell::Field(h, field) = cell else { return };
            let groups = header::groups(program.header_type(h));
            let group = groups.into_iter().find(|group| group.contains(&(field as usize)));
            changed.extend(group.into_iter().flatten().map(|f| (h, f as u32)));
        });
    });
    changed
}

/// Whether a statement writes whole headers.
fn is_whole(stmt: &Stmt) -> bool {
    matches!(
        stmt.kind,
        StmtKind::Extract { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
    )
}

/// The headers with a varbit field. They count as created: the deparser writes all their fields.
fn variable(program: &Program) -> impl Iterator<Item = HeaderId> {
    let headers = (0..program.headers.len() as u32).map(HeaderId);
    headers.filter(|h| program.header_type(*h).varbit().is_some())
}

/// Headers that the program creates; see [`Facts::created`].
fn created(program: &Program, changed: &HashSet<(HeaderId, u32)>) -> HashSet<HeaderId> {
    let headers = (0..program.headers.len() as u32).map(HeaderId);
    let every =
        |h: &HeaderId| (0..program.header_type(*h).fields.len() as u32).all(|f| changed.contains(&(*h, f)));
    let mut created: HashSet<HeaderId> = headers.filter(every).collect();
    visit::all_stmts(program, &mut |stmt| {
        if !is_whole(stmt) || matches!(stmt.kind, StmtKind::Extract { .. } | StmtKind::SetInvalid(_)) {
            return;
        }
        // A header that is copied must be extracted as a whole, so it counts too.
        effects::of(program, stmt, &mut |effect| {
            if let Effect::Read(Cell::Valid(h))
            | Effect::MayWrite(Cell::Valid(h))
            | Effect::Write(Cell::Valid(h)) = effect
            {
                created.insert(h);
            }
        });
    });
    // What the pipeline passes to another state is written and read as a whole.
    program.pipeline.mentions(&mut |mention| {
        if let Mention::Header(h) = mention {
            created.insert(*h);
        }
    });
    created
}
