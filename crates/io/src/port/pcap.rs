//! `pcap:IN,OUT`: receives the packets of one capture file once, and writes sent packets to another. Either may be missing.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};
use pcap_file::pcap::{PcapPacket, PcapWriter};

use crate::error::Context;
use crate::{Result, pcap};

/// One worker's queue of the port. The first worker reads; all workers write, one at a time.
pub struct Pcap {
    frames: Vec<pcap::Frame>,
    next: usize,
    out: Option<Arc<Mutex<PcapWriter<BufWriter<File>>>>>,
    counts: PortCounts,
}

/// Opens the files of a port.
pub fn open(input: Option<&Path>, output: Option<&Path>, queues: usize) -> Result<Vec<Pcap>> {
    let read = |path: &Path| {
        let file = File::open(path).context(|| format!("read {}", path.display()))?;
        pcap::read(file)
    };
    let mut frames = Some(input.map(read).transpose()?.unwrap_or_default());
    let write = |path: &Path| {
        let file = File::create(path).context(|| format!("write {}", path.display()))?;
        Ok::<_, crate::Error>(Arc::new(Mutex::new(pcap::writer(BufWriter::new(file))?)))
    };
    let out = output.map(write).transpose()?;
    let queue = |_| Pcap {
        frames: frames.take().unwrap_or_default(),
        next: 0,
        out: out.clone(),
        counts: PortCounts::default(),
    };
    Ok((0..queues).map(queue).collect())
}

impl Port for Pcap {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> std::result::Result<(), PortError> {
        while let Some(frame) = self.frames.get(self.next) {
            let Some(room) = inbox.room() else { return Ok(()) };
            self.next += 1;
            let Some(room) = room.get_mut(..frame.data.len()) else {
                self.counts.missed += 1;
                continue;
            };
            room.copy_from_slice(&frame.data);
            self.counts.received.add(frame.data.len() as u64);
            inbox.take(frame.data.len(), None);
        }
        Ok(())
    }

    fn send(&mut self, packet: &[u8], offload: Option<&Offload>) -> std::result::Result<(), Unsent> {
        if offload.is_some() {
            self.counts.unfit += 1;
            return Err(Unsent::Segments);
        }
        let Some(out) = &self.out else {
            self.counts.full += 1;
            return Err(Unsent::Full);
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = PcapPacket::new(now, packet.len() as u32, packet);
        let written = out.lock().unwrap_or_else(PoisonError::into_inner).write_packet(&record);
        if written.is_err() {
            self.counts.full += 1;
            return Err(Unsent::Full);
        }
        self.counts.sent.add(packet.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), PortError> {
        // The file is complete when its last writer is dropped.
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        self.counts
    }

    fn ended(&self) -> bool {
        self.next == self.frames.len()
    }
}
