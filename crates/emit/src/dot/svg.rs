//! Graphs as SVG. `layout` places the nodes, so that Graphviz need not be installed.

use std::fmt::Write as _;

use ir::Program;

use super::layout::{Placed, place};
use super::{Graph, Shape, Statements, graphs};

/// The space in pixels between two graphs, and around them.
const GAP: f64 = 40.0;
/// The size of a line of text, and the width of a character, which a reader's font may miss by a little.
const LINE: f64 = 16.0;
const CHARACTER: f64 = 7.2;

const STYLE: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#555\"/></marker></defs>\n\
<style>text{font:12px monospace;text-anchor:middle} .title{font:18px sans-serif;text-anchor:start} .node{fill:#fff;stroke:#333} .table{fill:#e3effd} .condition{fill:#fff6dd} .end{fill:#eee} .edge{fill:none;stroke:#555} .label{font-size:10px;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:4px}</style>\n";

/// Draws all graphs of a program, one below the other, each with its name.
pub fn svg(program: &Program, statements: Statements<'_>) -> String {
    let mut body = String::new();
    let (mut width, mut y) = (0.0f64, GAP);
    for graph in graphs(program, statements) {
        let sizes: Vec<(f64, f64)> =
            graph.nodes.iter().map(|(_, label, shape)| size(label, *shape)).collect();
        let joined = joined(&graph);
        let edges: Vec<(usize, usize)> = joined.iter().map(|(from, to, _)| (*from, *to)).collect();
        let placed = place(&sizes, &edges);
        let _ = writeln!(body, "<text class=\"title\" x=\"{GAP}\" y=\"{y}\">{}</text>", escaped(&graph.name));
        let _ = writeln!(body, "<g transform=\"translate({GAP} {})\">", y + 20.0);
        draw(&graph, &sizes, &joined, &placed, &mut body);
        body.push_str("</g>\n");
        width = width.max(placed.size.0);
        y += placed.size.1 + 20.0 + 2.0 * GAP;
    }
    // Loops and labels reach beyond the nodes.
    let width = width + 3.0 * GAP;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{y:.0}\" viewBox=\"0 0 {width:.0} {y:.0}\">\n{STYLE}{body}</svg>\n"
    )
}

/// The size of a node.
fn size(label: &str, shape: Shape) -> (f64, f64) {
    let longest = label.lines().map(|line| line.chars().count()).max().unwrap_or(0) as f64;
    let lines = label.lines().count().max(1) as f64;
    let beside = if shape == Shape::Box { 16.0 } else { 30.0 };
    (longest * CHARACTER + beside, lines * LINE + 12.0)
}

/// The edges as indexes of nodes. Edges with the same ends are one, with all their labels.
fn joined(graph: &Graph) -> Vec<(usize, usize, Vec<&str>)> {
    let index = |id: &str| graph.nodes.iter().position(|(known, ..)| known == id);
    let mut all: Vec<(usize, usize, Vec<&str>)> = Vec::new();
    for (from, to, label) in &graph.edges {
        let (Some(from), Some(to)) = (index(from), index(to)) else { continue };
        let label = Some(label.as_str()).filter(|label| !label.is_empty());
        match all.iter_mut().find(|(a, b, _)| (*a, *b) == (from, to)) {
            Some((.., labels)) => labels.extend(label),
            None => all.push((from, to, label.into_iter().collect())),
        }
    }
    all
}

fn draw(
    graph: &Graph,
    sizes: &[(f64, f64)],
    edges: &[(usize, usize, Vec<&str>)],
    placed: &Placed,
    out: &mut String,
) {
    for ((from, to, labels), points) in edges.iter().zip(&placed.edges) {
        edge(points, sizes[*from], sizes[*to], labels, out);
    }
    for (((_, label, shape), at), size) in graph.nodes.iter().zip(&placed.nodes).zip(sizes) {
        node(label, *shape, *at, *size, out);
    }
}

fn node(label: &str, shape: Shape, (x, y): (f64, f64), (w, h): (f64, f64), out: &mut String) {
    let (left, top, right, bottom) = (x - w / 2.0, y - h / 2.0, x + w / 2.0, y + h / 2.0);
    let rect = |class: &str, round: f64| {
        format!(
            "<rect class=\"node {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" rx=\"{round:.1}\"/>"
        )
    };
    let drawn = match shape {
        Shape::Box => rect("table", 2.0),
        Shape::Round => rect("", h / 2.0),
        Shape::End => rect("end", h / 2.0),
        Shape::Diamond => format!(
            "<path class=\"node condition\" d=\"M{left:.1} {y:.1} L{:.1} {top:.1} L{:.1} {top:.1} L{right:.1} {y:.1} L{:.1} {bottom:.1} L{:.1} {bottom:.1} z\"/>",
            left + 12.0,
            right - 12.0,
            right - 12.0,
            left + 12.0
        ),
    };
    let _ = writeln!(out, "{drawn}");
    let lines = label.lines().count() as f64;
    for (i, line) in label.lines().enumerate() {
        let base = y + 4.0 + (i as f64 - (lines - 1.0) / 2.0) * LINE;
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{base:.1}\">{}</text>", escaped(line));
    }
}

fn edge(points: &[(f64, f64)], from: (f64, f64), to: (f64, f64), labels: &[&str], out: &mut String) {
    let [first, .., last] = points else { return };
    let (path, at) = if first == last {
        // A loop stands at the right side of its node.
        let (x, y) = (first.0 + from.0 / 2.0, first.1);
        let path = format!(
            "M{x:.1} {:.1} C{r:.1} {:.1} {r:.1} {:.1} {x:.1} {:.1}",
            y - 6.0,
            y - 16.0,
            y + 16.0,
            y + 6.0,
            r = x + 34.0
        );
        (path, (x + 34.0, y))
    } else {
        // It leaves at the bottom and arrives at the top, or the other way round if it leads back.
        let way = (last.1 - first.1).signum();
        let mut at = (first.0, first.1 + way * from.1 / 2.0);
        let end = (last.0, last.1 - way * to.1 / 2.0);
        let mut path = format!("M{:.1} {:.1}", at.0, at.1);
        let start = at;
        let inner = points[1..points.len() - 1].iter().copied();
        let mut second = end;
        for (i, next) in inner.chain([end]).enumerate() {
            let middle = (at.1 + next.1) / 2.0;
            let _ = write!(
                path,
                " C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
                at.0, next.0, next.0, next.1
            );
            if i == 0 {
                second = next;
            }
            at = next;
        }
        (path, (start.0 * 0.6 + second.0 * 0.4, start.1 + (second.1 - start.1) * 0.4))
    };
    let _ = writeln!(out, "<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"{path}\"/>");
    if !labels.is_empty() {
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at.0,
            at.1 + 3.0,
            escaped(&few(labels))
        );
    }
}

/// The labels of an edge, of which there may be hundreds.
fn few(labels: &[&str]) -> String {
    const FEW: usize = 4;
    let first = labels[..labels.len().min(FEW)].join(", ");
    if labels.len() > FEW { format!("{first} and {} more", labels.len() - FEW) } else { first }
}

fn escaped(text: &str) -> String {
    abi::text::lines(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
