//! Reads and writes registers. A register is an array map with cells of 64 bits.

use abi::Bits;
use abi::manifest::Register;

use super::KernelProgram;
use crate::bpf::Map;
use crate::{Error, Result};

impl KernelProgram {
    /// The value of a cell; `None` if the index is too large.
    pub fn register(&mut self, name: &str, index: u64) -> Result<Option<Bits>> {
        let (register, map) = self.register_map(name)?;
        let Some(key) = key(&register, index) else { return Ok(None) };
        let value = map.lookup(&key)?.unwrap_or_default();
        let cell = value.first_chunk().map_or(0, |cell| u64::from_ne_bytes(*cell));
        Ok(Some(Bits::new(register.width, cell.into())))
    }

    /// Sets a cell. Returns false if the index is too large. A program that updates the cell at the same time may overwrite the value.
    pub fn set_register(&mut self, name: &str, index: u64, value: &Bits) -> Result<bool> {
        let (register, map) = self.register_map(name)?;
        let Some(key) = key(&register, index) else { return Ok(false) };
        map.set(&key, &value.resize(register.width).low_u64().to_ne_bytes())?;
        Ok(true)
    }

    /// Sets all cells to zero.
    pub fn reset_register(&mut self, name: &str) -> Result<()> {
        let (register, map) = self.register_map(name)?;
        let zero = 0u64.to_ne_bytes();
        (0..register.size).filter_map(|index| key(&register, index)).try_for_each(|key| map.set(&key, &zero))
    }

    fn register_map(&mut self, name: &str) -> Result<(Register, &Map)> {
        let register = self.manifest.registers.iter().find(|r| r.name == name).cloned();
        let register = register.ok_or_else(|| Error::NotFound(format!("register `{name}`")))?;
        let map = register.map.clone().ok_or_else(|| Error::NotFound(format!("map of register `{name}`")))?;
        Ok((register, self.map(&map)?))
    }
}

fn key(register: &Register, index: u64) -> Option<[u8; 4]> {
    (index < register.size).then(|| (index as u32).to_ne_bytes())
}
