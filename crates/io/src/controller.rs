//! The controller's port of a program: what the program sends there is for the controller, and the controller's packets arrive there.
//!
//! It is a TAP interface whose other end is this process. The program has it as a port like any other, on every target. So the kernel splits
//! GSO packets and completes checksums before the controller sees a packet, and its queue bounds the memory: a packet that finds it full is
//! lost and counted. The interface has no address and sends nothing of its own. It ends with the process, however that ends.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use dataplane::device::{DeviceError, Event};

use crate::error::Context;
use crate::port::socket;
use crate::{Error, Result, link};

/// The name of the interface; the kernel puts the first free number in.
const NAME: &str = "strait-cpu%d";
/// The number of packets that wait for the controller.
const QUEUE: u32 = 8192;
/// The MTU in bytes: jumbo frames.
const MTU: u32 = 9216;
/// The longest frame in bytes: an Ethernet header and two VLAN tags in front of the MTU.
const LONGEST: usize = MTU as usize + 14 + 2 * 4;
/// The length of an Ethernet header, without which the kernel takes no frame.
const ETHERNET: usize = 14;

/// The controller's port. The interface is removed when the value is dropped.
#[derive(Debug)]
pub struct ControllerPort {
    file: File,
    name: String,
    index: u32,
}

impl ControllerPort {
    /// Makes the interface, in the calling thread's network namespace.
    pub fn create() -> Result<ControllerPort> {
        let file = socket::open_tun().context(|| "open /dev/net/tun".to_string())?;
        let name = socket::join_tun(&file, NAME, socket::IFF_TAP | socket::IFF_NO_PI, 0);
        let name = name.context(|| "make the interface of the controller's port".to_string())?;
        let quiet_and_up = link::Change {
            up: Some(true),
            noarp: Some(true),
            multicast: Some(false),
            mtu: Some(MTU),
            queue: Some(QUEUE),
            no_link_local: true,
            ..link::Change::default()
        };
        let links = link::Handle::open()?;
        links.change(&name, &quiet_and_up)?;
        let index = links.index(&name)?;
        Ok(ControllerPort { file, name, index })
    }

    /// The name of the interface, which becomes a port of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index of the interface.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Sends a packet into the program.
    pub fn send(&self, packet: &[u8]) -> std::result::Result<(), DeviceError> {
        if !(ETHERNET..=LONGEST).contains(&packet.len()) {
            return Err(DeviceError::InvalidArgument(format!(
                "a packet of {} bytes: the controller's port takes frames of {ETHERNET} to {LONGEST} bytes",
                packet.len()
            )));
        }
        match (&self.file).write(packet) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(DeviceError::ResourceExhausted("the controller's port has no room".to_string()))
            }
            Err(source) => {
                let what = format!("send {} bytes into {}", packet.len(), self.name);
                Err(Error::System { what, source }.into())
            }
        }
    }

    /// Waits until a packet has arrived, but no longer than this.
    pub fn wait(&self, longest: std::time::Duration) -> Result<()> {
        match crate::packet::readable(&self.file, longest) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                Err(error).context(|| format!("wait for {}", self.name))
            }
            _ => Ok(()),
        }
    }

    /// The packets that have arrived since the last call, in order, at most as many as the queue holds.
    pub fn receive(&self) -> Result<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        let mut frame = vec![0; LONGEST];
        while packets.len() < QUEUE as usize {
            match (&self.file).read(&mut frame) {
                Ok(length) => packets.push(frame[..length].to_vec()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context(|| format!("receive from {}", self.name)),
            }
        }
        Ok(packets)
    }

    /// The number of packets for the controller that found the queue full, since the interface exists. It must be called in the namespace of the interface.
    pub fn lost(&self) -> Result<u64> {
        // The file shows the namespace of the thread; /sys shows that of who mounted it.
        let file = "/proc/thread-self/net/dev";
        let text = std::fs::read_to_string(file).context(|| format!("read {file}"))?;
        let counts = text.lines().find_map(|line| {
            let (name, counts) = line.split_once(':')?;
            (name.trim() == self.name).then_some(counts)
        });
        // Eight counters of what the interface has received stand in front of packets, bytes, errors and drops that it has sent.
        let dropped = counts.and_then(|counts| counts.split_whitespace().nth(8 + 3)?.parse().ok());
        dropped.ok_or_else(|| Error::NotFound(format!("interface `{}` in {file}", self.name)))
    }
}

/// [`dataplane::Device::packet_out`] of a target whose controller's port is `port`.
pub(crate) fn packet_out(
    port: &Option<ControllerPort>,
    packet: &[u8],
) -> std::result::Result<(), DeviceError> {
    match port {
        Some(port) => port.send(packet),
        None => Err(DeviceError::FailedPrecondition("no port belongs to the controller".to_string())),
    }
}

/// Adds the packets for the controller to the events of a target.
pub(crate) fn packets_in(
    port: &Option<ControllerPort>,
    events: &mut Vec<Event>,
) -> std::result::Result<(), DeviceError> {
    if let Some(port) = port {
        events.extend(port.receive()?.into_iter().map(Event::Packet));
    }
    Ok(())
}
