//! Which table depends on which: what decides how many of them can be looked up at once.
//!
//! * *match*: an action of the first writes what the second looks up;
//! * *action*: actions of both write the same;
//! * *control*: whether the second is applied depends on the first.

use std::collections::BTreeSet;

use ir::{Block, Expr, ExprKind, HeaderRef, Place, Program, Stmt, StmtKind, TableId};

use super::{Graph, Shape};

/// Names of places that are read or written.
type Places = BTreeSet<String>;

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
            let result = hit.iter().chain(action).map(|v| program.vars[v.index()].name.clone());
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
    ir::visit::exprs(e, &mut |e| match &e.kind {
        ExprKind::Read(place) => drop(out.insert(ir::text::place(program, place))),
        ExprKind::IsValid(header) => drop(out.insert(valid(program, header))),
        _ => {}
    });
}

/// What a statement writes.
fn wrote(program: &Program, stmt: &Stmt, out: &mut Places) {
    if let Some(place) = ir::visit::written(stmt) {
        out.insert(ir::text::place(program, place));
        // A place inside a header that another statement takes as a whole is not followed: sets of fields are what tables look up.
        if let Place::Field(header, _) = place {
            out.insert(ir::text::header(program, header));
        }
    }
    match &stmt.kind {
        StmtKind::SetValid(h) | StmtKind::SetInvalid(h) => drop(out.insert(valid(program, h))),
        StmtKind::CopyHeader { dst, .. } => drop(out.insert(valid(program, dst))),
        _ => {}
    }
}

fn valid(program: &Program, header: &HeaderRef) -> String {
    format!("{}.isValid()", ir::text::header(program, header))
}
