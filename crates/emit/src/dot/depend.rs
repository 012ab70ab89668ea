//! Which table depends on which: what decides how many of them can be looked up at once.
//!
//! * *match*: an action of the first writes what the second looks up;
//! * *action*: actions of both write the same;
//! * *control*: whether the second is applied depends on the first.

use std::collections::HashSet;

use ir::cells::Cell;
use ir::effects::{self, Effect};
use ir::{Block, Expr, Program, Stmt, StmtKind, TableId};

use super::{Graph, Shape};

/// What is read or written.
type Places = HashSet<Cell>;

/// A table in the order of its application.
struct Applied {
    table: TableId,
    /// What the conditions around it read.
    under: Places,
    reads: Places,
    writes: Places,
    /// What tells of its result: hit, action.
    result: Places,
}

/// The picture of all tables.
pub(super) fn tables(program: &Program) -> Graph {
    let mut graph = Graph::new("tables".into());
    let mut all: Vec<Applied> = Vec::new();
    for control in &program.controls {
        walk(program, &control.body, &Places::new(), &mut all);
    }
    let name = |t: &Applied| program.tables[t.table.index()].name.clone();
    for table in &all {
        graph.node(name(table), name(table), Shape::Box);
    }
    for (i, later) in all.iter().enumerate() {
        for earlier in all[..i].iter().filter(|e| e.table != later.table) {
            let meets = |a: &Places, b: &Places| !a.is_disjoint(b);
            let why = if meets(&earlier.writes, &later.reads) {
                "match"
            } else if meets(&earlier.writes, &later.writes) {
                "action"
            } else if meets(&earlier.writes, &later.under) || meets(&earlier.result, &later.under) {
                "control"
            } else {
                continue;
            };
            graph.edge(&name(earlier), &name(later), why);
        }
    }
    graph
}

fn walk(program: &Program, block: &Block, under: &Places, out: &mut Vec<Applied>) {
    for stmt in block {
        if let StmtKind::Apply { table, hit, action } = &stmt.kind {
            let definition = &program.tables[table.index()];
            let mut reads = Places::new();
            definition.keys.iter().for_each(|k| read(program, &k.expr, &mut reads));
            let mut writes = Places::new();
            for a in &definition.actions {
                ir::visit::stmts(&program.actions[a.action.index()].body, &mut |s| {
                    wrote(program, s, &mut writes)
                });
            }
            let result = hit.iter().chain(action).map(|v| Cell::Var(*v));
            out.push(Applied {
                table: *table,
                under: under.clone(),
                reads,
                writes,
                result: result.collect(),
            });
        }
        let mut inner = under.clone();
        if matches!(stmt.kind, StmtKind::If { .. } | StmtKind::Switch { .. }) {
            ir::visit::operands(stmt, &mut |e| read(program, e, &mut inner));
        }
        for block in ir::visit::inner_blocks(stmt) {
            walk(program, block, &inner, out);
        }
    }
}

/// What an expression reads.
fn read(program: &Program, e: &Expr, out: &mut Places) {
    effects::reads(program, e, &mut |cell| out.extend([cell]));
}

/// What a statement writes.
fn wrote(program: &Program, stmt: &Stmt, out: &mut Places) {
    effects::of(program, stmt, &mut |effect| {
        if let Effect::Write(cell) | Effect::MayWrite(cell) = effect {
            out.insert(cell);
        }
    });
}
