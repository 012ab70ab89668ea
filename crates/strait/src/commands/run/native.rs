//! On native: workers of this process between packet drivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use dataplane::port::PortCounts;
use io::port::Driver;
use io::switch::{PortQueues, Switch};

use super::{fill, ports};
use crate::cli::RunArgs;
use crate::frontend;
use crate::targets::native::{NativeTarget, Object};

/// How often the control plane looks around.
const TURN: Duration = Duration::from_millis(100);

/// Runs until interrupted, or until the ports have nothing more to give.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let workers = args.workers.unwrap_or(1);
    if workers == 0 {
        bail!("--workers 0: it takes at least one");
    }
    let drivers = ports(args, |what| what.parse::<Driver>().map_err(|why| anyhow!(why)))?;
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let object = Object::make(&program)?;
    let mut target = NativeTarget::load(&object)?;
    if let Some(file) = &args.entries {
        fill(file, &mut target)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    ctrlc::set_handler(move || asked.store(true, Ordering::Release))?;
    let queues = open(args, &drivers, workers)?;
    let switch = Switch::start(target.program(), queues, workers)?;
    let plural = if workers == 1 { "worker" } else { "workers" };
    eprintln!("running with {workers} {plural}; Ctrl-C ends it");
    while !stop.load(Ordering::Acquire) && !switch.ended() {
        if let Some(message) = switch.message(TURN).filter(|_| args.digests) {
            println!("{}", shown(&message));
        }
    }
    let lost = switch.messages_lost();
    let (counts, broken) = switch.stop();
    summary(args, &drivers, &counts, lost, &target)?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}

/// A message as JSON; numbers are hexadecimal, for they may have any width.
fn shown(message: &abi::Digest) -> serde_json::Value {
    let field = |(name, value): &(String, abi::Bits)| (name.clone(), value.to_string().into());
    serde_json::json!({"digest": message.name, "fields": message.fields.iter().map(field).collect::<serde_json::Map<_, _>>()})
}

/// Opens all ports, and says how each of them works.
fn open(args: &RunArgs, drivers: &[(u32, Driver)], workers: usize) -> anyhow::Result<Vec<PortQueues>> {
    let mut queues = Vec::new();
    for ((number, driver), text) in drivers.iter().zip(&args.ports) {
        let opened = driver.open(workers).with_context(|| format!("port {number}"))?;
        let how = opened.first().map(|queue| queue.how()).filter(|how| !how.is_empty());
        eprintln!("port {text}{}", how.map_or(String::new(), |how| format!(" ({how})")));
        queues.push((*number, opened));
    }
    Ok(queues)
}

/// What the ports did, and why packets were dropped.
fn summary(
    args: &RunArgs,
    drivers: &[(u32, Driver)],
    counts: &[PortCounts],
    lost: u64,
    target: &NativeTarget,
) -> anyhow::Result<()> {
    let program = target.program();
    let memory = program.memory();
    let reasons = memory.manifest().drops.iter();
    let drops: Vec<_> =
        reasons.map(|d| (d.name.as_str(), memory.drops(&d.name).unwrap_or_default())).collect();
    if args.json {
        let port = |((number, _), c): (&(u32, Driver), &PortCounts)| {
            serde_json::json!({"port": number, "received": {"packets": c.received.packets, "bytes": c.received.bytes},
                "sent": {"packets": c.sent.packets, "bytes": c.sent.bytes},
                "missed": c.missed, "full": c.full, "unfit": c.unfit})
        };
        let drop = |(name, count): &(&str, dataplane::Count)| serde_json::json!({"reason": name, "packets": count.packets, "bytes": count.bytes});
        let ports: Vec<_> = drivers.iter().zip(counts).map(port).collect();
        let drops: Vec<_> = drops.iter().map(drop).collect();
        println!("{}", serde_json::json!({"ports": ports, "drops": drops, "digests_lost": lost}));
        return Ok(());
    }
    for ((number, _), c) in drivers.iter().zip(counts) {
        println!(
            "port {number:<3} received {:>12}  sent {:>12}  missed {}  not sent: queue full {}, unfit {}",
            c.received.packets, c.sent.packets, c.missed, c.full, c.unfit
        );
    }
    for (name, count) in drops.iter().filter(|(_, count)| count.packets > 0) {
        println!("dropped: {name:<40} {:>12} packets", count.packets);
    }
    if lost > 0 {
        println!("messages to the control plane that found no room: {lost}");
    }
    Ok(())
}
