//! What the targets share of the pipeline: conditions of decisions, and the variables that the architecture writes.

use std::collections::HashSet;

use ir::cells::Cell;
use ir::effects;
use ir::pipeline::{
    Bytes, Carry, Decision, Fate, Headers, Input, Passed, Path, PathKind, Queueing, Source, Stage, Step, To,
    When,
};
use ir::{Expr, Role, StageId, VarId, visit};

use crate::unsupported::Unsupported;

use super::{Body, Emitter, Home, Hook, Machine, Unit, constant, mask, partial, wide};

/// The stage where packets arrive.
pub const FIRST: StageId = StageId(0);

/// The C of what a packet's destination and arrival decide.
pub struct Known<'a> {
    /// The port where the packet arrived or goes.
    pub port: &'a str,
    /// The replication id.
    pub replica: &'a str,
    /// The number of bytes.
    pub length: &'a str,
    /// The time in microseconds.
    pub clock: &'a str,
    /// Whether the port is a port to the host (PNA).
    pub direction: &'a str,
    /// A pointer to the packet's wait in the queue of its port, if it was there.
    pub queue: Option<&'a str>,
}

impl Known<'_> {
    /// What the packet knows about its wait.
    fn wait(&self, what: Queueing) -> String {
        match (self.queue, what) {
            (None, Queueing::Entered) => self.clock.to_string(),
            (None, _) => "0".to_string(),
            (Some(q), Queueing::Entered) => format!("{q}->entered"),
            (Some(q), Queueing::Before) => format!("{q}->before"),
            (Some(q), Queueing::Waited) => format!("{q}->waited"),
            (Some(q), Queueing::Behind) => format!("{q}->behind"),
        }
    }
}

/// Which of the variables are written.
#[derive(Clone, Copy, PartialEq)]
pub enum Which {
    /// All of them.
    All,
    /// Those whose value does not depend on the state that the packet leaves.
    Independent,
}

/// Whether there is one packet at any time: none is copied, and each leaves at most once. It passes the stages in order. Some packets then pass all
/// stages again, in *rounds*, as [`goes_again`] says.
///
/// At the XDP hook, a PSA program that names no port of recirculation is faster without that path: what a table sends there is dropped, because no
/// interface is attached to the port.
pub fn is_straight(program: &ir::Program, hook: Hook) -> bool {
    program.pipeline.stages.iter().enumerate().all(|(i, stage)| {
        stage.steps.iter().enumerate().all(|(at, step)| {
            let Some(decision) = step.decision().filter(|d| !is_unnamed(program, hook, d)) else {
                return true;
            };
            match &decision.then {
                Fate::Drop(_) => true,
                Fate::Copy(_) => false,
                Fate::Go(path) if path.stage.is_none() => matches!(path.to, To::Port(_)),
                Fate::Go(path) if path.stage == Some(FIRST) => is_round(program, hook, stage, at, path),
                Fate::Go(path) => decision.when == When::Always && goes_on(i, path),
            }
        })
    })
}

/// Whether a decision of a straight program sends the packet to the first stage again.
pub fn goes_again(program: &ir::Program, hook: Hook, decision: &Decision) -> bool {
    matches!(&decision.then, Fate::Go(path) if path.stage == Some(FIRST))
        && !is_unnamed(program, hook, decision)
}

/// Whether packets of a straight program may pass the stages again.
pub fn has_rounds(program: &ir::Program, hook: Hook) -> bool {
    program.pipeline.decisions().any(|d| goes_again(program, hook, d))
}

/// Whether a packet that takes this path to the first stage can do so in its own memory, as the only packet. Its bytes must be those that it has: the
/// ones before the stage's deparser, or those after it. In the kernel, the decision is made before the deparser runs, and what is passed waits on the stack.
fn is_round(program: &ir::Program, hook: Hook, stage: &Stage, at: usize, path: &Path) -> bool {
    let Carry::New { headers: Headers::Invalid, passed, .. } = &path.carry else { return false };
    let before = &stage.steps[..at];
    let deparsed = before.iter().any(|step| matches!(step, Step::Deparse(_)));
    let in_kernel = hook.machine() == Machine::Bpf;
    matches!(path.to, To::Port(_))
        && program.arch != ir::Arch::Pna
        && deparsed == (path.bytes == Bytes::Deparsed)
        && (!in_kernel || fits_the_stack(program, passed) && !deparser_decides(program, stage))
}

/// The number of bytes that a path may pass to a new state in the kernel. They are on the stack of 512 bytes meanwhile.
const MOST_PASSED: u32 = 128;

/// Whether the stack of a program in the kernel has room for what a path passes to a new state.
pub fn fits_the_stack(program: &ir::Program, passed: &[Passed]) -> bool {
    let bytes = |ty: ir::Ty| ty.width().div_ceil(8).next_power_of_two();
    let of = |passed: &Passed| match passed {
        Passed::Var { from, .. } => bytes(program.var(*from).ty),
        Passed::Header { from, .. } => {
            program.header_type(*from).fields.iter().map(|f| bytes(f.ty)).sum::<u32>() + 1
        }
    };
    passed.iter().map(of).sum::<u32>() <= MOST_PASSED
}

/// Whether a deparser of a stage writes a variable that a decision of the stage reads.
fn deparser_decides(program: &ir::Program, stage: &Stage) -> bool {
    let mut written = HashSet::new();
    for step in &stage.steps {
        if let Step::Deparse(role) = step
            && let Some(control) = program.control(*role)
        {
            visit::stmts(&control.body, &mut |stmt| {
                effects::writes(program, stmt, &mut |cell| written.extend([cell]))
            });
        }
    }
    let mut found = false;
    for step in &stage.steps {
        let Step::Decide(decision) = step else { continue };
        match &decision.when {
            When::Always => {}
            When::Holds(e) => effects::reads(program, e, &mut |cell| found |= written.contains(&cell)),
            When::Requested(var, _) => found |= written.contains(&Cell::Var(*var)),
        }
    }
    found
}

/// Whether a decision is the recirculation of PSA at the XDP hook, in a program that does not name the port.
fn is_unnamed(program: &ir::Program, hook: Hook, decision: &Decision) -> bool {
    let path = decision.then.path();
    hook == Hook::Xdp
        && decision.loc.line == 0
        && path.is_some_and(|path| path.kind == PathKind::Recirculate && !is_named(program, &path.to))
}

/// Whether a statement names a port, if the port is a constant.
fn is_named(program: &ir::Program, to: &To) -> bool {
    let To::Port(Expr { kind: ir::ExprKind::Const(port), .. }) = to else { return false };
    let mut found = false;
    visit::all_stmts(program, &mut |stmt| {
        visit::operands(stmt, &mut |e| visit::exprs(e, &mut |e| found |= e.as_const() == Some(port)));
    });
    found
}

/// Whether a path leads from a stage to the next one.
fn goes_on(stage: usize, path: &Path) -> bool {
    matches!(path.to, To::Port(_)) && path.stage == Some(StageId(stage as u32 + 1))
}

impl Emitter<'_> {
    /// Reports that the target does not support what a decision does.
    pub fn refuse(&mut self, loc: ir::Loc, what: &str, hint: &str) {
        let problem = Unsupported::new(loc, format!("{what} is not supported by this target"), hint);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The C of an expression in the functions around the controls.
    pub fn frame_expr(&mut self, e: &Expr) -> String {
        let Emitter { program, names, units, text, problems, facts, .. } = self;
        Body::new(program, names, units, Unit::Frame, text, problems, facts).expr(e)
    }

    /// The C of the condition of a decision; `None` if it always applies.
    pub fn condition(&mut self, when: &When) -> Option<String> {
        Some(match when {
            When::Always => return None,
            When::Holds(e) => self.frame_expr(e),
            When::Requested(var, number) => format!("s->{} == {number}", self.names.var(*var)),
        })
    }

    /// The C of the condition that one of these later steps decides about the packet as it entered the stage; `None` if none does.
    pub fn keeps_entered(&mut self, later: &[Step]) -> Option<String> {
        let mut conditions = Vec::new();
        for step in later {
            if let Step::Decide(d) = step
                && d.then.path().is_some_and(|path| path.bytes == Bytes::Entered)
            {
                let condition = self.condition(&d.when);
                conditions.push(condition.unwrap_or_else(|| "1".to_string()));
            }
        }
        (!conditions.is_empty()).then(|| conditions.join(" || "))
    }

    /// Emits the declarations of `to`, the port or group of the path with this number, and of `kind`, the kind of its job. `session` emits the lookup
    /// of a mirroring session, and returns the C of its port or group and the condition that it is a group.
    pub fn destination(
        &mut self,
        number: usize,
        path: &Path,
        stage: StageId,
        session: impl FnOnce(&mut Self, &str) -> [&'static str; 2],
    ) {
        let (enter, group) = (format!("ENTER + {}", stage.0), format!("GROUP + {number}"));
        let (To::Port(e) | To::Group(e) | To::Session(e)) = &path.to;
        let e = self.frame_expr(e);
        let (to, kind) = match &path.to {
            To::Port(_) => (e, enter),
            To::Group(_) => (e, group),
            To::Session(_) => {
                let [to, is_group] = session(self, &e);
                (to.to_string(), format!("{is_group} ? {group} : {enter}"))
            }
        };
        self.text.line(format!("u32 to = {to}, kind = {kind};"));
    }

    /// Emits stores of variables that the architecture writes to the state `to`. Expressions read the state `s`.
    pub fn write_inputs(&mut self, to: &str, inputs: &[Input], known: &Known<'_>, which: Which) {
        for input in inputs {
            if self.units.home(input.var) != Home::State {
                continue;
            }
            let width = self.program.var(input.var).ty.width();
            let value = match &input.value {
                Source::Port => mask(known.port.to_string(), width),
                Source::Replica => mask(known.replica.to_string(), width),
                Source::Length => mask(known.length.to_string(), width),
                Source::Clock => mask(known.clock.to_string(), width),
                Source::Queue(what) => mask(known.wait(*what), width),
                Source::Direction => known.direction.to_string(),
                Source::Const(value) => constant(&value.resize(width)),
                Source::Value(_) if which == Which::Independent => continue,
                Source::Value(e) => {
                    let value = self.frame_expr(e);
                    mask(value, width)
                }
            };
            self.text.line(format!("{to}->{} = {value};", self.names.var(input.var)));
        }
    }

    /// Emits `reset_variables(s)`: sets all variables to their initial values, and keeps the headers.
    pub fn reset_variables(&mut self) {
        self.text.line("");
        self.text
            .line("/* Sets all variables to their values in a packet that arrives. The headers stay. */");
        self.text.open("UNUSED static void reset_variables(struct state *s)");
        for var in (0..self.program.vars.len() as u32).map(VarId) {
            if self.units.home(var) == Home::State {
                let name = self.names.var(var);
                self.text.line(match wide::is_wide(self.program.var(var).ty) {
                    true => format!("__builtin_memset(&s->{name}, 0, sizeof s->{name});"),
                    false => format!("s->{name} = 0;"),
                });
            }
        }
        for meter in self.program.tables.iter().filter_map(|t| t.direct_meter) {
            self.text.line(format!("s->colour_{} = 0;", meter.0));
        }
        for (number, cell) in self.facts.partial.cells().iter().enumerate() {
            if let Cell::Var(_) = cell {
                self.text.line(partial::clear(number));
            }
        }
        self.text.line("s->site = s->ended = 0;");
        self.text.close("");
    }

    /// Emits stores of the parser's error.
    pub fn write_errors(&mut self, errors: &[VarId]) {
        let found = self.names.var(self.program.standard.parser_error).to_string();
        for var in errors.iter().filter(|v| self.units.home(**v) == Home::State) {
            self.text.line(format!("s->{} = s->{found};", self.names.var(*var)));
        }
    }

    /// The values that a new state receives from the old one, as pairs of an old and a new member of the state, with their C type.
    pub fn passed_members(&self, passed: &[Passed]) -> Vec<(String, String, String)> {
        let mut members = Vec::new();
        for item in passed {
            match *item {
                Passed::Var { from, to } => {
                    if self.units.home(to) != Home::State {
                        continue;
                    }
                    let ty = wide::storage(self.program.var(from).ty);
                    members.extend(self.passed_parts(Cell::Var(from), Cell::Var(to)));
                    let [from, to] = [from, to].map(|v| self.names.var(v).to_string());
                    members.push((ty, from, to));
                }
                Passed::Header { from, to } => {
                    for i in 0..self.program.header_type(from).fields.len() as u32 {
                        members.extend(self.passed_parts(Cell::Field(from, i), Cell::Field(to, i)));
                    }
                    let ty = format!("struct h_{}", self.names.header_type(from));
                    let [from, to] = [from, to].map(|h| self.names.header(h).to_string());
                    members.push((ty, from.clone(), to.clone()));
                    members.push(("u8".to_string(), format!("{from}_valid"), format!("{to}_valid")));
                }
            }
        }
        members
    }

    /// The numbers of a sum that a new state receives.
    fn passed_parts(&self, from: Cell, to: Cell) -> Option<(String, String, String)> {
        let number = |cell| Some(format!("parts_{}", self.facts.partial.number(cell)?));
        Some(("struct parts".to_string(), number(from)?, number(to)?))
    }

    /// Emits the change from one stage to the next, or to the first one, in the same memory. `renew` emits a new state in the place of
    /// the old one.
    pub fn go_on(&mut self, path: &Path, known: &Known<'_>, renew: impl FnOnce(&mut Self)) {
        let To::Port(port) = &path.to else { return };
        let Some(stage) = path.stage else { return };
        let next = self.program.pipeline.stage(stage).inputs.clone();
        self.text.open("");
        let port = self.frame_expr(port);
        self.text.line(format!("UNUSED u32 to = {port};"));
        if let Carry::New { passed, .. } = &path.carry {
            let members = self.passed_members(passed);
            let mut values = Vec::new();
            for input in path.inputs().chain(&path.sets) {
                if let (Source::Value(e), Home::State) = (&input.value, self.units.home(input.var)) {
                    let value = self.frame_expr(e);
                    let value = mask(value, self.program.var(input.var).ty.width());
                    values.push((value, self.names.var(input.var).to_string()));
                }
            }
            for (i, (ty, from, _)) in members.iter().enumerate() {
                self.text.line(format!("{ty} kept_{i} = s->{from};"));
            }
            for (i, (value, _)) in values.iter().enumerate() {
                self.text.line(format!("u64 value_{i} = {value};"));
            }
            renew(self);
            for (i, (_, _, to)) in members.iter().enumerate() {
                self.text.line(format!("s->{to} = kept_{i};"));
            }
            for (i, (_, to)) in values.iter().enumerate() {
                self.text.line(format!("s->{to} = value_{i};"));
            }
            let inputs: Vec<Input> = path.inputs().cloned().collect();
            self.write_inputs("s", &inputs, known, Which::Independent);
            self.write_inputs("s", &next, known, Which::Independent);
            self.write_inputs("s", &path.sets, known, Which::Independent);
        } else {
            self.write_inputs("s", &next, known, Which::All);
            self.write_inputs("s", &path.sets, known, Which::All);
        }
        self.text.close("");
    }
}

/// The function of a role.
pub fn stage_name(role: Role) -> &'static str {
    match role {
        Role::Parser => "parse",
        Role::EgressParser => "parse_egress",
        Role::VerifyChecksum => "verify_checksum",
        Role::PreControl => "pre",
        Role::Ingress => "ingress",
        Role::Egress => "egress",
        Role::ComputeChecksum => "compute_checksum",
        Role::Deparser => "deparse",
        Role::IngressDeparser => "deparse_ingress",
    }
}
