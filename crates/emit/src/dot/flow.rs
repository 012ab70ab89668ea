//! The paths of a packet through a control: the tables, and the conditions between them. The graph has no statements that only compute,
//! because with them it would be unreadable.

use ir::{Block, Control, Expr, LabelId, Program, Stmt, StmtKind};

use super::{Graph, Shape, Statements};

/// The open ends of paths, which lead to the next node. Each is the last node of the path and the label of its next edge.
type Open = Vec<(String, String)>;

/// The number of paths that lead to one node for the end.
const FEW_ENDS: usize = 3;
/// The greatest number of characters in a line of a node.
const LINE: usize = 36;

/// The construction of the graph of a control.
struct Flow<'p> {
    program: &'p Program,
    graph: Graph,
    statements: Statements<'p>,
    /// The open ends of paths that left a block, with the label of the block.
    left: Vec<(LabelId, Open)>,
}

/// The graph of a control.
pub(super) fn control<'p>(program: &'p Program, control: &Control, statements: Statements<'p>) -> Graph {
    let graph = Graph::new(format!("control {}", control.name.shown()));
    let mut flow = Flow { program, graph, statements, left: Vec::new() };
    if !shown(&control.body) {
        return flow.graph;
    }
    let start = flow.graph.node("start", "start", Shape::End);
    let open = flow.block(&control.body, vec![(start, String::new())]);
    // Each of many paths has an end of its own: lines from all of them to one would cross the whole picture.
    let (few, many) = if open.len() <= FEW_ENDS { (open, Vec::new()) } else { (Vec::new(), open) };
    for path in many {
        flow.pass("end".to_string(), Shape::End, &vec![path]);
    }
    if !few.is_empty() {
        let end = flow.graph.node("end", "end", Shape::End);
        flow.join(&few, &end);
    }
    flow.graph
}

/// Whether a block contains a statement that is drawn.
fn shown(block: &Block) -> bool {
    let mut found = false;
    ir::visit::stmts(block, &mut |s: &Stmt| {
        found |= matches!(s.kind, StmtKind::Apply { .. } | StmtKind::Drop(_) | StmtKind::Emit(_));
    });
    found
}

impl Flow<'_> {
    /// Adds edges from all open ends to a node.
    fn join(&mut self, open: &Open, to: &str) {
        for (from, label) in open {
            self.graph.edge(from, to, label.as_str());
        }
    }

    /// Adds the statements of a block, and returns the open ends after it.
    fn block(&mut self, block: &Block, mut open: Open) -> Open {
        for stmt in block {
            open = self.stmt(stmt, open);
        }
        open
    }

    /// Adds a node after the open ends, and returns its name.
    fn pass(&mut self, label: String, shape: Shape, open: &Open) -> String {
        let id = format!("n{}", self.graph.nodes.len());
        let id = self.graph.node(id, label, shape);
        self.join(open, &id);
        id
    }

    /// The condition of a statement as the program has it. One of Strait's own is that of the IR.
    fn condition(&self, on: &Expr, stmt: &Stmt) -> String {
        let own = ir::text::expr(self.program, on);
        let written = (self.statements)(stmt.loc).filter(|_| !own.contains("$exit"));
        let inner = written.as_deref().and_then(|text| text.split_once('(')?.1.strip_suffix(')'));
        wrapped(&inner.map_or_else(|| ir::text::readable(&own), str::to_string))
    }

    /// Adds a statement, and returns the open ends after it.
    fn stmt(&mut self, stmt: &Stmt, open: Open) -> Open {
        let program = self.program;
        match &stmt.kind {
            StmtKind::Apply { table, .. } => {
                let name = program.tables[table.index()].name.shown().to_string();
                vec![(self.pass(name, Shape::Box, &open), String::new())]
            }
            StmtKind::Drop(site) => {
                let label = format!("drop: {}", program.drop_sites[site.index()].name.shown());
                vec![(self.pass(label, Shape::Round, &open), String::new())]
            }
            StmtKind::Emit(header) => {
                let label = format!("emit {}", ir::text::header(program, header));
                vec![(self.pass(label, Shape::Round, &open), String::new())]
            }
            StmtKind::If { cond, then, otherwise }
                if shown(then) || shown(otherwise) || leaves(then) || leaves(otherwise) =>
            {
                let id = self.pass(self.condition(cond, stmt), Shape::Diamond, &open);
                let mut out = self.block(then, vec![(id.clone(), "true".into())]);
                out.extend(self.block(otherwise, vec![(id, "false".into())]));
                out
            }
            StmtKind::Switch { on, arms, default }
                if arms.iter().any(|(_, b)| shown(b)) || shown(default) =>
            {
                let id = self.pass(self.condition(on, stmt), Shape::Diamond, &open);
                let mut out = Open::new();
                for (values, block) in arms {
                    let label: Vec<String> = values.iter().map(|v| format!("{v}")).collect();
                    out.extend(self.block(block, vec![(id.clone(), label.join(", "))]));
                }
                out.extend(self.block(default, vec![(id, "else".into())]));
                out
            }
            StmtKind::Block { label, body } | StmtKind::Loop { label, body, .. } => {
                self.left.push((*label, Open::new()));
                let mut out = self.block(body, open);
                out.extend(self.left.pop().map(|(_, open)| open).unwrap_or_default());
                out
            }
            StmtKind::Break(label) => {
                if let Some((_, left)) = self.left.iter_mut().rev().find(|(l, _)| l == label) {
                    left.extend(open);
                }
                Open::new()
            }
            StmtKind::Assign { .. }
            | StmtKind::CopyHeader { .. }
            | StmtKind::CopyStack { .. }
            | StmtKind::SetValid(_)
            | StmtKind::SetInvalid(_)
            | StmtKind::PushFront(..)
            | StmtKind::PopFront(..)
            | StmtKind::If { .. }
            | StmtKind::Switch { .. }
            | StmtKind::Atomic(_)
            | StmtKind::Continue(_)
            | StmtKind::Extract { .. }
            | StmtKind::Lookahead { .. }
            | StmtKind::Advance(_)
            | StmtKind::Verify { .. }
            | StmtKind::Call(_) => open,
        }
    }
}

/// A text in short lines.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut line = 0;
    for word in text.split(' ') {
        if line > 0 && line + word.len() > LINE {
            out.push('\n');
            line = 0;
        }
        if line > 0 {
            out.push(' ');
        }
        out.push_str(word);
        line += word.len() + 1;
    }
    out
}

/// Whether a block contains a `break` at its top level.
fn leaves(block: &Block) -> bool {
    block.iter().any(|s| matches!(s.kind, StmtKind::Break(_)))
}
