//! `strait bench sessions`: stateful NAT64 with many sessions, as RFC 9693 measures stateful translators. UDP packets of 64 bytes go from memory to
//! memory on native, and through test runs of the program in the kernel.
//!
//! - Connection establishment: every packet is of another host and port, and makes a binding and a session.
//! - Throughput: packets of random sessions that exist.
//! - Capacity: memory of a session with its binding.
//! - Tear-down: all sessions end at once while packets of other ones go on.
//!
//! `--app nat44` measures apps/nat44, whose sessions are entries of a controller ([`super::nat44_sessions`]).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context, ensure};
use bench::traffic::Datagram;
use control::plan;
use dataplane::device::{Device as _, Update};
use harness::rng::Rng;
use io::bpf::SkBuff;
use io::ebpf::KernelProgram;
use io::native::{Batch, NativeProgram, Object};
use nat64::{Config, config, expire_times, resize};
use serde::Serialize;
use translator::Bundle;

use super::over_memory::{Cost, SMALLEST, scaled};
use crate::cli::{SessionsApp, SessionsArgs, SessionsTarget};

/// The pool of the measurements: addresses for benchmarks (RFC 2544), which never leave this process.
const CONFIG: &str = "[nat64]\nmode = \"stateful\"\nprefix = \"64:ff9b:1::/96\"\npool = [\"198.18.0.0/16\"]\n\
                      error-rate = 0\nsecret = \"00112233445566778899aabbccddeeff\"\n\
                      subscriber-sessions = 16777215\nsubscriber-bindings = 16777215\n";
/// The hosts: 2001:db8:: and the number of a host, which has this number of sessions.
const HOSTS: u128 = 0x2001_0db8 << 96;
const OF_HOST: u32 = 16;
/// The server, as hosts see it.
const SERVER: u128 = (0x0064_ff9b_0001 << 80) | 0xc633_6402;
const BURST: usize = 64;
/// The number of measurements of establishment. The best one counts.
const TURNS: usize = 3;
/// A time when all sessions are over.
const LATE: u64 = u64::MAX >> 16;
/// Where the last bytes of the source address and the source port are in a frame.
const HOST_AT: usize = 14 + 8 + 12;
const PORT_AT: usize = 14 + 40;

/// What was measured with a number of sessions.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    target: &'static str,
    sessions: u32,
    /// New sessions, with each number of workers.
    established: Vec<Rate>,
    /// Bytes of memory for a session with its binding, on native: maps of the kernel are of no process.
    bytes: Option<f64>,
    /// Packets of sessions that exist, from IPv6 to IPv4.
    packet: Cost,
    /// The cost of a packet divided by that with the first number of sessions.
    ratio: f64,
    /// While all other sessions end at once.
    teardown: Option<Teardown>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Rate {
    workers: usize,
    million_per_second: f64,
    scaling: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Teardown {
    sessions: u64,
    seconds: f64,
    /// The cost of a packet meanwhile.
    nanoseconds: f64,
}

/// Measures each number of sessions.
pub fn run(args: &SessionsArgs) -> anyhow::Result<()> {
    if args.app == SessionsApp::Nat44 {
        return super::nat44_sessions::run(args);
    }
    let mut all: Vec<Figures> = Vec::new();
    for &sessions in &args.sessions {
        let mut figures = match args.target {
            SessionsTarget::Native => native(args, sessions)?,
            SessionsTarget::Tc => kernel(args, sessions)?,
        };
        figures.ratio =
            all.first().map_or(1.0, |first| figures.packet.nanoseconds / first.packet.nanoseconds);
        if !args.json {
            print(&figures);
        }
        all.push(figures);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn print(figures: &Figures) {
    let bytes = figures.bytes.map_or(String::new(), |bytes| format!(", {bytes:.0} bytes each"));
    println!("{} sessions on {}{bytes}", figures.sessions, figures.target);
    for rate in &figures.established {
        let scaling = if rate.workers > 1 { format!(", {:.2} times", rate.scaling) } else { String::new() };
        println!(
            "  {:>6.3} million new ones a second, {} workers{scaling}",
            rate.million_per_second, rate.workers
        );
    }
    println!("  {} a packet, {:.2} times the first", figures.packet, figures.ratio);
    if let Some(teardown) = &figures.teardown {
        println!(
            "  {} end in {:.2} s, and a packet takes {:.1} ns meanwhile",
            teardown.sessions, teardown.seconds, teardown.nanoseconds
        );
    }
}

fn config_of(sessions: u32) -> anyhow::Result<Config> {
    let text = format!("{CONFIG}max-sessions = {}\n", sessions.max(1024));
    config::parse(&text).map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

/// A frame of the first session. Those of others differ in address and port only; nobody verifies their checksums.
fn frame() -> Vec<u8> {
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 10]];
    let ip = |bits| IpAddr::V6(Ipv6Addr::from(bits));
    Datagram { macs, source: ip(HOSTS), target: ip(SERVER), ports: [4000, 53] }.packet(SMALLEST)
}

/// Makes a frame that of a session.
fn become_session(frame: &mut [u8], session: u32) {
    frame[HOST_AT..HOST_AT + 4].copy_from_slice(&(session / OF_HOST).to_be_bytes());
    frame[PORT_AT..PORT_AT + 2].copy_from_slice(&((4000 + session % OF_HOST) as u16).to_be_bytes());
}

/// The bytes of this process in memory.
fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("read /proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).and_then(|n| n.parse().ok()).context("read /proc/self/statm")?;
    Ok(pages * 4096)
}

fn native(args: &SessionsArgs, sessions: u32) -> anyhow::Result<Figures> {
    let config = config_of(sessions)?;
    let bundle = Bundle::of(&config);
    let mut manifest = bundle.native_manifest()?;
    resize(&config, &mut manifest);
    let object = Object::make_or(bundle.c, &bundle.prepared)?;
    let mut wanted = translator::desired(&config, &manifest)?;
    wanted.entities.extend(config.stateful.iter().flat_map(expire_times));
    let (mut established, mut last, mut bytes) = (Vec::new(), None, None);
    for &workers in &args.workers {
        let before = resident()?;
        let program = NativeProgram::load(&object, &manifest, &[])?;
        plan::apply(&mut program.memory().clone(), &wanted)?;
        // The first time, the kernel gives the process memory, which takes as long as the sessions.
        establish(&program, sessions, workers)?;
        let mut seconds = f64::INFINITY;
        for _ in 0..TURNS {
            clear(&program);
            seconds = seconds.min(establish(&program, sessions, workers)?);
        }
        let rate = f64::from(sessions) / seconds / 1e6;
        let first = established.first().map_or(rate, |first: &Rate| first.million_per_second);
        established.push(Rate { workers, million_per_second: rate, scaling: rate / first });
        bytes = Some(resident()?.saturating_sub(before) as f64 / f64::from(sessions));
        last = Some(program);
    }
    let program = last.context("--workers names none")?;
    let mut rng = Rng::new(args.seed);
    let mut frame = frame();
    let packets = (0..1 << 20).map(|_| {
        become_session(&mut frame, rng.below(sessions.into()) as u32);
        frame.clone()
    });
    let packet = scaled(&program, packets.collect(), &[1])?[0].cost;
    let teardown = Some(teardown(&program, sessions)?).filter(|teardown| teardown.nanoseconds > 0.0);
    Ok(Figures { target: "native", sessions, established, bytes, packet, ratio: 1.0, teardown })
}

/// Opens all sessions, and returns the seconds that it took.
fn establish(program: &NativeProgram, sessions: u32, workers: usize) -> anyhow::Result<f64> {
    let (begin, sent) = (Barrier::new(workers), AtomicU64::new(0));
    let processors = io::port::processors();
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let work = |number: usize| {
            let (begin, sent, processors) = (&begin, &sent, &processors);
            let share = |n: usize| (u64::from(sessions) * n as u64 / workers as u64) as u32;
            scope.spawn(move || {
                let _ = io::port::pin(processors[number % processors.len()]);
                let mut worker = program.memory().worker();
                let (mut batch, mut frame) = (Batch::new(BURST, 128, 0), frame());
                begin.wait();
                let begun = Instant::now();
                let mut next = share(number);
                while next < share(number + 1) {
                    batch.clear();
                    while next < share(number + 1) && !batch.is_full() {
                        become_session(&mut frame, next);
                        batch.push(0, &frame);
                        next += 1;
                    }
                    program.run(&mut worker, &mut batch);
                    sent.fetch_add(batch.sent().count() as u64, Relaxed);
                }
                (begun, Instant::now())
            })
        };
        let threads: Vec<_> = (0..workers).map(work).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let begun = times.iter().map(|(begun, _)| *begun).min().context("--workers 0")?;
    let seconds =
        times.iter().map(|(_, ended)| ended.duration_since(begun)).max().unwrap_or_default().as_secs_f64();
    let sent = sent.load(Relaxed);
    ensure!(sent == u64::from(sessions), "only {sent} of {sessions} sessions were opened");
    Ok(seconds)
}

/// Removes all entries that packets have added.
fn clear(program: &NativeProgram) -> u64 {
    let mut removed = 0;
    loop {
        match program.memory().expire(LATE, 1.0) {
            0 => return removed,
            more => removed += more,
        }
    }
}

/// Removes all sessions at once while one worker forwards packets of 64 sessions, which open again when they are gone.
fn teardown(program: &NativeProgram, sessions: u32) -> anyhow::Result<Teardown> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let forwarding = scope.spawn(|| {
            let _ = io::port::pin(io::port::processors()[0]);
            let mut worker = program.memory().worker();
            worker.set_clock(LATE);
            let (mut batch, mut frame) = (Batch::new(BURST, 128, 0), frame());
            let (mut packets, mut spent) = (0u64, 0u128);
            while !over.load(Relaxed) {
                batch.clear();
                for session in 0..BURST as u32 {
                    become_session(&mut frame, session % sessions);
                    batch.push(0, &frame);
                }
                let begun = Instant::now();
                program.run(&mut worker, &mut batch);
                spent += begun.elapsed().as_nanos();
                packets += BURST as u64;
            }
            spent as f64 / packets.max(1) as f64
        });
        let begun = Instant::now();
        let removed = clear(program);
        let seconds = begun.elapsed().as_secs_f64();
        over.store(true, Relaxed);
        let nanoseconds = forwarding.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
        // A session has an entry, and its binding has two.
        Ok(Teardown { sessions: removed / 3, seconds, nanoseconds })
    })
}

/// The name of the program in the kernel while it is measured.
fn instance() -> String {
    format!("bench-sessions-{}", std::process::id())
}

/// A program in the kernel, which is removed with the value.
struct Loaded(Option<KernelProgram>);

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(program) = self.0.take() {
            let _ = program.remove();
        }
    }
}

fn kernel(args: &SessionsArgs, sessions: u32) -> anyhow::Result<Figures> {
    let config = config_of(sessions)?;
    let bundle = Bundle::of(&config);
    ensure!(
        !bundle.object.is_empty(),
        "this strait was built without clang and holds no program for the kernel"
    );
    let mut manifest = bundle.manifest()?;
    resize(&config, &mut manifest);
    let wanted = translator::desired(&config, &manifest)?;
    let (mut established, mut last) = (Vec::new(), None);
    for &workers in &args.workers {
        drop(last.take());
        let mut program = Loaded(Some(KernelProgram::load(bundle.object, &manifest, &instance())?));
        let Some(loaded) = &mut program.0 else { continue };
        loaded.set_ingress_port(1, 0)?;
        plan::apply(loaded, &wanted)?;
        let times: Vec<Update> = config.stateful.iter().flat_map(expire_times).map(Update::Set).collect();
        loaded.write(&times).map_err(|refused| refused.error)?;
        let seconds = open_in_kernel(loaded, sessions, workers)?;
        let rate = f64::from(sessions) / seconds / 1e6;
        let first = established.first().map_or(rate, |first: &Rate| first.million_per_second);
        established.push(Rate { workers, million_per_second: rate, scaling: rate / first });
        last = Some(program);
    }
    let program = last.as_ref().and_then(|loaded| loaded.0.as_ref()).context("--workers names none")?;
    let (mut rng, mut frame, mut spent) = (Rng::new(args.seed), frame(), 0u64);
    const PACKETS: u32 = 1 << 17;
    for _ in 0..PACKETS {
        become_session(&mut frame, rng.below(sessions.into()) as u32);
        spent += u64::from(program.test_run(&frame, &skb())?.nanoseconds);
    }
    let nanoseconds = spent as f64 / f64::from(PACKETS);
    let packet = Cost { nanoseconds, cycles: 0.0, million_per_second: 1e3 / nanoseconds };
    Ok(Figures { target: "tc", sessions, established, bytes: None, packet, ratio: 1.0, teardown: None })
}

fn skb() -> SkBuff {
    SkBuff { ifindex: 1, ingress_ifindex: 1, ..SkBuff::default() }
}

/// Opens all sessions by test runs, and returns the seconds that the program took, without what the test runs take.
fn open_in_kernel(program: &KernelProgram, sessions: u32, workers: usize) -> anyhow::Result<f64> {
    let processors = io::port::processors();
    let spent: Vec<anyhow::Result<u64>> = std::thread::scope(|scope| {
        let work = |number: usize| {
            let (processors, instance) = (&processors, program.instance().clone());
            let share = |n: usize| (u64::from(sessions) * n as u64 / workers as u64) as u32;
            scope.spawn(move || {
                let _ = io::port::pin(processors[number % processors.len()]);
                let program = instance.program()?;
                let (mut frame, mut spent) = (frame(), 0);
                for session in share(number)..share(number + 1) {
                    become_session(&mut frame, session);
                    spent += u64::from(program.test_run(&frame, &skb(), 1)?.nanoseconds);
                }
                anyhow::Ok(spent)
            })
        };
        let threads: Vec<_> = (0..workers).map(work).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let all = spent.into_iter().collect::<anyhow::Result<Vec<u64>>>()?;
    // The workers work at the same time.
    Ok(all.iter().sum::<u64>() as f64 / 1e9 / workers as f64)
}
