//! Graphs of a program in Graphviz's language: the states of each parser, the flow of each control, and the dependencies between tables.
//!
//! The text contains all graphs, one after the other, as `dot` accepts them. [`svg()`] draws them one below the other, and `layout` places their nodes.

mod depend;
mod flow;
mod layout;
mod svg;

use std::fmt::Write as _;

use ir::{Loc, Parser, Program, Target, Transition};

pub use svg::svg;

/// The text of the statement at a place, with its condition in parentheses: `if (…)`. `None` if no such statement begins there.
pub type Statements<'s> = &'s dyn Fn(Loc) -> Option<String>;

/// A graph. A node has a name, a label and a shape; an edge has the names of two nodes and a label.
#[derive(Default)]
pub(crate) struct Graph {
    name: String,
    nodes: Vec<(String, String, Shape)>,
    edges: Vec<(String, String, String)>,
}

/// The shape of a node, which tells what it stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The node is a parser state or an action.
    Round,
    /// The node is a table.
    Box,
    /// The node is a condition.
    Diamond,
    /// The node is the start or the end of the graph.
    End,
}

impl Graph {
    fn new(name: String) -> Graph {
        Graph { name, ..Graph::default() }
    }

    fn node(&mut self, id: impl Into<String>, label: impl Into<String>, shape: Shape) -> String {
        let id = id.into();
        if !self.nodes.iter().any(|(known, ..)| *known == id) {
            self.nodes.push((id.clone(), label.into(), shape));
        }
        id
    }

    fn edge(&mut self, from: &str, to: &str, label: impl Into<String>) {
        let edge = (from.to_string(), to.to_string(), label.into());
        if !self.edges.contains(&edge) {
            self.edges.push(edge);
        }
    }

    fn text(&self) -> String {
        let mut out = format!("digraph {} {{\n", quoted(&self.name));
        let _ = writeln!(out, "  label={};", quoted(&self.name));
        for (id, label, shape) in &self.nodes {
            let shape = match shape {
                Shape::Round => "ellipse",
                Shape::Box => "box",
                Shape::Diamond => "diamond",
                Shape::End => "circle",
            };
            let _ = writeln!(out, "  {} [shape={shape}, label={}];", quoted(id), quoted(label));
        }
        for (from, to, label) in &self.edges {
            let label = if label.is_empty() { String::new() } else { format!(" [label={}]", quoted(label)) };
            let _ = writeln!(out, "  {} -> {}{label};", quoted(from), quoted(to));
        }
        out + "}\n"
    }
}

/// A string literal of Graphviz. Control characters are escaped, because the text may be shown on a terminal.
fn quoted(text: &str) -> String {
    format!("\"{}\"", abi::text::lines(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The text of all graphs of a program.
pub fn dot(program: &Program, statements: Statements<'_>) -> String {
    graphs(program, statements).iter().map(Graph::text).collect::<Vec<_>>().join("\n")
}

/// The graphs of a program, except for empty ones.
fn graphs(program: &Program, statements: Statements<'_>) -> Vec<Graph> {
    let mut all: Vec<Graph> = program.parsers.iter().map(|p| parser(program, p)).collect();
    all.extend(program.controls.iter().map(|c| flow::control(program, c, statements)));
    all.push(depend::tables(program));
    all.retain(|g| g.nodes.len() > 1);
    all
}

/// The graph of a parser: its states, and the values that select the next state.
fn parser(program: &Program, parser: &Parser) -> Graph {
    let mut graph = Graph::new(format!("parser {}", parser.name.shown()));
    let name = |target: &Target| match target {
        Target::State(id) => {
            parser.states.get(id.index()).map_or("?".to_string(), |s| s.name.shown().to_string())
        }
        Target::Accept => "accept".to_string(),
        Target::Reject => "reject".to_string(),
    };
    for state in &parser.states {
        let name = state.name.shown().to_string();
        let mut label = name.clone();
        if let Transition::Select(select) = &state.next {
            let keys: Vec<String> = select.keys.iter().map(|k| ir::text::expr(program, k)).collect();
            let _ = write!(label, "\nselect {}", ir::text::readable(&keys.join(", ")));
        }
        graph.node(&name, label, Shape::Round);
    }
    for state in &parser.states {
        let targets: Vec<(Target, String)> = match &state.next {
            Transition::Goto(target) => vec![(*target, String::new())],
            Transition::Select(select) => {
                let all = select
                    .cases
                    .iter()
                    .any(|c| c.value_set.is_none() && c.sets.iter().all(|s| matches!(s, ir::KeySet::Any)));
                let cases = select.cases.iter().map(|c| {
                    let sets: Vec<String> = c.sets.iter().map(ir::text::key_set).collect();
                    (c.next, if sets.is_empty() { "a value set".to_string() } else { sets.join(", ") })
                });
                cases.chain((!all).then(|| (Target::Reject, "no match".to_string()))).collect()
            }
        };
        for (target, label) in targets {
            let mut to = name(&target);
            if !matches!(target, Target::State(_)) {
                // Each state has ends of its own: lines from all states to one would cross the whole picture.
                let end = to.clone();
                to = format!("{} {end}", state.name.shown());
                graph.node(&to, end, Shape::End);
            }
            graph.edge(&state.name.shown().to_string(), &to, label);
        }
    }
    graph
}
