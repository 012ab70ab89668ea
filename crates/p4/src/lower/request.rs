//! Requests: extern functions that ask the architecture for something that it does at the end of a stage. Each request is a
//! variable, which the call assigns and a decision of the pipeline tests.

use std::collections::BTreeMap;

use ir::pipeline::{Decision, Fate, Input, Passed, Path, Source, Step, When};
use ir::{BinOp, Expr, Loc, Place, StmtKind as Ir, Ty, VarId, VarKind};

use super::Lower;
use super::value::{cast, read};

/// The requests that a program makes.
#[derive(Default)]
pub(super) struct Requests {
    vars: BTreeMap<String, VarId>,
    /// The different calls of `clone`, `resubmit` and `recirculate`. The value of the variable is the index here plus 1.
    kept: Vec<Kept>,
    /// The location of the first `truncate`.
    pub(super) truncate: Loc,
    /// The location of the first `fragment_ipv6`.
    pub(super) fragment: Loc,
    /// PNA: the mirror slots that the program uses, with the location of the first call.
    pub(super) mirrors: BTreeMap<u64, Loc>,
}

/// A request for a packet that keeps some variables.
struct Kept {
    what: Again,
    keep: Vec<VarId>,
    loc: Loc,
}

/// The requests of v1model for another packet, or another round of the packet.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Again {
    /// A clone of the packet as it arrived.
    CloneI2E,
    /// A clone of the packet as egress leaves it.
    CloneE2E,
    Resubmit,
    Recirculate,
}

impl Again {
    fn name(self) -> &'static str {
        match self {
            Again::CloneI2E | Again::CloneE2E => "clone",
            Again::Resubmit => "resubmit",
            Again::Recirculate => "recirculate",
        }
    }
}

impl Lower<'_, '_> {
    /// The variable of a request. It is created with the first call.
    pub(super) fn request(&mut self, name: &str) -> VarId {
        if let Some(var) = self.requests.vars.get(name) {
            return *var;
        }
        let var = self.var(&format!("$pipeline.{name}"), Ty::Bit(32), VarKind::Metadata);
        self.requests.vars.insert(name.to_string(), var);
        var
    }

    /// The variable of a request, if the program makes it.
    pub(super) fn requested(&self, name: &str) -> Option<VarId> {
        self.requests.vars.get(name).copied()
    }

    /// Assigns a request.
    pub(super) fn ask(&mut self, name: &str, value: Expr) {
        let dst = Place::Var(self.request(name));
        self.push(Ir::Assign { dst, src: cast(value, Ty::Bit(32)) });
    }

    /// Requests another packet, or another round, that keeps these variables.
    pub(super) fn ask_again(&mut self, what: Again, keep: Vec<VarId>) {
        let loc = self.loc;
        let known = self.requests.kept.iter().position(|k| k.what == what && k.keep == keep);
        let at = known.unwrap_or_else(|| {
            self.requests.kept.push(Kept { what, keep, loc });
            self.requests.kept.len() - 1
        });
        self.ask(what.name(), Expr::bits(32, at as u128 + 1));
    }

    /// Requests that the packet is truncated. 0 means that there was no request.
    pub(super) fn ask_truncation(&mut self, length: Expr) {
        if self.requested("truncate").is_none() {
            self.requests.truncate = self.loc;
        }
        let length = cast(length, Ty::Bit(32));
        self.ask("truncate", Expr::binary(BinOp::Add, length, Expr::bits(32, 1)));
    }

    /// Requests that the packet leaves as IPv6 fragments.
    pub(super) fn ask_fragments(&mut self, size: Expr, identification: Expr) {
        if self.requested("fragment_size").is_none() {
            self.requests.fragment = self.loc;
        }
        self.ask("fragment_size", size);
        self.ask("fragment_identification", identification);
    }

    /// The decisions for all requests of some kinds. `path` makes the path from the kind and from what is kept.
    pub(super) fn decisions(
        &self,
        kinds: &[Again],
        copy: bool,
        path: impl Fn(Again, Vec<Passed>) -> Path,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for (i, Kept { what, keep, loc }) in self.requests.kept.iter().enumerate() {
            let Some(var) = self.requested(what.name()).filter(|_| kinds.contains(what)) else { continue };
            let path = path(*what, keep.iter().map(|v| Passed::Var { from: *v, to: *v }).collect());
            let then = if copy { Fate::Copy(path) } else { Fate::Go(path) };
            let when = When::Requested(var, i as u32 + 1);
            steps.push(Step::Decide(Box::new(Decision { when, then, loc: *loc })));
        }
        steps
    }

    /// Writes that withdraw all requests of some names.
    pub(super) fn withdrawn(&self, names: &[&str]) -> Vec<Input> {
        names.iter().filter_map(|name| Some(constant(self.requested(name)?, 32, 0))).collect()
    }

    /// A read of a variable.
    pub(super) fn of_var(&self, var: VarId) -> Expr {
        read(&Place::Var(var), self.out.var(var).ty)
    }
}

/// A constant that the architecture writes.
pub(super) fn constant(var: VarId, width: u32, value: u128) -> Input {
    Input { var, value: Source::Const(abi::Bits::new(width, value)) }
}

/// A decision that the architecture makes without a request.
pub(super) fn decide(when: When, then: Fate) -> Step {
    Step::Decide(Box::new(Decision { when, then, loc: Loc::default() }))
}
