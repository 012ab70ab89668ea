//! Graphs as SVG. `layout-rs` reads Graphviz's language and places the nodes, so that Graphviz need not be installed.

use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

use ir::Program;

use super::{Graph, graphs};

/// The space in pixels between two graphs, and around them.
const GAP: f64 = 40.0;

/// Draws all graphs of a program, one below the other, each with its name.
pub fn svg(program: &Program) -> Result<String, String> {
    let mut body = String::new();
    let (mut width, mut y) = (0.0f64, GAP);
    for graph in graphs(program) {
        let one = draw(&graph)?;
        let size = |name: &str| -> Option<f64> {
            let (_, rest) = one.split_once(&format!(" {name}=\""))?;
            rest.split_once('"')?.0.parse().ok()
        };
        let (w, h) = (size("width").unwrap_or(800.0), size("height").unwrap_or(600.0));
        let title = graph.name.replace('&', "&amp;").replace('<', "&lt;");
        body += &format!(
            "<text x=\"{GAP}\" y=\"{y}\" font-family=\"sans-serif\" font-size=\"18\">{title}</text>\n"
        );
        let inner = one.find("<svg").map_or("", |at| &one[at..]);
        let inner = inner.replacen("<svg", &format!("<svg x=\"{GAP}\" y=\"{}\"", y + 10.0), 1);
        // All graphs define styles and arrows with the same names, but the definitions are equal.
        body += &inner;
        body.push('\n');
        width = width.max(w);
        y += h + 2.0 * GAP;
    }
    let width = width + 2.0 * GAP;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\">\n{body}</svg>\n"
    ))
}

fn draw(graph: &Graph) -> Result<String, String> {
    let text = graph.text();
    let parsed = DotParser::new(&text).process().map_err(|why| format!("{}: {why}", graph.name))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&parsed);
    let mut placed = builder.get();
    let mut writer = SVGWriter::new();
    placed.do_it(false, false, false, &mut writer);
    Ok(writer.finalize())
}
