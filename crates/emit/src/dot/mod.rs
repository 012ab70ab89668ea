//! Pictures of a program in Graphviz' language: each parser's states, each control's flow, and which table depends on which.
//!
//! A file of them holds several graphs, one behind the other, as `dot` takes them; [`svg()`] draws them one below the other.

mod depend;
mod flow;
mod svg;

use std::fmt::Write as _;

use ir::{Parser, Program, Target, Transition};

pub use svg::svg;

/// A picture: what its nodes and edges are called and how they look.
#[derive(Default)]
pub(crate) struct Graph {
    name: String,
    nodes: Vec<(String, String, Shape)>,
    edges: Vec<(String, String, String)>,
}

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A state, an action.
    Round,
    /// A table.
    Box,
    /// A condition.
    Diamond,
    /// Where something begins or ends.
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

/// A string of Graphviz; line breaks are written as it wants them.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// All pictures of a program.
pub fn dot(program: &Program) -> String {
    graphs(program).iter().map(Graph::text).collect::<Vec<_>>().join("\n")
}

/// The pictures, those without anything in them left out.
fn graphs(program: &Program) -> Vec<Graph> {
    let mut all: Vec<Graph> = program.parsers.iter().map(|p| parser(program, p)).collect();
    all.extend(program.controls.iter().map(|c| flow::control(program, c)));
    all.push(depend::tables(program));
    all.retain(|g| g.nodes.len() > 1);
    all
}

/// A parser: its states, and the values that lead from one to the next.
fn parser(program: &Program, parser: &Parser) -> Graph {
    let mut graph = Graph::new(format!("parser {}", parser.name));
    let name = |target: &Target| match target {
        Target::State(id) => parser.states.get(id.index()).map_or("?", |s| s.name.as_str()).to_string(),
        Target::Accept => "accept".to_string(),
        Target::Reject => "reject".to_string(),
    };
    for state in &parser.states {
        let mut label = state.name.clone();
        if let Transition::Select(select) = &state.next {
            let keys: Vec<String> = select.keys.iter().map(|k| ir::text::expr(program, k)).collect();
            let _ = write!(label, "\nselect {}", keys.join(", "));
        }
        graph.node(&state.name, label, Shape::Round);
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
            let to = name(&target);
            if !matches!(target, Target::State(_)) {
                graph.node(&to, &to, Shape::End);
            }
            graph.edge(&state.name, &to, label);
        }
    }
    graph
}
