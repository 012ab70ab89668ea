//! The report as an SVG bar chart: a panel for each table of rates, a group of bars for each row, a bar for each path.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Cell, Direction, Measure, Offloads, Report};
use crate::path::PathId;
use crate::{Error, Result};

/// Width of the picture in pixels.
const WIDTH: u32 = 1000;
const PANEL_HEIGHT: u32 = 340;

/// A set of rows that share a scale and a panel.
struct Panel<'a> {
    title: String,
    unit: f64,
    cells: Vec<&'a Cell>,
}

/// Draws the rates of a report. Losses have no bars, because they should be zero; the table shows them.
pub fn write_svg(report: &Report, path: &Path) -> Result<()> {
    let svg = render(report)?;
    std::fs::write(path, svg).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// The picture as SVG text.
pub fn render(report: &Report) -> Result<String> {
    let panels = panels(report);
    let mut svg = String::new();
    {
        let height = PANEL_HEIGHT * panels.len().max(1) as u32;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(trouble)?;
        for (area, panel) in root.split_evenly((panels.len().max(1), 1)).iter().zip(&panels) {
            draw(area, panel)?;
        }
        root.present().map_err(trouble)?;
    }
    Ok(svg)
}

fn trouble(error: impl std::fmt::Display) -> Error {
    Error::Plot(error.to_string())
}

fn panels(report: &Report) -> Vec<Panel<'_>> {
    let kinds =
        [(Measure::Tcp, "TCP, Gbit/s", 1e9), (Measure::SmallPackets, "small UDP packets, million/s", 1e6)];
    let mut panels = Vec::new();
    for (measure, name, unit) in kinds {
        for offloads in [Offloads::On, Offloads::Off] {
            let chosen = |cell: &&Cell| cell.measure == measure && cell.offloads == offloads;
            let cells: Vec<&Cell> = report.cells.iter().filter(chosen).collect();
            if !cells.is_empty() {
                panels.push(Panel { title: format!("{name}, {offloads}"), unit, cells });
            }
        }
    }
    panels
}

/// Draws a panel. The bars of a group are adjacent, and a gap of one bar separates groups.
fn draw<DB: DrawingBackend>(area: &DrawingArea<DB, plotters::coord::Shift>, panel: &Panel) -> Result<()> {
    let paths: Vec<PathId> = panel.cells[0].results.iter().map(|result| result.path).collect();
    let stride = (paths.len() + 1) as f64;
    let values =
        panel.cells.iter().flat_map(|cell| &cell.results).map(|result| result.summary.highest / panel.unit);
    let top = values.fold(0.0, f64::max).max(1e-3) * 1.15;
    let groups = panel.cells.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..groups * stride + 1.0, 0.0..top)
        .map_err(trouble)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .light_line_style(WHITE)
        .draw()
        .map_err(trouble)?;
    for (place, &path) in paths.iter().enumerate() {
        let bars = panel.cells.iter().enumerate().filter_map(|(group, cell)| {
            let left = group as f64 * stride + 1.0 + place as f64;
            let value = cell.result(path)?.summary.median / panel.unit;
            Some(Rectangle::new([(left, 0.0), (left + 0.92, value)], color(path).filled()))
        });
        let series = chart.draw_series(bars).map_err(trouble)?;
        series
            .label(path.to_string())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color(path).filled()));
    }
    name_groups(area, &chart, panel, stride)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 14))
        .draw()
        .map_err(trouble)
}

/// Writes each group's direction and number of streams below it.
fn name_groups<DB: DrawingBackend, CT>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    chart: &ChartContext<DB, CT>,
    panel: &Panel,
    stride: f64,
) -> Result<()>
where
    CT: CoordTranslate<From = (f64, f64)>,
{
    let style = ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
    let (left, above) = area.get_base_pixel();
    for (group, cell) in panel.cells.iter().enumerate() {
        let (x, y) = chart.plotting_area().map_coordinate(&(group as f64 * stride + 0.5 + stride / 2.0, 0.0));
        let arrow = match cell.direction {
            Direction::ToServer => "to server",
            Direction::ToClient => "to client",
        };
        let label = match panel.cells[0].measure {
            Measure::SmallPackets => arrow.to_owned(),
            _ => format!("{} × {arrow}", cell.streams),
        };
        area.draw_text(&label, &style, (x - left, y - above + 8)).map_err(trouble)?;
    }
    Ok(())
}

/// Colours that colour-blind people can distinguish (Okabe and Ito). Plain forwarding is grey.
fn color(path: PathId) -> RGBColor {
    match path {
        PathId::Plain4 => RGBColor(150, 150, 150),
        PathId::Plain6 => RGBColor(200, 200, 200),
        PathId::Express => RGBColor(0, 114, 178),
        PathId::Device => RGBColor(86, 180, 233),
        PathId::Stateful => RGBColor(204, 121, 167),
        PathId::Native => RGBColor(0, 158, 115),
        PathId::Tayga => RGBColor(230, 159, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bar_for_each_path_and_a_name_for_each_group() {
        let svg = render(&super::super::example()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["TCP, Gbit/s, offloads on", "small UDP packets", "1 × to server", "plain IPv4", "Tayga"]
        {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn an_empty_report_is_an_empty_picture() {
        let report = Report { cells: Vec::new(), ..super::super::example() };
        assert!(render(&report).unwrap().contains("<svg"));
    }
}
