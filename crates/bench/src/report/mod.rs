//! The report of a run. It can be serialized, shown as a table ([`table`]) and drawn as a plot ([`plot`]).

pub mod lines;
pub mod plot;
pub mod table;

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::path::PathId;
use crate::stats::{Summary, geometric_mean, paired_ratio};
use crate::{Error, Result};

/// The report of a whole run. Its JSON form is stable, because scripts and the plot read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of Strait.
    pub version: String,
    /// The machine of the run.
    pub machine: Machine,
    /// The settings of the run.
    pub settings: Settings,
    /// The requested paths that could not be measured, each with the reason.
    pub skipped: Vec<Skipped>,
    /// The rows of the report.
    pub cells: Vec<Cell>,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The release of the kernel.
    pub kernel: String,
    /// The name of the processor in /proc/cpuinfo.
    pub processor: String,
    /// The number of processors that this process may use.
    pub processors: usize,
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Duration of each measurement in seconds.
    pub seconds: u32,
    /// Number of repetitions of each measurement.
    pub repeat: u32,
}

/// A path that was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The path that was not measured.
    pub path: PathId,
    /// The reason in one sentence.
    pub reason: String,
}

/// What a row measures. It determines the unit of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Received TCP payload in bit/s.
    Tcp,
    /// The share of lost UDP datagrams, from 0 to 1, at a rate that plain forwarding carries.
    UdpLoss,
    /// The rate of the smallest UDP packets in packets/s.
    SmallPackets,
}

/// Whether veth links use segmentation offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offloads {
    /// The offloads that the kernel sets by default.
    On,
    /// TSO, GSO and GRO are off on every veth link.
    Off,
}

impl fmt::Display for Offloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::On => "offloads on",
            Self::Off => "tso/gso/gro off",
        })
    }
}

/// The direction of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the IPv6-only client to the IPv4-only server.
    ToServer,
    /// From the server to the client (iperf3's `-R`).
    ToClient,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ToServer => "to server",
            Self::ToClient => "to client",
        })
    }
}

/// One row: a kind of traffic, measured on every path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What the row measures.
    pub measure: Measure,
    /// The offload setting of the row.
    pub offloads: Offloads,
    /// The direction of the payload.
    pub direction: Direction,
    /// Number of parallel connections; 1 for small packets, because one sender produces all flows.
    pub streams: u32,
    /// The offered rate in bit/s, for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// The results of the paths, in the same order throughout a report.
    pub results: Vec<PathResult>,
}

/// The result of one path in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// The path that was measured.
    pub path: PathId,
    /// One sample for each repetition. Sample n of every path of a row was taken within seconds of the others.
    pub samples: Vec<f64>,
    /// Median, lowest and highest sample.
    pub summary: Summary,
    /// The ratio of this path to plain IPv4 forwarding: the median over the repetitions. `None` for losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_plain: Option<f64>,
}

impl Cell {
    /// Makes a row of the samples of all paths.
    pub fn new(plan: CellPlan, offered: Option<f64>, samples: Vec<(PathId, Vec<f64>)>) -> Self {
        let plain =
            samples.iter().find(|(path, _)| *path == PathId::Plain4).map(|(_, samples)| samples.clone());
        let base = plain.filter(|_| plan.measure != Measure::UdpLoss);
        let result = |(path, samples): (PathId, Vec<f64>)| {
            let ratio = base.as_deref().and_then(|base| paired_ratio(&samples, base));
            Some(PathResult { path, summary: Summary::of(&samples)?, samples, ratio_to_plain: ratio })
        };
        let results = samples.into_iter().filter_map(result).collect();
        let CellPlan { measure, offloads, direction, streams } = plan;
        Self { measure, offloads, direction, streams, offered, results }
    }

    /// The result of a path, if it was measured.
    pub fn result(&self, path: PathId) -> Option<&PathResult> {
        self.results.iter().find(|result| result.path == path)
    }

    /// The ratio of a path to another: the median over the repetitions.
    pub fn ratio(&self, path: PathId, base: PathId) -> Option<f64> {
        paired_ratio(&self.result(path)?.samples, &self.result(base)?.samples)
    }

    /// The description of the row.
    pub fn name(&self) -> String {
        let what = match self.measure {
            Measure::Tcp => "TCP",
            Measure::UdpLoss => "UDP",
            Measure::SmallPackets => "small packets",
        };
        format!("{what}, {}, {} {}, {}", self.direction, self.streams, plural(self.streams), self.offloads)
    }
}

/// The plan of a row: what it will measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellPlan {
    /// What the row measures.
    pub measure: Measure,
    /// The offload setting of the row.
    pub offloads: Offloads,
    /// The direction of the payload.
    pub direction: Direction,
    /// Number of parallel connections.
    pub streams: u32,
}

impl Report {
    /// The ratios of a path's throughput to that of plain forwarding, each with its row.
    pub fn throughput_ratios(&self, path: PathId) -> Vec<(&Cell, f64)> {
        let tcp = self.cells.iter().filter(|cell| cell.measure == Measure::Tcp);
        tcp.filter_map(|cell| Some((cell, cell.result(path)?.ratio_to_plain?))).collect()
    }

    /// The geometric mean of [`Report::throughput_ratios`] with one offload setting.
    pub fn mean_ratio(&self, path: PathId, offloads: Offloads) -> Option<f64> {
        let ratios = self.throughput_ratios(path);
        let ratios: Vec<f64> =
            ratios.iter().filter(|(cell, _)| cell.offloads == offloads).map(|&(_, ratio)| ratio).collect();
        geometric_mean(&ratios)
    }

    /// Returns [`Error::TooSlow`] if a throughput ratio of Strait is below `wanted`.
    pub fn require(&self, wanted: f64) -> Result<()> {
        let ratios = self.throughput_ratios(PathId::Express);
        let lowest = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some(&(cell, lowest)) = lowest else {
            return Err(Error::Usage(
                "--min-ratio needs TCP measured on both Strait and plain forwarding".to_owned(),
            ));
        };
        if lowest >= wanted {
            return Ok(());
        }
        let below = ratios.iter().filter(|(_, ratio)| *ratio < wanted).count();
        Err(Error::TooSlow { below, of: ratios.len(), wanted, lowest, cell: cell.name() })
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        save(path, self)
    }
}

/// Writes a report to a file as indented JSON.
pub fn save(path: &Path, report: &impl Serialize) -> Result<()> {
    let failure = |source| Error::File { path: path.to_owned(), source };
    let mut json = serde_json::to_string_pretty(report).map_err(|error| failure(error.into()))?;
    json.push('\n');
    fs::write(path, json).map_err(failure)
}

impl Machine {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            kernel: kernel.trim().to_owned(),
            processor: name.map_or("unknown", |(_, name)| name).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The word "stream" or "streams", for this number.
pub(crate) fn plural(streams: u32) -> &'static str {
    if streams == 1 { "stream" } else { "streams" }
}

/// A report for tests: two paths, three rows.
#[cfg(test)]
pub(crate) fn example() -> Report {
    let plan = |measure, direction, streams| CellPlan { measure, offloads: Offloads::On, direction, streams };
    let samples = |plain: &[f64], strait: &[f64], tayga: &[f64]| {
        vec![
            (PathId::Plain4, plain.to_vec()),
            (PathId::Express, strait.to_vec()),
            (PathId::Tayga, tayga.to_vec()),
        ]
    };
    let cells = vec![
        Cell::new(
            plan(Measure::Tcp, Direction::ToServer, 1),
            None,
            samples(&[2.0e10, 2.2e10, 2.1e10], &[1.8e10, 2.0e10, 2.1e10], &[2.0e9, 2.0e9, 2.1e9]),
        ),
        Cell::new(
            plan(Measure::UdpLoss, Direction::ToClient, 1),
            Some(7e8),
            samples(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.001], &[0.3, 0.2, 0.25]),
        ),
        Cell::new(
            plan(Measure::SmallPackets, Direction::ToServer, 1),
            None,
            samples(&[1.0e6], &[6.1e5], &[9.0e4]),
        ),
    ];
    Report {
        version: "0.1.0".into(),
        machine: Machine { kernel: "6.1.0".into(), processor: "A processor".into(), processors: 2 },
        settings: Settings { seconds: 1, repeat: 3 },
        skipped: vec![Skipped { path: PathId::Tayga, reason: "for the test".into() }],
        cells,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_goes_there_and_back() {
        let report = example();
        let json = serde_json::to_string(&report).unwrap();
        assert!(
            json.contains(r#""measure":"udp-loss""#) && json.contains(r#""path":"plain-ipv4""#),
            "{json}"
        );
        // The values are compared as text, because serde_json's fast parser may change the last bit of a float.
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (back.settings, back.machine, back.skipped),
            (report.settings, report.machine, report.skipped)
        );
        assert_eq!(back.cells.len(), report.cells.len());
    }

    #[test]
    fn ratios_are_for_rates() {
        let report = example();
        let ratio = report.cells[0].result(PathId::Express).unwrap().ratio_to_plain.unwrap();
        assert!((ratio - 20.0 / 22.0).abs() < 1e-9);
        assert_eq!(report.cells[1].result(PathId::Express).unwrap().ratio_to_plain, None);
        assert!(report.cells[0].ratio(PathId::Express, PathId::Tayga).unwrap() > 8.0);
    }

    #[test]
    fn a_bound_on_the_ratio() {
        let report = example();
        report.require(0.9).unwrap();
        let text = report.require(0.95).unwrap_err().to_string();
        assert!(text.contains("0.91") && text.contains("TCP, to server, 1 stream, offloads on"), "{text}");
        let empty = Report { cells: Vec::new(), ..report };
        assert!(matches!(empty.require(0.5), Err(Error::Usage(_))));
    }
}
