//! `strait run`: runs a P4 program on ports until it is interrupted, and serves P4Runtime.
//!
//! * `machine`: what a target must do. `interp`, `native`, `kernel`: the targets. `queues`: the queues of ports that have a rate.
//! * `budget`: the memory that a pushed program may take. `interfaces`: that no two programs have one interface.
//! * `plane`: a built-in control plane. `serve`: the P4Runtime server. `links`: which ports have a link.

mod budget;
mod interfaces;
mod interp;
mod kernel;
mod links;
pub mod machine;
mod native;
mod plane;
mod queues;
mod serve;

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use abi::Manifest;
use anyhow::{Context, anyhow, bail};
use control::controller::Event;
use dataplane::device::Event as Told;
use dataplane::port::PortCounts;
use dataplane::{Count, Device};
use harness::stf;
use io::controller::ControllerPort;

use self::machine::{Form, Machine, Totals};
use self::plane::Plane;
use self::serve::Host;
pub use self::serve::INHERITED;
use super::capture;
use super::capture::serve::{Ask, Asker};
use crate::cli::{RunArgs, RunTarget};
use crate::frontend;
use harness::targets::kernel::At;

/// What the summary says of lost digests.
const LOST: &str = "messages to the control plane that found no room";
/// What the summary says of lost packets.
const LOST_PACKETS: &str = "packets to the controller that found no room";

/// The interval at which the program is asked what it has told.
const TURN: Duration = Duration::from_millis(100);
/// The same while a controller waits for it: what a packet tells reaches the controller in about this time.
const SHORT_TURN: Duration = Duration::from_micros(500);
/// The number of turns without an event after which a turn is longer again.
const QUIET: u32 = 2000;
/// The turn of a server that has been quiet.
const QUIET_TURN: Duration = Duration::from_millis(5);

/// Runs the program on its target.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.target != RunTarget::Xdp && (args.xdp_mode.is_some() || args.trust_checksums) {
        bail!("--xdp-mode and --trust-checksums are for the target xdp");
    }
    let in_kernel = matches!(args.target, RunTarget::Tc | RunTarget::Xdp);
    if in_kernel && args.workers.is_some() {
        bail!("--workers is for the native target; in the kernel every processor works");
    }
    // Mistakes are reported before anything is compiled, and before anything is opened.
    match in_kernel {
        true => drop(ports(args, |what| Ok(what.to_string()))?),
        false => drop(ports(args, driver)?),
    }
    if args.workers == Some(0) {
        bail!("--workers 0: it takes at least one");
    }
    if args.target == RunTarget::Interp && args.workers.is_some_and(|workers| workers != 1) {
        bail!("--workers: the interpreter has one");
    }
    args.cpu_port.map_or(Ok(()), check_number)?;
    let queues = !queues::shapes(args)?.is_empty();
    let program = args.program.as_ref();
    let compiled = program
        .map(|file| {
            machine::compile(
                Form { target: args.target, queues },
                file,
                &args.preprocess,
                args.grpc.is_some(),
            )
        })
        .transpose()?;
    // Controllers connect where the command was started; the interfaces may be elsewhere.
    let (listener, _place) = serve::listen(args)?.unzip();
    if let Some(name) = &args.netns {
        io::netns::enter(&io::netns::Namespace::open(name)?.path())?;
    }
    let machine: Box<dyn Machine> = match args.target {
        RunTarget::Tc => Box::new(kernel::Kernel::open(args, At::Tc)?),
        RunTarget::Xdp => Box::new(kernel::Kernel::open(args, At::Xdp)?),
        RunTarget::Native => Box::new(native::Native::open(args)?),
        RunTarget::Interp => Box::new(interp::Interp::open(args)?),
    };
    let (ask, asked) = Asker::new();
    let stop = ask.clone();
    io::signals::at_end(move || stop.stop())?;
    let mut host = Host::new(args, machine)?;
    let result = serve(args, &mut host, compiled, listener, (ask, &asked));
    let finished = host.with(|machine| machine.finish());
    result.and(finished)
}

fn serve(
    args: &RunArgs,
    host: &mut Host,
    compiled: Option<p4runtime::server::Compiled>,
    listener: Option<grpc::Listener>,
    (ask, asked): (Asker, &mpsc::Receiver<Ask>),
) -> anyhow::Result<()> {
    let mut plane = Plane::default();
    if let Some(compiled) = compiled {
        host.start(args, compiled, |device| {
            if let Some(file) = &args.entries {
                fill(file, device)?;
            }
            let ports: anyhow::Result<Vec<(u32, String)>> = ports(args, |what| Ok(what.to_string()));
            let numbers: Vec<u32> = ports?.into_iter().map(|(number, _)| number).collect();
            plane = Plane::start(args, &numbers, device)?;
            Ok(())
        })?;
    } else if args.entries.is_some() || args.controller.is_some() {
        bail!("--entries and --controller are for a program that is named");
    }
    let server = host.serve(listener)?;
    let served = server.is_some();
    let _place = capture::serve::start(watched(args, ask)?);
    eprintln!("running on {} ports; Ctrl-C ends it", args.ports.len());
    let mut quiet = 0u32;
    loop {
        // What the last packets told is shown, too.
        let turn = match (served, quiet) {
            (false, _) => TURN,
            (true, ..QUIET) => SHORT_TURN,
            (true, _) => QUIET_TURN,
        };
        let mut last = false;
        match asked.recv_timeout(turn) {
            Ok(Ask::Stop) => last = true,
            Ok(Ask::Act(act)) => host.with(act),
            Err(_) => {}
        }
        last |= host.with(|machine| machine.ended());
        let events = host.turn(|machine, events| {
            let now = machine.now();
            let Some(device) = machine.running() else { return };
            for event in events {
                show(args, event, device.manifest());
            }
            plane.tell(&events.iter().map(Event::Told).collect::<Vec<_>>(), now, device);
        })?;
        quiet = if events { 0 } else { quiet.saturating_add(1) };
        if last {
            break;
        }
    }
    drop(server);
    plane.report_refused();
    summary(args, host, plane.refused)
}

/// What a watcher must know of the run.
fn watched(args: &RunArgs, ask: Asker) -> anyhow::Result<capture::serve::Run> {
    let mut ports = ports(args, |what| Ok(what.to_string()))?;
    ports.extend(args.cpu_port.map(|number| (number, "controller".to_string())));
    let compiled = args.target != RunTarget::Interp;
    let target =
        capture::Target { carries_wrong_sums: compiled, controller: args.cpu_port.filter(|_| !compiled) };
    Ok(capture::serve::Run { ask, ports, target })
}

/// Parses `N=WHAT`: the number of a port, and its interface or driver.
fn numbered(text: &str) -> anyhow::Result<(u32, &str)> {
    let (number, what) = text.split_once('=').with_context(|| format!("`{text}` is not N=[DRIVER:]ARG"))?;
    let number: u32 = number.parse().with_context(|| format!("`{number}` is not a port number"))?;
    check_number(number)?;
    Ok((number, what))
}

fn check_number(port: u32) -> anyhow::Result<()> {
    if port >= abi::DROP_PORT {
        bail!("port {port} is beyond {}, the last one", abi::DROP_PORT - 1);
    }
    Ok(())
}

/// Makes the controller's port, if one was requested. Returns it with its number.
fn controller_port<T>(args: &RunArgs, ports: &[(u32, T)]) -> anyhow::Result<Option<(u32, ControllerPort)>> {
    let Some(number) = controller_number(args, ports)? else { return Ok(None) };
    let port = ControllerPort::create()?;
    Ok(Some((number, port)))
}

/// The number of the controller's port, if one was requested. No other port has it.
fn controller_number<T>(args: &RunArgs, ports: &[(u32, T)]) -> anyhow::Result<Option<u32>> {
    let Some(number) = args.cpu_port else { return Ok(None) };
    check_number(number)?;
    if ports.iter().any(|(n, _)| *n == number) {
        bail!("port {number} is given twice: as --port, and as the controller's");
    }
    Ok(Some(number))
}

/// The number of packets to the controller that found no room, if there is a port for them.
fn lost_packets(port: Option<&ControllerPort>) -> anyhow::Result<Option<u64>> {
    Ok(port.map(ControllerPort::lost).transpose()?)
}

/// Parses all ports. Each number may occur once.
fn ports<T>(args: &RunArgs, port: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<Vec<(u32, T)>> {
    let mut all: Vec<(u32, T)> = Vec::new();
    for text in &args.ports {
        let (number, what) = numbered(text)?;
        if all.iter().any(|(n, _)| *n == number) {
            bail!("port {number} is given twice");
        }
        all.push((number, port(what)?));
    }
    Ok(all)
}

/// The driver of a port of the native target or the interpreter. An interface without a driver is opened with packet sockets, so that ports are
/// written alike on every target.
fn driver(what: &str) -> anyhow::Result<io::port::Driver> {
    let named = match what.contains(':') {
        true => what.to_string(),
        false => format!("af_packet:{what}"),
    };
    named.parse().map_err(|why: String| anyhow!(why))
}

/// Writes the table entries of an STF file: all of them or none.
pub fn fill(file: &Path, device: &mut dyn Device) -> anyhow::Result<()> {
    let (name, text) = frontend::read(file)?;
    let case = stf::parse(&name, &text);
    let case =
        case.map_err(|e| anyhow::anyhow!(e.iter().map(|e| e.to_string()).collect::<Vec<_>>().join("\n")))?;
    let report = stf::load(&case, device);
    if !report.passed {
        bail!("{}", report.text().trim_end());
    }
    Ok(())
}

/// Prints an event that was asked for.
fn show(args: &RunArgs, event: &Told, manifest: &Manifest) {
    match event {
        Told::Digest(digest) if args.digests => println!("{}", shown(digest, manifest)),
        Told::Message(message) if args.log => {
            let kind = &manifest.messages[message.message.index()];
            let place = kind.location.as_deref().unwrap_or(&manifest.program);
            eprintln!("{place}: {}", kind.text(&message.values));
        }
        Told::Packet(packet) if args.packets => {
            let bytes: String = packet.iter().map(|b| format!("{b:02x}")).collect();
            println!("{}", serde_json::json!({"packet": bytes}));
        }
        _ => {}
    }
}

/// A digest as JSON. Numbers are hexadecimal, because they may have any width.
fn shown(digest: &abi::Digest, manifest: &Manifest) -> serde_json::Value {
    let kind = &manifest.digests[digest.digest.index()];
    let fields = kind.fields.iter().zip(&digest.values);
    let fields: serde_json::Map<_, _> =
        fields.map(|((name, _), value)| (name.clone(), value.to_string().into())).collect();
    serde_json::json!({"digest": kind.name, "fields": fields})
}

/// Prints the counters of the ports, the drop reasons and what was lost.
fn summary(args: &RunArgs, host: &mut Host, refused: u64) -> anyhow::Result<()> {
    let unread = host.unread();
    let (totals, drops) = host.with(|machine| {
        let totals = machine.totals()?;
        let drops = match machine.running() {
            Some(device) => {
                let counts = device.drops()?;
                machine::named_drops(device.manifest(), counts)
            }
            None => Vec::new(),
        };
        Ok::<_, anyhow::Error>((totals, drops))
    })?;
    match args.json {
        true => println!("{}", json(&totals, &drops, refused, unread)),
        false => print(args, &totals, &drops, unread),
    }
    Ok(())
}

fn json(totals: &Totals, drops: &[(String, Count)], refused: u64, unread: u64) -> serde_json::Value {
    let port = |(number, c): &(u32, PortCounts)| {
        let queue = totals.queues.get(number).map(|q| {
            serde_json::json!({"deepest": q.deepest, "dropped": {"packets": q.dropped.packets, "bytes": q.dropped.bytes}})
        });
        serde_json::json!({"port": number, "queue": queue, "received": {"packets": c.received.packets, "bytes": c.received.bytes},
            "sent": {"packets": c.sent.packets, "bytes": c.sent.bytes},
            "missed": c.missed, "full": c.full, "unfit": c.unfit})
    };
    let drop = |(name, count): &(String, Count)| serde_json::json!({"reason": name, "packets": count.packets, "bytes": count.bytes});
    let ports: Vec<_> = totals.ports.iter().map(port).collect();
    let drops: Vec<_> = drops.iter().map(drop).collect();
    serde_json::json!({"ports": ports, "drops": drops, "digests_lost": totals.messages_lost,
        "packets_lost": totals.packets_lost, "writes_refused": refused, "controllers_lost": unread})
}

fn print(args: &RunArgs, totals: &Totals, drops: &[(String, Count)], unread: u64) {
    for (number, c) in &totals.ports {
        println!(
            "port {number:<3} received {:>12}  sent {:>12}  missed {}  not sent: queue full {}, unfit {}",
            c.received.packets, c.sent.packets, c.missed, c.full, c.unfit
        );
        if let Some(queue) = totals.queues.get(number) {
            println!(
                "port {number:<3} queue: at most {} packets waited, {} dropped",
                queue.deepest, queue.dropped.packets
            );
        }
    }
    if totals.ports.is_empty() && !args.ports.is_empty() {
        println!("the kernel counts the packets of its interfaces: `ip -s link`");
    }
    if drops.iter().all(|(_, count)| count.packets == 0) {
        println!("the program dropped no packet");
    }
    for (name, count) in drops.iter().filter(|(_, count)| count.packets > 0) {
        println!("dropped: {name:<40} {:>12} packets", count.packets);
    }
    if totals.messages_lost > 0 {
        println!("{LOST}: {}", totals.messages_lost);
    }
    if let Some(packets @ 1..) = totals.packets_lost {
        println!("{LOST_PACKETS}: {packets}");
    }
    if unread > 0 {
        println!("messages that controllers did not read in time: {unread}");
    }
}
