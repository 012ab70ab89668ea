//! Tables that learn: packets add entries to them while the host writes.
//!
//! The map of entries has the number of a row for each key, and an array has the rows. A row is written before its number is, and does not
//! change while it is an entry, except for its timer and its counter. Packets take free rows from a queue. Only the host removes entries. It
//! puts their rows back into the queue after a grace period, when no packet can still read them. So a packet that has found the element of another
//! key, because the kernel has reused its memory, reads a whole row, and sees by the row's key that it is another's.
//!
//! A row has the number of its cell in the table's direct meter. All rows have different cells, and the cell of a free row has the rates of new
//! entries and full buckets, so a packet that takes the row has nothing to prepare. If an entry gets another row, the rows exchange their cells.
//!
//! The rows are mapped into this process. Timers are read and stopped there, without system calls. After a process has ended without removing
//! its program, the rows that awaited their grace period at that time remain unused.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use abi::Entry;
use abi::id::TableId;
use abi::layout::PackedKey;
use abi::manifest::{LearningMaps, Structure, Table, TableLayout};
use abi::native::flow::{PROFILE_BITS, TIMED};
use dataplane::device::DeviceError;

use super::KernelProgram;
use super::table::{Listed, exists, misfit, no_entry, read_entry};
use crate::bpf::{self, Map};
use crate::port::memory::Mapping;
use crate::{Result, sys};

/// The bit of a timer's word that says that the row is an entry.
const ENTRY: u64 = 1 << 62;

/// The word of the timer of a row that awaits its grace period. A process that is killed then leaves such rows ([`KernelProgram::reclaim`]).
const RETIRED: u64 = 1 << 61;

/// What is known of an entry of a table that learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Learnt {
    /// The entry.
    pub entry: Entry,
    /// The number of its expire profile, and when its timer was started, by the kernel's monotonic clock in microseconds; `None` if the host has added it.
    pub timer: Option<(u8, u64)>,
    /// The value of its direct register.
    pub register: Option<u64>,
}

/// The map of a clock that tests set.
const CLOCK: &str = "strait_clock";

/// The host's part of a table that learns.
#[derive(Debug)]
pub(super) struct Learning {
    rows: Mapping,
    /// The distance between rows in bytes.
    stride: usize,
    /// The rows that await their grace period.
    retired: Vec<Retired>,
    /// The row where the last search for expired entries ended.
    swept: u32,
}

/// A row that no packet finds any more.
#[derive(Clone, Copy, Debug)]
struct Retired {
    row: u32,
    /// The cell that the row gets after its grace period, because another row has its own one now. Until then packets that found the row may use that.
    cell: Option<u32>,
}

impl Learning {
    /// The number of a row's cell in the table's direct meter.
    fn cell(&self, row: u32, at: u32) -> u32 {
        let bytes = self.bytes(row, at, 4);
        bytes.first_chunk().map_or(0, |cell| u32::from_ne_bytes(*cell))
    }

    fn set_cell(&self, row: u32, at: u32, cell: u32) {
        self.rows.copy_in(self.at(row) + at as usize, &cell.to_ne_bytes());
    }

    fn at(&self, row: u32) -> usize {
        row as usize * self.stride
    }

    /// Whether a row is an entry.
    fn is_entry(&self, row: u32) -> bool {
        self.timer(row).load(Acquire) & (ENTRY | TIMED) != 0
    }

    /// The word with the timer of a row.
    fn timer(&self, row: u32) -> &std::sync::atomic::AtomicU64 {
        self.rows.long(self.at(row))
    }

    fn bytes(&self, row: u32, from: u32, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        self.rows.copy_out(self.at(row) + from as usize, &mut bytes);
        bytes
    }
}

/// The maps of a table that learns.
fn maps_of(layout: &TableLayout) -> Option<&LearningMaps> {
    layout.learning.as_ref().filter(|_| layout.structure == Structure::Flow)
}

impl KernelProgram {
    /// Puts all rows of the tables that learn into their queues, each with a cell of its own. The program was just loaded.
    /// Those of `shared` maps are filled, because another program has them.
    pub(super) fn fill_free_rows(&mut self, shared: &[String]) -> Result<()> {
        for table in self.manifest.tables.clone() {
            let Some(layout) = &table.layout else { continue };
            if let Some(maps) = maps_of(layout).filter(|maps| !shared.contains(&maps.free)) {
                if let Some(at) = layout.meter_offset {
                    let learning = self.learning(&table, maps)?;
                    (1..=maps.count).for_each(|row| learning.set_cell(row, at, row));
                }
                let queue = self.map(&maps.free)?;
                (1..=maps.count).try_for_each(|row| queue.push(&row.to_ne_bytes()))?;
            }
        }
        Ok(())
    }

    /// PNA: sets whether a port is a port to the host. By default it is a port to the network.
    pub(super) fn set_host_port(&mut self, port: u32, host: bool) -> Result<()> {
        let map = self.host_ports()?;
        match host {
            true => map.set(&port.to_ne_bytes(), &1u32.to_ne_bytes()),
            false => map.delete(&port.to_ne_bytes()).map(drop),
        }
    }

    /// PNA: the ports to the host.
    pub(super) fn all_host_ports(&mut self) -> Result<Vec<u32>> {
        let keys = self.host_ports()?.keys()?;
        let port = |key: &Vec<u8>| Some(u32::from_ne_bytes(*key.first_chunk()?));
        let mut ports: Vec<u32> = keys.iter().filter_map(port).collect();
        ports.sort_unstable();
        Ok(ports)
    }

    fn host_ports(&mut self) -> Result<&Map> {
        let name = self.maps_of()?.host_ports.clone();
        let none = || DeviceError::Unimplemented("ports to the host, except in programs for PNA".to_string());
        self.map(&name.ok_or_else(none)?)
    }

    /// PNA: sets the expire time of a profile in microseconds; `None` means that its entries never expire.
    pub(super) fn set_expire_time(&mut self, profile: u32, micros: Option<u64>) {
        self.expire_times.resize(256, u64::MAX);
        if let Some(time) = self.expire_times.get_mut(profile as usize) {
            *time = micros.unwrap_or(u64::MAX);
        }
    }

    /// PNA: the expire time of a profile.
    pub(super) fn expire_time(&self, profile: u32) -> Option<u64> {
        self.expire_times.get(profile as usize).copied().filter(|time| *time != u64::MAX)
    }

    /// The kernel's monotonic clock in microseconds.
    pub fn now() -> u64 {
        sys::monotonic() / 1000
    }

    /// The time that packets see, in microseconds.
    pub(super) fn time(&self) -> u64 {
        self.clock.unwrap_or_else(Self::now)
    }

    /// Sets the time that packets see, in microseconds, and removes the entries whose time has passed. Only a program that was compiled for tests,
    /// with `STRAIT_TEST_CLOCK`, has such a clock.
    pub fn set_clock(&mut self, micros: u64) -> Result<()> {
        self.map(CLOCK)?.set(&0u32.to_ne_bytes(), &micros.to_ne_bytes())?;
        self.clock = Some(micros);
        self.timeouts.exact = true;
        // A search ends early if many rows await their grace period.
        while self.expire(micros, 1.0)? > 0 {}
        Ok(())
    }

    /// Removes entries that packets added and whose time has passed. Each table is searched from where the last search ended: `share` of its
    /// rows. Returns the number of removed entries. `now` is the kernel's monotonic clock in microseconds.
    pub fn expire(&mut self, now: u64, share: f64) -> Result<u64> {
        self.expire_and_tell(now, share, None)
    }

    /// Like [`KernelProgram::expire`]. `told` is called with each entry that was removed.
    pub fn expire_and_tell(
        &mut self,
        now: u64,
        share: f64,
        mut told: Option<&mut dyn FnMut(TableId, Learnt)>,
    ) -> Result<u64> {
        let mut removed = 0;
        for (number, table) in self.manifest.tables.clone().into_iter().enumerate() {
            if let Some(layout) = table.layout.as_ref().filter(|l| table.ages && maps_of(l).is_some()) {
                for row in self.expired(&table, layout, now, share)? {
                    let learnt = told.is_some().then(|| self.learnt_at(&table, layout, row)).transpose()?;
                    let maps = maps_of(layout).ok_or_else(|| misfit(&table))?.clone();
                    let key = self.learning(&table, &maps)?.bytes(row, maps.key_offset, layout.key_size);
                    if self.unlearn(&table, layout, &key, row)? {
                        removed += 1;
                        if let (Some(told), Some(Some(learnt))) = (&mut told, learnt) {
                            told(TableId(number as u32), learnt);
                        }
                    }
                }
                self.free_retired(&table, layout)?;
            }
        }
        Ok(removed)
    }

    /// Stops the timers of entries whose time has passed, and returns their rows.
    fn expired(&mut self, table: &Table, layout: &TableLayout, now: u64, share: f64) -> Result<Vec<u32>> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let mut expired = Vec::new();
        let times = std::mem::take(&mut self.expire_times);
        let learning = self.learning(table, &maps)?;
        let spare = (maps.count / 8) as usize;
        for _ in 0..(f64::from(maps.count) * share).ceil() as u64 {
            if learning.retired.len() + expired.len() >= spare.max(1) {
                break;
            }
            learning.swept = learning.swept % maps.count + 1;
            let timer = learning.timer(learning.swept).load(Acquire);
            let since = (timer & !(TIMED | ENTRY)) >> PROFILE_BITS;
            let time = times.get(timer as u8 as usize).copied().unwrap_or(u64::MAX);
            // A packet that restarts the timer at this moment keeps the entry.
            if timer & TIMED != 0
                && since.saturating_add(time) <= now
                && learning.timer(learning.swept).compare_exchange(timer, ENTRY, AcqRel, Relaxed).is_ok()
            {
                expired.push(learning.swept);
            }
        }
        self.expire_times = times;
        Ok(expired)
    }

    /// Deletes the element of a key if it has this row. Returns whether it had.
    fn unlearn(&mut self, table: &Table, layout: &TableLayout, key: &[u8], row: u32) -> Result<bool> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        // Only the host deletes elements, so an element with this row remains until this deletion.
        if self.row_of(table, layout, key)? != Some(row) {
            return Ok(false);
        }
        self.entries_map(table, layout)?.delete(key)?;
        self.retire(table, &maps, Retired { row, cell: None })?;
        Ok(true)
    }

    fn retire(&mut self, table: &Table, maps: &LearningMaps, retired: Retired) -> Result<()> {
        let learning = self.learning(table, maps)?;
        learning.timer(retired.row).store(RETIRED, Release);
        learning.retired.push(retired);
        Ok(())
    }

    /// Puts the rows that await their grace period back into the queue, after the grace period.
    fn free_retired(&mut self, table: &Table, layout: &TableLayout) -> Result<()> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let learning = self.learning(table, &maps)?;
        if learning.retired.is_empty() {
            return Ok(());
        }
        bpf::grace_period()?;
        let retired = std::mem::take(&mut learning.retired);
        if let Some(at) = layout.meter_offset {
            let cell = |r: &Retired| {
                r.cell.iter().for_each(|cell| learning.set_cell(r.row, at, *cell));
                learning.cell(r.row, at)
            };
            let cells: Vec<u32> = retired.iter().map(cell).collect();
            self.renew_cells(table, &cells)?;
        }
        for Retired { row, .. } in retired {
            // A packet may have written the timer of a row after its removal. Whoever is killed between these two lines loses one row.
            self.learning(table, &maps)?.timer(row).store(0, Release);
            self.map(&maps.free)?.push(&row.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Puts the rows back into their queues that a process has left which was killed while it removed entries. No other process may remove entries meanwhile.
    /// Returns their number.
    pub fn reclaim(&mut self) -> Result<u64> {
        let mut found = 0;
        for table in self.manifest.tables.clone() {
            let Some(layout) = table.layout.as_ref().filter(|layout| maps_of(layout).is_some()) else {
                continue;
            };
            let maps = maps_of(layout).ok_or_else(|| misfit(&table))?.clone();
            let mut lost = Vec::new();
            for row in 1..=maps.count {
                if self.is_lost(&table, layout, row)? {
                    lost.push(row);
                }
            }
            if lost.is_empty() {
                continue;
            }
            // A packet that had found an entry before it was removed may have written its timer.
            bpf::grace_period()?;
            for row in lost {
                if self.is_lost(&table, layout, row)? {
                    self.retire(&table, &maps, Retired { row, cell: None })?;
                    found += 1;
                }
            }
            self.free_retired(&table, layout)?;
        }
        Ok(found)
    }

    /// Whether a row was an entry, and no key leads to it.
    fn is_lost(&mut self, table: &Table, layout: &TableLayout, row: u32) -> Result<bool> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let learning = self.learning(table, &maps)?;
        if learning.retired.iter().any(|retired| retired.row == row) {
            return Ok(false);
        }
        match learning.timer(row).load(Acquire) {
            0 => Ok(false),
            RETIRED => Ok(true),
            _ => {
                let key = learning.bytes(row, maps.key_offset, layout.key_size);
                Ok(self.row_of(table, layout, &key)? != Some(row))
            }
        }
    }

    /// Puts all rows that await their grace period back into their queues.
    pub fn free_all_retired(&mut self) -> Result<()> {
        for table in self.manifest.tables.clone() {
            if let Some(layout) = table.layout.as_ref().filter(|layout| maps_of(layout).is_some()) {
                self.free_retired(&table, layout)?;
            }
        }
        Ok(())
    }

    /// Calls `f` with the action data of each entry of a table that learns, as the program has it: for counting millions of them.
    pub fn each_action_data(&mut self, id: TableId, mut f: impl FnMut(&[u8])) -> Result<()> {
        let table = self.manifest.tables[id.index()].clone();
        let layout = table.layout.clone().ok_or_else(|| misfit(&table))?;
        let maps = maps_of(&layout).ok_or_else(|| misfit(&table))?.clone();
        let learning = self.learning(&table, &maps)?;
        let mut data = vec![0; layout.data_size as usize];
        for row in 1..=maps.count {
            if learning.is_entry(row) {
                learning.rows.copy_out(learning.at(row) + layout.data_offset as usize, &mut data);
                f(&data);
            }
        }
        Ok(())
    }

    /// Calls `f` with each entry of a table that learns, without a system call for each. An entry that is replaced meanwhile may come twice.
    pub fn each_learnt(&mut self, id: TableId, mut f: impl FnMut(Learnt)) -> Result<()> {
        let table = self.manifest.tables[id.index()].clone();
        let layout = table.layout.clone().ok_or_else(|| misfit(&table))?;
        let maps = maps_of(&layout).ok_or_else(|| misfit(&table))?.clone();
        for row in 1..=maps.count {
            if let Some(learnt) = self.learnt_at(&table, &layout, row)? {
                f(learnt);
            }
        }
        Ok(())
    }

    /// What is in a row, if it is an entry. A row that expires at this moment is one.
    fn learnt_at(&mut self, table: &Table, layout: &TableLayout, row: u32) -> Result<Option<Learnt>> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let learning = self.learning(table, &maps)?;
        if !learning.is_entry(row) {
            return Ok(None);
        }
        let timer = learning.timer(row).load(Acquire);
        let value = learning.bytes(row, 0, layout.value_size);
        let key = learning.bytes(row, maps.key_offset, layout.key_size);
        let packed = PackedKey {
            mask: vec![0xff; key.len()],
            prefix_len: layout.key_size * 8,
            value: key,
            ..PackedKey::default()
        };
        let data = value.get(layout.data_offset as usize..).unwrap_or_default();
        let Some((entry, _)) = read_entry(table, layout, &packed, &value, data) else { return Ok(None) };
        Ok(Some(Learnt {
            entry,
            timer: (timer & TIMED != 0).then_some((timer as u8, (timer & !(TIMED | ENTRY)) >> PROFILE_BITS)),
            register: layout.register.and_then(|place| place.read(data)),
        }))
    }

    /// Writes a free row, and returns its number.
    fn new_row(&mut self, table: &Table, layout: &TableLayout, key: &[u8], data: &[u8]) -> Result<u32> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let mut popped = self.map(&maps.free)?.pop()?;
        if popped.is_none() {
            self.free_retired(table, layout)?;
            popped = self.map(&maps.free)?.pop()?;
        }
        let full = || DeviceError::ResourceExhausted(format!("table `{}` is full", table.name));
        let row = popped.and_then(|b| Some(u32::from_ne_bytes(*b.first_chunk()?))).ok_or_else(full)?;
        let learning = self.learning(table, &maps)?;
        let at = learning.at(row);
        if let Some(counter) = layout.counter_offset {
            learning.rows.copy_in(at + counter as usize, &[0; 16]);
        }
        learning.rows.copy_in(at + maps.key_offset as usize, key);
        learning.rows.copy_in(at + layout.data_offset as usize, data);
        Ok(row)
    }

    /// Adds an entry of the host. It never expires.
    pub(super) fn learn(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        data: &[u8],
    ) -> Result<()> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let row = self.new_row(table, layout, key, data)?;
        let inserted = self.entries_map(table, layout)?.insert(key, &u64::from(row).to_ne_bytes());
        match inserted {
            Ok(true) => {
                self.learning(table, &maps)?.timer(row).store(ENTRY, Release);
                Ok(())
            }
            other => {
                self.map(&maps.free)?.push(&row.to_ne_bytes())?;
                other.and_then(|_| Err(exists(table)))
            }
        }
    }

    /// Adds an entry as a packet would have added it at some time. Returns whether there was none of its key.
    pub fn teach(&mut self, id: TableId, learnt: &Learnt) -> Result<bool> {
        let table = self.manifest.tables[id.index()].clone();
        let layout = table.layout.clone().ok_or_else(|| misfit(&table))?;
        let maps = maps_of(&layout).ok_or_else(|| misfit(&table))?.clone();
        let key = table.pack_key(&layout, &learnt.entry.matches).ok_or_else(|| misfit(&table))?.value;
        let mut data = self.pack_action(&table, &learnt.entry.action)?;
        if let (Some(place), Some(register)) = (layout.register, learnt.register) {
            place.write(&mut data, register).ok_or_else(|| misfit(&table))?;
        }
        if self.row_of(&table, &layout, &key)?.is_some() {
            return Ok(false);
        }
        let row = self.new_row(&table, &layout, &key, &data)?;
        let inserted = self.entries_map(&table, &layout)?.insert(&key, &u64::from(row).to_ne_bytes())?;
        if !inserted {
            self.map(&maps.free)?.push(&row.to_ne_bytes())?;
            return Ok(false);
        }
        let timed =
            learnt.timer.map_or(0, |(profile, since)| TIMED | since << PROFILE_BITS | u64::from(profile));
        self.learning(&table, &maps)?.timer(row).store(ENTRY | timed, Release);
        Ok(true)
    }

    /// Replaces the action data of an entry. It keeps its counter, its meter and its timer.
    pub(super) fn relearn(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        data: &[u8],
    ) -> Result<()> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let old = self.row_of(table, layout, key)?.ok_or_else(|| no_entry(table))?;
        let new = self.new_row(table, layout, key, data)?;
        let learning = self.learning(table, &maps)?;
        if let Some(counter) = layout.counter_offset {
            let count = learning.bytes(old, counter, 16);
            learning.rows.copy_in(learning.at(new) + counter as usize, &count);
        }
        let exchanged = layout.meter_offset.map(|at| {
            let cells = (learning.cell(old, at), learning.cell(new, at));
            learning.set_cell(new, at, cells.0);
            cells.1
        });
        let timer = learning.timer(old).load(Acquire);
        learning.timer(new).store(timer, Release);
        self.replace_element(table, layout, key, &u64::from(new).to_ne_bytes())?;
        self.retire(table, &maps, Retired { row: old, cell: exchanged })
    }

    /// Removes an entry. Returns false if there is none.
    pub(super) fn forget(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<bool> {
        let Some(row) = self.row_of(table, layout, key)? else { return Ok(false) };
        let removed = self.unlearn(table, layout, key, row)?;
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        if self.learning(table, &maps)?.retired.len() >= (maps.count / 8) as usize {
            self.free_retired(table, layout)?;
        }
        Ok(removed)
    }

    /// All entries, by their keys.
    pub(super) fn learnt(&mut self, table: &Table, layout: &TableLayout) -> Result<Vec<Listed>> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let mut listed = Vec::new();
        for row in 1..=maps.count {
            let learning = self.learning(table, &maps)?;
            if learning.timer(row).load(Acquire) & ENTRY == 0 {
                continue;
            }
            let value = learning.bytes(row, 0, layout.value_size);
            let key = learning.bytes(row, maps.key_offset, layout.key_size);
            if self.row_of(table, layout, &key)? != Some(row) {
                continue;
            }
            let packed = PackedKey {
                mask: vec![0xff; key.len()],
                prefix_len: layout.key_size * 8,
                value: key,
                ..PackedKey::default()
            };
            let action = value.get(layout.data_offset as usize..).unwrap_or_default();
            listed.extend(
                read_entry(table, layout, &packed, &value, action).map(|l| (packed.value.clone(), l)),
            );
        }
        listed.sort_by(|a: &(Vec<u8>, Listed), b| a.0.cmp(&b.0));
        Ok(listed.into_iter().map(|(_, listed)| listed).collect())
    }

    /// The value in the row of a key.
    pub(super) fn value_of_row(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let Some(row) = self.row_of(table, layout, key)? else { return Ok(None) };
        Ok(Some(self.learning(table, &maps)?.bytes(row, 0, layout.value_size)))
    }

    /// Sets the direct counter of a key's entry. Packets that count meanwhile may be lost to the count.
    pub(super) fn set_learnt_count(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        count: &[u8],
    ) -> Result<()> {
        let maps = maps_of(layout).ok_or_else(|| misfit(table))?.clone();
        let row = self.row_of(table, layout, key)?.ok_or_else(|| no_entry(table))?;
        let learning = self.learning(table, &maps)?;
        let at = layout.counter_offset.ok_or_else(|| misfit(table))? as usize;
        learning.rows.copy_in(learning.at(row) + at, count);
        Ok(())
    }

    /// The row of a key.
    fn row_of(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<Option<u32>> {
        let found = self.entries_map(table, layout)?.lookup(key)?;
        Ok(found.and_then(|b| Some(u64::from_ne_bytes(*b.first_chunk()?) as u32)))
    }

    /// The host's part of a table, which is made when it is first needed.
    fn learning(&mut self, table: &Table, maps: &LearningMaps) -> Result<&mut Learning> {
        if !self.learning.contains_key(&table.name) {
            let map = self.map(&maps.rows)?;
            let stride = map.value_size().next_multiple_of(8);
            let rows = map.mapping(stride)?;
            let learning = Learning { rows, stride, retired: Vec::new(), swept: 0 };
            self.learning.insert(table.name.clone(), learning);
        }
        self.learning.get_mut(&table.name).ok_or_else(|| misfit(table))
    }
}
