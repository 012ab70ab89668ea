//! The native back end: it emits C, which the host compiles to machine code and loads as a shared object.
//!
//! The entry point processes packets in bursts, and each burst in three steps:
//!
//! 1. All packets are parsed.
//! 2. Large tables are looked up for all packets (`early`).
//! 3. All packets pass the controls and the deparser.
//!
//! The payload of a packet stays where it is in its buffer, and the deparser writes the headers in front of it.
//!
//! * `table` emits lookups, and `early` emits the lookups for a whole burst.
//! * `deparse` emits the deparser.
//! * `paths` emits the pipeline of programs with multicast, clones, resubmission and recirculation, and `queues` what programs with queues have beside it.
//! * `prelude.h` has the structures in the memory that a program shares with its host.
//!
//! [`crate::c`] has the parts that this back end shares with the eBPF back end.

mod deparse;
mod early;
mod paths;
mod queues;
mod table;

use abi::drops;
use abi::manifest::Structure;
use early::Early;
use ir::pipeline::{Decision, Fate, Path, Stage, Step, To};
use ir::{Role, Verified};
use table::EarlyKey;

use crate::Output;
use crate::c::{self, Emitter, Hook, Known, Which, stage_name};
use crate::unsupported::Unsupported;

/// Name of the function that processes a burst.
pub const ENTRY: &str = "strait_burst";

/// The drop reasons of this target with their descriptions. They are numbered after the program's own.
const REASONS: &[(&str, &str)] = &[
    (drops::EGRESS_SPEC, "the program set egress_spec to the drop port"),
    (drops::NO_SUCH_GROUP, "the multicast group does not exist or has no ports"),
    (drops::STEP_BUDGET, "the parser or a loop did not come to an end"),
    (drops::NO_SUCH_PORT, "the egress port is not attached to anything"),
    (drops::BAD_RESIZE, "there is no room in front of the packet for its new headers"),
    (drops::NO_BUFFER, "a copy or a fragment of the packet found no buffer"),
    c::DROPPED,
    (drops::QUEUE_FULL, "the queue of the egress port was full"),
];

/// The number of one of this target's drop reasons.
fn reason(program: &ir::Program, name: &str) -> usize {
    program.drop_sites.len() + REASONS.iter().position(|r| r.0 == name).unwrap_or(0)
}

/// Packets in a burst if the program looks up tables for whole bursts. A large burst hides the latency of memory: with a million sessions
/// apps/nat44 is 8 % slower with 32 packets, and with a million routes apps/l3 is 20 % slower with 16.
const LARGE: u32 = 64;
/// Packets in a burst otherwise. The state of a small burst stays in the first-level cache: apps/nat64, which has 1.2 KB of state for each
/// packet, is 1 % slower with 32 packets and 6 % slower with 64.
const SMALL: u32 = 16;

/// Bytes of a worker's stack for the state of a burst. The packets that wait in the ring of `paths` may take as many again. A thread has
/// 2 MiB of stack.
const STACK: u64 = 512 << 10;

const PRELUDE: &str = include_str!("prelude.h");
/// The part of the prelude for tables that learn.
const FLOWS: &str = include_str!("flows.h");
/// The part of the prelude for programs whose packets leave as fragments.
const FRAGMENT: &str = include_str!("fragment.h");
/// All texts in C of this back end. The C names of a program must differ from theirs.
const TEXTS: &[&str] = &[
    PRELUDE,
    FLOWS,
    FRAGMENT,
    c::wide::WIDE,
    DROP,
    BURST,
    deparse::RESIZE,
    paths::JOBS,
    paths::FINISH,
    queues::WAITING,
];

/// The C that every native program begins with: the structures that it shares with its host, and lookups in them.
pub fn prelude() -> String {
    format!("{}{PRELUDE}", c::PRELUDE)
}

/// Emits a program as C for the processor. Returns every limit of the target that the program exceeds.
pub fn native(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    emit(program, false)
}

/// Like [`native`], for a host with queues in front of its ports.
pub fn native_with_queues(program: &Verified) -> Result<Output, Vec<Unsupported>> {
    emit(program, true)
}

fn emit(program: &Verified, queues: bool) -> Result<Output, Vec<Unsupported>> {
    let mut c = Emitter::new(program, Hook::Frame, "native", ENTRY, REASONS, TEXTS);
    // A packet that waits leaves its place to others, so that there is more than one.
    c.facts.straight &= !queues;
    c.facts.rounds &= !queues;
    let mut native = Native { c, early: Vec::new(), queues };
    native.program();
    native.c.output()
}

/// The emission of one program as machine code.
struct Native<'p> {
    /// What the targets share.
    c: Emitter<'p>,
    /// The tables that are looked up early.
    early: Vec<Early>,
    /// Whether packets may have to wait for their ports.
    queues: bool,
}

impl Native<'_> {
    fn program(&mut self) {
        self.c.text.line(format!(
            "/* {}.p4 in C. Made by Strait; edit the P4 instead. */",
            self.c.program.name.comment()
        ));
        let structures: Vec<_> =
            self.c.manifest.tables.iter().map(|t| t.layout.as_ref().map(|l| l.structure)).collect();
        self.early = early::tables(self.c.program, &self.c.units, &structures, &self.c.facts.applications);
        let burst = self.burst(if self.early.is_empty() { SMALL } else { LARGE });
        self.c.text.line(format!("#define BURST {burst}"));
        self.c.text.raw(&prelude());
        if structures.contains(&Some(Structure::Flow)) {
            self.c.text.raw(FLOWS);
        }
        let scratch = self.scratch();
        self.c.state(&[], &scratch);
        if !self.c.problems.is_empty() {
            return;
        }
        for i in 0..self.c.program.tables.len() {
            let early = self.early.iter().find(|e| e.table.index() == i);
            let known =
                early.map(|early| if early.guess.is_some() { EarlyKey::Guess } else { EarlyKey::Key });
            self.native_table(i, known);
        }
        self.c.parsers();
        self.c.controls();
        self.native_deparsers();
        self.init_packet();
        self.enter_pipeline();
        if self.c.program.pipeline.fragment().is_some() {
            self.c.text.raw(FRAGMENT);
        }
        match self.c.facts.straight {
            true => self.process_packet(),
            false => self.paths(),
        }
        self.parse_packet();
        self.early_lookups();
        self.c.text.raw(BURST);
    }

    /// The members of `struct scratch` for early lookups.
    fn scratch(&self) -> Vec<String> {
        let members = |early: &Early| {
            let name = self.c.names.table(early.table);
            let layout = self.c.manifest.tables[early.table.index()].layout.as_ref();
            let words = layout.map_or(0, |l| l.key_size).div_ceil(8) + 1;
            [
                format!("u8 {name}_early; /* 1 if the row was looked up early */"),
                format!("const struct row *{name}_row;"),
                format!("u64 {name}_key[{words}];"),
            ]
        };
        self.early.iter().flat_map(members).collect()
    }

    /// The number of packets in a burst: `wanted`, or fewer if their states would not fit on a worker's stack.
    fn burst(&mut self, wanted: u32) -> u32 {
        let bytes = self.packet_bytes();
        let together = if self.c.facts.straight { 1 } else { u64::from(paths::RING) };
        if bytes * together > STACK {
            let loc = self.c.program.controls.first().map(|c| c.loc).unwrap_or_default();
            let what =
                format!("a state of {bytes} bytes for each packet, of which up to {together} wait at a time");
            let hint =
                format!("use fewer or smaller headers and variables: {} bytes have room", STACK / together);
            self.c.problems.push(Unsupported::new(loc, what, hint));
        }
        let mut burst = wanted;
        while burst > 1 && bytes * u64::from(burst) > STACK {
            burst /= 2;
        }
        burst
    }

    /// An upper bound of `sizeof(struct packet)`. With its padding, a value takes at most twice its size.
    fn packet_bytes(&self) -> u64 {
        let value = c::wide::storage_bytes;
        let of_header = |h: &ir::Header| {
            let ty = &self.c.program.header_types[h.ty.index()];
            // The fields, the validity, the offsets on arrival and on departure, and a copy of the bytes in case the header moves.
            ty.fields.iter().map(|f| value(f.ty)).sum::<u64>() + 16 + u64::from(ty.min_bits() / 8)
        };
        let of_table = |t: &ir::Table| t.keys.iter().map(|k| value(k.expr.ty)).sum::<u64>() + 64;
        let p = self.c.program;
        let sums = 48 * self.c.facts.plan.sums.len() as u64;
        256 + sums
            + p.headers.iter().map(of_header).sum::<u64>()
            + p.vars.iter().map(|v| value(v.ty)).sum::<u64>()
            + p.tables.iter().map(of_table).sum::<u64>()
            + 4 * p.stacks.len() as u64
    }

    /// Emits `init_packet(pkt, shared, worker, p)`, which initialises the state of a packet, and `receive_packet(pkt, shared, worker, p)`, which does it
    /// for a packet that arrives.
    fn init_packet(&mut self) {
        let t = &mut self.c.text;
        t.line("");
        t.line(
            "INLINE void init_packet(struct packet *pkt, const struct shared *shared, struct worker *worker,",
        );
        t.open("                  const struct strait_packet *p)");
        t.line("UNUSED struct state *s = &pkt->state;");
        t.line("clear(s, __builtin_offsetof(struct state, rest));");
        self.c.clear_varbits();
        let t = &mut self.c.text;
        t.line("pkt->frame = (struct frame){ p->data, p->headroom, p->tailroom, p->flags, shared, worker };");
        t.line("pkt->length = p->length;");
        for early in &self.early {
            t.line(format!("pkt->scratch.{}_early = 0;", self.c.names.table(early.table)));
        }
        t.close("");
        t.line("");
        t.line("INLINE void receive_packet(struct packet *pkt, const struct shared *shared, struct worker *worker,");
        t.open("                   const struct strait_packet *p)");
        t.line("UNUSED struct state *s = &pkt->state;");
        t.line("init_packet(pkt, shared, worker, p);");
        let program = self.c.program;
        if let Some(first) = program.pipeline.stages.first() {
            let known = Known {
                port: "p->port",
                replica: "0",
                length: "p->length",
                clock: "worker->clock",
                direction: "is_host_port(shared, p->port)",
                queue: None,
            };
            self.c.write_inputs("s", &first.inputs, &known, Which::All);
        }
        self.c.text.close("");
    }

    /// The number of steps of the first stage that run for a whole burst before its early lookups: the parser, and the control that verifies
    /// checksums.
    fn entering(&self, stage: &Stage) -> usize {
        let early = |step: &&Step| matches!(step, Step::Parse(..) | Step::Control(Role::VerifyChecksum));
        stage.steps.iter().take_while(early).count()
    }

    /// Emits `enter_pipeline(pkt)`: the first steps of the first stage.
    fn enter_pipeline(&mut self) {
        let t = &mut self.c.text;
        t.line("");
        t.open("INLINE void enter_pipeline(struct packet *pkt)");
        t.line("UNUSED struct state *s = &pkt->state;");
        let program = self.c.program;
        if let Some(first) = program.pipeline.stages.first() {
            for step in &first.steps[..self.entering(first)] {
                match step {
                    Step::Parse(role, errors) => {
                        self.c.text.line(format!("{}(pkt);", stage_name(*role)));
                        self.c.write_errors(errors);
                    }
                    Step::Control(role) if self.c.program.control(*role).is_some() => {
                        self.c.text.line("if (!s->ended)");
                        self.c.text.line(format!("    {}(pkt);", stage_name(*role)));
                    }
                    Step::Control(_)
                    | Step::Deparse(_)
                    | Step::Truncate(..)
                    | Step::Fragment(_)
                    | Step::Decide(_) => {}
                }
            }
        }
        let t = &mut self.c.text;
        t.close("");
    }

    /// Emits `parse_packet(pkt, shared, worker, p)`, which runs for each packet of a burst before the early lookups.
    fn parse_packet(&mut self) {
        let t = &mut self.c.text;
        t.line("");
        t.line("static void parse_packet(struct packet *pkt, const struct shared *shared, struct worker *worker,");
        t.open("                  const struct strait_packet *p)");
        t.line("receive_packet(pkt, shared, worker, p);");
        t.line("enter_pipeline(pkt);");
        t.close("");
    }

    /// Emits the drop of a packet that was ended by a parser, a loop or an assertion.
    fn check_ended(&mut self) {
        self.c.text.open("if (s->ended)");
        self.c.text.line("drop(pkt, p, s->ended - 1);");
        self.c.text.line("return;");
        self.c.text.close("");
    }

    /// Emits a step of a stage that is no decision.
    fn step(&mut self, step: &Step) {
        match step {
            Step::Parse(role, errors) => {
                self.c.text.line(format!("{}(pkt);", stage_name(*role)));
                self.check_ended();
                self.c.write_errors(errors);
            }
            Step::Control(role) => {
                if self.c.program.control(*role).is_some() {
                    self.c.text.line(format!("{}(pkt);", stage_name(*role)));
                    if self.c.facts.ends {
                        self.check_ended();
                    }
                }
            }
            Step::Deparse(role) => {
                let resize = reason(self.c.program, drops::BAD_RESIZE);
                self.c.text.open(format!("if ({}(pkt))", stage_name(*role)));
                self.c.text.line(format!("drop(pkt, p, {resize});"));
                self.c.text.line("return;");
                self.c.text.close("");
                if self.c.facts.ends {
                    self.check_ended();
                }
            }
            Step::Truncate(var, _) => {
                let length = format!("s->{}", self.c.names.var(*var));
                // What is left has its checksum as it is, and nobody completes one that is incomplete.
                self.c.text.open(format!("if ({length} && pkt->length > {length} - 1)"));
                self.c.text.line(format!("pkt->length = {length} - 1;"));
                self.c.text.line("pkt->frame.flags = p->flags = p->flags & ~PARTIAL;");
                self.c.text.close("");
            }
            Step::Fragment(fragment) => {
                let [size, id] =
                    [fragment.size, fragment.identification].map(|v| format!("s->{}", self.c.names.var(v)));
                let port = self.c.frame_expr(&fragment.port);
                let no_buffer = reason(self.c.program, drops::NO_BUFFER);
                self.c.text.open(format!("if ({size} && fragment(pkt, p, {size}, {id}, {port}))"));
                self.c.text.line(format!("drop(pkt, p, {no_buffer});"));
                self.c.text.line("return;");
                self.c.text.close("");
            }
            Step::Decide(_) => {}
        }
    }

    /// Emits `process_packet(pkt, p, jobs)` for programs whose packets pass the stages in order: all steps one after another, and all of them again in
    /// a further round. The program does not use `jobs`.
    fn process_packet(&mut self) {
        let t = &mut self.c.text;
        t.raw(DROP);
        t.line("");
        t.line("/* Runs the controls and the deparser. */");
        t.open("INLINE void process_packet(struct packet *pkt, struct strait_packet *p, UNUSED struct jobs *jobs)");
        t.line("struct state *s = &pkt->state;");
        if self.c.facts.rounds {
            t.line("u32 rounds = 0;");
            t.margin("again:");
        }
        let program = self.c.program;
        for (i, stage) in program.pipeline.stages.iter().enumerate() {
            let skipped = if i == 0 { self.entering(stage) } else { 0 };
            if skipped > 0 {
                self.check_ended();
            }
            for step in &stage.steps[skipped..] {
                match step {
                    Step::Decide(d) if c::goes_again(program, Hook::Frame, d) => self.next_round(d),
                    Step::Decide(decision) => self.straight_decision(decision),
                    step @ (Step::Parse(..)
                    | Step::Control(_)
                    | Step::Deparse(_)
                    | Step::Truncate(..)
                    | Step::Fragment(_)) => self.step(step),
                }
            }
        }
        self.c.text.close("");
    }

    fn straight_decision(&mut self, decision: &Decision) {
        match &decision.then {
            Fate::Drop(name) => {
                let condition = self.c.condition(&decision.when);
                let reason = reason(self.c.program, name);
                self.c.text.open(condition.map_or(String::new(), |c| format!("if ({c})")));
                self.c.text.line(format!("drop(pkt, p, s->site ? s->site - 1 : {reason});"));
                self.c.text.line("return;");
                self.c.text.close("");
            }
            Fate::Go(path) if path.stage.is_some() => self.go_on(path),
            Fate::Go(path) => {
                let To::Port(port) = &path.to else { return };
                let condition = self.c.condition(&decision.when);
                let port = self.c.frame_expr(port);
                let t = &mut self.c.text;
                if let Some(condition) = &condition {
                    t.open(format!("if ({condition})"));
                }
                t.line("p->verdict = SENT;");
                t.line(format!("p->port = {port};"));
                t.line("p->data = pkt->frame.data;");
                t.line("p->length = pkt->length;");
                t.line("p->headroom = pkt->frame.headroom;");
                t.line("pkt->frame.worker->sent[pkt->frame.worker->sent_count++] = p;");
                if condition.is_some() {
                    t.line("return;");
                    t.close("");
                }
            }
            Fate::Copy(_) => {}
        }
    }

    /// Emits the change of the packet from one stage to another.
    fn go_on(&mut self, path: &Path) {
        let known = Known {
            port: "to",
            replica: "0",
            length: "pkt->length",
            clock: "pkt->frame.worker->clock",
            direction: "is_host_port(pkt->frame.shared, to)",
            queue: None,
        };
        self.c.go_on(path, &known, |emitter| {
            emitter.text.line("p->data = pkt->frame.data;");
            emitter.text.line("p->length = pkt->length;");
            emitter.text.line("p->headroom = pkt->frame.headroom;");
            emitter.text.line("p->tailroom = p->capacity - p->headroom - p->length;");
            emitter.text.line("init_packet(pkt, pkt->frame.shared, pkt->frame.worker, p);");
        });
    }

    /// Emits a decision that sends the packet to the first stage again.
    fn next_round(&mut self, decision: &Decision) {
        let Some(path) = decision.then.path() else { return };
        let condition = self.c.condition(&decision.when);
        let budget = reason(self.c.program, drops::STEP_BUDGET);
        let t = &mut self.c.text;
        t.open(condition.map_or(String::new(), |c| format!("if (__builtin_expect({c}, 0))")));
        t.open(format!("if (rounds++ == {})", abi::ROUNDS));
        t.line(format!("drop(pkt, p, {budget});"));
        t.line("return;");
        t.close("");
        self.go_on(path);
        self.c.text.line("enter_pipeline(pkt);");
        self.c.text.line("goto again;");
        self.c.text.close("");
    }
}

const DROP: &str = r#"
/* Each packet of this program leaves at most once, so there are no jobs. */
struct jobs {
};

INLINE void drop(const struct packet *pkt, struct strait_packet *p, u32 reason)
{
    p->verdict = DROPPED;
    p->reason = reason;
    count_packet(&pkt->frame.worker->drops[reason], p->length);
}
"#;

const BURST: &str = r#"
/* Processes a burst. Each packet gets a verdict. Drops are counted here; the host sends the packets in worker->sent. */
__attribute__((visibility("default"))) void strait_burst(const struct shared *shared, struct worker *worker,
                                                         struct strait_packet **packets, u32 count)
{
    struct packet work[BURST];
    struct jobs jobs;
    for (u32 at = 0; at < count; at += BURST) {
        u32 n = count - at < BURST ? count - at : BURST;
        POISON(work, sizeof work);
        for (u32 i = 0; i < n; i++)
            parse_packet(&work[i], shared, worker, packets[at + i]);
        early_lookups(work, n);
        for (u32 i = 0; i < n; i++)
            process_packet(&work[i], packets[at + i], &jobs);
    }
}
"#;
