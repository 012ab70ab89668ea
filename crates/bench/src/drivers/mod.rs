//! `strait bench io`: measures packet drivers with a program that only forwards, beside the drivers of DPDK and the kernel, in one run.
//!
//! A [`wire`] has two veth pairs. A [`sender`] is at one end, a [`forwarder`] in the middle, and the counters are at the other end.
//! Forwarders take turns, each in a namespace of its own. Results are medians.

pub mod forwarder;
pub mod sender;
pub mod wire;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io::packet::PacketSocket;
use serde::Serialize;

use crate::nat64::Progress;
use crate::path::Scratch;
use crate::report::Machine;
use crate::report::lines::{self, Limit, Lines};
use crate::stats::{Summary, percentile};
use crate::traffic::Datagram;
use crate::{Error, Result, interrupt, lab};

pub use forwarder::Forwarder;
use sender::{FLOOD, Sender};
use wire::Wire;

/// Bytes of a frame that a port does not see: the frame check sequence, and the preamble and gap on the wire (IEEE 802.3).
const CHECK_SEQUENCE: usize = 4;
const PREAMBLE_AND_GAP: usize = 20;
/// Number of different packets that the sender repeats. Each is a flow of its own.
const PACKETS: u16 = 1024;
/// How long the sender runs before counting begins.
const WARM_UP: Duration = Duration::from_millis(300);
/// The time limit for the first packet. New veth links drop packets until the kernel has set them up.
const FIRST: Duration = Duration::from_secs(5);
/// How long to wait until the wire is quiet after the sender has slowed down.
const SETTLE: Duration = Duration::from_millis(200);
/// Number of packets that are sent one at a time to measure latency.
const PROBES: usize = 2000;
/// The time limit for one of these packets.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// Number of trials in the search for the rate without loss (RFC 2544).
const TRIALS: usize = 8;

/// The options of `strait bench io`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Forwarders, separated by commas: strait-af_packet, testpmd-af_packet, strait-af_xdp, testpmd-af_xdp, strait-tc, bridge [default:
    /// all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub forwarders: Vec<Forwarder>,

    /// Sizes of frames in bytes, including the frame check sequence
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [64, 128, 256, 512, 1024, 1518],
        value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub sizes: Vec<u16>,

    /// Numbers of workers, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1])]
    pub workers: Vec<usize>,

    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,

    /// Repetitions; results are their medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,

    /// Also search for the highest rate without loss (RFC 2544, section 26.1)
    #[arg(long)]
    pub rfc2544: bool,

    /// The share of packets that may be lost in that search
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "rfc2544")]
    pub loss: f64,

    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draw the rates by size, with the line rate of 10 Gbit/s, into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Parses a positive number of seconds.
pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    let value: Option<f64> = text.parse().ok();
    value.filter(|s| *s > 0.0 && *s < 1e9).ok_or_else(|| format!("`{text}` is not a time in seconds"))
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine of the run.
    pub machine: Machine,
    /// The forwarders that were not measured, each with the reason.
    pub skipped: Vec<(String, String)>,
    /// One cell for each forwarder, number of workers and size.
    pub cells: Vec<Cell>,
}

/// The results of a forwarder with frames of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The forwarder that was measured.
    pub forwarder: Forwarder,
    /// Number of its workers.
    pub workers: usize,
    /// Size of the frames in bytes, including the frame check sequence.
    pub size: u16,
    /// Packets a second that arrived when the sender sent as fast as it could.
    pub packets_per_second: Summary,
    /// The rate on a wire in Gbit/s, including preamble and gap.
    pub gbit: f64,
    /// The share of the offered packets that was lost, from 0 to 1.
    pub loss: f64,
    /// The rate relative to the peer with the same driver: the median of the repetitions' ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_peer: Option<f64>,
    /// The highest rate without loss in packets a second, if the run searched for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_loss: Option<f64>,
    /// Latency of a single packet in microseconds: the median and the 90th, 99th and 99.9th percentile.
    pub microseconds: [f64; 4],
    /// The rate of each repetition in packets a second.
    samples: Vec<f64>,
}

/// The result of one repetition.
struct Sample {
    rate: f64,
    loss: f64,
    without_loss: Option<f64>,
    microseconds: Vec<f64>,
}

/// Runs the benchmark, prints a table, and writes the requested files.
pub fn run(options: &Options, strait: &Path) -> Result<Report> {
    if !lab::root() {
        return Err(Error::NotRoot);
    }
    interrupt::install();
    lab::remove_stale();
    forwarder::remove_stale();
    let all =
        if options.forwarders.is_empty() { Forwarder::ALL.to_vec() } else { options.forwarders.clone() };
    let scratch = Scratch::make("io")?;
    let program = scratch.write("wire.p4", include_str!("wire.p4"))?;
    let (mut skipped, mut plan) = (Vec::new(), Vec::new());
    for &workers in &options.workers {
        for &forwarder in &all {
            match forwarder.unavailable(workers) {
                Some(why) => skipped.push((format!("{forwarder}, {workers} workers"), why)),
                None => plan.push((forwarder, workers)),
            }
        }
    }
    let progress = Progress::new(plan.len() * options.sizes.len() * options.repeat as usize);
    let mut samples: Vec<Vec<Vec<Sample>>> =
        plan.iter().map(|_| options.sizes.iter().map(|_| Vec::new()).collect()).collect();
    for _ in 0..options.repeat {
        for ((forwarder, workers), samples) in plan.iter().zip(&mut samples) {
            progress.about(&forwarder.to_string());
            for (size, samples) in options.sizes.iter().zip(samples) {
                samples.push(measure(options, *forwarder, *workers, *size, strait, &program)?);
                progress.step();
            }
        }
    }
    progress.finish();
    let mut cells = Vec::new();
    for ((forwarder, workers), of_sizes) in plan.iter().zip(samples) {
        for (size, samples) in options.sizes.iter().zip(of_sizes) {
            cells.extend(cell(*forwarder, *workers, *size, samples));
        }
    }
    compare(&mut cells);
    let report = Report { machine: Machine::here(), skipped, cells };
    print!("{}", table(&report));
    if let Some(path) = &options.json {
        crate::report::save(path, &report)?;
    }
    if let Some(path) = &options.svg {
        lines::write_svg(&[picture(&report)], path)?;
    }
    Ok(report)
}

/// Measures one forwarder with one size, in a namespace of its own.
fn measure(
    options: &Options,
    forwarder: Forwarder,
    workers: usize,
    size: u16,
    strait: &Path,
    program: &Path,
) -> Result<Sample> {
    let wire = Wire::make("io", workers.max(1))?;
    let mut running = forwarder.start(&wire, strait, program, workers)?;
    let microseconds = latency(&wire)?;
    let sender = Sender::start(&wire, packets(size))?;
    std::thread::sleep(WARM_UP);
    let time = Duration::from_secs_f64(options.seconds);
    let (sent, received, seconds) = count(&wire, &sender, time)?;
    let without_loss = match options.rfc2544 {
        true => Some(search(options, &wire, &sender, received / seconds)?),
        false => None,
    };
    running.check()?;
    sender.end()?;
    let loss = (1.0 - received / sent.max(1.0)).max(0.0);
    Ok(Sample { rate: received / seconds, loss, without_loss, microseconds })
}

/// Counts the packets that were sent and that arrived during `time`.
fn count(wire: &Wire, sender: &Sender, time: Duration) -> Result<(f64, f64, f64)> {
    let (begun, sent, before) = (Instant::now(), sender.sent(), wire.namespace.received("sink")?.packets);
    std::thread::sleep(time);
    interrupt::check()?;
    let (seconds, sent_after, after) =
        (begun.elapsed().as_secs_f64(), sender.sent(), wire.namespace.received("sink")?.packets);
    Ok(((sent_after - sent) as f64, (after - before) as f64, seconds))
}

/// The highest rate without loss, by bisection (RFC 2544, section 26.1, with the trials of section 24).
fn search(options: &Options, wire: &Wire, sender: &Sender, flooded: f64) -> Result<f64> {
    let (mut low, mut high) = (0.0, flooded * 1.1);
    for _ in 0..TRIALS {
        let rate = (low + high) / 2.0;
        // A trial begins and ends with a quiet wire, so that exactly its packets are counted.
        sender.rate(1);
        std::thread::sleep(SETTLE);
        let (sent, before) = (sender.sent(), wire.namespace.received("sink")?.packets);
        sender.rate((rate as u64).max(1));
        std::thread::sleep(Duration::from_secs_f64(options.seconds));
        sender.rate(1);
        std::thread::sleep(SETTLE);
        interrupt::check()?;
        let (sent, received) = (sender.sent() - sent, wire.namespace.received("sink")?.packets - before);
        let lost = 1.0 - received as f64 / sent.max(1) as f64;
        // A burst may be in transit at either end of the trial.
        let slack = 64.0 / sent.max(1) as f64;
        if lost <= options.loss + slack { low = rate } else { high = rate }
    }
    sender.rate(FLOOD);
    Ok(low)
}

/// The latencies of single packets from end to end, in microseconds.
fn latency(wire: &Wire) -> Result<Vec<f64>> {
    let opened = wire
        .namespace
        .enter(|| Ok::<_, io::Error>((PacketSocket::open("gen")?, PacketSocket::open("sink")?)))?;
    let driver = |error: io::Error| Error::Driver(error.to_string());
    let (from, to) = opened.map_err(driver)?;
    let mut probe = packets(64).swap_remove(0);
    let begun = Instant::now();
    let mut taken = Vec::with_capacity(PROBES);
    while taken.len() < PROBES {
        interrupt::check()?;
        let at = probe.len() - 4;
        probe[at..].copy_from_slice(&(taken.len() as u32).to_be_bytes());
        let sent = Instant::now();
        from.send(&probe).map_err(driver)?;
        let limit = if taken.is_empty() { SETTLE } else { PROBE_LIMIT };
        let mut arrived = None;
        while arrived.is_none() && sent.elapsed() < limit {
            let received = to.receive(limit);
            // If Ctrl-C ended the wait, the socket has not failed.
            interrupt::check()?;
            arrived = received.map_err(driver)?.filter(|frame| *frame == probe);
        }
        match arrived {
            Some(_) => taken.push(sent.elapsed().as_secs_f64() * 1e6),
            None if taken.is_empty() && begun.elapsed() < FIRST => {}
            None => return Err(Error::Driver("a single packet did not arrive".to_owned())),
        }
    }
    Ok(taken)
}

/// The packets that the sender repeats: UDP, one for each flow.
fn packets(size: u16) -> Vec<Vec<u8>> {
    let bytes = usize::from(size) - CHECK_SEQUENCE;
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 10]];
    let (source, target) = (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(198, 51, 100, 1).into());
    let packet = |flow| Datagram { macs, source, target, ports: [1024 + flow, 9] }.packet(bytes);
    (0..PACKETS).map(packet).collect()
}

fn cell(forwarder: Forwarder, workers: usize, size: u16, samples: Vec<Sample>) -> Option<Cell> {
    let rates: Vec<f64> = samples.iter().map(|s| s.rate).collect();
    let packets_per_second = Summary::of(&rates)?;
    let median = |of: fn(&Sample) -> Option<f64>| {
        let values: Option<Vec<f64>> = samples.iter().map(of).collect();
        values.and_then(|values| Summary::of(&values)).map(|s| s.median)
    };
    let mut taken: Vec<f64> = samples.iter().flat_map(|s| s.microseconds.iter().copied()).collect();
    taken.sort_by(f64::total_cmp);
    Some(Cell {
        forwarder,
        workers,
        size,
        packets_per_second,
        gbit: packets_per_second.median * (f64::from(size) + PREAMBLE_AND_GAP as f64) * 8.0 / 1e9,
        loss: median(|s| Some(s.loss))?,
        to_peer: None,
        without_loss: median(|s| s.without_loss),
        microseconds: [0.5, 0.9, 0.99, 0.999].map(|share| percentile(&taken, share).unwrap_or(0.0)),
        samples: rates,
    })
}

/// Computes the ratio of each forwarder to its peer, for each repetition.
fn compare(cells: &mut [Cell]) {
    let all = cells.to_vec();
    for cell in cells {
        let same = |other: &&Cell| {
            Some(other.forwarder) == cell.forwarder.peer()
                && (other.size, other.workers) == (cell.size, cell.workers)
        };
        let peer = all.iter().find(same);
        cell.to_peer = peer.and_then(|peer| crate::stats::paired_ratio(&cell.samples, &peer.samples));
    }
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{:<18} {:>7} {:>5} {:>8} {:>7} {:>7} {:>8} {:>9}  {}\n",
        "forwarder",
        "workers",
        "size",
        "M/s",
        "Gbit/s",
        "loss",
        "to peer",
        "no loss",
        "one packet, µs: 50 %, 90 %, 99 %, 99.9 %"
    );
    let or_dash =
        |value: Option<f64>, unit: f64| value.map_or("-".to_owned(), |v| format!("{:.2}", v / unit));
    for c in &report.cells {
        text += &format!(
            "{:<18} {:>7} {:>5} {:>8.3} {:>7.2} {:>6.1}% {:>8} {:>9}  {:.1}, {:.1}, {:.1}, {:.1}\n",
            c.forwarder.to_string(),
            c.workers,
            c.size,
            c.packets_per_second.median / 1e6,
            c.gbit,
            c.loss * 100.0,
            or_dash(c.to_peer, 1.0),
            or_dash(c.without_loss, 1e6),
            c.microseconds[0],
            c.microseconds[1],
            c.microseconds[2],
            c.microseconds[3]
        );
    }
    for (what, why) in &report.skipped {
        text += &format!("skipped: {what}: {why}\n");
    }
    text
}

/// The plot of rates by frame size.
fn picture(report: &Report) -> Lines {
    let mut picture = Lines {
        title: "Packets forwarded by frame size".to_owned(),
        x: "bytes of a frame".to_owned(),
        y: "million packets a second".to_owned(),
        log_x: true,
        limit: Some(Limit {
            name: "10 Gbit/s",
            at: |size| 10e9 / ((size + PREAMBLE_AND_GAP as f64) * 8.0) / 1e6,
        }),
        series: Vec::new(),
    };
    for cell in &report.cells {
        let plural = if cell.workers == 1 { String::new() } else { format!(", {} workers", cell.workers) };
        let name = format!("{}{plural}", cell.forwarder);
        picture.add(&name, f64::from(cell.size), cell.packets_per_second.median / 1e6);
    }
    picture
}
