//! `mem:FILE`: the packets of a capture file, round and round from memory, for measurements; what leaves is counted and forgotten.

use std::sync::Arc;

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};

/// One worker's side.
pub struct Mem {
    packets: Arc<Vec<Vec<u8>>>,
    next: usize,
    counts: PortCounts,
}

impl Mem {
    /// Gives these packets from the given one on, for ever; none where there are none.
    pub fn new(packets: Arc<Vec<Vec<u8>>>, first: usize) -> Mem {
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
