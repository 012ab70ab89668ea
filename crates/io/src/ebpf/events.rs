//! What packets tell the host: the digests in the ring of a program.

use abi::Digest;
use abi::id::DigestId;
use abi::native::digest::HEAD;
use dataplane::device::{DeviceError, Event};

use super::KernelProgram;
use crate::Result;
use crate::bpf::Ring;

impl KernelProgram {
    /// Takes what packets have told since the last call, in order.
    pub(super) fn take_told(&mut self) -> Result<Vec<Event>> {
        let Some(maps) = self.maps_of()?.events.clone() else { return Ok(Vec::new()) };
        if self.ring.is_none() {
            self.ring = Some(Ring::new(self.map(&maps.ring)?)?);
        }
        let records = self.ring.as_mut().map(Ring::take).unwrap_or_default();
        records.iter().map(|record| self.event(record)).collect()
    }

    /// The number of records that packets could not submit because the ring was full.
    pub fn events_lost(&mut self) -> Result<u64> {
        let Some(maps) = self.maps_of()?.events.clone() else { return Ok(0) };
        let lost = self.map(&maps.lost)?.lookup(&0u32.to_ne_bytes())?.unwrap_or_default();
        Ok(lost.first_chunk().map_or(0, |lost| u64::from_ne_bytes(*lost)))
    }

    /// Reads a record.
    fn event(&self, record: &[u8]) -> Result<Event> {
        let read = || {
            let (head, values) = record.split_at_checked(HEAD)?;
            let digest = DigestId(u32::from_ne_bytes(*head.first_chunk()?));
            let values = self.manifest.digests.get(digest.index())?.unpack(values)?;
            Some(Event::Digest(Digest { digest, values }))
        };
        let unknown =
            || DeviceError::Internal("the ring has a record that no digest of the program fits".into());
        Ok(read().ok_or_else(unknown)?)
    }
}
