//! The queues of ports, from `--port-rate` and `--port-queue`.

use anyhow::{Context, anyhow, bail};
use dataplane::queue::{DEPTH, Rate, Shape};
use io::switch::Shapes;

use super::numbered;
use crate::cli::{RunArgs, RunTarget};

/// The greatest depth: as many packets fit into some hundred megabytes.
const MOST: usize = 100_000;

/// The queue of each port that has a rate. Every mistake is reported before anything is opened.
pub fn shapes(args: &RunArgs) -> anyhow::Result<Shapes> {
    let mut shapes = Shapes::new();
    for text in &args.port_rates {
        let (port, rate) = numbered(text).context("--port-rate")?;
        let rate: Rate = rate.parse().map_err(|why: String| anyhow!("--port-rate {why}"))?;
        check(args, "--port-rate", port)?;
        if shapes.insert(port, Shape { rate, depth: DEPTH }).is_some() {
            bail!("--port-rate: port {port} is given twice");
        }
    }
    let mut seen = Vec::new();
    for text in &args.port_queues {
        let (port, depth) = numbered(text).context("--port-queue")?;
        let depth: usize =
            depth.parse().with_context(|| format!("--port-queue: `{depth}` is no number of packets"))?;
        check(args, "--port-queue", port)?;
        if depth == 0 || depth > MOST {
            bail!("--port-queue: a queue holds 1 to {MOST} packets");
        }
        if seen.contains(&port) {
            bail!("--port-queue: port {port} is given twice");
        }
        seen.push(port);
        let Some(shape) = shapes.get_mut(&port) else {
            bail!(
                "--port-queue {text}: no packet waits for a port without a rate; give --port-rate {port}=100pps as well"
            );
        };
        shape.depth = depth;
    }
    Ok(shapes)
}

fn check(args: &RunArgs, option: &str, port: u32) -> anyhow::Result<()> {
    if matches!(args.target, RunTarget::Tc | RunTarget::Xdp) {
        bail!(
            "{option}: the target {} has no queues; `enq_qdepth` and the like are 0 there. Use --target native or interp",
            args.target.name()
        );
    }
    if args.workers.is_some_and(|workers| workers > 1) {
        bail!("{option}: the queue of a port belongs to one worker; leave --workers out");
    }
    let given = args.ports.iter().filter_map(|text| numbered(text).ok()).any(|(number, _)| number == port);
    if !given {
        bail!("{option}: there is no --port {port}");
    }
    Ok(())
}

/// Refuses to watch packets where ports have queues: they leave in a later burst, and a watcher is told what becomes of a packet in its own.
pub fn unwatched(shapes: &Shapes) -> anyhow::Result<()> {
    match shapes.is_empty() {
        true => Ok(()),
        false => bail!("a switch whose ports have queues (--port-rate) cannot be watched yet"),
    }
}
