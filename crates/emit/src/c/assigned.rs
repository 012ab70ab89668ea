//! Which variables may be read before anything has written them: those must be zero when a packet arrives, and clearing
//! what need not be is a cost on every packet (docs/device-mode.md has the figures).
//!
//! Metadata is always cleared. For the rest this is definite assignment: a walk over each control that knows, at every
//! point, what was written on all ways there. Parsers go round in circles, so there each state stands alone.

use std::collections::{BTreeSet, HashMap};

use ir::{
    Block, Call, ExprKind, LabelId, Place, Program, Stmt, StmtKind, TableId, Transition, VarId, VarKind,
    visit,
};

/// The variables that must be zero on arrival.
pub fn cleared(program: &Program) -> BTreeSet<VarId> {
    let mut walk = Walk { program, early: BTreeSet::new(), leaving: HashMap::new() };
    for parser in &program.parsers {
        let mut set = Some(Set::new());
        walk.block(&parser.prologue, &mut set);
        for state in &parser.states {
            let mut set = set.clone();
            walk.block(&state.body, &mut set);
            if let Transition::Select(select) = &state.next {
                select.keys.iter().for_each(|k| walk.expr(k, &set));
            }
        }
    }
    for control in &program.controls {
        walk.block(&control.body, &mut Some(Set::new()));
    }
    let metadata = |(i, v): (usize, &ir::Var)| (v.kind == VarKind::Metadata).then_some(VarId(i as u32));
    walk.early.extend(program.vars.iter().enumerate().filter_map(metadata));
    walk.early
}

type Set = BTreeSet<VarId>;
/// What is written for certain; `None` where no way leads.
type Written = Option<Set>;

struct Walk<'p> {
    program: &'p Program,
    early: Set,
    /// What is written at each way out of a block.
    leaving: HashMap<LabelId, Written>,
}

impl Walk<'_> {
    fn block(&mut self, block: &Block, written: &mut Written) {
        block.iter().for_each(|s| self.stmt(s, written));
    }

    fn stmt(&mut self, stmt: &Stmt, written: &mut Written) {
        visit::operands(stmt, &mut |e| self.expr(e, written));
        match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => {
                let mut other = written.clone();
                self.block(then, written);
                self.block(otherwise, &mut other);
                meet(written, other);
            }
            StmtKind::Switch { arms, default, .. } => {
                let before = written.clone();
                self.block(default, written);
                for (_, arm) in arms {
                    let mut way = before.clone();
                    self.block(arm, &mut way);
                    meet(written, way);
                }
            }
            StmtKind::Block { label, body } => {
                self.block(body, written);
                if let Some(left) = self.leaving.remove(label) {
                    meet(written, left);
                }
            }
            StmtKind::Loop { label, body, .. } => {
                // A round may be the first one: nothing that the body writes is there when it starts.
                self.block(body, &mut written.clone());
                *written = self.leaving.remove(label).unwrap_or(None);
            }
            StmtKind::Break(label) => {
                let way = written.take();
                match self.leaving.get_mut(label) {
                    Some(left) => meet(left, way),
                    None => {
                        self.leaving.insert(*label, way);
                    }
                }
            }
            StmtKind::Continue(_) => *written = None,
            StmtKind::Apply { table, hit, action } => {
                self.table(*table, written);
                hit.iter().chain(action).for_each(|v| add(written, *v));
            }
            StmtKind::Call(
                Call::VerifyChecksum { checksum: Place::Var(v), .. }
                | Call::UpdateChecksum { checksum: Place::Var(v), .. },
            ) => self.read(*v, written),
            _ => {}
        }
        if let Some(Place::Var(v)) = visit::written(stmt) {
            add(written, *v);
        }
    }

    /// One of its actions runs, with its parameters set; what all of them write is not followed.
    fn table(&mut self, table: TableId, written: &Written) {
        let program = self.program;
        let table = &program.tables[table.index()];
        table.keys.iter().map(|k| &k.expr).chain(&table.selector).for_each(|e| self.expr(e, written));
        for listed in &table.actions {
            let action = &program.actions[listed.action.index()];
            let mut written = written.clone();
            action.params.iter().for_each(|p| add(&mut written, p.var));
            self.block(&action.body, &mut written);
        }
    }

    fn expr(&mut self, e: &ir::Expr, written: &Written) {
        let mut reads = Vec::new();
        visit::exprs(e, &mut |e| {
            if let ExprKind::Read(Place::Var(v)) = &e.kind {
                reads.push(*v);
            }
        });
        reads.into_iter().for_each(|v| self.read(v, written));
    }

    fn read(&mut self, var: VarId, written: &Written) {
        if written.as_ref().is_some_and(|w| !w.contains(&var)) {
            self.early.insert(var);
        }
    }
}

fn add(written: &mut Written, var: VarId) {
    if let Some(set) = written {
        set.insert(var);
    }
}

/// Two ways come together: written is what both wrote.
fn meet(written: &mut Written, other: Written) {
    match (written.as_mut(), other) {
        (Some(a), Some(b)) => a.retain(|v| b.contains(v)),
        (None, b) => *written = b,
        (Some(_), None) => {}
    }
}
