//! What packets tell the host: the digests and messages in the ring of a program.

use dataplane::device::{self, DeviceError, Event};

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
        let lost = self.map(&maps.state)?.lookup(&0u32.to_ne_bytes())?.unwrap_or_default();
        Ok(lost.first_chunk().map_or(0, |lost| u64::from_ne_bytes(*lost)))
    }

    /// Says whether the messages that the program logs become events.
    pub(super) fn set_listening(&mut self, messages: bool) -> Result<()> {
        let Some(maps) = self.maps_of()?.events.clone() else { return Ok(()) };
        let lost = self.events_lost()?;
        let value = [lost.to_ne_bytes(), u64::from(messages).to_ne_bytes()].concat();
        self.map(&maps.state)?.set(&0u32.to_ne_bytes(), &value)
    }

    fn event(&self, record: &[u8]) -> Result<Event> {
        let event = device::event(&self.manifest.digests, &self.manifest.messages, record);
        let unknown = "the ring has a record that fits no digest and no message of the program";
        Ok(event.ok_or_else(|| DeviceError::Internal(unknown.to_string()))?)
    }
}
