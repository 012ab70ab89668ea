//! Real cables for packet tests: a veth pair a port. The near end is the program's, the far end is the tester's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::stf::Outputs;
use io::bpf::Hook;
use io::link::{Change, Handle, sysctl};
use io::packet::PacketSocket;
use io::tc::TcProgram;

/// How long a cable may take to carry packets, and a packet to arrive at its end. It is there at once unless the machine is
/// very busy.
pub const ARRIVES: Duration = Duration::from_secs(5);

/// EtherType of probes: Local Experimental (IEEE 802).
const PROBE: u16 = 0x88b5;

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
            let wire = Wire { near: PacketSocket::open(&near)?, far: PacketSocket::open(&far)? };
            for (from, to) in [(&wire.near, &wire.far), (&wire.far, &wire.near)] {
                wait_until_carried(from, to)?;
            }
            program.set_port(*port, &near, 0)?;
            program.attach(&near, Hook::Ingress)?;
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

/// Sends probes until one comes through. The kernel drops what an interface sends until its queue is made, which happens some
/// time after the carrier came on; a listing of interfaces may say "running" before that. (In three runs of 147
/// cases 9, 41 and 16 cables lost their first probe, on Linux 6.18.)
fn wait_until_carried(from: &PacketSocket, to: &PacketSocket) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    // Probes are numbered: when one is there, no earlier one is still on its way.
    for number in 0u32.. {
        let probe = [&[2; 12], &PROBE.to_be_bytes()[..], &number.to_be_bytes(), &[0; 42]].concat();
        from.send(&probe)?;
        while let Some(heard) = to.receive(PATIENCE)? {
            if heard == probe {
                return Ok(());
            }
        }
        if begun.elapsed() > ARRIVES {
            break;
        }
    }
    Err(io::Error::NotFound("a cable that carries packets".into()))
}
