//! The pipeline of programs whose packets are replicated or cloned, or pass a stage more than once in ways that [`super::rounds`] cannot do.
//!
//! Each stage is a function, and so is each path, as in machine code. The work that remains for a packet and its copies waits in a ring of
//! jobs. There is one packet in the kernel: all jobs of a packet share its *tail*, and each job keeps the bytes in front of the tail. Before a
//! job runs, its front is written to the packet. How packets leave differs between the hooks: see `tc::departures` and `xdp::departures`.

use abi::drops;
use abi::manifest::CopyMaps;
use ir::pipeline::{Bytes, Carry, Decision, Fate, Headers, Path, Stage, Step, To};
use ir::{Loc, Program, StageId};

use super::{Ebpf, tc, xdp};
use crate::c::{Hook, Known, Which, fits_the_stack};

/// Whether a program makes copies of packets: they may leave several times.
pub(super) fn has_copies(program: &Program) -> bool {
    program.pipeline.decisions().any(|d| {
        matches!(d.then, Fate::Copy(_)) || matches!(d.then.path(), Some(p) if !matches!(p.to, To::Port(_)))
    })
}

impl Ebpf<'_> {
    /// The beginning of the call that drops a packet.
    pub(super) fn drop_call(&self) -> &'static str {
        match self.c.facts.hook {
            Hook::Xdp => "count_and_drop(xdp, t",
            Hook::Tc | Hook::Frame => "count_and_drop(skb, t",
        }
    }

    /// The members of `struct jobs` of this hook, and the C of the EtherType that the kernel knows.
    fn of_hook(&self) -> [&'static str; 2] {
        match self.c.facts.hook {
            Hook::Xdp => [xdp::departures::MEMBERS, "0"],
            Hook::Tc | Hook::Frame => [tc::departures::MEMBERS, "bswap16((u16)context->protocol)"],
        }
    }

    /// Emits the maps of jobs, groups and sessions.
    pub(super) fn job_maps(&mut self) {
        self.c.text.line("");
        self.c.text.raw(&JOBS.replace("MEMBERS", self.of_hook()[0]));
        self.map("strait_jobs", "BPF_MAP_TYPE_PERCPU_ARRAY", 1, "u32", "struct jobs", false);
        self.map("strait_fronts", "BPF_MAP_TYPE_PERCPU_ARRAY", RING + 1, "u32", "struct front", false);
        self.map("strait_saved", "BPF_MAP_TYPE_PERCPU_ARRAY", RING + 1, "u32", "struct packet", false);
        self.map(GROUPS, "BPF_MAP_TYPE_ARRAY", NUMBERS.into(), "u32", "u64", false);
        self.map(SESSIONS, "BPF_MAP_TYPE_ARRAY", NUMBERS.into(), "u32", "u64", false);
        self.map(COPIES, "BPF_MAP_TYPE_HASH", MOST_COPIES, "u64", "u64", true);
        if self.has_sender() {
            self.sender_maps();
        }
    }

    /// Emits the functions of all stages and paths, and those that run jobs.
    pub(super) fn paths(&mut self) {
        let program = self.c.program;
        self.c.text.raw(&RING_TEXT.replace("PROTOCOL", self.of_hook()[1]));
        match self.c.facts.hook {
            Hook::Xdp => self.xdp_fronts(),
            Hook::Tc | Hook::Frame => self.tc_fronts(),
        }
        self.c.reset_variables();
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        for stage in 0..program.pipeline.stages.len() {
            self.c.text.line(format!("int stage_{stage}({ty} *{packet});"));
        }
        let decisions: Vec<_> = program.pipeline.decisions().collect();
        for (number, decision) in decisions.iter().enumerate() {
            match &decision.then {
                Fate::Drop(_) => {}
                Fate::Go(path) if path.stage.is_none() => self.leave(number, path, decision.loc),
                Fate::Go(path) => self.path(number, path, false, decision.loc),
                Fate::Copy(path) => self.path(number, path, true, decision.loc),
            }
        }
        let mut number = 0;
        for (i, stage) in program.pipeline.stages.iter().enumerate() {
            self.stage(i, stage, &mut number);
        }
        self.run_job(&decisions);
    }

    /// Emits the call of the first stage, and of the jobs that wait then, in the entry point. `jobs` emits the assignments of the hook's own members.
    pub(super) fn run_paths(&mut self, failed: &str, jobs: impl FnOnce(&mut Self)) {
        let hook = self.c.facts.hook;
        let (packet, ty, length) = (hook.packet(), hook.packet_type(), hook.length());
        self.c.text.line("zero_state(s);");
        if let Some(first) = self.c.program.pipeline.stages.first() {
            let known =
                Known { port: "from->port", direction: "is_host_port(from->port)", ..self.at_stage() };
            self.c.write_inputs("s", &first.inputs, &known, Which::All);
        }
        let t = &mut self.c.text;
        t.line("struct jobs *jobs = get_jobs();");
        t.line("if (!jobs)");
        t.line(format!("    return {failed};"));
        t.line("__builtin_memset(jobs, 0, __builtin_offsetof(struct jobs, ring));");
        jobs(self);
        let t = &mut self.c.text;
        t.line(format!("u32 arrived = {length};"));
        t.line("jobs->tail = arrived > ARRIVED ? arrived - ARRIVED : 0;");
        t.line(format!("stage_0({packet});"));
        t.line(format!("{ty} *of = {packet};"));
        t.line("if (jobs->count)");
        t.line("    bpf_loop(MOST_STEPS, run_job, &of, 0);");
    }

    /// Emits the beginning of a function of the packet. `more` are its further parameters.
    fn function(&mut self, head: &str, more: &str) {
        self.c.text.line("");
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        self.c.text.open(format!("{head}({ty} *{packet}{more})"));
        self.c.get_state("-1");
        let t = &mut self.c.text;
        t.line("struct jobs *jobs = get_jobs();");
        t.line("if (!jobs)");
        t.line("    return -1;");
        t.line(format!("asm volatile(\"\" : : \"r\"({packet}), \"r\"(s), \"r\"(t));"));
    }

    /// Emits `path_N(skb)`: the packet, or a copy of it, waits for a stage.
    fn path(&mut self, number: usize, path: &Path, copy: bool, loc: Loc) {
        let Some(stage) = path.stage else {
            return self.leaving_copy(number, path, loc);
        };
        let no_buffer = self.reason(drops::NO_BUFFER);
        let packet = self.c.facts.hook.packet();
        self.function(&format!("NOINLINE int path_{number}"), "");
        self.c.destination(number, path, stage, |c, session| {
            c.text.line(format!("u32 session = {session};"));
            c.text.line(format!("u64 *found = bpf_map_lookup_elem(&{SESSIONS}, &session);"));
            c.text.line("u64 target = found ? READ_ONCE(*found) : 0;");
            c.text.line("if (!target)");
            c.text.line("    return 0;");
            ["(u32)target", "target >> 32 == 2"]
        });
        let front = match path.bytes {
            Bytes::Entered if self.deparses_before(number) => "copy_front(jobs, index)".to_string(),
            Bytes::Entered | Bytes::Deparsed => {
                format!("save_front({packet}, jobs, index, {})", u32::from(!copy))
            }
        };
        let drop = self.drop_call();
        let t = &mut self.c.text;
        t.line("u32 index = add_job(jobs, kind, to);");
        t.open(format!("if (index >= RING || {front})"));
        t.line("if (index < RING)");
        t.line("    jobs->count--;");
        t.line(format!("return {drop}, {no_buffer});"));
        t.close("");
        self.new_state(path, stage);
        self.c.text.line("return 0;");
        self.c.text.close("");
    }

    /// Emits `path_N(skb)` for copies that leave at once for the port or group of a session (PNA's mirrors). The packet itself goes on, so they leave as
    /// if further jobs waited.
    fn leaving_copy(&mut self, number: usize, path: &Path, loc: Loc) {
        let (To::Session(session), Bytes::Deparsed) = (&path.to, path.bytes) else {
            let hint = "run it on the interpreter";
            return self.c.refuse(loc, "a copy that leaves for a port or group that is no session's", hint);
        };
        let (packet, ty) = (self.c.facts.hook.packet(), self.c.facts.hook.packet_type());
        self.function(&format!("NOINLINE int mirror_{number}"), ", u32 out");
        self.leave_through_port();
        self.c.text.raw(&MIRROR.replace("NUMBER", &number.to_string()).replace("CONTEXT", ty));
        self.function(&format!("NOINLINE int path_{number}"), "");
        let session = self.c.frame_expr(session);
        let (missing, drop) = (self.reason(drops::NO_SUCH_GROUP), self.drop_call());
        let t = &mut self.c.text;
        t.line(format!("u32 session = {session}, more = jobs->more;"));
        t.line(format!("u64 *found = bpf_map_lookup_elem(&{SESSIONS}, &session);"));
        t.line("u64 target = found ? READ_ONCE(*found) : 0;");
        t.line("if (!target)");
        t.line("    return 0;");
        t.line("jobs->more = 1;");
        t.open("if (target >> 32 == 2)");
        t.line(format!("struct mirroring_{number} of = {{ .context = {packet}, .group.to = (u32)target }};"));
        t.line(format!("bpf_loop(MOST_STEPS, mirror_to_member_{number}, &of, 0);"));
        t.line("asm volatile(\"\" ::: \"memory\");");
        t.line("if (!of.group.member)");
        t.line(format!("    {drop}, {missing});"));
        t.close("");
        t.open("else");
        t.line(format!("mirror_{number}({packet}, (u32)target);"));
        t.close("");
        t.line("jobs->more = more;");
        t.line("return 0;");
        t.close("");
    }

    /// Emits the state of a packet that takes a path.
    fn new_state(&mut self, path: &Path, stage: StageId) {
        let inputs = self.c.program.pipeline.stage(stage).inputs.clone();
        let known = self.at_stage();
        let parsed = match &path.carry {
            Carry::New { headers: Headers::Parsed(role), .. } => Some(*role),
            Carry::All | Carry::New { .. } => None,
        };
        match parsed {
            // The parser works on the packet's own state, which is saved meanwhile.
            Some(_) => {
                self.save("RING");
                self.saved("old", "RING");
                let t = &mut self.c.text;
                t.line("struct state *n = s;");
                t.line("s = &old->state;");
                t.line("zero_state(n);");
            }
            None => {
                self.save("index");
                self.saved("saved", "index");
                self.c.text.line("struct state *n = &saved->state;");
                match &path.carry {
                    Carry::New { headers: Headers::Invalid, .. } => self.c.text.line("zero_state(n);"),
                    Carry::New { .. } => self.c.text.line("reset_variables(n);"),
                    Carry::All => {}
                }
            }
        }
        let members = self.c.passed_members(path.passed());
        let path_inputs: Vec<_> = path.inputs().cloned().collect();
        let pass = |ebpf: &mut Self| {
            for (_, from, to) in &members {
                ebpf.c.text.line(format!("n->{to} = s->{from};"));
            }
        };
        pass(self);
        self.c.write_inputs("n", &path_inputs, &known, Which::All);
        self.c.write_inputs("n", &path.sets, &known, Which::All);
        if let Some(role) = parsed {
            let call = self.c.facts.call_stage(role);
            self.c.text.line(format!("{call};"));
            self.c.text.line("n->ended = 0;");
            pass(self);
        }
        self.c.write_inputs("n", &inputs, &known, Which::All);
        self.c.write_inputs("n", &path.sets, &known, Which::All);
        if parsed.is_some() {
            self.save("index");
            self.c.text.line("u32 only = 0;");
            self.c.text.line("bpf_map_update_elem(&strait_packet, &only, old, 0);");
        }
    }

    /// Emits a copy of the packet's state to a place in `strait_saved`.
    fn save(&mut self, index: &str) {
        let t = &mut self.c.text;
        t.open("");
        t.line(format!("u32 at = {index};"));
        t.line("bpf_map_update_elem(&strait_saved, &at, packet, 0);");
        t.close("");
    }

    /// Emits the declaration of a pointer to a state in `strait_saved`.
    fn saved(&mut self, name: &str, index: &str) {
        let t = &mut self.c.text;
        t.line(format!("u32 at_{name} = {index};"));
        t.line(format!("struct packet *{name} = bpf_map_lookup_elem(&strait_saved, &at_{name});"));
        t.line(format!("if (!{name})"));
        t.line("    return -1;");
    }

    /// Emits `path_N(skb)` for a packet that leaves.
    fn leave(&mut self, number: usize, path: &Path, loc: Loc) {
        let To::Port(port) = &path.to else {
            let hint = "run it on the interpreter";
            return self.c.refuse(loc, "a packet that leaves through several ports at once", hint);
        };
        self.function(&format!("NOINLINE int path_{number}"), "");
        let port = self.c.frame_expr(port);
        self.c.text.line(format!("u32 out = {port};"));
        self.leave_through_port();
    }

    /// Emits the departure through the port `out`, and the end of the function.
    fn leave_through_port(&mut self) {
        let missing = self.reason(drops::NO_SUCH_PORT);
        let drop = self.drop_call();
        let t = &mut self.c.text;
        t.line("struct egress *to = bpf_map_lookup_elem(&strait_egress, &out);");
        t.line("if (!to || !to->ifindex)");
        t.line(format!("    return {drop}, {missing});"));
        match self.c.facts.hook {
            Hook::Xdp => self.xdp_leave(),
            Hook::Tc | Hook::Frame => self.tc_leave(),
        }
        self.c.text.close("");
    }

    /// Emits `stage_N(skb)`: the steps of a stage.
    fn stage(&mut self, number: usize, stage: &Stage, decision: &mut usize) {
        self.function(&format!("NOINLINE int stage_{number}"), "");
        let no_buffer = self.reason(drops::NO_BUFFER);
        let (drop, length) = (self.drop_call(), self.c.facts.hook.length());
        for (at, step) in stage.steps.iter().enumerate() {
            match step {
                Step::Decide(d) => {
                    self.decide(number, *decision, d);
                    *decision += 1;
                }
                Step::Deparse(_) => {
                    self.keep_entered(&stage.steps[at + 1..]);
                    if self.drops_entered(&stage.steps[at + 1..]) {
                        self.c.text.line(format!("u64 entered = {length};"));
                    }
                    // What the deparser changes must be in front of the tail.
                    self.c.text.line(format!("if (s->cursor + jobs->tail > {length})"));
                    self.c.text.line(format!("    return {drop}, {no_buffer});"));
                    self.step(step, drop);
                }
                Step::Fragment(fragment) => {
                    let hint =
                        "fragment in a program without clones and multicast, or run it on the native target";
                    self.c.refuse(fragment.loc, "fragments of packets that may have copies", hint);
                }
                Step::Truncate(var, loc) => self.truncate(*var, *loc),
                Step::Parse(..) | Step::Control(_) => self.step(step, drop),
            }
        }
        self.c.text.line("return 0;");
        self.c.text.close("");
    }

    /// Emits the truncation of the packet, which is possible if no copy shares its tail.
    fn truncate(&mut self, var: ir::VarId, loc: Loc) {
        if has_copies(self.c.program) {
            let hint = "truncate in a program without clones and multicast, or run it on the native target";
            return self.c.refuse(loc, "`truncate` of packets that may have copies", hint);
        }
        let resize = self.reason(drops::BAD_RESIZE);
        let length = format!("s->{}", self.c.names.var(var));
        let (drop, packet, left) = (self.drop_call(), self.c.facts.hook.packet(), self.c.facts.hook.length());
        let t = &mut self.c.text;
        t.line(format!("u32 front = {left} - jobs->tail;"));
        t.line(format!("if ({length} && truncate({packet}, {length} - 1))"));
        t.line(format!("    return {drop}, {resize});"));
        t.line(format!("jobs->tail = {left} > front ? {left} - front : 0;"));
    }

    /// Emits the copy of the packet's front before a deparser, if a later decision about the packet as it entered the stage applies.
    fn keep_entered(&mut self, later: &[Step]) {
        if let Some(condition) = self.c.keeps_entered(later) {
            let no_buffer = self.reason(drops::NO_BUFFER);
            let (drop, packet) = (self.drop_call(), self.c.facts.hook.packet());
            let t = &mut self.c.text;
            t.line(format!("if (({condition}) && save_front({packet}, jobs, RING, 0))"));
            t.line(format!("    return {drop}, {no_buffer});"));
        }
    }

    /// Whether a packet may be dropped by one of these steps after a deparser (PNA). It is counted with the length that it had before.
    fn drops_entered(&self, later: &[Step]) -> bool {
        let drops = |step: &Step| matches!(step, Step::Decide(d) if matches!(d.then, Fate::Drop(_)));
        self.c.program.arch == ir::Arch::Pna && later.iter().any(drops)
    }

    /// Whether the stage of a decision runs a deparser before the decision.
    fn deparses_before(&self, number: usize) -> bool {
        let mut at = 0;
        for stage in &self.c.program.pipeline.stages {
            let mut deparsed = false;
            for step in &stage.steps {
                match step {
                    Step::Deparse(_) => deparsed = true,
                    Step::Decide(_) if at == number => return deparsed,
                    Step::Decide(_) => at += 1,
                    Step::Parse(..) | Step::Control(_) | Step::Truncate(..) | Step::Fragment(_) => {}
                }
            }
        }
        false
    }

    fn decide(&mut self, stage: usize, number: usize, decision: &Decision) {
        let condition = self.c.condition(&decision.when);
        let (drop, packet, length) =
            (self.drop_call(), self.c.facts.hook.packet(), self.c.facts.hook.length());
        let stage_deparsed = self.deparses_before(number);
        self.c.text.open(condition.map_or(String::new(), |c| format!("if ({c})")));
        match &decision.then {
            Fate::Drop(name) => {
                let reason = self.reason(name);
                let t = &mut self.c.text;
                if self.c.program.arch == ir::Arch::Pna && stage_deparsed {
                    t.line(format!("u32 reason = s->site ? s->site - 1 : {reason};"));
                    t.line("struct count *c = bpf_map_lookup_elem(&strait_drops, &reason);");
                    t.line("if (c)");
                    t.line(format!("    c->bytes += entered - {length};"));
                    t.line(format!("return {drop}, reason);"));
                } else {
                    t.line(format!("return {drop}, s->site ? s->site - 1 : {reason});"));
                }
            }
            Fate::Copy(_) => {
                if stage > 0 {
                    self.c.text.line("jobs->rounds++;");
                }
                self.c.text.line(format!("path_{number}({packet});"));
            }
            Fate::Go(path) => {
                self.at_once(path);
                self.c.text.line(format!("return path_{number}({packet});"));
            }
        }
        self.c.text.close("");
    }

    /// Emits the direct call of the next stage for a packet that goes on by itself, if no job waits. Its state, or the new one of PSA's egress,
    /// stays in its place then.
    fn at_once(&mut self, path: &Path) {
        let (Some(stage), To::Port(_)) = (path.stage, &path.to) else { return };
        let in_place = match &path.carry {
            Carry::All => true,
            Carry::New { headers: Headers::Invalid, passed, .. } => fits_the_stack(self.c.program, passed),
            Carry::New { .. } => false,
        };
        if stage == StageId(0) || !in_place {
            return;
        }
        self.c.text.open("if (jobs->count <= jobs->busy)");
        self.c.go_on(path, &self.at_stage(), |c| c.text.line("zero_state(s);"));
        self.c.text.line(format!("return stage_{}({});", stage.0, self.c.facts.hook.packet()));
        self.c.text.close("");
    }

    /// Emits `run_job`, which `bpf_loop` calls for each job and each member of a group.
    fn run_job(&mut self, decisions: &[&Decision]) {
        let [budget, resize, missing] =
            [drops::STEP_BUDGET, drops::BAD_RESIZE, drops::NO_SUCH_GROUP].map(|r| self.reason(r));
        let (hook, drop) = (self.c.facts.hook, self.drop_call());
        let (packet, ty) = (hook.packet(), hook.packet_type());
        // What a packet for a member of a multicast group knows.
        let to_member =
            Known { port: "(u32)copy", replica: "(copy >> 32)", direction: "0", ..self.at_stage() };
        let t = &mut self.c.text;
        t.line("");
        t.line("/* Runs the first job, or lets the packet of a group's job enter the stage for the next member. */");
        t.open("NOINLINE static long run_job(u32 step, void *of)");
        t.line(format!("{ty} *{packet} = *({ty} **)of;"));
        t.line("struct packet *packet = get_packet();");
        t.line("struct jobs *jobs = get_jobs();");
        t.line("if (!packet || !jobs || !jobs->count)");
        t.line("    return 1;");
        t.line("struct scratch *t = &packet->scratch;");
        t.line("UNUSED struct state *s = &packet->state;");
        t.line("u32 index = jobs->first & (RING - 1);");
        t.line("struct job *job = &jobs->ring[index];");
        t.line("u64 copy = 0;");
        t.line("jobs->busy = 1;");
        t.line("jobs->more = 0;");
        t.open(format!("if (jobs->rounds >= {})", abi::ROUNDS));
        t.line(format!("{drop}, {budget});"));
        t.line("return next_job(jobs);");
        t.close("");
        t.open("if (job->kind >= GROUP)");
        t.open("if (!find_copy(jobs, job, &copy))");
        t.line(format!("{drop}, {missing});"));
        t.line("return next_job(jobs);");
        t.close("");
        t.close("");
        t.open(format!("if (load_job({packet}, jobs, index))"));
        t.line(format!("{drop}, {resize});"));
        t.line("return next_job(jobs);");
        t.close("");
        if hook == Hook::Xdp {
            t.line("t->beyond = 0;");
        }
        t.open("switch (job->kind)");
        for stage in 0..self.c.program.pipeline.stages.len() {
            t.margin(format!("case ENTER + {stage}:"));
            if stage == 0 {
                t.line("jobs->rounds++;");
            }
            t.line(format!("stage_{stage}({packet});"));
            t.line("break;");
        }
        for (number, decision) in decisions.iter().enumerate() {
            let Some(path) = decision.then.path().filter(|p| !matches!(p.to, To::Port(_))) else { continue };
            let Some(stage) = path.stage else { continue };
            self.c.text.margin(format!("case GROUP + {number}:"));
            let inputs = &self.c.program.pipeline.stage(stage).inputs;
            self.c.write_inputs("s", inputs, &to_member, Which::Independent);
            self.c.write_inputs("s", &path.sets, &to_member, Which::Independent);
            self.c.text.line(format!("stage_{}({packet});", stage.0));
            self.c.text.line("break;");
        }
        let t = &mut self.c.text;
        t.close("");
        t.line("return jobs->more ? 0 : next_job(jobs);");
        t.close("");
    }
}

/// Number of jobs that may wait for one packet: `RING` in jobs.h.
const RING: u64 = 32;
/// The number of possible multicast groups, and of possible mirroring sessions.
const NUMBERS: u32 = 1 << 16;
/// The most copies in all groups. They take memory only when they are added.
const MOST_COPIES: u64 = 1 << 20;
const GROUPS: &str = "strait_groups";
const SESSIONS: &str = "strait_sessions";
const COPIES: &str = "strait_copies";

/// The maps that the host writes. `sends` says whether a program for tc sends the copies of an XDP program.
pub fn copy_maps(sends: bool) -> CopyMaps {
    let [groups, sessions, copies] = [GROUPS, SESSIONS, COPIES].map(str::to_string);
    CopyMaps { groups, sessions, copies, numbers: NUMBERS, sender: sends.then(xdp::departures::sender) }
}

/// Copies that leave for the members of a group.
pub const MIRROR: &str = r#"
struct mirroring_NUMBER {
    CONTEXT *context;
    struct job group;
};

NOINLINE static long mirror_to_member_NUMBER(u32 step, void *context)
{
    struct mirroring_NUMBER *of = context;
    struct jobs *jobs = get_jobs();
    u64 copy = 0;
    if (!jobs || !find_copy(jobs, &of->group, &copy))
        return 1;
    u32 is_last = !jobs->more;
    jobs->more = 1;
    mirror_NUMBER(of->context, (u32)copy);
    return is_last;
}
"#;

pub const JOBS: &str = include_str!("jobs.h");
pub const RING_TEXT: &str = include_str!("ring.h");
