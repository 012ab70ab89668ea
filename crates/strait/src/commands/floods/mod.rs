//! `strait bench floods`: floods from both sides beside established flows and new sessions, through stateful NAT64 with the shares that it has by default.
//!
//! One worker of the native target takes packets in the order of their time, as from one queue of a network card; what finds the queue full is lost.
//! Another thread removes what has expired and counts the shares, as a running translator does. For each flood there is a run without and one with it.

mod packets;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use abi::Manifest;
use anyhow::{Context, ensure};
use clap::ValueEnum as _;
use control::plan;
use dataplane::device::Device as _;
use dataplane::memory::Memory;
use harness::rng::Rng;
use io::native::{Batch, NativeProgram, Object, Verdict};
use nat64::{Config, config, expire_times, resize};
use serde::Serialize;
use translator::Bundle;
use translator::counting::Counting;

pub use self::packets::Flood;
use self::packets::{Targets, of_host, outside, syn_of_host};
use crate::cli::FloodsArgs;

/// Addresses for benchmarks (RFC 2544), which never leave this process.
const CONFIG: &str =
    "[nat64]\nmode = \"stateful\"\nprefix = \"64:ff9b:1::/96\"\npool = [\"198.18.0.0/24\"]\n";
const POOL: (u32, u32) = (0xc612_0000, 256);
const BURST: usize = 64;
/// The packets that wait at most, of all kinds.
const QUEUE: u64 = 4096;
/// The hosts with established flows, and how many each has.
const HOSTS: u32 = 64;
const OF_HOST: u32 = 16;
/// The packets of a flood that are built before it begins. They are sent in turn.
const BUILT: u64 = 1 << 18;
/// The packets by which the time of one of a flood is measured.
const TIMED: u64 = 1 << 17;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Established,
    New,
    Flood,
}

const CLASSES: [Class; 3] = [Class::Established, Class::New, Class::Flood];

/// What became of the packets of a kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Fate {
    /// Those that were due.
    offered: u64,
    /// Those that found the queue full.
    lost: u64,
    /// Those that were translated.
    translated: u64,
}

impl Fate {
    /// The part of those that reached the translator that was translated.
    fn translated_of_taken(&self) -> f64 {
        self.translated as f64 / (self.offered - self.lost).max(1) as f64
    }

    /// The part of all that was translated.
    fn kept(&self) -> f64 {
        self.translated as f64 / self.offered.max(1) as f64
    }
}

/// What was measured in one run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Run {
    established: Fate,
    new_sessions: Fate,
    flood: Fate,
}

impl Run {
    fn of(&mut self, class: Class) -> &mut Fate {
        match class {
            Class::Established => &mut self.established,
            Class::New => &mut self.new_sessions,
            Class::Flood => &mut self.flood,
        }
    }
}

/// The figures of a flood.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    flood: Flood,
    without: Run,
    with: Run,
    /// The time that the translator takes for a packet of the flood.
    nanoseconds: f64,
    /// Why packets were dropped while it ran, by reason.
    drops: Vec<(String, u64)>,
}

/// Measures each flood.
pub fn run(args: &FloodsArgs) -> anyhow::Result<()> {
    let all = if args.floods.is_empty() { Flood::value_variants().to_vec() } else { args.floods.clone() };
    let config = config::parse(CONFIG).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    let bundle = Bundle::of(&config);
    let mut manifest = bundle.native_manifest()?;
    resize(&config, &mut manifest);
    let object = Object::make_or(bundle.c, &bundle.prepared)?;
    let mut figures = Vec::new();
    for flood in all {
        let one = Bench::new(args, &config, &object, &manifest)?.measure(flood)?;
        if !args.json {
            print(&one);
        }
        figures.push(one);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    }
    Ok(())
}

fn print(figures: &Figures) {
    let name =
        figures.flood.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let flood = figures.with.flood;
    println!("{name}: {} packets, {:.0} ns each", flood.offered, figures.nanoseconds);
    for (what, without, with) in [
        ("established", figures.without.established, figures.with.established),
        ("new sessions", figures.without.new_sessions, figures.with.new_sessions),
    ] {
        println!(
            "  {what:<13} {} of {} kept ({} without the flood); of those that reached the translator {}",
            percent(with.kept()),
            with.offered,
            percent(without.kept()),
            percent(with.translated_of_taken())
        );
    }
    println!("  of the flood  {} translated", percent(flood.kept()));
    for (reason, packets) in &figures.drops {
        println!("  dropped {packets:>10}  {reason}");
    }
}

/// A translator, and what is sent through it.
struct Bench<'a> {
    args: &'a FloodsArgs,
    config: &'a Config,
    program: NativeProgram,
    /// Packets of established flows.
    established: Vec<Vec<u8>>,
    targets: Targets,
    /// The next host without a session.
    next_host: u32,
    rng: Rng,
    begun: Instant,
}

impl<'a> Bench<'a> {
    fn new(
        args: &'a FloodsArgs,
        config: &'a Config,
        object: &Object,
        manifest: &Manifest,
    ) -> anyhow::Result<Self> {
        let config_of = translator::source::keep_secret(config.clone(), None)?;
        let mut wanted = translator::desired(&config_of, manifest)?;
        wanted.entities.extend(config_of.stateful.iter().flat_map(expire_times));
        let program = NativeProgram::load(object, manifest, &[])?;
        plan::apply(&mut program.memory().clone(), &wanted)?;
        let flows = (0..HOSTS * OF_HOST).map(|n| of_host(n % HOSTS, (4000 + n / HOSTS) as u16));
        let mut bench = Bench {
            args,
            config,
            program,
            established: flows.collect(),
            targets: Targets { udp: Vec::new(), tcp: Vec::new(), pool: (POOL.0.into(), POOL.1) },
            next_host: HOSTS,
            rng: Rng::new(args.seed),
            begun: Instant::now(),
        };
        bench.establish()?;
        Ok(bench)
    }

    /// Opens the established flows, and TCP connections of the first host. What floods aim at are this host's endpoints.
    fn establish(&mut self) -> anyhow::Result<()> {
        let mut worker = self.program.memory().worker();
        let mut batch = Batch::new(BURST, 256, 0);
        let mut open = |frames: &[Vec<u8>]| {
            let mut endpoints = Vec::new();
            for frames in frames.chunks(BURST) {
                fill(&mut batch, frames);
                self.program.run(&mut worker, &mut batch);
                endpoints.extend(batch.sent().filter_map(|(_, frame)| outside(frame)));
            }
            ensure!(endpoints.len() == frames.len(), "not every flow was established");
            Ok(endpoints)
        };
        self.targets.udp = open(&self.established)?.into_iter().step_by(HOSTS as usize).collect();
        let connections: Vec<_> = (0..OF_HOST).map(|n| syn_of_host(0, 4000 + n as u16)).collect();
        self.targets.tcp = open(&connections)?;
        Ok(())
    }

    fn measure(mut self, flood: Flood) -> anyhow::Result<Figures> {
        let frames: Vec<Vec<u8>> =
            (0..BUILT).map(|n| packets::of(flood, n, &self.targets, &mut self.rng)).collect();
        let without = self.beside(|bench| bench.traffic(&[]))?;
        let before = self.drops()?;
        let with = self.beside(|bench| bench.traffic(&frames))?;
        let after = self.drops()?;
        let nanoseconds = self.beside(|bench| bench.time(&frames))?;
        let manifest = self.program.memory().manifest();
        let drops = manifest.drops.iter().zip(after.iter().zip(&before));
        let drops = drops.map(|(reason, (after, before))| (reason.name.clone(), after - before));
        Ok(Figures { flood, without, with, nanoseconds, drops: drops.filter(|(_, n)| *n > 0).collect() })
    }

    fn drops(&self) -> anyhow::Result<Vec<u64>> {
        Ok(self.program.memory().clone().drops()?.iter().map(|count| count.packets).collect())
    }

    /// Does something while another thread does what a running translator does beside its workers.
    fn beside<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> anyhow::Result<T> {
        let (over, begun, memory) = (AtomicBool::new(false), self.begun, self.program.memory().clone());
        let stateful = self.config.stateful.as_ref().context("a configuration with sessions")?;
        let counting = Counting::new(stateful, memory.manifest());
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| keep(memory, counting, begun, &over));
            let done = act(self);
            over.store(true, Relaxed);
            keeper.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            Ok(done)
        })
    }

    /// Sends established flows, new sessions, and a flood if there is one, each at its rate.
    fn traffic(&mut self, flood: &[Vec<u8>]) -> Run {
        let rate = |class| match class {
            Class::Established => self.args.established,
            Class::New => self.args.new_sessions,
            Class::Flood if flood.is_empty() => 0,
            Class::Flood => self.args.rate,
        };
        let rates = CLASSES.map(|class| rate(class) as f64);
        let mut worker = self.program.memory().worker();
        let mut batch = Batch::new(BURST, 256, 0);
        let (mut taken, mut run, mut classes) = ([0u64; 3], Run::default(), Vec::with_capacity(BURST));
        let (begun, length) = (Instant::now(), Duration::from_secs_f64(self.args.seconds));
        while begun.elapsed() < length {
            let seconds = begun.elapsed().as_secs_f64();
            let due = rates.map(|rate| (rate * seconds) as u64);
            lose(&due, &mut taken, &mut run);
            batch.clear();
            classes.clear();
            while !batch.is_full() {
                let Some(at) = next(&due, &taken, &rates) else { break };
                match CLASSES[at] {
                    Class::Established => {
                        batch.push(0, &self.established[taken[at] as usize % self.established.len()]);
                    }
                    Class::New => {
                        batch.push(0, &of_host(self.next_host, 4000));
                        self.next_host += 1;
                    }
                    Class::Flood => {
                        batch.push(0, &flood[taken[at] as usize % flood.len()]);
                    }
                }
                taken[at] += 1;
                run.of(CLASSES[at]).offered += 1;
                classes.push(CLASSES[at]);
            }
            worker.set_clock(self.begun.elapsed().as_micros() as u64);
            self.program.run(&mut worker, &mut batch);
            for ((verdict, _), class) in batch.packets().zip(&classes) {
                run.of(*class).translated += u64::from(matches!(verdict, Some(Verdict::Sent(_))));
            }
        }
        run
    }

    /// The nanoseconds that the translator takes for a packet of a flood.
    fn time(&mut self, flood: &[Vec<u8>]) -> f64 {
        let mut worker = self.program.memory().worker();
        let mut batch = Batch::new(BURST, 256, 0);
        let mut spent = Duration::ZERO;
        for frames in flood.chunks(BURST).take(TIMED as usize / BURST) {
            fill(&mut batch, frames);
            worker.set_clock(self.begun.elapsed().as_micros() as u64);
            let begun = Instant::now();
            self.program.run(&mut worker, &mut batch);
            spent += begun.elapsed();
        }
        spent.as_nanos() as f64 / TIMED as f64
    }
}

/// Puts packets into a batch, instead of those in it.
fn fill(batch: &mut Batch, frames: &[Vec<u8>]) {
    batch.clear();
    for frame in frames {
        batch.push(0, frame);
    }
}

/// Loses what the queue has no room for, of each kind as much as it has in the queue.
fn lose(due: &[u64; 3], taken: &mut [u64; 3], run: &mut Run) {
    let waiting: u64 = due.iter().zip(&*taken).map(|(due, taken)| due - taken).sum();
    let Some(excess) = waiting.checked_sub(QUEUE).filter(|excess| *excess > 0) else { return };
    for (at, class) in CLASSES.into_iter().enumerate() {
        let lost = (due[at] - taken[at]) * excess / waiting;
        taken[at] += lost;
        let fate = run.of(class);
        fate.offered += lost;
        fate.lost += lost;
    }
}

/// The kind of the packet that has waited longest.
fn next(due: &[u64; 3], taken: &[u64; 3], rates: &[f64; 3]) -> Option<usize> {
    let waiting = (0..3).filter(|at| taken[*at] < due[*at]);
    waiting.min_by(|a, b| (taken[*a] as f64 / rates[*a]).total_cmp(&(taken[*b] as f64 / rates[*b])))
}

/// Removes what has expired and counts the shares, as `strait nat64 up --target native` does.
fn keep(
    mut memory: Arc<Memory>,
    mut counting: Option<Counting>,
    begun: Instant,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    const TURN: Duration = Duration::from_millis(50);
    let now = || begun.elapsed().as_micros() as u64;
    let mut swept = now();
    while !over.load(Relaxed) {
        let turn = now();
        memory.expire(turn, (turn.saturating_sub(swept) as f64 / 1e6).min(1.0));
        swept = turn;
        if let Some(counting) = &mut counting {
            counting.turn(&mut memory)?;
        }
        std::thread::sleep(TURN);
    }
    Ok(())
}
