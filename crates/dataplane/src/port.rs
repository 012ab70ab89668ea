//! The interface to packet drivers. The drivers are in `io::port`.
//!
//! Each worker owns one queue of each port. It receives packets with [`Port::receive`], queues packets with [`Port::send`], and calls
//! [`Port::flush`] at the end of a burst. No call blocks: a packet that the port cannot send at once is dropped and counted.

use std::os::fd::BorrowedFd;

use thiserror::Error;

/// Segmentation offload (TSO, USO): the work that remains for a TCP or UDP packet that is longer than the link allows. The packet must be
/// cut into segments; each gets the headers. The transport checksum covers only the pseudo-header so far.
///
/// The fields are those of a virtio-net header (Virtual I/O Device specification 1.2, section 5.1.6). Offsets count from the Ethernet
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Payload bytes in each segment.
    pub segment: u16,
    /// Whether the packet is UDP; otherwise it is TCP.
    pub udp: bool,
    /// Offset of the transport header in bytes.
    pub start: u16,
    /// Offset of the checksum in the transport header in bytes.
    pub offset: u16,
}

/// The destination of received packets. A driver asks for room, writes a packet into it, and then takes the room.
pub trait Inbox {
    /// A buffer for the next packet; `None` when the burst is full.
    fn room(&mut self) -> Option<&mut [u8]>;
    /// Accepts a packet that the driver has written to the first `length` bytes of the room.
    fn take(&mut self, length: usize, offload: Option<Offload>);
}

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsent {
    /// The transmit queue of the port is full.
    #[error("the port's queue is full")]
    Full,
    /// The packet is longer than the port can send.
    #[error("the packet is longer than the port can send")]
    TooLong,
    /// The packet has an [`Offload`], and the port cannot segment packets.
    #[error("the port does not segment packets")]
    Segments,
}

/// A permanent failure of a port, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PortError(pub String);

/// The counts of one queue of a port. Bytes count from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Packets and bytes that the worker received.
    pub received: crate::Count,
    /// Packets and bytes that were sent.
    pub sent: crate::Count,
    /// Packets that arrived and were lost before the worker received them: the ring was full, or the packet was too long. Not every
    /// driver knows of all of them.
    pub missed: u64,
    /// Packets that were not sent because the queue was full ([`Unsent::Full`]).
    pub full: u64,
    /// Packets that were not sent because the port cannot send them ([`Unsent::TooLong`], [`Unsent::Segments`]).
    pub unfit: u64,
}

/// One worker's queue of a port.
pub trait Port: Send {
    /// Receives the packets that have arrived, as many as the inbox has room for.
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<(), PortError>;
    /// Queues a packet. It is sent with the next [`Port::flush`] at the latest.
    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> Result<(), Unsent>;
    /// Sends the queued packets.
    fn flush(&mut self) -> Result<(), PortError>;
    /// The counts since the queue was opened.
    fn counts(&mut self) -> PortCounts;
    /// A file descriptor that becomes readable when packets have arrived; `None` if there is none to wait for.
    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether a worker must poll this port, because no file descriptor announces its packets.
    fn polled(&self) -> bool {
        false
    }
    /// Whether no further packets will arrive.
    fn ended(&self) -> bool {
        false
    }
    /// The driver's mode of operation, for display: `zero-copy`, `copy`.
    fn how(&self) -> String {
        String::new()
    }
}
