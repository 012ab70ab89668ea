//! Reads and resets counters and drop counts.

use abi::Manifest;
use serde::Serialize;

use super::KernelProgram;
use crate::{Error, Result};

/// The value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes, from the Ethernet header on.
    pub bytes: u64,
}

/// A reason for which packets were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drop {
    /// The reason's name in the manifest.
    pub name: String,
    /// The packets dropped for this reason.
    pub count: Count,
}

impl Count {
    /// Reads a `{u64 packets, u64 bytes}` in native order.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self { packets: word(0)?, bytes: word(8)? })
    }

    fn of(sum: &[u64]) -> Self {
        Self { packets: sum.first().copied().unwrap_or(0), bytes: sum.get(1).copied().unwrap_or(0) }
    }
}

impl KernelProgram {
    /// The value of one cell of an indexed counter: the sum over all CPUs.
    pub fn counter(&mut self, name: &str, index: u32) -> Result<Count> {
        let map = counter_map(&self.manifest, name)?;
        Ok(Count::of(&self.map(&map)?.sum_u64(&index.to_ne_bytes())?))
    }

    /// The values of all cells of an indexed counter.
    pub fn counters(&mut self, name: &str) -> Result<Vec<Count>> {
        let map = counter_map(&self.manifest, name)?;
        let map = self.map(&map)?;
        (0..map.max_entries()).map(|index| Ok(Count::of(&map.sum_u64(&index.to_ne_bytes())?))).collect()
    }

    /// Sets a counter's cells to zero.
    pub fn reset_counter(&mut self, name: &str) -> Result<()> {
        let map = counter_map(&self.manifest, name)?;
        self.zero(&map)
    }

    /// The drop count of each reason, in the order of the manifest, including zeros.
    pub fn drops(&mut self) -> Result<Vec<Drop>> {
        let names: Vec<_> = self.manifest.drops.iter().map(|d| d.name.clone()).collect();
        let map = self.maps_of()?.drops.clone();
        let map = self.map(&map)?;
        let read = |(reason, name): (usize, String)| {
            let count = Count::of(&map.sum_u64(&(reason as u32).to_ne_bytes())?);
            Ok(Drop { name, count })
        };
        names.into_iter().enumerate().map(read).collect()
    }

    /// Sets all drop counts to zero.
    pub fn reset_drops(&mut self) -> Result<()> {
        self.zero(&self.maps_of()?.drops.clone())
    }

    fn zero(&mut self, name: &str) -> Result<()> {
        let map = self.map(name)?;
        let zero = vec![0; map.value_size()];
        (0..map.max_entries()).try_for_each(|index| map.set(&index.to_ne_bytes(), &zero))
    }
}

fn counter_map(manifest: &Manifest, name: &str) -> Result<String> {
    let counter = manifest.counters.iter().find(|c| c.name == name);
    counter.and_then(|c| c.map.clone()).ok_or_else(|| Error::NotFound(format!("counter `{name}`")))
}
