//! `constants`: a variable that only ever holds one constant is replaced by that constant.
//!
//! This applies to a local if every write in the whole program assigns the same constant, and if the local is not live at the beginning of
//! a unit. Then no read can see the zero that it had before.

use std::collections::HashMap;

use abi::Bits;

use crate::cells::Cell;
use crate::effects::{self, Effect};
use crate::expr::{Expr, ExprKind, Place};
use crate::liveness::{self, Liveness};
use crate::program::{Program, VarId, VarKind};
use crate::stmt::{Stmt, StmtKind};
use crate::visit;
use crate::visit_mut::{self, Part};

/// The knowledge about the value of a variable.
enum Known {
    /// Every write so far assigns this constant.
    Constant(Expr),
    /// The writes assign different values.
    Varies,
}

/// Replaces such variables by their constants. Returns whether anything changed.
pub fn run(program: &mut Program) -> bool {
    let known = known(program);
    if known.is_empty() {
        return false;
    }
    let mut changed = false;
    visit_mut::parts(program, &mut |part| {
        if let Part::Expr(e) = part
            && let ExprKind::Read(Place::Var(v)) = &e.kind
            && let Some(value) = known.get(v)
        {
            *e = Expr { kind: ExprKind::Const(value.clone()), ty: e.ty };
            changed = true;
        }
    });
    changed
}

fn known(program: &Program) -> HashMap<VarId, Bits> {
    let mut all: HashMap<VarId, Known> = HashMap::new();
    visit::all_stmts(program, &mut |stmt| {
        let constant = assigned_constant(stmt);
        effects::of(program, stmt, &mut |effect| {
            let (Effect::Write(Cell::Var(v)) | Effect::MayWrite(Cell::Var(v))) = effect else { return };
            let same = |old: &Known| matches!((old, constant), (Known::Constant(a), Some(b)) if a == b);
            let now = match (all.get(&v), constant) {
                (None, Some(e)) => Known::Constant(e.clone()),
                (Some(old), _) if same(old) => return,
                _ => Known::Varies,
            };
            all.insert(v, now);
        });
    });
    all.retain(|v, k| matches!(k, Known::Constant(_)) && program.var(*v).kind == VarKind::Local);
    if all.is_empty() {
        return HashMap::new();
    }
    let live = Liveness::new(program);
    for unit in liveness::units(program) {
        if let Some(begin) = live.at_entry(unit) {
            all.retain(|v, _| !begin.has(live.cells.number(Cell::Var(*v))));
        }
    }
    let value = |k: Known| match k {
        Known::Constant(e) => e.as_const().cloned(),
        Known::Varies => None,
    };
    all.into_iter().filter_map(|(v, k)| Some((v, value(k)?))).collect()
}

fn assigned_constant(stmt: &Stmt) -> Option<&Expr> {
    let StmtKind::Assign { dst: Place::Var(_), src } = &stmt.kind else { return None };
    src.as_const().is_some().then_some(src)
}
