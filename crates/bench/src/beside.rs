//! `strait bench beside`: small packets a second through a program of the user's on tc and xdp, beside what others make of the same program,
//! in one run.
//!
//! The wire is that of `strait bench xdp`. Another implementation comes as a command that attaches it to the links `in` and `out`, so
//! Strait needs to know nothing of it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use io::link::features;
use serde::Serialize;

use crate::drivers::wire::Wire;
use crate::nat64::Progress;
use crate::process::{Job, run as run_command};
use crate::report::Machine;
use crate::stats::{Summary, paired_ratio};
use crate::xdp::rate;
use crate::{Error, Result, interrupt, lab};

/// The time limit for the start of Strait, which compiles the program.
const START: Duration = Duration::from_secs(120);

/// The number of packets that the sender repeats: enough for whole bursts.
const PACKETS: usize = 1024;

/// The options of `strait bench beside`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The P4 program. It must send the packets out of port 1
    #[arg(value_name = "PROG.p4")]
    pub program: PathBuf,

    /// Table entries for Strait: `add` and `setdefault` lines of STF
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,

    /// A packet that arrives on port 0, in hexadecimal; repeat the option for several, which are sent in turn
    #[arg(long = "packet", value_name = "HEX", required = true)]
    pub packets: Vec<Hex>,

    /// The targets of Strait to measure
    #[arg(long, value_name = "TARGET", value_delimiter = ',', default_value = "tc,xdp", value_parser = ["tc", "xdp"])]
    pub target: Vec<String>,

    /// Another implementation: a shell command that attaches it to the links `in` and `out` of its network namespace, and ends. It is run
    /// with `start`, and after the measurement with `stop`
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    pub peers: Vec<Peer>,

    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = crate::drivers::seconds)]
    pub seconds: f64,

    /// Repetitions; results are their medians
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,

    /// Write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The bytes of a frame.
#[derive(Clone, Debug)]
pub struct Hex(pub Vec<u8>);

impl FromStr for Hex {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Hex, String> {
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        if digits.len() != text.chars().count() || digits.len() % 2 == 1 {
            return Err("a packet is an even number of hexadecimal digits".to_owned());
        }
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
        match bytes.len() {
            0..14 => Err("a frame has 14 bytes or more".to_owned()),
            _ => Ok(Hex(bytes)),
        }
    }
}

/// An implementation that Strait is measured beside.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name in the report.
    pub name: String,
    /// The command that attaches it.
    pub command: String,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Peer, String> {
        let (name, command) = text.split_once('=').ok_or("write NAME=COMMAND")?;
        Ok(Peer { name: name.to_owned(), command: command.to_owned() })
    }
}

/// What carries the packets.
enum Subject<'a> {
    Strait(&'a str),
    Peer(&'a Peer),
}

impl Subject<'_> {
    fn name(&self) -> String {
        match self {
            Subject::Strait(target) => format!("strait, {target}"),
            Subject::Peer(peer) => peer.name.clone(),
        }
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine of the run.
    pub machine: Machine,
    program: PathBuf,
    cells: Vec<Cell>,
}

#[derive(Clone, Debug, Serialize)]
struct Cell {
    subject: String,
    packets_per_second: Summary,
    /// The mean length of the packets that arrive. It tells an implementation that does not do the same work.
    bytes: f64,
    /// The rate relative to the first subject: the median of the repetitions' ratios.
    to_first: f64,
}

/// The samples of a subject.
#[derive(Default)]
struct Samples {
    rates: Vec<f64>,
    bytes: f64,
}

/// Runs the benchmark, prints a table, and writes the requested file.
pub fn run(options: &Options, strait: &Path) -> Result<Report> {
    if !lab::root() {
        return Err(Error::NotRoot);
    }
    interrupt::install();
    lab::remove_stale();
    let own = options.target.iter().map(|target| Subject::Strait(target));
    let subjects: Vec<Subject> = own.chain(options.peers.iter().map(Subject::Peer)).collect();
    let progress = Progress::new(subjects.len() * options.repeat as usize);
    let mut samples: Vec<Samples> = subjects.iter().map(|_| Samples::default()).collect();
    for _ in 0..options.repeat {
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            progress.about(&subject.name());
            let (rate, bytes) = measure(options, subject, strait)?;
            samples.rates.push(rate);
            samples.bytes = bytes;
            progress.step();
        }
    }
    progress.finish();
    let cell = |(subject, own): (&Subject, &Samples)| {
        let to_first = paired_ratio(&own.rates, &samples[0].rates)?;
        let packets_per_second = Summary::of(&own.rates)?;
        Some(Cell { subject: subject.name(), packets_per_second, bytes: own.bytes, to_first })
    };
    let cells = subjects.iter().zip(&samples).filter_map(cell).collect();
    let report = Report { machine: Machine::here(), program: options.program.clone(), cells };
    print!("{}", table(&report));
    if let Some(path) = &options.json {
        crate::report::save(path, &report)?;
    }
    Ok(report)
}

/// Measures one subject in a namespace of its own: the packets a second that arrive, and their mean length.
fn measure(options: &Options, subject: &Subject, strait: &Path) -> Result<(f64, f64)> {
    let wire = Wire::make("beside", 1)?;
    wire.namespace.enter(|| {
        for link in ["gen", "sink"] {
            features::set_tx_checksum(link, false)?;
            features::set_gro(link, true)?;
        }
        Ok::<_, io::Error>(())
    })??;
    let packets = options.packets.iter().map(|packet| packet.0.clone()).cycle().take(PACKETS).collect();
    let sample = match subject {
        Subject::Strait(target) => {
            let mut job = start(options, target, &wire, strait)?;
            let sample = rate(&wire, packets, options.seconds)?;
            if !job.running() {
                return Err(Error::Traffic(format!("strait has ended on {target}")));
            }
            sample
        }
        Subject::Peer(peer) => {
            let command = |act| {
                run_command(wire.namespace.command("sh").args(["-c", &format!("{} {act}", peer.command)]))
            };
            let sample = command("start").and_then(|_| rate(&wire, packets, options.seconds));
            command("stop").and(sample)?
        }
    };
    if sample.0 == 0.0 {
        return Err(Error::Traffic(format!("no packet came through {}", subject.name())));
    }
    Ok(sample)
}

fn start(options: &Options, target: &str, wire: &Wire, strait: &Path) -> Result<Job> {
    let mut command = wire.namespace.command(strait);
    command.arg("run").arg(&options.program).args(["--target", target, "--port", "0=in", "--port", "1=out"]);
    if target == "xdp" {
        command.args(["--xdp-mode", "native"]);
    }
    if let Some(entries) = &options.entries {
        command.arg("--entries").arg(entries);
    }
    let mut job = Job::background(&mut command)?;
    job.wait_for("running on", START)?;
    Ok(job)
}

fn table(report: &Report) -> String {
    let mut text =
        format!("{:<24} {:>8} {:>8} {:>8} {:>10}\n", "program", "M/s", "spread", "bytes", "to first");
    for c in &report.cells {
        text += &format!(
            "{:<24} {:>8.3} {:>7.0}% {:>8.0} {:>10.2}\n",
            c.subject,
            c.packets_per_second.median / 1e6,
            c.packets_per_second.spread() * 100.0,
            c.bytes,
            c.to_first
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_peers_are_read() {
        assert_eq!("00112233445566778899aabb0800".parse::<Hex>().map(|p| p.0.len()), Ok(14));
        assert!("0011".parse::<Hex>().is_err(), "no Ethernet header");
        assert!("0g112233445566778899aabb0800".parse::<Hex>().is_err());
        assert!("00112233445566778899aabb08000".parse::<Hex>().is_err(), "half a byte");
        let peer: Peer = "nikss=sh peer.sh l2 A=1".parse().expect("a name and a command");
        assert_eq!((peer.name.as_str(), peer.command.as_str()), ("nikss", "sh peer.sh l2 A=1"));
        assert!("sh peer.sh".parse::<Peer>().is_err());
    }
}
