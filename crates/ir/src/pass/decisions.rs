//! `decisions`: decisions of the pipeline that never apply are removed.
//!
//! A program that never assigns `mcast_grp` does not multicast, and needs none of the code for it. If all writes of a variable in the whole
//! program write zero, the variable is always zero, because it is zero when a packet arrives. `fold` computes what becomes constant.

use std::collections::HashSet;

use abi::Bits;

use crate::cells::Cell;
use crate::effects;
use crate::expr::{Expr, ExprKind, Place};
use crate::pipeline::{Input, Mention, MentionMut, Source, Step, When};
use crate::program::{Program, VarId};
use crate::stmt::{Stmt, StmtKind};
use crate::visit;
use crate::visit_mut::{self, Part};

/// Replaces variables that are always zero in the pipeline, and removes decisions that never apply. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let varies = varies(program);
    let mut changed = false;
    program.pipeline.mentions_mut(&mut |mention| {
        if let MentionMut::Expr(e) = mention {
            changed |= replace(e, &varies);
        }
    });
    for stage in &mut program.pipeline.stages {
        let before = stage.steps.len();
        stage.steps.retain(|step| {
            let Step::Decide(decision) = step else { return true };
            match &decision.when {
                When::Always => true,
                When::Holds(e) => !e.as_const().is_some_and(Bits::is_zero),
                When::Requested(var, number) => *number == 0 || varies.contains(var),
            }
        });
        changed |= stage.steps.len() != before;
    }
    changed
}

/// The variables that something may write with another value than zero.
fn varies(program: &Program) -> HashSet<VarId> {
    let mut varies = HashSet::new();
    visit::all_stmts(program, &mut |stmt| {
        if !assigns_zero(stmt) {
            effects::writes(program, stmt, &mut |cell| {
                if let Cell::Var(v) = cell {
                    varies.insert(v);
                }
            });
        }
    });
    let parameters = program.actions.iter().flat_map(|a| &a.params).map(|p| p.var);
    varies.extend(parameters);
    let standard = program.standard;
    varies.extend([standard.parser_error, standard.checksum_error, standard.packet_length]);
    let mut zeros = HashSet::new();
    let mut note = |input: &Input| {
        if matches!(&input.value, Source::Const(value) if value.is_zero()) {
            zeros.insert(std::ptr::from_ref(&input.var));
        }
    };
    for stage in &program.pipeline.stages {
        stage.inputs.iter().for_each(&mut note);
    }
    for path in program.pipeline.decisions().filter_map(|d| d.then.path()) {
        path.inputs().chain(&path.sets).for_each(&mut note);
    }
    program.pipeline.mentions(&mut |mention| {
        if let Mention::Written(var) = mention
            && !zeros.contains(&std::ptr::from_ref(var))
        {
            varies.insert(*var);
        }
    });
    varies
}

fn assigns_zero(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::Assign { dst: Place::Var(_), src } if src.as_const().is_some_and(Bits::is_zero))
}

/// Replaces reads of variables that are always zero.
fn replace(e: &mut Expr, varies: &HashSet<VarId>) -> bool {
    let mut changed = false;
    visit_mut::whole(e, &mut |part| {
        if let Part::Expr(e) = part
            && matches!(&e.kind, ExprKind::Read(Place::Var(v)) if !varies.contains(v))
        {
            e.kind = ExprKind::Const(Bits::zero(e.ty.width()));
            changed = true;
        }
    });
    changed
}
