//! Reads and writes counters and registers, and reads drop counts.

use abi::Bits;
use abi::id::{CounterId, DropId, RegisterId};
use dataplane::Count;

use super::KernelProgram;
use crate::bpf::Map;
use crate::{Error, Result};

/// Reads a `{u64 packets, u64 bytes}` in native order.
pub(super) fn read_count(bytes: &[u8]) -> Option<Count> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(Count { packets: word(0)?, bytes: word(8)? })
}

/// The bytes of a register's cell.
fn cell_of(value: &Bits) -> Vec<u8> {
    let words = [value.low_u64(), value.shr(64).low_u64()];
    let used = if value.width() > 64 { 2 } else { 1 };
    words[..used].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The value of an element of a map of counts: the sum over all processors.
pub(super) fn total(map: &Map, index: u32) -> Result<Count> {
    let sum = map.sum_u64(&index.to_ne_bytes())?;
    let word = |at: usize| sum.get(at).copied().unwrap_or(0);
    Ok(Count { packets: word(0), bytes: word(1) })
}

impl KernelProgram {
    /// The value of a cell of a counter: the sum over all processors.
    pub(super) fn counter(&mut self, counter: CounterId, index: u64) -> Result<Count> {
        let (map, cell) = self.counter_cell(counter, index)?;
        total(map, cell)
    }

    /// Sets a cell of a counter. Packets that count meanwhile may be lost to the count.
    pub(super) fn set_counter(&mut self, counter: CounterId, index: u64, count: Count) -> Result<()> {
        let value = [count.packets.to_ne_bytes(), count.bytes.to_ne_bytes()].concat();
        let (map, cell) = self.counter_cell(counter, index)?;
        map.set_total(&cell.to_ne_bytes(), &value)
    }

    /// The packets dropped for a reason.
    pub(super) fn drop_count(&mut self, reason: DropId) -> Result<Count> {
        let map = self.maps_of()?.drops.clone();
        total(self.map(&map)?, reason.0)
    }

    /// Sets the counts of all drop reasons to zero.
    pub fn clear_drops(&mut self) -> Result<()> {
        let map = self.maps_of()?.drops.clone();
        for reason in 0..self.manifest.drops.len() as u32 {
            self.map(&map)?.set_total(&reason.to_ne_bytes(), &[0; 16])?;
        }
        Ok(())
    }

    /// The value of a cell of a register.
    pub(super) fn register(&mut self, register: RegisterId, index: u64) -> Result<Bits> {
        let width = self.manifest.registers[register.index()].width;
        let value = self.register_map(register)?.lookup(&(index as u32).to_ne_bytes())?.unwrap_or_default();
        let word =
            |at: usize| value.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_ne_bytes);
        Ok(Bits::new(width, u128::from(word(8)) << 64 | u128::from(word(0))))
    }

    /// Sets a cell of a register. A program that updates the cell at the same time may overwrite the value.
    pub(super) fn set_register(&mut self, register: RegisterId, index: u64, value: &Bits) -> Result<()> {
        self.register_map(register)?.set(&(index as u32).to_ne_bytes(), &cell_of(value))
    }

    /// Sets all cells of the registers that begin with another value than zero.
    pub(super) fn fill_registers(&mut self) -> Result<()> {
        for number in 0..self.manifest.registers.len() {
            let register = &self.manifest.registers[number];
            let Some(value) = register.initial.as_ref().map(cell_of) else { continue };
            let cells = register.size as u32;
            let map = self.register_map(RegisterId::from(number))?;
            (0..cells).try_for_each(|index| map.set(&index.to_ne_bytes(), &value))?;
        }
        Ok(())
    }

    /// The map of a counter's cell, and the cell's number there.
    fn counter_cell(&mut self, counter: CounterId, index: u64) -> Result<(&Map, u32)> {
        let counter = &self.manifest.counters[counter.index()];
        let none = || Error::NotFound(format!("map of `{}`", counter.name));
        let map = self.maps_of()?.counters.clone().ok_or_else(none)?;
        let first = counter.first.ok_or_else(none)?;
        Ok((self.map(&map)?, (first + index) as u32))
    }

    fn register_map(&mut self, register: RegisterId) -> Result<&Map> {
        let register = &self.manifest.registers[register.index()];
        let map =
            register.map.clone().ok_or_else(|| Error::NotFound(format!("map of `{}`", register.name)))?;
        self.map(&map)
    }
}
