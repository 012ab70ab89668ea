//! Meters. A cell holds a spin lock, the number of rates, and two token buckets; each is `{per_microsecond, tokens, burst, filled, fills}`, a
//! `u64` each, of which the first three have 32 bits of fraction. A packet executes a cell under its lock, and the host replaces it under the lock.
//!
//! A direct meter has an array of cells, and each entry of its table the number of one of them. In a table that learns, rows have cells
//! ([`super::flows`]), and the first cell, which is no row's, has the rates of new entries.

use std::collections::BTreeSet;

use abi::MatchValue;
use abi::id::{MeterId, TableId};
use abi::manifest::{Table, TableLayout};
use dataplane::Rate;
use dataplane::device::DeviceError;

use super::KernelProgram;
use crate::bpf;
use crate::{Error, Result};

/// The size of a cell in bytes, and of a bucket in it.
const CELL: usize = 88;
const BUCKET: usize = 40;
/// The number of rates of a cell at most.
const RATES: usize = 2;
/// 2 to the number of fraction bits.
const ONE: f64 = (1u64 << 32) as f64;
/// The largest number of whole tokens.
const MOST: u64 = u32::MAX as u64;

/// The cells of the entries of one table.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// The number of the first cell that no entry ever had.
    next: u32,
    /// The cells before it that no entry has now.
    free: Vec<u32>,
    /// The rates of every new entry.
    template: Vec<Rate>,
}

impl KernelProgram {
    /// The rates of a cell of an indexed meter.
    pub(super) fn rates(&mut self, meter: MeterId, index: u64) -> Result<Vec<Rate>> {
        let cell = self.meter_map(meter)?.lookup(&(index as u32).to_ne_bytes())?;
        Ok(cell.map(|cell| read_rates(&cell)).unwrap_or_default())
    }

    /// Gives a cell of an indexed meter these rates, with full buckets.
    pub(super) fn set_rates(&mut self, meter: MeterId, index: u64, rates: &[Rate]) -> Result<()> {
        let cell = cell(rates)?;
        self.meter_map(meter)?.set_locked(&(index as u32).to_ne_bytes(), &cell)
    }

    /// The rates of the entry with this match.
    pub(super) fn rates_of(&mut self, at: TableId, matches: &[MatchValue]) -> Result<Option<Vec<Rate>>> {
        let (Some(meter), Some(cell)) = (self.manifest.direct_meter_of(at), self.cell_of(at, matches)?)
        else {
            return Ok(None);
        };
        self.rates(meter, cell.into()).map(Some)
    }

    /// Gives the entry with this match these rates.
    pub(super) fn set_rates_of(&mut self, at: TableId, matches: &[MatchValue], rates: &[Rate]) -> Result<()> {
        match (self.manifest.direct_meter_of(at), self.cell_of(at, matches)?) {
            (Some(meter), Some(cell)) => self.set_rates(meter, cell.into(), rates),
            _ => Err(Error::NotFound("entry with a meter".to_string())),
        }
    }

    /// The rates that new entries of a table with this direct meter get.
    pub(super) fn template(&mut self, meter: MeterId) -> Result<Vec<Rate>> {
        if self.rows_of(meter).is_some() {
            return self.rates(meter, 0);
        }
        Ok(self.cells.get(&meter).map(|cells| cells.template.clone()).unwrap_or_default())
    }

    /// Gives all entries of a table with this direct meter these rates, present and future ones.
    pub(super) fn set_template(&mut self, meter: MeterId, rates: &[Rate]) -> Result<()> {
        let cell = cell(rates)?;
        if let Some(rows) = self.rows_of(meter) {
            let map = self.meter_map(meter)?;
            return (0..=rows).try_for_each(|index| map.set_locked(&index.to_ne_bytes(), &cell));
        }
        let next = self.cells_of(meter)?.next;
        let map = self.meter_map(meter)?;
        (0..next).try_for_each(|index| map.set_locked(&index.to_ne_bytes(), &cell))?;
        self.cells_of(meter)?.template = rates.to_vec();
        Ok(())
    }

    /// Takes a cell for a new entry, and writes its number to the entry's value.
    pub(super) fn take_cell(&mut self, table: &Table, layout: &TableLayout, value: &mut [u8]) -> Result<()> {
        let (Some(meter), Some(at)) = (self.meter_of(table), layout.meter_offset) else { return Ok(()) };
        let cells = self.cells_of(meter)?;
        let (free, template) = (cells.free.last().copied().unwrap_or(cells.next), cells.template.clone());
        if free >= self.meter_map(meter)?.max_entries() {
            let text = format!("table `{}` has no meter left for another entry", table.name);
            return Err(DeviceError::ResourceExhausted(text).into());
        }
        self.set_rates(meter, free.into(), &template)?;
        let cells = self.cells_of(meter)?;
        if cells.free.pop().is_none() {
            cells.next += 1;
        }
        value[at as usize..at as usize + 4].copy_from_slice(&free.to_ne_bytes());
        Ok(())
    }

    /// Gives back the cell of an entry that was removed, or was not added.
    pub(super) fn free_cell(&mut self, table: &Table, layout: &TableLayout, value: &[u8]) -> Result<()> {
        let (Some(meter), Some(cell)) = (self.meter_of(table), number_in(layout, value)) else {
            return Ok(());
        };
        self.cells_of(meter)?.free.push(cell);
        Ok(())
    }

    /// Gives cells of free rows of a table that learns the rates of new entries, with full buckets.
    pub(super) fn renew_cells(&mut self, table: &Table, cells: &[u32]) -> Result<()> {
        let Some(meter) = self.meter_of(table) else { return Ok(()) };
        let rates = self.template(meter)?;
        cells.iter().try_for_each(|cell| self.set_rates(meter, (*cell).into(), &rates))
    }

    /// The number of rows of the table with this direct meter, if that learns.
    fn rows_of(&self, meter: MeterId) -> Option<u32> {
        let table = &self.manifest.tables[self.manifest.metered_table(meter)?.index()];
        Some(table.layout.as_ref()?.learning.as_ref()?.count)
    }

    fn cell_of(&mut self, at: TableId, matches: &[MatchValue]) -> Result<Option<u32>> {
        let table = self.manifest.tables[at.index()].clone();
        let Some((layout, _, _, value)) = self.element(&table, matches)? else { return Ok(None) };
        Ok(number_in(&layout, &value))
    }

    fn meter_of(&self, table: &Table) -> Option<MeterId> {
        let at = self.manifest.tables.iter().position(|t| t.name == table.name)?;
        self.manifest.direct_meter_of(TableId::from(at))
    }

    /// The cells of a direct meter. In a program that was running already, its entries tell which ones are in use.
    fn cells_of(&mut self, meter: MeterId) -> Result<&mut Cells> {
        if !self.cells.contains_key(&meter) {
            let mut cells = Cells::default();
            let table = self.manifest.metered_table(meter).map(|at| self.manifest.tables[at.index()].clone());
            if let (Some(table), false) = (table, self.is_fresh)
                && let Some(layout) = table.layout.clone()
            {
                let elements = self.entries_map(&table, &layout)?.entries()?;
                let used: BTreeSet<u32> =
                    elements.iter().filter_map(|(_, value)| number_in(&layout, value)).collect();
                cells.next = used.last().map_or(0, |last| last + 1);
                cells.free = (0..cells.next).filter(|cell| !used.contains(cell)).collect();
            }
            self.cells.insert(meter, cells);
        }
        Ok(self.cells.entry(meter).or_default())
    }

    fn meter_map(&mut self, meter: MeterId) -> Result<&bpf::Map> {
        let meter = &self.manifest.meters[meter.index()];
        let map = meter.map.clone().ok_or_else(|| Error::NotFound(format!("map of `{}`", meter.name)))?;
        self.map(&map)
    }
}

/// The number of the cell in an entry's value.
fn number_in(layout: &TableLayout, value: &[u8]) -> Option<u32> {
    let at = layout.meter_offset? as usize;
    value.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A cell with these rates and full buckets. Its buckets were last filled when the machine started, so that they stay full.
fn cell(rates: &[Rate]) -> Result<Vec<u8>> {
    let invalid = |text: &str| Error::from(DeviceError::InvalidArgument(text.to_string()));
    if rates.len() > RATES {
        return Err(invalid("a meter has two rates at most"));
    }
    let mut cell = vec![0; CELL];
    cell[4..8].copy_from_slice(&(rates.len() as u32).to_ne_bytes());
    for (rate, bucket) in rates.iter().zip(cell[8..].chunks_exact_mut(BUCKET)) {
        if rate.burst > MOST || rate.per_microsecond * ONE > 1e18 {
            return Err(invalid(
                "in the kernel a burst is less than 2^32, and a rate less than 2^27 units a microsecond",
            ));
        }
        let per_microsecond = (rate.per_microsecond * ONE) as u64;
        let burst = rate.burst << 32;
        let fills = burst.checked_div(per_microsecond).map_or(u64::MAX, |time| time + 1);
        let words = [per_microsecond, burst, burst, 0, fills];
        bucket.copy_from_slice(&words.map(u64::to_ne_bytes).concat());
    }
    Ok(cell)
}

fn read_rates(cell: &[u8]) -> Vec<Rate> {
    let rates = cell.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let buckets = cell.get(8..).unwrap_or_default().chunks_exact(BUCKET).take(rates as usize);
    let word = |bucket: &[u8], at: usize| {
        bucket.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
    };
    buckets.map(|b| Rate { per_microsecond: word(b, 0) as f64 / ONE, burst: word(b, 16) >> 32 }).collect()
}
