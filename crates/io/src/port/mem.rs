//! `mem:FILE`: repeats the packets of a capture file from memory, for measurements. Sent packets are counted and discarded.

use std::sync::Arc;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

/// Packets in contiguous memory. Each begins at a cache line, so that the processor can prefetch them: they represent packets that a
/// network card has put into the cache.
#[derive(Debug, Default)]
pub struct Packets {
    bytes: Vec<u8>,
    /// The offset and the length of each packet.
    spans: Vec<(usize, usize)>,
}

impl Packets {
    fn get(&self, number: usize) -> Option<&[u8]> {
        self.spans.get(number).map(|(start, length)| &self.bytes[*start..start + length])
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

impl<B: AsRef<[u8]>> FromIterator<B> for Packets {
    fn from_iter<I: IntoIterator<Item = B>>(all: I) -> Packets {
        let mut packets = Packets::default();
        for packet in all {
            let (start, length) = (packets.bytes.len(), packet.as_ref().len());
            packets.spans.push((start, length));
            packets.bytes.extend_from_slice(packet.as_ref());
            packets.bytes.resize((start + length).next_multiple_of(LINE), 0);
        }
        packets
    }
}

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// One worker's queue of the port.
pub struct Mem {
    packets: Arc<Packets>,
    next: usize,
    counts: PortCounts,
}

impl Mem {
    /// A queue that repeats these packets for ever, starting with packet number `first`. Without packets it receives none.
    pub fn new(packets: Arc<Packets>, first: usize) -> Mem {
        Mem { packets, next: first, counts: PortCounts::default() }
    }
}

impl Port for Mem {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<(), PortError> {
        while let (Some(packet), Some(room)) = (self.packets.get(self.next), inbox.room()) {
            self.next = if self.next + 1 == self.packets.len() { 0 } else { self.next + 1 };
            let Some(room) = room.get_mut(..packet.len()) else {
                self.counts.missed += 1;
                return Ok(());
            };
            room.copy_from_slice(packet);
            self.counts.received.add(packet.len() as u64);
            inbox.take(packet.len(), None);
        }
        Ok(())
    }

    fn send(&mut self, packet: &[u8], _offload: Option<&Offload>) -> Result<(), Unsent> {
        self.counts.sent.add(packet.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        self.counts
    }

    fn ended(&self) -> bool {
        self.packets.is_empty()
    }
}
