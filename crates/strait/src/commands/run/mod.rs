//! `strait run`: runs a P4 program on ports until it is interrupted.

mod kernel;
mod native;
mod plane;

use std::path::Path;

use abi::Manifest;
use anyhow::{Context, bail};
use control::stf;
use dataplane::device::Event;
use dataplane::{Count, Device};
use io::controller::ControllerPort;

use crate::cli::{RunArgs, RunTarget};
use crate::targets::kernel::At;

/// What the summary says of lost digests.
const LOST: &str = "messages to the control plane that found no room";
/// What the summary says of lost packets.
const LOST_PACKETS: &str = "packets to the controller that found no room";

/// Runs the program on its target.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    if args.grpc.is_some() {
        bail!("--grpc is not in this release");
    }
    if args.target != RunTarget::Xdp && (args.xdp_mode.is_some() || args.trust_checksums) {
        bail!("--xdp-mode and --trust-checksums are for the target xdp");
    }
    match args.target {
        RunTarget::Tc | RunTarget::Xdp if args.workers.is_some() => {
            bail!("--workers is for the native target; in the kernel every processor works")
        }
        RunTarget::Tc => kernel::run(args, At::Tc),
        RunTarget::Xdp => kernel::run(args, At::Xdp),
        RunTarget::Native => native::run(args),
        RunTarget::Interp => bail!(
            "`strait run` on interp is not in this release; native, tc and xdp are (the interpreter has `strait trace`)"
        ),
    }
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
    let Some(number) = args.cpu_port else { return Ok(None) };
    check_number(number)?;
    if ports.iter().any(|(n, _)| *n == number) {
        bail!("port {number} is given twice: as --port, and as the controller's");
    }
    let port = ControllerPort::create()?;
    Ok(Some((number, port)))
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

/// Writes the table entries of an STF file: all of them or none.
pub fn fill(file: &Path, device: &mut dyn Device) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let case = stf::parse(&file.display().to_string(), &text);
    let case =
        case.map_err(|e| anyhow::anyhow!(e.iter().map(|e| e.to_string()).collect::<Vec<_>>().join("\n")))?;
    let report = stf::load(&case, device);
    if !report.passed {
        bail!("{}", report.text().trim_end());
    }
    Ok(())
}

/// The packets dropped for each reason, with the reason's name.
fn drops(device: &mut dyn Device) -> anyhow::Result<Vec<(String, Count)>> {
    let counts = device.drops()?;
    Ok(device.manifest().drops.iter().map(|d| d.name.clone()).zip(counts).collect())
}

/// Prints an event that was asked for.
fn show(args: &RunArgs, event: &Event, manifest: &Manifest) {
    match event {
        Event::Digest(digest) if args.digests => println!("{}", shown(digest, manifest)),
        Event::Message(message) if args.log => {
            let kind = &manifest.messages[message.message.index()];
            let place = kind.location.as_deref().unwrap_or(&manifest.program);
            eprintln!("{place}: {}", kind.text(&message.values));
        }
        Event::Packet(packet) if args.packets => {
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
