//! Runs a program on tc, where the kernel moves the packets.

use std::sync::mpsc;

use anyhow::Context;
use io::bpf::Hook;

use super::{fill, ports};
use crate::cli::RunArgs;
use crate::frontend;
use crate::targets::tc::{Object, TcTarget};

/// Attaches the program to the ingress hook of each port's interface. Packets that leave through a port are sent out of its interface.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let ports = ports(args, |what| Ok(what.strip_prefix("tc:").unwrap_or(what).to_string()))?;
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let mut target = TcTarget::load_named(&Object::make(&program)?, &format!("run-{}", std::process::id()))?;
    let result = serve(args, &ports, &mut target);
    let removed = target.remove();
    result.and(removed)
}

fn serve(args: &RunArgs, ports: &[(u32, String)], target: &mut TcTarget) -> anyhow::Result<()> {
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })?;
    if let Some(file) = &args.entries {
        fill(file, target)?;
    }
    let program = target.program();
    for port in 0..abi::DROP_PORT {
        program.set_egress_port(port, io::ebpf::EgressPort { ifindex: 0, flags: 0 })?;
    }
    for (number, interface) in ports {
        program.set_port(*number, interface, 0).with_context(|| format!("port {number}"))?;
    }
    for (_, interface) in ports {
        program.attach(interface, Hook::Ingress)?;
    }
    eprintln!("running on {} ports; Ctrl-C ends it", ports.len());
    stopped.recv()?;
    summary(args.json, target)
}

/// Prints the drop reasons at the end.
fn summary(json: bool, target: &mut TcTarget) -> anyhow::Result<()> {
    let drops = target.program().drops()?;
    if json {
        let all: Vec<_> = drops
            .iter()
            .map(
                |d| serde_json::json!({"reason": d.name, "packets": d.count.packets, "bytes": d.count.bytes}),
            )
            .collect();
        println!("{}", serde_json::json!({"drops": all}));
        return Ok(());
    }
    for drop in drops.iter().filter(|d| d.count.packets > 0) {
        println!("dropped: {:<40} {:>12} packets", drop.name, drop.count.packets);
    }
    Ok(())
}
