//! Packet drivers: implementations of [`dataplane::port::Port`], one file each. A new driver needs a file here, a variant of [`Driver`],
//! and a line in the test suite of all drivers (`crates/io/tests/kernel/ports.rs`).
//!
//! * [`mem`]: packets from memory, for measurements. [`pcap`]: capture files.
//! * [`af_packet`]: any interface. [`af_xdp`]: interfaces, bypassing the kernel's stack. [`tap`]: a virtual interface of the kernel.
//! * `offload`: segmentation and checksum offload. `memory` and `socket`: code that drivers share.

pub mod af_packet;
pub mod af_xdp;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod mem;
pub(crate) mod memory;
mod offload;
pub mod pcap;
pub(crate) mod socket;
pub mod tap;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use dataplane::port::Port;

use crate::Result;
use crate::error::Context;

pub(crate) use offload::arrived as arrived_offload;
pub use offload::{first_segment, segments};
pub use socket::{pin, processors, wait};

/// The driver of a port and its arguments, as the command line names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `mem:FILE`: repeats the packets of a capture file.
    Mem(PathBuf),
    /// `pcap:IN,OUT`: reads and writes capture files.
    Pcap(Option<PathBuf>, Option<PathBuf>),
    /// `af_packet:IF`: an interface through packet sockets.
    AfPacket(String),
    /// `af_xdp:IF[:QUEUE]`: an interface through XDP sockets.
    AfXdp(String, Option<u32>),
    /// `tap:NAME`: a virtual Ethernet interface.
    Tap(String),
    /// `tun:NAME`: a virtual IP interface.
    Tun(String),
    /// `dpdk:DEVICE`: a DPDK device with its arguments.
    Dpdk(String),
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Driver, String> {
        const KNOWN: &str =
            "mem:FILE, pcap:IN,OUT, af_packet:IF, af_xdp:IF[:QUEUE], tap:NAME, tun:NAME, dpdk:DEVICE";
        let Some((driver, arg)) = text.split_once(':') else {
            return Err(format!("`{text}` names no driver; there are {KNOWN}"));
        };
        let name = match arg {
            "" => Err(format!("`{text}` names no interface or file")),
            arg => Ok(arg.to_string()),
        };
        let file = |name: &str| (!name.is_empty()).then(|| PathBuf::from(name));
        Ok(match driver {
            "mem" => Driver::Mem(name?.into()),
            "pcap" => {
                let (input, output) = arg.split_once(',').unwrap_or((arg, ""));
                name?;
                Driver::Pcap(file(input), file(output))
            }
            "af_packet" => Driver::AfPacket(name?),
            "af_xdp" => match arg.split_once(':') {
                None => Driver::AfXdp(name?, None),
                Some((interface, queue)) => {
                    let number =
                        queue.parse().map_err(|_| format!("`{queue}` is not the number of a queue"))?;
                    Driver::AfXdp(interface.to_string(), Some(number))
                }
            },
            "tap" => Driver::Tap(name?),
            "tun" => Driver::Tun(name?),
            "dpdk" => Driver::Dpdk(name?),
            other => return Err(format!("there is no driver `{other}`; there are {KNOWN}")),
        })
    }
}

impl Driver {
    /// The interface of the kernel that the port is, if it is one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Driver::AfPacket(name) | Driver::AfXdp(name, _) | Driver::Tap(name) | Driver::Tun(name) => {
                Some(name)
            }
            Driver::Mem(_) | Driver::Pcap(..) | Driver::Dpdk(_) => None,
        }
    }

    /// Opens the port with one queue for each worker.
    pub fn open(&self, workers: usize) -> Result<Vec<Box<dyn Port>>> {
        Ok(match self {
            Driver::Mem(file) => {
                let read = std::fs::File::open(file).context(|| format!("read {}", file.display()))?;
                let frames = crate::pcap::read(read)?;
                let packets: Arc<mem::Packets> = Arc::new(frames.iter().map(|f| &f.data).collect());
                // Each worker begins at another packet.
                let queue = |n| mem::Mem::new(packets.clone(), packets.len() * n / workers);
                boxed((0..workers).map(queue).collect())
            }
            Driver::Pcap(input, output) => boxed(pcap::open(input.as_deref(), output.as_deref(), workers)?),
            Driver::AfPacket(interface) => boxed(af_packet::open(interface, workers)?),
            Driver::AfXdp(interface, Some(queue)) => boxed(af_xdp::open(interface, Some(*queue), workers)?),
            Driver::AfXdp(interface, None) => boxed(af_xdp::open(interface, None, workers)?),
            Driver::Tap(name) => boxed(tap::open(name, false, workers)?),
            #[cfg(feature = "dpdk")]
            Driver::Dpdk(device) => boxed(dpdk::open(device, workers)?),
            #[cfg(not(feature = "dpdk"))]
            Driver::Dpdk(_) => {
                return Err(crate::Error::Dpdk(
                    "this strait was built without it (apt-get install libdpdk-dev; cargo build --release --features dpdk)"
                        .to_string(),
                ));
            }
            Driver::Tun(name) => boxed(tap::open(name, true, workers)?),
        })
    }
}

fn boxed<P: Port + 'static>(queues: Vec<P>) -> Vec<Box<dyn Port>> {
    queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Port>).collect()
}
