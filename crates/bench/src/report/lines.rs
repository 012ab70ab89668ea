//! Line charts as SVG: panels below each other, a line for each series, and an upper limit.

use std::path::Path;

use plotters::prelude::*;

use crate::{Error, Result};

const WIDTH: u32 = 1000;
const PANEL_HEIGHT: u32 = 420;

/// One line chart.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The title above the chart.
    pub title: String,
    /// The label of the x axis.
    pub x: String,
    /// The label of the y axis.
    pub y: String,
    /// Whether the x axis is logarithmic.
    pub log_x: bool,
    /// An upper limit to draw, such as the line rate.
    pub limit: Option<Limit>,
    /// The measured series.
    pub series: Vec<Series>,
}

/// An upper limit.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name in the legend.
    pub name: &'static str,
    /// The limit as a function of x.
    pub at: fn(f64) -> f64,
}

impl Lines {
    /// Adds a point to the series with this name. A new series is made if there is none.
    pub fn add(&mut self, name: &str, x: f64, y: f64) {
        match self.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((x, y)),
            None => self.series.push(Series { name: name.to_owned(), points: vec![(x, y)] }),
        }
    }
}

/// The rate of the smallest frames on a link of 10 Gbit/s, in millions a second. Such a frame takes 64 bytes and 20 bytes of preamble and
/// gap.
pub const SMALLEST_AT_10G: Limit =
    Limit { name: "10 Gbit/s of 64-byte frames", at: |_| 10e9 / (84.0 * 8.0) / 1e6 };

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, with ascending x.
    pub points: Vec<(f64, f64)>,
}

/// Colours that colour-blind people can distinguish (Okabe and Ito).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
];

/// Draws charts into a file.
pub fn write_svg(panels: &[Lines], path: &Path) -> Result<()> {
    let svg = render(panels)?;
    std::fs::write(path, svg).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// The charts as SVG text.
pub fn render(panels: &[Lines]) -> Result<String> {
    let mut svg = String::new();
    {
        let height = PANEL_HEIGHT * panels.len().max(1) as u32;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(trouble)?;
        for (area, panel) in root.split_evenly((panels.len().max(1), 1)).iter().zip(panels) {
            draw(area, panel)?;
        }
        root.present().map_err(trouble)?;
    }
    Ok(svg)
}

fn trouble(error: impl std::fmt::Display) -> Error {
    Error::Plot(error.to_string())
}

fn draw<DB: DrawingBackend>(area: &DrawingArea<DB, plotters::coord::Shift>, panel: &Lines) -> Result<()> {
    // A logarithmic axis shows powers of two, because sizes of frames and tables are powers of two.
    let place = |x: f64| if panel.log_x { x.max(1.0).log2() } else { x };
    let points = || panel.series.iter().flat_map(|s| s.points.iter().copied());
    let left = points().map(|(x, _)| place(x)).fold(f64::INFINITY, f64::min);
    let right = points().map(|(x, _)| place(x)).fold(f64::NEG_INFINITY, f64::max);
    let top = points().map(|(_, y)| y).fold(0.0, f64::max).max(1e-6) * 1.15;
    if !left.is_finite() {
        return Ok(());
    }
    let margin = ((right - left) * 0.03).max(0.1);
    let log = panel.log_x;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(left - margin..right + margin, 0.0..top)
        .map_err(trouble)?;
    chart
        .configure_mesh()
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .x_label_formatter(&move |x| short(if log { x.exp2() } else { *x }))
        .light_line_style(WHITE)
        .draw()
        .map_err(trouble)?;
    if let Some(limit) = panel.limit {
        let steps = (0..=100).map(|n| left + (right - left) * f64::from(n) / 100.0);
        let curve = steps.map(|x| (x, (limit.at)(if log { x.exp2() } else { x }))).filter(|(_, y)| *y <= top);
        let drawn = chart.draw_series(LineSeries::new(curve, BLACK.stroke_width(1))).map_err(trouble)?;
        drawn.label(limit.name).legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], BLACK));
    }
    for (number, series) in panel.series.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let placed: Vec<(f64, f64)> = series.points.iter().map(|(x, y)| (place(*x), *y)).collect();
        let line = LineSeries::new(placed.iter().copied(), color.stroke_width(2));
        let drawn = chart.draw_series(line).map_err(trouble)?;
        drawn
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
        chart.draw_series(placed.iter().map(|p| Circle::new(*p, 3, color.filled()))).map_err(trouble)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 14))
        .draw()
        .map_err(trouble)
}

/// A number in a short form, such as `64 k`.
fn short(x: f64) -> String {
    match x {
        x if x >= 1e6 => format!("{:.1} M", x / 1e6),
        x if x >= 1e4 => format!("{:.0} k", x / 1e3),
        x => format!("{x:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_its_lines_and_its_limit() {
        let series = vec![Series { name: "ours".into(), points: vec![(64.0, 9.0), (1518.0, 0.8)] }];
        let text = |x: &str| x.to_owned();
        let panel = Lines {
            title: text("Rates"),
            x: text("bytes"),
            y: text("M/s"),
            log_x: true,
            limit: Some(Limit { name: "10 Gbit/s", at: |size| 10e9 / ((size + 20.0) * 8.0) / 1e6 }),
            series,
        };
        let svg = render(&[panel.clone(), Lines { series: Vec::new(), ..panel }]).unwrap();
        for text in ["<svg", "Rates", "ours", "10 Gbit/s", "</svg>"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }
}
