//! The verifier, which checks the rules of well-formed programs. Only [`verify`] makes a [`Verified`].
//!
//! A fault is a bug in the front end or in a pass. It is never a mistake of the P4 programmer, because those are reported as diagnostics.
//! The checks follow the program: storage, then parsers and controls with their statements and expressions, then tables. A check does not
//! rely on rules that other checks report, so a program with faults can be checked to its end.

mod call;
mod expr;
mod parser;
mod pipeline;
mod rule;
mod stmt;
mod storage;
mod table;

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::liveness::Liveness;
use crate::program::{ActionId, ChecksumId, LabelId, Loc, Program, Role};

pub use rule::Rule;

/// A program that satisfies all rules, with the results of its analyses.
#[derive(Clone, Debug)]
pub struct Verified {
    program: Program,
    liveness: OnceLock<Liveness>,
}

impl Verified {
    /// Returns the program, which can then be changed and verified again.
    pub fn into_program(self) -> Program {
        self.program
    }

    /// The liveness of the program's cells. It is computed when it is first needed.
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

/// A violation of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The location in the P4 source of the faulty part.
    pub loc: Loc,
    /// The rule that the program violates.
    pub rule: Rule,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed IR from line {}: {}", self.loc.line, self.rule)
    }
}

/// Checks every rule, and returns all faults.
pub fn verify(program: Program) -> Result<Verified, Vec<Fault>> {
    let mut check = Check {
        p: &program,
        faults: Vec::new(),
        loc: Loc::default(),
        labels: HashSet::new(),
        checksums: HashSet::new(),
        context: Context::Match,
    };
    check.program();
    let faults = check.faults;
    if faults.is_empty() { Ok(Verified { program, liveness: OnceLock::new() }) } else { Err(faults) }
}

/// The kind of block that is being checked. It decides which statements are allowed.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    Parser,
    Match,
    Action(ActionId),
    Verify,
    Compute,
    Deparser,
}

/// A label that a jump may name, and whether it belongs to a loop.
#[derive(Clone, Copy, PartialEq)]
struct Scope {
    label: LabelId,
    is_loop: bool,
}

struct Check<'a> {
    p: &'a Program,
    faults: Vec<Fault>,
    /// The location of the part that is being checked.
    loc: Loc,
    /// The labels that have occurred so far.
    labels: HashSet<LabelId>,
    /// The numbers of checksum statements that have occurred so far.
    checksums: HashSet<ChecksumId>,
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
        for (i, action) in p.actions.iter().enumerate() {
            self.context = Context::Action(ActionId(i as u32));
            self.loc = action.loc;
            self.parameters(i as u32, action);
            self.block(&action.body, &mut Vec::new());
        }
        self.context = Context::Match;
        p.tables.iter().for_each(|t| self.table(t));
        self.pipeline();
    }
}
