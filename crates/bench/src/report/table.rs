//! The report as a table for terminals. The table is also valid Markdown, so that it can be pasted into a document.

use std::fmt::Write as _;

use super::{Cell, Measure, Offloads, Report, plural};
use crate::path::PathId;

/// The whole report as text.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for offloads in [Offloads::On, Offloads::Off] {
        for measure in [Measure::Tcp, Measure::UdpLoss, Measure::SmallPackets] {
            let chosen = |cell: &&Cell| cell.measure == measure && cell.offloads == offloads;
            let cells: Vec<&Cell> = report.cells.iter().filter(chosen).collect();
            if !cells.is_empty() {
                let _ = writeln!(text, "{}, {offloads}\n\n{}", title(measure, &cells), body(measure, &cells));
            }
        }
    }
    text + &footer(report)
}

/// The table of one kind of measurement, without title and footer, for the demo.
pub fn rows(report: &Report, measure: Measure) -> String {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.measure == measure).collect();
    body(measure, &cells)
}

fn title(measure: Measure, cells: &[&Cell]) -> String {
    match measure {
        Measure::Tcp => "TCP throughput, Gbit/s".to_owned(),
        Measure::UdpLoss => {
            let offered = cells.first().and_then(|cell| cell.offered).unwrap_or_default();
            format!("UDP datagrams lost at {:.2} Gbit/s", offered / 1e9)
        }
        Measure::SmallPackets => "Small UDP packets, million a second".to_owned(),
    }
}

fn footer(report: &Report) -> String {
    let mut text = format!(
        "Medians of {} × {} s, ± the widest deviation; ratios are medians of the ratios within a repetition, to plain IPv4.\n\
         Strait {}, Linux {}, {} × {}\n",
        report.settings.repeat,
        report.settings.seconds,
        report.version,
        report.machine.kernel,
        report.machine.processors,
        report.machine.processor,
    );
    for offloads in [Offloads::On, Offloads::Off] {
        for path in [PathId::Express, PathId::Device, PathId::Stateful, PathId::Native] {
            if let Some(mean) = report.mean_ratio(path, offloads) {
                let _ =
                    writeln!(text, "{path} / plain forwarding, TCP, {offloads}, geometric mean: {mean:.2}");
            }
        }
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "skipped: {}: {}", skipped.path, skipped.reason);
    }
    text
}

/// Header and rows of one table.
fn body(measure: Measure, cells: &[&Cell]) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let paths: Vec<PathId> = first.results.iter().map(|result| result.path).collect();
    let has = |path| paths.contains(&path);
    let comparisons: &[(PathId, PathId, &str)] = &[
        (PathId::Express, PathId::Plain4, "express / plain"),
        (PathId::Device, PathId::Plain4, "device / plain"),
        (PathId::Stateful, PathId::Plain4, "stateful / plain"),
        (PathId::Native, PathId::Plain4, "native / plain"),
        (PathId::Express, PathId::Tayga, "express / Tayga"),
        (PathId::Device, PathId::Tayga, "device / Tayga"),
        (PathId::Stateful, PathId::Tayga, "stateful / Tayga"),
        (PathId::Native, PathId::Tayga, "native / Tayga"),
    ];
    let rates = measure != Measure::UdpLoss;
    let comparisons: Vec<_> = comparisons.iter().filter(|(a, b, _)| rates && has(*a) && has(*b)).collect();

    let mut head = vec![String::new()];
    head.extend(paths.iter().map(PathId::to_string));
    head.extend(comparisons.iter().map(|(_, _, name)| (*name).to_owned()));
    let mut lines = vec![head];
    for cell in cells {
        let mut line = vec![row_name(measure, cell)];
        line.extend(paths.iter().map(|&path| figure(cell, path)));
        line.extend(comparisons.iter().map(|&&(a, b, _)| match cell.ratio(a, b) {
            Some(ratio) if b == PathId::Tayga => format!("{ratio:.1} ×"),
            Some(ratio) => format!("{ratio:.2}"),
            None => "–".to_owned(),
        }));
        lines.push(line);
    }
    align(&lines)
}

fn row_name(measure: Measure, cell: &Cell) -> String {
    match measure {
        Measure::SmallPackets => cell.direction.to_string(),
        _ => format!("{}, {} {}", cell.direction, cell.streams, plural(cell.streams)),
    }
}

/// A median with its spread, in the unit of the table.
fn figure(cell: &Cell, path: PathId) -> String {
    let Some(result) = cell.result(path) else { return "–".to_owned() };
    let (median, spread) = (result.summary.median, result.summary.spread() * 100.0);
    match cell.measure {
        Measure::Tcp => format!("{:.2} ±{spread:.0} %", median / 1e9),
        Measure::SmallPackets => format!("{:.3} ±{spread:.0} %", median / 1e6),
        Measure::UdpLoss => format!("{:.3} %", median * 100.0),
    }
}

/// Aligns cells in columns with bars between them. The first column is text and is left-aligned; the others are numbers.
fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(text, "| {cell:<width$} |")
            } else {
                write!(text, " {cell:>width$} |")
            };
        }
        text.push('\n');
        if number == 0 {
            text.push('|');
            for (column, &width) in widths.iter().enumerate() {
                let _ = write!(text, "{}{}|", "-".repeat(width + 1), if column == 0 { '-' } else { ':' });
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_an_example() {
        let expected = "\
TCP throughput, Gbit/s, offloads on

|                     | plain IPv4 | Strait express |     Tayga | express / plain | express / Tayga |
|---------------------|-----------:|-----------:|----------:|---------------:|---------------:|
| to server, 1 stream | 21.00 ±5 % | 20.00 ±10 % | 2.00 ±5 % |           0.91 |         10.0 × |
";
        let text = render(&super::super::example());
        let head: Vec<&str> = text.lines().take(5).collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        for (line, expected) in head.iter().zip(expected.lines()) {
            if !line.starts_with("|--") {
                assert_eq!(words(line), words(expected));
            }
        }
        let widths: Vec<usize> = head[2..5].iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{text}");
        assert!(text.contains("UDP datagrams lost at 0.70 Gbit/s"), "{text}");
        assert!(text.contains("skipped: Tayga: for the test"), "{text}");
    }
}
