//! `strait bench xdp`: small packets a second through apps on XDP, beside a hand-written XDP program that only redirects, in one run.
//!
//! The wire is that of `strait bench io`: a sender at one end, the counters at the other, and the program in the middle, in native mode. The
//! processor that sends also runs the program and receives, as softirqs of veth do. So the rate is the cost of the whole way, and the cost
//! of a program is what it adds to that of the hand-written one.
//!
//! apps/nat64 is measured twice: as a switch between two ports, and as `strait nat64 up` attaches it.

mod attached;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use self::attached::Attached;
use io::bpf::{Hook, Instance, LoadOptions, XdpMode};
use io::link::features;
use serde::Serialize;

use crate::drivers::sender::Sender;
use crate::drivers::wire::Wire;
use crate::nat64::Progress;
use crate::path::Scratch;
use crate::process::{Job, run as run_command};
use crate::report::Machine;
use crate::stats::{Summary, paired_ratio};
use crate::traffic::Datagram;
use crate::{Error, Result, interrupt, lab};

/// How long the sender runs before counting begins.
const WARM_UP: Duration = Duration::from_millis(300);
/// The time limit for the start of Strait, which compiles the program.
const START: Duration = Duration::from_secs(60);
/// Number of different packets that the sender repeats. Each is a flow of its own.
const PACKETS: u16 = 1024;

/// The MAC address of the middle, for packets that arrive.
const MIDDLE: [u8; 6] = [2, 0, 0, 0, 0, 1];

const L3: &str = include_str!("../../../../apps/l3/l3.p4");
const L3_ENTRIES: &str = include_str!("l3.stf");
const NAT64: &str = include_str!("../../../../apps/nat64/nat64.p4");

/// What nat64.p4 includes.
const NAT64_PARTS: [(&str, &str); 8] = [
    ("headers.p4", include_str!("../../../../apps/nat64/headers.p4")),
    ("parser.p4", include_str!("../../../../apps/nat64/parser.p4")),
    ("sums.p4", include_str!("../../../../apps/nat64/sums.p4")),
    ("addresses.p4", include_str!("../../../../apps/nat64/addresses.p4")),
    ("transport.p4", include_str!("../../../../apps/nat64/transport.p4")),
    ("translation.p4", include_str!("../../../../apps/nat64/translation.p4")),
    ("switch.p4", include_str!("../../../../apps/nat64/switch.p4")),
    ("errors.p4", include_str!("../../../../apps/nat64/errors.p4")),
];
const NAT64_ENTRIES: &str = include_str!("nat64.stf");
const REDIRECT: &str = include_str!("redirect.c");

/// The options of `strait bench xdp`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
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

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Subject {
    /// The hand-written program.
    Redirect,
    /// apps/l3: an IPv4 router.
    L3,
    /// apps/nat64, from IPv6 to IPv4.
    Nat64To4,
    /// apps/nat64, from IPv4 to IPv6.
    Nat64To6,
    /// NAT64 attached to interfaces, from IPv6 to IPv4.
    AttachedTo4,
    /// NAT64 attached to interfaces, from IPv4 to IPv6.
    AttachedTo6,
}

impl Subject {
    const ALL: [Subject; 6] = [
        Subject::Redirect,
        Subject::L3,
        Subject::Nat64To4,
        Subject::Nat64To6,
        Subject::AttachedTo4,
        Subject::AttachedTo6,
    ];

    fn name(self) -> &'static str {
        match self {
            Subject::Redirect => "hand-written redirect",
            Subject::L3 => "apps/l3",
            Subject::Nat64To4 => "apps/nat64, 6 to 4",
            Subject::Nat64To6 => "apps/nat64, 4 to 6",
            Subject::AttachedTo4 => "nat64 attached, 6 to 4",
            Subject::AttachedTo6 => "nat64 attached, 4 to 6",
        }
    }

    /// The smallest packets that it forwards.
    fn packets(self) -> Vec<Vec<u8>> {
        let macs = [MIDDLE, [2, 0, 0, 0, 0, 10]];
        let host4 = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
        let (source, target, bytes): (IpAddr, IpAddr, usize) = match self {
            Subject::Redirect | Subject::L3 => (host4(2), Ipv4Addr::new(198, 51, 100, 1).into(), 60),
            Subject::Nat64To4 | Subject::AttachedTo4 => {
                let target = Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0xc000, 0x202);
                (Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2).into(), target.into(), 80)
            }
            Subject::Nat64To6 | Subject::AttachedTo6 => (host4(2), Ipv4Addr::new(198, 51, 100, 2).into(), 60),
        };
        let packet = |flow| Datagram { macs, source, target, ports: [1024 + flow, 9] }.packet(bytes);
        (0..PACKETS).map(packet).collect()
    }
}

/// The report of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine of the run.
    pub machine: Machine,
    cells: Vec<Cell>,
}

#[derive(Clone, Debug, Serialize)]
struct Cell {
    subject: Subject,
    packets_per_second: Summary,
    /// The rate relative to the hand-written program: the median of the repetitions' ratios.
    to_redirect: f64,
}

/// The files that the subjects need.
struct Files {
    scratch: Scratch,
    l3: PathBuf,
    l3_entries: PathBuf,
    nat64: PathBuf,
    nat64_entries: PathBuf,
    redirect: Vec<u8>,
}

impl Files {
    fn make() -> Result<Files> {
        let scratch = Scratch::make("xdp")?;
        let source = scratch.write("redirect.c", REDIRECT)?;
        let object = source.with_extension("o");
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"]).arg(&source).arg("-o").arg(&object);
        run_command(&mut clang)?;
        let redirect = std::fs::read(&object).map_err(|source| Error::File { path: object, source })?;
        for (name, text) in NAT64_PARTS {
            scratch.write(name, text)?;
        }
        Ok(Files {
            l3: scratch.write("l3.p4", L3)?,
            l3_entries: scratch.write("l3.stf", L3_ENTRIES)?,
            nat64: scratch.write("nat64.p4", NAT64)?,
            nat64_entries: scratch.write("nat64.stf", NAT64_ENTRIES)?,
            redirect,
            scratch,
        })
    }
}

/// A subject that carries packets. Dropping it ends it.
enum Running {
    Hand(Instance),
    Strait(Job),
    Attached(#[allow(dead_code, reason = "it is dropped")] Attached),
}

impl Running {
    fn start(subject: Subject, wire: &Wire, strait: &Path, files: &Files) -> Result<Running> {
        let (program, entries) = match subject {
            Subject::Redirect => return Ok(Running::Hand(wire.namespace.enter(|| hand(&files.redirect))??)),
            Subject::L3 => (&files.l3, &files.l3_entries),
            Subject::Nat64To4 | Subject::Nat64To6 => (&files.nat64, &files.nat64_entries),
            Subject::AttachedTo4 | Subject::AttachedTo6 => {
                return Attached::start(wire, strait, MIDDLE).map(Running::Attached);
            }
        };
        let mut command = wire.namespace.command(strait);
        command.arg("run").arg(program).args(["--target", "xdp", "--xdp-mode", "native"]);
        command.args(["--port", "0=in", "--port", "1=out", "--entries"]).arg(entries);
        let mut job = Job::background(&mut command)?;
        job.wait_for("running on", START)?;
        Ok(Running::Strait(job))
    }
}

impl Running {
    fn is_there(&mut self) -> bool {
        match self {
            Running::Hand(_) | Running::Attached(_) => true,
            Running::Strait(job) => job.running(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Running::Hand(instance) = self {
            let _ = instance.clone().remove();
        }
    }
}

/// Loads the hand-written program, and attaches it.
fn hand(object: &[u8]) -> Result<Instance> {
    let name = format!("run-bench-{}", std::process::id());
    let instance = Instance::load(&name, object, "forward", &LoadOptions::default())?;
    let attach = || {
        let out = io::link::index_of("out")?;
        instance.map("ports")?.set(&0u32.to_ne_bytes(), &u64::from(out).to_ne_bytes())?;
        instance.attach("in", Hook::Xdp(XdpMode::Native))
    };
    if let Err(error) = attach() {
        let _ = instance.clone().remove();
        return Err(error.into());
    }
    Ok(instance)
}

/// Runs the benchmark, prints a table, and writes the requested file.
pub fn run(options: &Options, strait: &Path) -> Result<Report> {
    if !lab::root() {
        return Err(Error::NotRoot);
    }
    interrupt::install();
    lab::remove_stale();
    let files = Files::make()?;
    let progress = Progress::new(Subject::ALL.len() * options.repeat as usize);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); Subject::ALL.len()];
    for _ in 0..options.repeat {
        for (subject, samples) in Subject::ALL.into_iter().zip(&mut samples) {
            progress.about(subject.name());
            samples.push(measure(options, subject, strait, &files)?);
            progress.step();
        }
    }
    progress.finish();
    drop(files.scratch);
    let cell = |(subject, own): (Subject, &Vec<f64>)| {
        let to_redirect = paired_ratio(own, &samples[0])?;
        Some(Cell { subject, packets_per_second: Summary::of(own)?, to_redirect })
    };
    let cells = Subject::ALL.into_iter().zip(&samples).filter_map(cell).collect();
    let report = Report { machine: Machine::here(), cells };
    print!("{}", table(&report));
    if let Some(path) = &options.json {
        crate::report::save(path, &report)?;
    }
    Ok(report)
}

/// Measures one subject in a namespace of its own: the packets a second that arrive.
fn measure(options: &Options, subject: Subject, strait: &Path, files: &Files) -> Result<f64> {
    let wire = Wire::make("xdp", 1)?;
    let offloads = || {
        for link in ["gen", "sink"] {
            features::set_tx_checksum(link, false)?;
            features::set_gro(link, true)?;
        }
        Ok::<_, io::Error>(())
    };
    wire.namespace.enter(offloads)??;
    let mut running = Running::start(subject, &wire, strait, files)?;
    let (rate, _) = rate(&wire, subject.packets(), options.seconds)?;
    match running.is_there() && rate > 0.0 {
        true => Ok(rate),
        false => Err(Error::Traffic(format!("no packet came through {}", subject.name()))),
    }
}

/// Floods the wire, and returns the packets a second that arrive at its end, and their mean length.
pub(crate) fn rate(wire: &Wire, packets: Vec<Vec<u8>>, seconds: f64) -> Result<(f64, f64)> {
    let sender = Sender::start(wire, packets)?;
    std::thread::sleep(WARM_UP);
    let (begun, before) = (Instant::now(), wire.namespace.received("sink")?);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    interrupt::check()?;
    let after = wire.namespace.received("sink")?;
    let elapsed = begun.elapsed().as_secs_f64();
    sender.end()?;
    let packets = (after.packets - before.packets) as f64;
    let bytes = (after.bytes - before.bytes) as f64;
    Ok((packets / elapsed, bytes / packets.max(1.0)))
}

fn table(report: &Report) -> String {
    let mut text = format!("{:<24} {:>8} {:>8} {:>12}\n", "program", "M/s", "spread", "to redirect");
    for c in &report.cells {
        text += &format!(
            "{:<24} {:>8.3} {:>7.0}% {:>12.2}\n",
            c.subject.name(),
            c.packets_per_second.median / 1e6,
            c.packets_per_second.spread() * 100.0,
            c.to_redirect
        );
    }
    text
}
