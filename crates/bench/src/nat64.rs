//! `strait bench nat64`: compares NAT64 with plain forwarding and with Tayga, all in one run.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::iperf::{self, Load};
use crate::path::{ActivePath, Choice, PathId, unavailable};
use crate::process::need;
use crate::report::{
    Cell, CellPlan, Direction, Machine, Measure, Offloads, Report, Settings, Skipped, table,
};
use crate::{Error, Result, interrupt, lab, path, small};

/// The options of `strait bench nat64`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// A short run: 1 and 10 streams, offloads on, one second each
    #[arg(long)]
    pub quick: bool,

    /// Seconds of each measurement [default: 3; with --quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: Option<u32>,

    /// Repetitions; results are their medians [default: 3; with --quick: 5, as they are short]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,

    /// Numbers of parallel streams, separated by commas [default: 1,10,20,50; with --quick: 1,10]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=128))]
    pub streams: Vec<u32>,

    /// Paths, separated by commas: strait, stateful, native, plain, tayga [default: all]
    #[arg(long, value_name = "PATH,…", value_delimiter = ',')]
    pub paths: Vec<Choice>,

    /// What is measured, separated by commas: tcp, udp, small [default: all; with --quick: tcp, udp]
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    pub measure: Vec<Traffic>,

    /// Whether veth links use segmentation offloads: on, off (TSO, GSO and GRO off on every veth) or both [default: both; with --quick: on]
    #[arg(long, value_name = "on|off|both")]
    pub offloads: Option<OffloadChoice>,

    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draw the report into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Fail unless every TCP throughput of Strait is at least this share of plain forwarding's
    #[arg(long, value_name = "RATIO")]
    pub min_ratio: Option<f64>,
}

/// A value of `--measure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// The throughput of TCP.
    Tcp,
    /// The share of lost UDP datagrams.
    Udp,
    /// The rate of small packets.
    Small,
}

impl FromStr for Traffic {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "small" => Ok(Self::Small),
            other => Err(format!("`{other}` cannot be measured: there are tcp, udp and small")),
        }
    }
}

/// A value of `--offloads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadChoice {
    /// Offloads as the kernel sets them by default.
    On,
    /// TSO, GSO and GRO are off.
    Off,
    /// Both settings, one after the other.
    Both,
}

impl FromStr for OffloadChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            "both" => Ok(Self::Both),
            other => Err(format!("`{other}`: offloads are on, off or both")),
        }
    }
}

/// The options with all defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub settings: Settings,
    pub paths: Vec<PathId>,
    pub offloads: Vec<Offloads>,
    pub cells: Vec<CellPlan>,
}

impl Plan {
    /// Fills in the defaults.
    pub fn of(options: &Options) -> Self {
        let or = |given: &[u32], default: &[u32]| if given.is_empty() { default } else { given }.to_vec();
        let quick = options.quick;
        let streams = or(&options.streams, if quick { &[1, 10] } else { &[1, 10, 20, 50] });
        let offloads =
            match options.offloads.unwrap_or(if quick { OffloadChoice::On } else { OffloadChoice::Both }) {
                OffloadChoice::On => vec![Offloads::On],
                OffloadChoice::Off => vec![Offloads::Off],
                OffloadChoice::Both => vec![Offloads::On, Offloads::Off],
            };
        let all: &[Choice] =
            &[Choice::Plain, Choice::Strait, Choice::Stateful, Choice::Native, Choice::Tayga];
        let paths = PathId::of(if options.paths.is_empty() { all } else { &options.paths });
        let usual: &[Traffic] =
            if quick { &[Traffic::Tcp, Traffic::Udp] } else { &[Traffic::Tcp, Traffic::Udp, Traffic::Small] };
        let traffic = if options.measure.is_empty() { usual } else { &options.measure };
        let cells = offloads.iter().flat_map(|&offloads| cells(traffic, offloads, &streams)).collect();
        let settings = Settings {
            seconds: options.seconds.unwrap_or(if quick { 1 } else { 3 }),
            repeat: options.repeat.unwrap_or(if quick { 5 } else { 3 }),
        };
        Self { settings, paths, offloads, cells }
    }

    /// Removes the paths that this machine cannot measure, and returns them with the reasons.
    pub fn leave_out_unavailable(&mut self) -> Vec<Skipped> {
        let skipped: Vec<Skipped> = self
            .paths
            .iter()
            .filter_map(|&path| Some(Skipped { path, reason: unavailable(path)? }))
            .collect();
        self.paths.retain(|&path| skipped.iter().all(|skipped| skipped.path != path));
        skipped
    }
}

/// The rows of one offload setting, in the order of the tables.
fn cells(traffic: &[Traffic], offloads: Offloads, streams: &[u32]) -> Vec<CellPlan> {
    let mut cells = Vec::new();
    for (kind, measure, streams) in [
        (Traffic::Tcp, Measure::Tcp, streams),
        (Traffic::Udp, Measure::UdpLoss, streams),
        // One sender produces many flows. With more senders the benchmark would measure the senders.
        (Traffic::Small, Measure::SmallPackets, &[1]),
    ] {
        for direction in [Direction::ToServer, Direction::ToClient] {
            if traffic.contains(&kind) {
                cells.extend(streams.iter().map(|&streams| CellPlan {
                    measure,
                    offloads,
                    direction,
                    streams,
                }));
            }
        }
    }
    cells
}

/// Runs the benchmark and returns the report. `strait` is the executable whose `nat64 up` starts the path.
///
/// The report's files are written and the table is printed on standard output before a missed `--min-ratio` becomes an error, so that a
/// failing run still shows its results.
pub fn run(options: &Options, strait: &Path) -> Result<Report> {
    prepare(strait)?;
    let mut plan = Plan::of(options);
    let mut skipped = plan.leave_out_unavailable();
    let progress = Progress::new(plan.cells.len() * plan.settings.repeat as usize * plan.paths.len());
    for skipped in &skipped {
        progress.say(&format!("skipped: {}: {}", skipped.path, skipped.reason));
    }
    let mut measured = Vec::new();
    for &offloads in &plan.offloads {
        let active = start_paths(&plan.paths, offloads, strait, &mut skipped)?;
        let cells = plan.cells.iter().copied().filter(|cell| cell.offloads == offloads);
        measured.extend(measure(&active, cells, &plan.settings, &progress, &mut skipped)?);
    }
    progress.finish();
    let report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine::here(),
        settings: plan.settings,
        skipped,
        cells: measured,
    };
    print!("{}", table::render(&report));
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    if let Some(path) = &options.svg {
        crate::report::plot::write_svg(&report, path)?;
    }
    options.min_ratio.map_or(Ok(()), |wanted| report.require(wanted))?;
    Ok(report)
}

/// Prepares a run: checks the machine, installs the signal handler, removes what killed runs left.
pub(crate) fn prepare(strait: &Path) -> Result<()> {
    if !lab::root() {
        return Err(Error::NotRoot);
    }
    need("iperf3", "iperf3")?;
    interrupt::install();
    path::remove_stale(strait);
    for name in lab::remove_stale() {
        eprintln!("removed {name}, which a run that was killed had left");
    }
    Ok(())
}

/// Starts all paths and sends a little traffic over each. A path that does not work fails here, with its name; a peer is left out instead, with
/// the reason. The neighbour and route caches are warm afterwards.
pub(crate) fn start_paths(
    paths: &[PathId],
    offloads: Offloads,
    strait: &Path,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<ActivePath>> {
    let mut all = Vec::new();
    for &path in paths {
        interrupt::check()?;
        if !is_skipped(skipped, path) {
            all.extend(unless_peer(path, start_path(path, offloads, strait), skipped)?);
        }
    }
    Ok(all)
}

fn start_path(path: PathId, offloads: Offloads, strait: &Path) -> Result<ActivePath> {
    let active = ActivePath::start(path, strait)?;
    if offloads == Offloads::Off {
        active.lab.offloads_off()?;
    }
    let warm_up = iperf::Run { load: Load::Tcp, streams: 1, to_client: false, seconds: 1 };
    match iperf::run(&active.lab, path.target(), warm_up) {
        Ok(_) => Ok(active),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => Err(Error::Traffic(format!("{path} carries no traffic: {error}"))),
    }
}

fn is_skipped(skipped: &[Skipped], path: PathId) -> bool {
    skipped.iter().any(|skipped| skipped.path == path)
}

/// The result, or nothing where it is an error of a peer, which is left out from then on.
fn unless_peer<T>(path: PathId, result: Result<T>, skipped: &mut Vec<Skipped>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if path.is_peer() && !matches!(error, Error::Interrupted) => {
            skipped.push(Skipped { path, reason: error.to_string() });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Measures rows on running paths. A peer that fails is left out from then on.
pub(crate) fn measure(
    active: &[ActivePath],
    cells: impl Iterator<Item = CellPlan>,
    settings: &Settings,
    progress: &Progress,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Cell>> {
    // All UDP rows of a lab use the same rate. It is determined when the first row needs it.
    let mut udp_rate = None;
    let mut measured = Vec::new();
    for cell in cells {
        if cell.measure == Measure::UdpLoss && udp_rate.is_none() {
            progress.about("the UDP rate that plain forwarding carries");
            udp_rate = Some(find_udp_rate(active)?);
        }
        let offered = udp_rate.filter(|_| cell.measure == Measure::UdpLoss);
        measured.push(measure_cell(active, (cell, offered), settings, progress, skipped)?);
    }
    Ok(measured)
}

/// Measures all repetitions of a row. The order of the paths rotates with each repetition, so that no path always runs right after the same
/// other one.
fn measure_cell(
    active: &[ActivePath],
    (cell, offered): (CellPlan, Option<f64>),
    settings: &Settings,
    progress: &Progress,
    skipped: &mut Vec<Skipped>,
) -> Result<Cell> {
    let mut samples: Vec<(PathId, Vec<f64>)> =
        active.iter().map(|active| (active.path, Vec::new())).collect();
    for repetition in 0..settings.repeat {
        let mut order: Vec<usize> = (0..active.len()).collect();
        if repetition % 2 == 1 {
            order.reverse();
        }
        for place in order {
            interrupt::check()?;
            let path = active[place].path;
            if !is_skipped(skipped, path) {
                progress.about(&format!("{path}: {} × {}", cell.streams, cell.direction));
                let taken = sample(&active[place], cell, offered, settings.seconds);
                samples[place].1.extend(unless_peer(path, taken, skipped)?);
            }
            progress.step();
        }
    }
    samples.retain(|(path, _)| !is_skipped(skipped, *path));
    Ok(Cell::new(cell, offered, samples))
}

/// Takes one sample.
fn sample(active: &ActivePath, cell: CellPlan, offered: Option<f64>, seconds: u32) -> Result<f64> {
    let to_client = cell.direction == Direction::ToClient;
    let load = match cell.measure {
        Measure::SmallPackets => return small::measure(active, to_client, seconds),
        Measure::Tcp => Load::Tcp,
        Measure::UdpLoss => Load::Udp { bits_per_second: offered.unwrap_or(LOWEST_RATE) },
    };
    let run = iperf::Run { load, streams: cell.streams, to_client, seconds };
    let outcome = iperf::run(&active.lab, active.path.target(), run)?;
    Ok(if cell.measure == Measure::Tcp { outcome.bits_per_second } else { outcome.loss() })
}

/// The UDP rates that are tried, in bit/s, highest first.
const RATES: [f64; 9] = [4e9, 3e9, 2e9, 1.5e9, 1e9, 7e8, 5e8, 3e8, 2e8];
/// The UDP rate in bit/s if every rate of [`RATES`] loses datagrams.
const LOWEST_RATE: f64 = 1e8;
/// The largest loss at which a rate counts as carried. It allows for a receiver that a shared machine did not run for a moment.
const CARRIED: f64 = 0.0002;
/// The share of the carried rate that is offered in measurements, as a margin for the noise of a shared machine.
const MARGIN: f64 = 0.7;

/// The rate at which plain forwarding loses almost nothing in either direction, less a margin.
///
/// At full speed UDP loses half its packets at the receiver's socket even without translation. Such a figure would say nothing about the
/// path.
fn find_udp_rate(active: &[ActivePath]) -> Result<f64> {
    let plain = active.iter().find(|active| active.path == PathId::Plain4).or(active.first());
    let Some(plain) = plain else { return Ok(LOWEST_RATE) };
    'rates: for rate in RATES {
        let mut carried = rate;
        for to_client in [false, true] {
            let load = Load::Udp { bits_per_second: rate };
            let run = iperf::Run { load, streams: 1, to_client, seconds: 1 };
            let outcome = iperf::run(&plain.lab, plain.path.target(), run)?;
            if outcome.loss() > CARRIED {
                continue 'rates;
            }
            // A sender that cannot reach the rate loses nothing either, so the received rate is the bound.
            carried = carried.min(outcome.bits_per_second);
        }
        return Ok((carried * MARGIN / 1e7).round() * 1e7);
    }
    Ok(LOWEST_RATE)
}

/// A progress bar on a terminal. It prints nothing elsewhere.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for this number of measurements.
    pub fn new(measurements: usize) -> Self {
        let bar = ProgressBar::new(measurements as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  ({eta} to go)");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    /// Shows what is being measured.
    pub fn about(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Advances the bar by one measurement.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Prints a line on standard error without damaging the bar.
    pub fn say(&self, text: &str) {
        self.0.suspend(|| eprintln!("{text}"));
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_peer_that_fails_is_left_out_and_nothing_else_is() {
        let fails = || Err::<(), _>(Error::Traffic("no traffic".into()));
        let mut skipped = Vec::new();
        assert!(unless_peer(PathId::Tayga, fails(), &mut skipped).is_ok_and(|value| value.is_none()));
        assert!(is_skipped(&skipped, PathId::Tayga) && skipped[0].reason.contains("no traffic"));
        assert!(unless_peer(PathId::Express, fails(), &mut skipped).is_err());
        assert!(unless_peer::<()>(PathId::Tayga, Err(Error::Interrupted), &mut skipped).is_err());
        assert_eq!(skipped.len(), 1);
    }

    fn plan(line: &str) -> Plan {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Plan::of(&Line::try_parse_from(words).unwrap().options)
    }

    #[test]
    fn a_full_run_measures_everything() {
        let plan = plan("");
        assert_eq!(
            plan.paths,
            [
                PathId::Plain4,
                PathId::Plain6,
                PathId::Express,
                PathId::Device,
                PathId::Stateful,
                PathId::Native,
                PathId::Tayga
            ]
        );
        assert_eq!(plan.offloads, [Offloads::On, Offloads::Off]);
        // For each offload setting there are two directions, and for each direction 4 rows of TCP, 4 of UDP and 1 of small packets.
        assert_eq!(plan.cells.len(), 2 * 2 * 9);
    }

    #[test]
    fn options_narrow_a_run() {
        let plan = plan("--quick --streams 5 --paths plain,tayga --measure tcp --repeat 2 --seconds 4");
        assert_eq!(plan.paths, [PathId::Plain4, PathId::Plain6, PathId::Tayga]);
        assert_eq!(plan.settings, Settings { seconds: 4, repeat: 2 });
        assert_eq!(plan.cells.len(), 2);
        assert!(plan.cells.iter().all(|cell| cell.streams == 5 && cell.offloads == Offloads::On));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--paths jool", "--offloads perhaps", "--repeat 0", "--streams 1,x", "--measure sctp"] {
            let words = std::iter::once("bench").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
