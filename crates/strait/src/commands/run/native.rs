//! Runs a program on the native target: workers of this process move packets between ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use control::apps::Event;
use dataplane::Device;
use dataplane::port::PortCounts;
use io::port::Driver;
use io::switch::{PortQueues, Switch};

use super::plane::Plane;
use super::{LOST, LOST_PACKETS, controller_port, drops, fill, lost_packets, ports, show};
use crate::cli::RunArgs;
use crate::frontend;
use crate::targets::native::{NativeTarget, Object};

/// The interval at which the control plane polls for events.
const TURN: Duration = Duration::from_millis(100);

/// Runs until it is interrupted, or until no port can receive more packets.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let workers = args.workers.unwrap_or(1);
    if workers == 0 {
        bail!("--workers 0: it takes at least one");
    }
    let mut drivers = ports(args, |what| what.parse::<Driver>().map_err(|why| anyhow!(why)))?;
    let numbers: Vec<u32> = drivers.iter().map(|(number, _)| *number).collect();
    let controller = controller_port(args, &drivers)?;
    if let Some((number, port)) = &controller {
        drivers.push((*number, Driver::AfPacket(port.name().to_string())));
    }
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let program = NativeTarget::load(&Object::make(&program)?)?.program();
    let mut device = program.memory().clone();
    device.listen(args.log)?;
    if let Some(file) = &args.entries {
        fill(file, &mut device)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    ctrlc::set_handler(move || asked.store(true, Ordering::Release))?;
    let queues = open(args, &drivers, workers)?;
    let mut plane = Plane::start(args, &numbers, &mut device)?;
    let mut ages = Ages { last: 0 };
    let mut switch = Switch::start(program, queues, workers)?;
    if let Some((_, port)) = controller {
        switch.set_controller(port);
    }
    let plural = if workers == 1 { "worker" } else { "workers" };
    eprintln!("running with {workers} {plural}; Ctrl-C ends it");
    loop {
        // What the last packets told is shown, too.
        let last = stop.load(Ordering::Acquire) || switch.ended();
        if !last {
            switch.wait(TURN);
        }
        let now = switch.now();
        for event in switch.events()? {
            show(args, &event, device.manifest());
            plane.tell(Event::Told(&event), now, &mut switch);
        }
        ages.turn(&device, switch.now());
        if last {
            break;
        }
    }
    plane.report_refused();
    let lost = Lost {
        messages: switch.events_lost(),
        packets: lost_packets(switch.controller())?,
        writes: plane.refused,
    };
    let (counts, broken) = switch.stop();
    summary(args, &drivers, &counts, &lost, &mut device)?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}

/// The removal of entries that packets added and whose time has passed. Every row is searched once a second, whatever the traffic, so an entry
/// may stay for a second longer.
struct Ages {
    /// The time of the last turn in microseconds.
    last: u64,
}

impl Ages {
    fn turn(&mut self, memory: &dataplane::Memory, now: u64) {
        let share = now.saturating_sub(self.last) as f64 / 1e6;
        self.last = now;
        memory.expire(now, share.min(1.0));
    }
}

/// Opens all ports, and prints how each of them works.
fn open(args: &RunArgs, drivers: &[(u32, Driver)], workers: usize) -> anyhow::Result<Vec<PortQueues>> {
    let mut queues = Vec::new();
    for (at, (number, driver)) in drivers.iter().enumerate() {
        let opened = driver.open(workers).with_context(|| format!("port {number}"))?;
        let how = opened.first().map(|queue| queue.how()).filter(|how| !how.is_empty());
        let how = how.map_or(String::new(), |how| format!(" ({how})"));
        // The controller's port stands behind those of the command line.
        match args.ports.get(at) {
            Some(text) => eprintln!("port {text}{how}"),
            None => eprintln!("port {number} is the controller's{how}"),
        }
        queues.push((*number, opened));
    }
    Ok(queues)
}

/// What did not reach its destination.
struct Lost {
    /// Digests and messages to the control plane.
    messages: u64,
    /// Packets to the controller, if it has a port.
    packets: Option<u64>,
    /// Batches of the control plane that the device refused.
    writes: u64,
}

/// Prints the counters of the ports, and the drop reasons.
fn summary(
    args: &RunArgs,
    drivers: &[(u32, Driver)],
    counts: &[PortCounts],
    lost: &Lost,
    device: &mut dyn Device,
) -> anyhow::Result<()> {
    let drops = drops(device)?;
    if args.json {
        let port = |((number, _), c): (&(u32, Driver), &PortCounts)| {
            serde_json::json!({"port": number, "received": {"packets": c.received.packets, "bytes": c.received.bytes},
                "sent": {"packets": c.sent.packets, "bytes": c.sent.bytes},
                "missed": c.missed, "full": c.full, "unfit": c.unfit})
        };
        let drop = |(name, count): &(String, dataplane::Count)| serde_json::json!({"reason": name, "packets": count.packets, "bytes": count.bytes});
        let ports: Vec<_> = drivers.iter().zip(counts).map(port).collect();
        let drops: Vec<_> = drops.iter().map(drop).collect();
        println!(
            "{}",
            serde_json::json!({"ports": ports, "drops": drops, "digests_lost": lost.messages,
                "packets_lost": lost.packets, "writes_refused": lost.writes})
        );
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
    if lost.messages > 0 {
        println!("{LOST}: {}", lost.messages);
    }
    if let Some(packets @ 1..) = lost.packets {
        println!("{LOST_PACKETS}: {packets}");
    }
    Ok(())
}
