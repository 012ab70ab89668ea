//! `status`: what runs, and what is wrong with it.

use std::process::ExitCode;

use translator::record::{Drift, Record, utc};
use translator::status::{Lane, State, Status};

use super::select;
use crate::cli::SelectArgs;

/// The exit code when nothing is up.
const DOWN: u8 = 3;
/// The exit code when something is up, and something is wrong with it.
const DEGRADED: u8 = 4;

/// Prints the state of translators. The exit code tells whether they work.
pub fn status(args: &SelectArgs) -> anyhow::Result<ExitCode> {
    let mut code = 0;
    for status in translator::status::status(&select(args))? {
        let status = status?;
        match args.json {
            true => println!("{}", serde_json::to_string_pretty(&status.json())?),
            false => print(&status),
        }
        code = code.max(match status.state() {
            State::Up => 0,
            State::Degraded => DEGRADED,
            State::Down => DOWN,
        });
    }
    Ok(ExitCode::from(code))
}

fn print(status: &Status) {
    headline(status);
    if let (true, Some(record)) = (status.up, &status.record) {
        origin(record, status.drift);
    }
    if let Some(clat) = status.clat_described() {
        println!("  {clat}");
    }
    status.lanes.iter().for_each(lane);
    for (kind, all) in [("problem", &status.problems), ("note", &status.notes)] {
        for problem in all {
            println!("  {kind}: {}\n    cure: {}", problem.what, problem.cure);
        }
    }
    for (counter, count) in &status.counters {
        println!("  {counter:<44} {:>12} packets {:>16} bytes", count.packets, count.bytes);
    }
    for (count, reason) in status.drops.iter().filter(|(count, _)| count.packets > 0) {
        println!("  dropped: {:<35} {:>12} packets {:>16} bytes", reason.name, count.packets, count.bytes);
    }
}

fn headline(status: &Status) {
    let (name, state) = (&status.device, status.state().name());
    match (status.up, status.process, &status.running) {
        (false, ..) => println!("{name} is not up; start it with `strait nat64 up`"),
        (true, Some(process), _) => println!(
            "{name} is up in process {process} (the native target), which prints its counters when it ends"
        ),
        (true, None, Some(running)) => {
            let prefix = running.prefix.map_or("none".to_string(), |p| p.to_string());
            let what = match running.pools.len() {
                0 => format!("{} mappings", running.maps.len()),
                pools => format!("stateful, {pools} pools"),
            };
            println!("{name} is {state}, prefix {prefix}, {what}");
            for (hosts, has) in &running.pools {
                println!("  pool of {hosts}: {has}");
            }
        }
        (true, None, None) => println!("{name} is {state}"),
    }
}

fn origin(record: &Record, drift: Option<Drift>) {
    println!("  since {}, version {}", utc(record.since), record.version);
    let drift = match drift {
        Some(Drift::Differs) => "; the file is different now, `strait nat64 check --diff` shows it",
        Some(Drift::Missing) => "; the file cannot be read now",
        Some(Drift::Same) | None => "",
    };
    let short: String = record.sha256.chars().take(12).collect();
    println!("  from {} (sha256 {short}…), applied {}{drift}", record.file.display(), utc(record.applied));
}

fn lane(lane: &Lane) {
    let mode = lane.mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
    let to = if lane.direct { "to the next hop" } else { "express, routed by the kernel" };
    let link = if lane.up { "" } else { ", link down" };
    let what = format!("lane on {}: {}{mode}, {to}{link}", lane.name, lane.hook());
    println!("  {what:<44} {:>12} packets {:>16} bytes", lane.count.packets, lane.count.bytes);
}
