//! Runs a program in the kernel, which moves the packets: at a tc hook or at the XDP hook.

use std::sync::mpsc;

use anyhow::Context;
use io::bpf::Hook;

use super::{fill, ports};
use crate::cli::RunArgs;
use crate::frontend;
use crate::targets::kernel::{At, KernelTarget, Object};

/// Attaches the program to each port's interface: to the ingress hook of tc, or to the XDP hook. Packets that leave through a port are sent out of its interface.
pub fn run(args: &RunArgs, at: At) -> anyhow::Result<()> {
    let driver = format!("{}:", at.name());
    let ports = ports(args, |what| Ok(what.strip_prefix(&driver).unwrap_or(what).to_string()))?;
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let mut target =
        KernelTarget::load_named(&Object::make(at, &program)?, &format!("run-{}", std::process::id()))?;
    let result = serve(args, at, &ports, &mut target);
    let removed = target.remove();
    result.and(removed)
}

fn serve(args: &RunArgs, at: At, ports: &[(u32, String)], target: &mut KernelTarget) -> anyhow::Result<()> {
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
        match at {
            At::Tc => program.attach(interface, Hook::Ingress)?,
            At::Xdp => drop(program.attach_xdp(interface)?),
        }
    }
    eprintln!("running on {} ports; Ctrl-C ends it", ports.len());
    stopped.recv()?;
    summary(args.json, target)
}

/// Prints the drop reasons at the end.
fn summary(json: bool, target: &mut KernelTarget) -> anyhow::Result<()> {
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
