//! The dependencies between tables. Tables without dependencies can be looked up at the same time.
//!
//! A later table depends on an earlier one in three cases:
//!
//! * *match*: an action of the earlier table writes a field of the later table's key.
//! * *action*: actions of both tables write the same field.
//! * *control*: whether the later table is applied depends on the earlier table.

use std::collections::HashSet;

use ir::cells::Cell;
use ir::effects;
use ir::{Block, Expr, Program, Stmt, StmtKind, TableId};

use super::{Graph, Shape};

/// The cells that something reads or writes.
type Places = HashSet<Cell>;

/// An application of a table.
struct Applied {
    table: TableId,
    /// The cells that the conditions around the application read.
    under: Places,
    reads: Places,
    writes: Places,
    /// The variables that receive its result: hit or miss, and the action.
    result: Places,
}

/// The graph of all tables.
pub(super) fn tables(program: &Program) -> Graph {
    let mut graph = Graph::new("tables".into());
    let mut all: Vec<Applied> = Vec::new();
    for control in &program.controls {
        walk(program, &control.body, &Places::new(), &mut all);
    }
    let name = |t: &Applied| program.tables[t.table.index()].name.shown().to_string();
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
    direct(&mut graph);
    graph
}

/// Removes the dependencies that follow from others: those on a table that another one depends on, which the later table waits for as well.
fn direct(graph: &mut Graph) {
    let index = |id: &str| graph.nodes.iter().position(|(known, ..)| known == id).unwrap_or(0);
    let edges: Vec<(usize, usize)> =
        graph.edges.iter().map(|(from, to, _)| (index(from), index(to))).collect();
    // Edges lead from earlier tables to later ones, but for tables that are applied several times.
    let mut reach: Vec<HashSet<usize>> = vec![HashSet::new(); graph.nodes.len()];
    let mut keep = vec![true; edges.len()];
    for from in (0..graph.nodes.len()).rev() {
        let mut targets: Vec<(usize, usize)> = edges
            .iter()
            .enumerate()
            .filter(|(_, (a, b))| *a == from && *b > from)
            .map(|(e, (_, b))| (*b, e))
            .collect();
        targets.sort_unstable();
        for (to, edge) in targets {
            keep[edge] = reach[from].insert(to);
            let beyond: Vec<usize> = reach[to].iter().copied().collect();
            reach[from].extend(beyond);
        }
    }
    let mut kept = keep.into_iter();
    graph.edges.retain(|_| kept.next().unwrap_or(true));
}

/// Appends the applications of tables in a block, in order. `under` has the cells that the conditions around the block read.
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

/// Adds the cells that an expression reads.
fn read(program: &Program, e: &Expr, out: &mut Places) {
    effects::reads(program, e, &mut |cell| out.extend([cell]));
}

/// Adds the cells that a statement writes or may write.
fn wrote(program: &Program, stmt: &Stmt, out: &mut Places) {
    effects::writes(program, stmt, &mut |cell| out.extend([cell]));
}
