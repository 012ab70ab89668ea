//! The rules of a well-formed program, checked. Only [`verify`] makes a [`Verified`].
//!
//! A fault here is a bug of the front end or of a pass, never of the P4 programmer: what a programmer can get wrong has a
//! diagnostic. The checks follow the program: storage, then parsers and controls with their statements and expressions, then
//! tables. Nothing here relies on a rule that was only reported: a program with any fault is walked to its end.

mod call;
mod expr;
mod parser;
mod rule;
mod stmt;
mod storage;
mod table;

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::liveness::Liveness;
use crate::program::{LabelId, Loc, Program, Role};

pub use rule::Rule;

/// A program that keeps every rule of the crate's page, and what is known of its effects.
#[derive(Clone, Debug)]
pub struct Verified {
    program: Program,
    liveness: OnceLock<Liveness>,
}

impl Verified {
    /// The program, to be changed and verified anew.
    pub fn into_program(self) -> Program {
        self.program
    }

    /// Which cells are live where; worked out when it is first asked for.
    pub fn liveness(&self) -> &Liveness {
        self.liveness.get_or_init(|| Liveness::new(&self.program))
    }
}

impl Deref for Verified {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.program
    }
}

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the P4 source the faulty piece came from.
    pub loc: Loc,
    /// Which rule it breaks.
    pub rule: Rule,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed IR from line {}: {}", self.loc.line, self.rule)
    }
}

/// Checks every rule; all faults are reported.
pub fn verify(program: Program) -> Result<Verified, Vec<Fault>> {
    let mut check = Check {
        p: &program,
        faults: Vec::new(),
        loc: Loc::default(),
        labels: HashSet::new(),
        context: Context::Match,
    };
    check.program();
    let faults = check.faults;
    if faults.is_empty() { Ok(Verified { program, liveness: OnceLock::new() }) } else { Err(faults) }
}

/// The block of the program that is being walked: it decides which statements have a meaning.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    Parser,
    Match,
    Action,
    Verify,
    Compute,
    Deparser,
}

/// A label that a jump may name: of a block, or of a loop.
#[derive(Clone, Copy, PartialEq)]
struct Scope {
    label: LabelId,
    is_loop: bool,
}

struct Check<'a> {
    p: &'a Program,
    faults: Vec<Fault>,
    /// Where the piece being checked came from.
    loc: Loc,
    /// The labels met so far.
    labels: HashSet<LabelId>,
    context: Context,
}

impl Check<'_> {
    fn require(&mut self, holds: bool, rule: Rule) {
        if !holds {
            self.faults.push(Fault { loc: self.loc, rule });
        }
    }

    fn program(&mut self) {
        let p = self.p;
        self.storage();
        let mut roles = HashSet::new();
        for parser in &p.parsers {
            self.require(roles.insert(parser.role as u8), Rule::OneOfEachRole);
            self.parser(parser);
        }
        for control in &p.controls {
            self.loc = control.loc;
            self.require(roles.insert(control.role as u8), Rule::OneOfEachRole);
            self.context = match control.role {
                Role::VerifyChecksum => Context::Verify,
                Role::ComputeChecksum => Context::Compute,
                Role::Deparser | Role::IngressDeparser => Context::Deparser,
                Role::Ingress | Role::PreControl | Role::Egress | Role::Parser | Role::EgressParser => {
                    Context::Match
                }
            };
            self.block(&control.body, &mut Vec::new());
        }
        self.context = Context::Action;
        for (i, action) in p.actions.iter().enumerate() {
            self.loc = action.loc;
            self.parameters(i as u32, action);
            self.block(&action.body, &mut Vec::new());
        }
        self.context = Context::Match;
        p.tables.iter().for_each(|t| self.table(t));
    }
}
