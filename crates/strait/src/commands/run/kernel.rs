//! Runs a program in the kernel, which moves the packets: at a tc hook or at the XDP hook.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use control::apps;
use dataplane::Device;
use io::bpf::{Hook, XdpMode};
use io::ebpf::{KernelProgram, XdpOptions};

use super::plane::Plane;
use super::{LOST, LOST_PACKETS, controller_port, drops, fill, lost_packets, ports, show};
use crate::cli::{self, RunArgs};
use crate::frontend;
use crate::targets::kernel::{At, KernelTarget, Object};

/// The interval at which entries that packets added are searched for those whose time has passed.
const TURN: Duration = Duration::from_millis(100);

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
        fill(file, target.program())?;
    }
    let program = target.program();
    program.listen(args.log)?;
    for port in 0..abi::DROP_PORT {
        program.set_egress_port(port, io::ebpf::EgressPort { ifindex: 0, flags: 0 })?;
    }
    for (number, interface) in ports {
        program.set_port(*number, interface, 0).with_context(|| format!("port {number}"))?;
    }
    let mut interfaces: Vec<String> = ports.iter().map(|(_, interface)| interface.clone()).collect();
    if let Some((number, port)) = controller_port(args, ports)? {
        interfaces.push(port.name().to_string());
        program.set_controller(number, port)?;
    }
    let numbers: Vec<u32> = ports.iter().map(|(number, _)| *number).collect();
    let mut plane = Plane::start(args, &numbers, program)?;
    let mode = match at {
        At::Tc => {
            interfaces.iter().try_for_each(|interface| program.attach(interface, Hook::Ingress))?;
            String::new()
        }
        At::Xdp => attach_xdp(args, program, &interfaces)?,
    };
    eprintln!("running on {} ports{mode}; Ctrl-C ends it", ports.len());
    let mut last = KernelProgram::now();
    loop {
        let ends = stopped.recv_timeout(TURN).is_ok();
        let now = KernelProgram::now();
        // Every row is looked at once a second.
        let share = (now - last) as f64 / 1e6;
        target.program().expire(now, share.min(1.0))?;
        last = now;
        for event in target.program().events()? {
            show(args, &event, target.program().manifest());
            plane.tell(apps::Event::Told(&event), now, target.program());
        }
        if ends {
            break;
        }
    }
    plane.report_refused();
    summary(args.json, plane.refused, target)
}

/// Attaches the program to the XDP hook of the interfaces. Returns how it runs, for people.
fn attach_xdp(args: &RunArgs, program: &KernelProgram, interfaces: &[String]) -> anyhow::Result<String> {
    let mode = args.xdp_mode.map(|mode| match mode {
        cli::XdpMode::Native => XdpMode::Native,
        cli::XdpMode::Generic => XdpMode::Generic,
    });
    let controller = program.controller().map(|port| port.index());
    let options = XdpOptions { mode, trust_checksums: args.trust_checksums, controller };
    let (mode, why) = program.attach_xdp(interfaces, options)?;
    if let Some(why) = why {
        eprintln!("the kernel's stack runs the program, not the drivers: {why}");
    }
    Ok(format!(" in {} mode", mode.name()))
}

/// Prints the drop reasons at the end.
fn summary(json: bool, refused: u64, target: &mut KernelTarget) -> anyhow::Result<()> {
    let drops = drops(target.program())?;
    let lost = target.program().events_lost()?;
    let lost_packets = lost_packets(target.program().controller())?;
    if json {
        let all: Vec<_> = drops
            .iter()
            .map(
                |(name, count)| serde_json::json!({"reason": name, "packets": count.packets, "bytes": count.bytes}),
            )
            .collect();
        println!(
            "{}",
            serde_json::json!({"drops": all, "digests_lost": lost, "packets_lost": lost_packets, "writes_refused": refused})
        );
        return Ok(());
    }
    for (name, count) in drops.iter().filter(|(_, count)| count.packets > 0) {
        println!("dropped: {name:<40} {:>12} packets", count.packets);
    }
    if lost > 0 {
        println!("{LOST}: {lost}");
    }
    if let Some(lost @ 1..) = lost_packets {
        println!("{LOST_PACKETS}: {lost}");
    }
    Ok(())
}
