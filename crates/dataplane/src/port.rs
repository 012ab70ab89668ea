//! Ports: where packets come in and go out, whatever is behind them. The drivers are in `io::port`.
//!
//! A worker owns its queue of each port. It takes packets in with [`Port::receive`], hands out what leaves with [`Port::send`], and
//! says [`Port::flush`] when a burst is done. Nothing blocks: what cannot be sent now is lost and counted.

use std::os::fd::BorrowedFd;

use thiserror::Error;

/// What is still to be done to a packet that stands for several: a TCP or UDP packet longer than the link takes, of which every
/// segment gets the headers, and whose checksum covers the pseudo-header only. The fields are those of a virtio-net header
/// (Virtual I/O Device specification 1.2, section 5.1.6); offsets count from the Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Bytes of payload in a segment.
    pub segment: u16,
    /// Whether UDP (or TCP) is segmented.
    pub udp: bool,
    /// Where the transport header begins.
    pub start: u16,
    /// Where its checksum is, from there.
    pub offset: u16,
}

/// Where received packets go.
pub trait Inbox {
    /// Room for the next packet; `None` when the burst is full.
    fn room(&mut self) -> Option<&mut [u8]>;
    /// So many bytes of the room are a packet.
    fn take(&mut self, length: usize, offload: Option<Offload>);
}

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsent {
    /// The queue is full.
    #[error("the port's queue is full")]
    Full,
    /// The packet is longer than the port takes.
    #[error("the packet is longer than the port takes")]
    TooLong,
    /// The port cannot send packets that are still to be segmented.
    #[error("the port does not segment packets")]
    Segments,
}

/// A port that is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PortError(pub String);

/// What a queue of a port has done. Counted in packets, and bytes from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Taken in.
    pub received: crate::Count,
    /// Given out.
    pub sent: crate::Count,
    /// Lost before they were taken in, as far as the driver knows: its ring was full, or the packet too long.
    pub missed: u64,
    /// Not sent: the queue was full.
    pub full: u64,
    /// Not sent: longer than the port takes, or still to be segmented.
    pub unfit: u64,
}

/// One worker's queue of a port.
pub trait Port: Send {
    /// Takes in what has come, as far as there is room.
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<(), PortError>;
    /// Hands a packet out; it leaves with the next [`Port::flush`] at the latest.
    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> Result<(), Unsent>;
    /// Lets go of what was sent.
    fn flush(&mut self) -> Result<(), PortError>;
    /// What it has done.
    fn counts(&mut self) -> PortCounts;
    /// Readable when packets have come; `None`: there is nothing to wait for.
    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether nobody wakes a worker when packets come, though they do: it has to ask again and again.
    fn polled(&self) -> bool {
        false
    }
    /// Whether nothing will ever come again.
    fn ended(&self) -> bool {
        false
    }
    /// Which way it works, for people: `zero-copy`, `copy`.
    fn how(&self) -> String {
        String::new()
    }
}
