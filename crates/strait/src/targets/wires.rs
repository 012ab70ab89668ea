//! Real cables for packet tests: a veth pair a port. The near end is the program's, the far end is the tester's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::stf::Outputs;
use io::bpf::Hook;
use io::link::{Change, Handle, sysctl};
use io::packet::PacketSocket;
use io::tc::TcProgram;

/// How long an interface may take to come up, and a packet to arrive at a near end. It is there at
/// once unless the machine is very busy.
pub const ARRIVES: Duration = Duration::from_secs(5);

/// One port.
struct Wire {
    /// Hears what arrives at the near end. Such sockets hear a packet right before the program does.
    near: PacketSocket,
    far: PacketSocket,
}

/// All ports of a case, in the calling thread's network namespace, which should be nobody else's.
pub struct Wires(BTreeMap<u32, Wire>);

impl Wires {
    /// Makes the pairs, and attaches the program to the near ends.
    pub fn make(ports: &[u32], program: &mut TcProgram) -> io::Result<Wires> {
        // Whatever the kernel says of its own on a new interface would be a packet that nothing expects.
        let _ = sysctl::set("net/ipv6/conf/default/disable_ipv6", "1");
        let kernel = Handle::open()?;
        let mut wires = BTreeMap::new();
        for port in ports {
            let (near, far) = (format!("near{port}"), format!("far{port}"));
            kernel.add_veth(&near, &far, None)?;
            let up = Change { up: Some(true), mtu: Some(65_535), ..Change::default() };
            kernel.change(&near, &up)?;
            kernel.change(&far, &up)?;
            program.set_port(*port, &near, 0)?;
            program.attach(&near, Hook::Ingress)?;
            for end in [&near, &far] {
                wait_until_running(&kernel, end)?;
            }
            let wire = Wire { near: PacketSocket::open(&near)?, far: PacketSocket::open(&far)? };
            wires.insert(*port, wire);
        }
        Ok(Wires(wires))
    }

    /// Sends a packet into a port, and waits until it is there.
    pub fn send(&self, port: u32, packet: &[u8]) -> anyhow::Result<()> {
        let Some(wire) = self.0.get(&port) else { anyhow::bail!("port {port} has no wire") };
        wire.far.send(packet)?;
        anyhow::ensure!(wire.near.receive(ARRIVES)?.is_some(), "a packet never arrived at port {port}");
        Ok(())
    }

    /// The packet that the program has sent out of a port; none if it has no wire.
    pub fn receive(&self, port: u32) -> anyhow::Result<Outputs> {
        let Some(wire) = self.0.get(&port) else { return Ok(Outputs::new()) };
        let packet = wire.far.receive(ARRIVES)?;
        Ok(packet.map(|packet| (port, packet)).into_iter().collect())
    }

    /// What has come out without being asked for.
    pub fn rest(&self) -> anyhow::Result<Outputs> {
        let mut outputs = Outputs::new();
        for (port, wire) in &self.0 {
            while let Some(packet) = wire.far.receive(Duration::ZERO)? {
                outputs.push((*port, packet));
            }
        }
        Ok(outputs)
    }
}

/// An interface that is up passes packets on from when the kernel has looked after it, which may be a second later.
fn wait_until_running(kernel: &Handle, name: &str) -> io::Result<()> {
    let begun = Instant::now();
    while !kernel.link(name)?.is_some_and(|link| link.running) && begun.elapsed() < ARRIVES {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
