//! A program as text for people, for `strait build --target ir` and for test failures. There is no reader for this format.

use std::fmt::{self, Display, Write as _};

use abi::text::{Name, Shown};

use crate::expr::{Expr, ExprKind, Place, Ty, UnOp};
use crate::pipeline::{Carry, Decision, Fate, Input, Passed, Source, Step, To, When};
use crate::program::{KeySet, Program, State, Table, Target, Transition, VarKind};
use crate::stmt::{Block, Call, HeaderRef, Stmt, StmtKind};

/// The text of a whole program.
pub fn program(p: &Program) -> String {
    let mut out = Printer { p, out: String::new(), depth: 0 };
    out.storage();
    out.parsers();
    p.actions.iter().for_each(|a| {
        let params: Vec<_> =
            a.params.iter().map(|q| format!("{}: {}", p.var(q.var).name.shown(), p.var(q.var).ty)).collect();
        out.braced(&format!("action {}({})", a.name.shown(), params.join(", ")), |o| o.block(&a.body));
    });
    p.tables.iter().for_each(|t| out.table(t));
    p.controls.iter().for_each(|c| {
        out.braced(&format!("control {} ({:?})", c.name.shown(), c.role), |o| o.block(&c.body))
    });
    out.pipeline();
    out.out
}

/// The text of an expression.
pub fn expr(p: &Program, e: &Expr) -> String {
    match &e.kind {
        ExprKind::Const(v) if e.ty == Ty::Bool => if v.is_zero() { "false" } else { "true" }.to_string(),
        ExprKind::Const(v) => format!("{v:?}"),
        ExprKind::Read(place) => self::place(p, place),
        ExprKind::IsValid(h) => format!("{}.isValid()", header(p, h)),
        ExprKind::NextIndex(s) => format!("{}.nextIndex", p.stacks[s.index()].name.shown()),
        ExprKind::Unary(op, a) => {
            let symbol = match op {
                UnOp::Not => "!",
                UnOp::BitNot => "~",
                UnOp::Neg => "-",
            };
            format!("{symbol}{}", expr(p, a))
        }
        ExprKind::Binary(op, a, b) => format!("({} {} {})", expr(p, a), op.symbol(), expr(p, b)),
        ExprKind::Cast(a) => format!("({}){}", e.ty, expr(p, a)),
        ExprKind::Slice { base, hi, lo } => format!("{}[{hi}:{lo}]", expr(p, base)),
        ExprKind::Concat(a, b) => format!("({} ++ {})", expr(p, a), expr(p, b)),
        ExprKind::Mux(c, a, b) => format!("({} ? {} : {})", expr(p, c), expr(p, a), expr(p, b)),
    }
}

/// The text of a place.
pub fn place(p: &Program, place: &Place) -> String {
    match place {
        Place::Var(id) => p.var(*id).name.shown().to_string(),
        Place::Field(h, field) => {
            let name = field_name(p, h, *field).map_or(Shown("?"), Name::shown);
            format!("{}.{name}", header(p, h))
        }
    }
}

/// The text of a header reference.
pub fn header(p: &Program, h: &HeaderRef) -> String {
    let stack = |s: &crate::program::StackId| p.stacks[s.index()].name.clone();
    match h {
        HeaderRef::Header(id) => p.header(*id).name.shown().to_string(),
        HeaderRef::Element(s, index) => format!("{}[{}]", stack(s).shown(), expr(p, index)),
        HeaderRef::Next(s) => format!("{}.next", stack(s).shown()),
        HeaderRef::Last(s) => format!("{}.last", stack(s).shown()),
    }
}

fn field_name<'a>(p: &'a Program, h: &HeaderRef, field: u32) -> Option<&'a Name> {
    let id = match h {
        HeaderRef::Header(id) => *id,
        HeaderRef::Element(s, _) | HeaderRef::Next(s) | HeaderRef::Last(s) => p.stacks.get(s.index())?.first,
    };
    p.header_type(id).fields.get(field as usize).map(|f| &f.name)
}

impl Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Bool => f.write_str("bool"),
            Ty::Bit(w) => write!(f, "bit<{w}>"),
            Ty::Int(w) => write!(f, "int<{w}>"),
            Ty::Varbit(w) => write!(f, "varbit<{w}>"),
        }
    }
}

struct Printer<'a> {
    p: &'a Program,
    out: String,
    depth: usize,
}

impl<'a> Printer<'a> {
    fn line(&mut self, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "{:width$}{text}", "", width = self.depth * 4);
    }

    fn braced(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    fn storage(&mut self) {
        let p = self.p;
        self.line(&format!("program {} ({:?})", p.name.shown(), p.arch));
        for ty in &p.header_types {
            self.braced(&format!("header {}", ty.name.shown()), |o| {
                ty.fields.iter().for_each(|f| o.line(&format!("{} {}", f.ty, f.name.shown())))
            });
        }
        for h in &p.headers {
            self.line(&format!("{} {}", p.header_types[h.ty.index()].name.shown(), h.name.shown()));
        }
        for s in &p.stacks {
            self.line(&format!("stack {}[{}]", s.name.shown(), s.size));
        }
        for v in p.vars.iter().filter(|v| !matches!(v.kind, VarKind::Param(_))) {
            self.line(&format!("{} {}", v.ty, v.name.shown()));
        }
        for c in &p.counters {
            self.line(&format!("counter {}[{}] {:?}", c.name.shown(), c.size, c.kind));
        }
        for r in &p.registers {
            let initial = if r.initial.is_zero() { String::new() } else { format!(" = {}", r.initial) };
            self.line(&format!("register {}[{}] {}{initial}", r.name.shown(), r.size, r.ty));
        }
    }

    fn pipeline(&mut self) {
        let p = self.p;
        for stage in &p.pipeline.stages {
            let queue = if stage.queued { ", behind the queue of a port" } else { "" };
            self.braced(&format!("stage {}{queue}", stage.name), |o| {
                o.inputs(&stage.inputs);
                stage.steps.iter().for_each(|s| o.step(s));
            });
        }
    }

    fn inputs(&mut self, inputs: &[Input]) {
        for input in inputs {
            let value = match &input.value {
                Source::Const(value) => format!("{value:?}"),
                Source::Value(e) => expr(self.p, e),
                architecture @ (Source::Port
                | Source::Replica
                | Source::Length
                | Source::Clock
                | Source::Queue(_)
                | Source::Direction) => format!("{architecture:?}").to_lowercase(),
            };
            self.line(&format!("{} = {value}", self.p.var(input.var).name.shown()));
        }
    }

    fn step(&mut self, step: &Step) {
        let p = self.p;
        match step {
            Step::Parse(role, errors) => {
                let errors: Vec<_> = errors.iter().map(|v| p.var(*v).name.shown().to_string()).collect();
                self.line(&format!("parse {role:?}, errors ({})", errors.join(", ")));
            }
            Step::Control(role) => self.line(&format!("control {role:?}")),
            Step::Deparse(role) => self.line(&format!("deparse {role:?}")),
            Step::Fragment(f) => {
                let [size, id] = [f.size, f.identification].map(|v| p.var(v).name.shown());
                self.line(&format!("fragment to {size}, identification {id}, port {}", expr(p, &f.port)));
            }
            Step::Truncate(var, _) => self.line(&format!("truncate to {} - 1", p.var(*var).name.shown())),
            Step::Decide(decision) => self.decision(decision),
        }
    }

    fn decision(&mut self, decision: &Decision) {
        let p = self.p;
        let when = match &decision.when {
            When::Always => "always".to_string(),
            When::Holds(e) => format!("if {}", expr(p, e)),
            When::Requested(var, number) => format!("if {} == {number}", p.var(*var).name.shown()),
        };
        let (copy, path) = match &decision.then {
            Fate::Drop(reason) => return self.line(&format!("{when}: drop, {reason}")),
            Fate::Go(path) => ("", path),
            Fate::Copy(path) => ("copy, ", path),
        };
        let to = match &path.to {
            To::Port(e) => format!("port {}", expr(p, e)),
            To::Group(e) => format!("group {}", expr(p, e)),
            To::Session(e) => format!("session {}", expr(p, e)),
        };
        let stage = path.stage.map_or("out", |s| p.pipeline.stage(s).name);
        let head = format!("{when}: {copy}{:?} {:?} to {to}, {stage}", path.kind, path.bytes);
        self.braced(&head, |o| {
            if let Carry::New { inputs, headers, passed } = &path.carry {
                o.line(&format!("new state, headers {headers:?}"));
                for item in passed {
                    match item {
                        Passed::Var { from, to } => {
                            o.line(&format!(
                                "pass {} to {}",
                                p.var(*from).name.shown(),
                                p.var(*to).name.shown()
                            ));
                        }
                        Passed::Header { from, to } => {
                            o.line(&format!(
                                "pass {} to {}",
                                p.header(*from).name.shown(),
                                p.header(*to).name.shown()
                            ));
                        }
                    }
                }
                o.inputs(inputs);
            }
            o.inputs(&path.sets);
        });
    }

    fn parsers(&mut self) {
        for parser in &self.p.parsers {
            self.braced(
                &format!(
                    "parser {} from {}",
                    parser.name.shown(),
                    parser.states[parser.start.index()].name.shown()
                ),
                |o| {
                    o.block(&parser.prologue);
                    for state in &parser.states {
                        o.braced(&format!("state {}", state.name.shown()), |o| {
                            o.state(state, &parser.states)
                        });
                    }
                },
            );
        }
    }

    fn state(&mut self, state: &'a State, states: &'a [State]) {
        self.block(&state.body);
        let target = |t: &Target| match t {
            Target::State(id) => states[id.index()].name.shown().to_string(),
            Target::Accept => "accept".to_string(),
            Target::Reject => "reject".to_string(),
        };
        match &state.next {
            Transition::Goto(t) => self.line(&format!("goto {}", target(t))),
            Transition::Select(select) => {
                let keys: Vec<_> = select.keys.iter().map(|k| expr(self.p, k)).collect();
                self.braced(&format!("select ({})", keys.join(", ")), |o| {
                    for case in &select.cases {
                        let sets: Vec<_> = case.sets.iter().map(key_set).collect();
                        let sets = match case.value_set {
                            Some(set) => o.p.value_sets[set.index()].name.shown().to_string(),
                            None => format!("({})", sets.join(", ")),
                        };
                        o.line(&format!("{sets}: {}", target(&case.next)));
                    }
                });
            }
        }
        if !state.rejected.is_empty() {
            self.braced("rejected", |o| o.block(&state.rejected));
        }
    }

    fn table(&mut self, t: &Table) {
        let p = self.p;
        self.braced(&format!("table {} size {}", t.name.shown(), t.size), |o| {
            for k in &t.keys {
                o.line(&format!("key {} = {} : {:?}", k.name.shown(), expr(p, &k.expr), k.kind));
            }
            for a in &t.actions {
                o.line(&format!("action {}", p.actions[a.action.index()].name.shown()));
            }
            let name = |index: u32| &p.actions[t.actions[index as usize].action.index()].name;
            o.line(&format!(
                "default {}{:?} const {}",
                name(t.default.0).shown(),
                t.default.1,
                t.const_default
            ));
            for e in &t.entries {
                o.line(&format!(
                    "entry {:?} priority {} -> {}{:?}",
                    e.matches,
                    e.priority,
                    name(e.action).shown(),
                    e.args
                ));
            }
        });
    }

    fn block(&mut self, block: &Block) {
        block.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let p = self.p;
        match &stmt.kind {
            StmtKind::If { cond, then, otherwise } => {
                self.braced(&format!("if {}", expr(p, cond)), |o| o.block(then));
                if !otherwise.is_empty() {
                    self.braced("else", |o| o.block(otherwise));
                }
            }
            StmtKind::Switch { on, arms, default } => self.braced(&format!("switch {}", expr(p, on)), |o| {
                for (values, body) in arms {
                    o.braced(&format!("case {values:?}"), |o| o.block(body));
                }
                o.braced("default", |o| o.block(default));
            }),
            StmtKind::Block { label, body } => self.braced(&format!("block #{}", label.0), |o| o.block(body)),
            StmtKind::Loop { label, bound, body } => {
                let bound = bound.map(|b| format!(" at most {b}")).unwrap_or_default();
                self.braced(&format!("loop #{}{bound}", label.0), |o| o.block(body))
            }
            StmtKind::Atomic(body) => self.braced("atomic", |o| o.block(body)),
            simple @ (StmtKind::Assign { .. }
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::Break(_)
            | StmtKind::Continue(_)
            | StmtKind::Apply { .. }
            | StmtKind::Drop(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Emit(_)
            | StmtKind::Call(_)) => {
                let text = simple_stmt(p, simple);
                self.line(&text);
            }
        }
    }
}

/// The text of a set of keys, in a case or an entry.
pub fn key_set(set: &KeySet) -> String {
    match set {
        KeySet::Any => "_".to_string(),
        KeySet::Value(v) => format!("{v}"),
        KeySet::Mask(v, m) => format!("{v} &&& {m}"),
        KeySet::Range { lo, hi, .. } => format!("{lo} .. {hi}"),
    }
}

/// A text of the IR for people who know the P4 program only: names of Strait's own (`$lookahead_1`, `is_special$result_2`) become those of what they stand for.
pub fn readable(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let name = &rest[at + 1..];
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        let word = name[..end].trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
        out.push_str(match word {
            "result" => "()",
            "exit" => "exited",
            "lazy" | "either" => "condition",
            word => word,
        });
        rest = &name[end..];
    }
    out + rest
}

/// The text of a statement without inner blocks, on one line.
fn simple_stmt(p: &Program, kind: &StmtKind) -> String {
    match kind {
        StmtKind::Assign { dst, src } => format!("{} = {}", place(p, dst), expr(p, src)),
        StmtKind::CopyHeader { dst, src } => format!("{} = {}", header(p, dst), header(p, src)),
        StmtKind::CopyStack { dst, src } => {
            format!("{} = {}", p.stacks[dst.index()].name.shown(), p.stacks[src.index()].name.shown())
        }
        StmtKind::SetValid(h) => format!("{}.setValid()", header(p, h)),
        StmtKind::SetInvalid(h) => format!("{}.setInvalid()", header(p, h)),
        StmtKind::PushFront(s, n) => format!("{}.push_front({n})", p.stacks[s.index()].name.shown()),
        StmtKind::PopFront(s, n) => format!("{}.pop_front({n})", p.stacks[s.index()].name.shown()),
        StmtKind::Break(l) => format!("break #{}", l.0),
        StmtKind::Continue(l) => format!("continue #{}", l.0),
        StmtKind::Apply { table, hit, action } => {
            let var = |v: &Option<crate::VarId>| v.map(|v| p.var(v).name.clone()).unwrap_or("_".into());
            format!(
                "({}, {}) = {}.apply()",
                var(hit).shown(),
                var(action).shown(),
                p.tables[table.index()].name.shown()
            )
        }
        StmtKind::Drop(site) => format!("drop {}", p.drop_sites[site.index()].name.shown()),
        StmtKind::Extract { header: h, varbit } => {
            let bits = varbit.as_ref().map(|v| format!(", {}", expr(p, v))).unwrap_or_default();
            format!("extract({}{bits})", header(p, h))
        }
        StmtKind::Lookahead { dst } => format!("{} = lookahead", place(p, dst)),
        StmtKind::Advance(e) => format!("advance({})", expr(p, e)),
        StmtKind::Verify { cond, error } => {
            format!("verify({}, {})", expr(p, cond), p.errors[error.index()].shown())
        }
        StmtKind::Emit(h) => format!("emit({})", header(p, h)),
        StmtKind::Call(c) => call(p, c),
        StmtKind::If { .. }
        | StmtKind::Atomic(_)
        | StmtKind::Switch { .. }
        | StmtKind::Block { .. }
        | StmtKind::Loop { .. } => String::new(),
    }
}

fn call(p: &Program, call: &Call) -> String {
    let list = |data: &[Expr]| data.iter().map(|e| expr(p, e)).collect::<Vec<_>>().join(", ");
    match call {
        Call::Count { counter, index } => {
            format!("{}.count({})", p.counters[counter.index()].name.shown(), expr(p, index))
        }
        Call::DirectCount(c) => format!("{}.count()", p.direct_counters[c.index()].name.shown()),
        Call::RegisterRead { register, dst, index } => {
            format!("{} = {}[{}]", place(p, dst), p.registers[register.index()].name.shown(), expr(p, index))
        }
        Call::RegisterWrite { register, index, value } => {
            format!("{}[{}] = {}", p.registers[register.index()].name.shown(), expr(p, index), expr(p, value))
        }
        Call::DirectRegisterRead { table, dst } => {
            format!("{} = {}.register", place(p, dst), p.tables[table.index()].name.shown())
        }
        Call::DirectRegisterWrite { table, value } => {
            format!("{}.register = {}", p.tables[table.index()].name.shown(), expr(p, value))
        }
        Call::Meter { meter, index, dst } => {
            format!(
                "{} = {}.execute({})",
                place(p, dst),
                p.meters[meter.index()].name.shown(),
                expr(p, index)
            )
        }
        Call::DirectMeter { meter, dst } => {
            format!("{} = {}.colour", place(p, dst), p.meters[meter.index()].name.shown())
        }
        Call::Digest { name, data, .. } => format!("digest {}({})", name.shown(), list(data)),
        Call::AddEntry { done, table, action, args, profile } => {
            let done = done.as_ref().map(|d| format!("{} = ", place(p, d))).unwrap_or_default();
            let table = &p.tables[table.index()];
            let action = p.actions[table.actions[*action as usize].action.index()].name.shown();
            format!(
                "{done}{}.add {action}({}), expires by {}",
                table.name.shown(),
                list(args),
                expr(p, profile)
            )
        }
        Call::RestartTimer(None) => "restart timer".to_string(),
        Call::RestartTimer(Some(profile)) => format!("restart timer, expires by {}", expr(p, profile)),
        Call::FlowId(dst) => format!("{} = new flow", place(p, dst)),
        Call::Hash { dst, algorithm, base, data, max } => {
            let (base, max) = (expr(p, base), expr(p, max));
            format!("{} = {base} + {algorithm:?}({}) % {max}", place(p, dst), list(data))
        }
        Call::AddToSum { dst, data, subtract } => {
            let sign = if *subtract { "~" } else { "" };
            format!("{} +'= {sign}Sum16({})", place(p, dst), list(data))
        }
        Call::UpdateHash { dst, algorithm, data } => {
            format!("{} = {algorithm:?}(.., {})", place(p, dst), list(data))
        }
        Call::Random { dst, lo, hi } => {
            format!("{} = random({}, {})", place(p, dst), expr(p, lo), expr(p, hi))
        }
        Call::VerifyChecksum { id: _, cond, data, checksum, payload } => {
            let tail = if *payload { ", payload" } else { "" };
            format!("verify {} == Csum16({}{tail}) if {}", place(p, checksum), list(data), expr(p, cond))
        }
        Call::UpdateChecksum { id: _, cond, data, checksum, payload, nonzero } => {
            let tail = if *payload { ", payload" } else { "" };
            let or = if *nonzero { ", never 0" } else { "" };
            format!("{} = Csum16({}{tail}){or} if {}", place(p, checksum), list(data), expr(p, cond))
        }
        Call::LogMsg { format, args } => format!("log {format:?} ({})", list(args)),
        Call::Assert { cond, site: _, text } => format!("assert {} ({text})", expr(p, cond)),
    }
}
