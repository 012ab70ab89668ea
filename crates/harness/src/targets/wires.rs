//! Interfaces for packet tests, one or one pair for each port.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::stf::Outputs;
use io::ebpf::{EgressPort, KernelProgram};
use io::link::{Change, Handle, sysctl};
use io::packet::PacketSocket;
use io::tun::Tun;

use super::kernel::At;

/// The timeout for a veth pair to carry packets, and for a packet to arrive. A packet arrives immediately unless the machine is very busy.
pub const ARRIVES: Duration = Duration::from_secs(5);

/// The number of milliseconds that packets with copies have to arrive.
const QUIET: u32 = 5;

/// The EtherType of probes: Local Experimental (IEEE 802).
const PROBE: u16 = 0x88b5;

/// The kind of the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Veth pairs: Ethernet interfaces, as those that programs are usually attached to.
    Veth,
    /// TUN interfaces, which have no Ethernet header. They carry frames that are too short for one.
    Tun,
}

/// The interfaces of a port. The program is attached to the near end; the test uses the far end.
enum Wire {
    Veth {
        /// A socket that receives the packets that arrive at the near end, immediately before a program at a tc hook does. A program at the XDP hook
        /// takes them first.
        near: Option<PacketSocket>,
        far: PacketSocket,
    },
    /// The far end is this process.
    Tun(Tun),
}

/// The interfaces of a case. They are in the network namespace of the calling thread, which nothing else should use.
pub struct Wires(BTreeMap<u32, Wire>);

impl Wires {
    /// Creates the interfaces, and attaches the program to the near ends.
    pub fn make(kind: Kind, ports: &[u32], program: &mut KernelProgram, at: At) -> io::Result<Wires> {
        let kernel = quiet()?;
        let mut wires = BTreeMap::new();
        for port in ports {
            let (near, far) = (format!("near{port}"), format!("far{port}"));
            let wire = match kind {
                Kind::Veth => Wire::veth(&kernel, &near, &far, at)?,
                Kind::Tun => Wire::tun(&kernel, &near)?,
            };
            program.set_port(*port, &near, 0)?;
            at.attach(program, &near, kind)?;
            wires.insert(*port, wire);
        }
        Ok(Wires(wires))
    }

    /// Sends a packet into a port, and waits until it has arrived.
    pub fn send(&self, port: u32, packet: &[u8]) -> anyhow::Result<()> {
        let Some(wire) = self.0.get(&port) else { anyhow::bail!("port {port} has no wire") };
        match wire {
            Wire::Veth { near, far } => {
                far.send(packet)?;
                if let Some(near) = near {
                    anyhow::ensure!(
                        near.receive(ARRIVES)?.is_some(),
                        "a packet never arrived at port {port}"
                    );
                }
            }
            Wire::Tun(tun) => tun.send(packet)?,
        }
        Ok(())
    }

    /// The next packet that the program sent out of a port; `None` if the port has no wire.
    pub fn receive(&self, port: u32) -> anyhow::Result<Outputs> {
        let Some(wire) = self.0.get(&port) else { return Ok(Outputs::new()) };
        let packet = wire.receive(ARRIVES)?;
        Ok(packet.map(|packet| (port, packet)).into_iter().collect())
    }

    /// The packets that arrive until none has come for some milliseconds. The kernel delivers what a program has sent at once, unless the machine is
    /// very busy.
    pub fn settle(&self) -> anyhow::Result<Outputs> {
        let mut outputs = Outputs::new();
        for _ in 0..QUIET {
            let found = self.rest()?;
            if found.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            outputs.extend(found);
        }
        Ok(outputs)
    }

    /// The packets that arrived and that no case expected.
    pub fn rest(&self) -> anyhow::Result<Outputs> {
        let mut outputs = Outputs::new();
        for (port, wire) in &self.0 {
            while let Some(packet) = wire.receive(Duration::ZERO)? {
                outputs.push((*port, packet));
            }
        }
        Ok(outputs)
    }
}

impl Wire {
    fn veth(kernel: &Handle, near: &str, far: &str, at: At) -> io::Result<Wire> {
        kernel.add_veth(near, far, None)?;
        kernel.change(near, &up())?;
        kernel.change(far, &up())?;
        if at == At::Xdp {
            // Frames are redirected to the near end only if the far end polls for them.
            io::link::features::set_gro(far, true)?;
        }
        let (near, far) = (PacketSocket::open(near)?, PacketSocket::open(far)?);
        for (from, to) in [(&near, &far), (&far, &near)] {
            wait_until_carried(from, to)?;
        }
        Ok(Wire::Veth { near: (at == At::Tc).then_some(near), far })
    }

    /// The queue of a TUN interface exists as soon as the interface is up, because its carrier is on from the beginning.
    fn tun(kernel: &Handle, near: &str) -> io::Result<Wire> {
        let tun = Tun::create(near)?;
        kernel.change(near, &up())?;
        Ok(Wire::Tun(tun))
    }

    fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        match self {
            Wire::Veth { far, .. } => far.receive(timeout),
            Wire::Tun(tun) => tun.receive(timeout),
        }
    }
}

/// A TUN interface that stands for every port, for frames that a test run does not accept. It is in the network namespace of the calling
/// thread, which nothing else should use.
pub struct Door(Tun);

impl Door {
    const NAME: &str = "door";

    /// Creates the interface, attaches the program to it, and makes it the way out of the ports from 0 on.
    pub fn make(program: &mut KernelProgram, ports: u32, at: At) -> io::Result<Door> {
        let kernel = quiet()?;
        let tun = Tun::create(Self::NAME)?;
        kernel.change(Self::NAME, &up())?;
        at.attach(program, Self::NAME, Kind::Tun)?;
        let ifindex = kernel.index(Self::NAME)?;
        (0..ports).try_for_each(|port| program.set_egress_port(port, EgressPort { ifindex, flags: 0 }))?;
        Ok(Door(tun))
    }

    /// Sends a packet into a port. The program has processed it when the function returns.
    pub fn send(&self, program: &mut KernelProgram, port: u32, packet: &[u8]) -> io::Result<()> {
        program.set_port(port, Self::NAME, 0)?;
        self.0.send(packet)
    }

    /// The packet that the program sent; `None` if none arrives.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.receive(ARRIVES)
    }
}

/// Keeps the kernel from sending packets of its own on new interfaces, because no case expects them.
fn quiet() -> io::Result<Handle> {
    let _ = sysctl::set("net/ipv6/conf/default/disable_ipv6", "1");
    Handle::open()
}

/// Starts an interface, and lets it carry the longest packets.
fn up() -> Change {
    Change { up: Some(true), mtu: Some(65_535), ..Change::default() }
}

/// Sends probes until one arrives. The kernel drops packets that an interface sends until its queue exists, which happens some time after
/// the carrier is on; a listing of interfaces may show "running" before that. (In three runs of 147 cases on Linux 6.18, 9, 41 and 16 pairs
/// lost their first probe.)
fn wait_until_carried(from: &PacketSocket, to: &PacketSocket) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    // Probes are numbered. When one has arrived, no earlier one is still in transit.
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
