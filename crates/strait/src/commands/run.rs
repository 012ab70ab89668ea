//! `strait run`: a P4 program on interfaces, until interrupted.

use std::sync::mpsc;

use anyhow::{Context, bail};
use control::stf;
use io::bpf::Hook;

use crate::cli::{RunArgs, RunTarget};
use crate::frontend;
use crate::targets::tc::{Object, TcTarget};

/// Attaches the program to the ingress of each port's interface; what leaves by a port is sent there.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let later = [(args.grpc.is_some(), "--grpc"), (args.workers.is_some(), "--workers")];
    if let Some((_, option)) = later.into_iter().find(|(given, _)| *given) {
        bail!("{option} is not in this release");
    }
    if args.target != RunTarget::Tc {
        bail!("`strait run` on {} is not in this release; tc is", args.target.name());
    }
    let ports = args.ports.iter().map(|p| port(p)).collect::<anyhow::Result<Vec<_>>>()?;
    let program = frontend::program(&args.source.program, &args.source.preprocess)?;
    let mut target = TcTarget::load_named(&Object::make(&program)?, &format!("run-{}", std::process::id()))?;
    let result = serve(args, &ports, &mut target);
    let removed = target.remove();
    result.and(removed)
}

/// `N=IF` or `N=tc:IF`.
fn port(text: &str) -> anyhow::Result<(u32, String)> {
    let (number, interface) =
        text.split_once('=').with_context(|| format!("`{text}` is not PORT=INTERFACE"))?;
    let number: u32 = number.parse().with_context(|| format!("`{number}` is not a port number"))?;
    if number >= abi::DROP_PORT {
        bail!("port {number} is beyond {}, the last one", abi::DROP_PORT - 1);
    }
    let interface = interface.strip_prefix("tc:").unwrap_or(interface);
    Ok((number, interface.to_string()))
}

fn serve(args: &RunArgs, ports: &[(u32, String)], target: &mut TcTarget) -> anyhow::Result<()> {
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })?;
    if let Some(file) = &args.entries {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let case = stf::parse(&file.display().to_string(), &text);
        let case = case
            .map_err(|e| anyhow::anyhow!(e.iter().map(|e| e.to_string()).collect::<Vec<_>>().join("\n")))?;
        let report = stf::load(&case, target);
        if !report.passed {
            bail!("{}", report.text().trim_end());
        }
    }
    let program = target.program();
    for port in 0..abi::DROP_PORT {
        program.set_egress_port(port, io::tc::EgressPort { ifindex: 0, flags: 0 })?;
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

/// Drop reasons at the end.
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
