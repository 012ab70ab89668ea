//! Writes tables while packets read them. `struct version` in the emitter's prelude defines the protocol; this module is the host's side.
//!
//! * Elements of a hash map: the kernel reuses their memory immediately. Therefore the host changes `writes` before it writes an element
//!   into reused memory, and the program checks `writes` around each lookup. `writes` is odd while an element is being replaced.
//! * Default actions and arrays of tuples: the host writes a new version beside the current one, and publishes it with one word. It
//!   overwrites a version that packets may still read only after a grace period. There are [`VERSIONS`] versions, so few writes wait.
//! * Elements of an array hold the action data twice. The host writes the copy that does not count, and then the word that says which one does.
//! * LPM tries: the kernel keeps their values for a grace period, so no protocol is needed.
//!
//! A program has one writer at a time.

use std::sync::atomic::{Ordering, fence};

use abi::manifest::{Structure, Table, TableLayout, VERSIONS};

use super::{KernelProgram, array};
use crate::bpf::{self, Map};
use crate::{Error, Result};

/// The published version of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// The sequence number of writes to the hash map of entries.
    writes: u64,
    /// The index of the default action in its array.
    pub default_action: u32,
    /// The index of the first tuple in its array.
    pub tuples: u32,
}

impl Version {
    /// Decodes a value of the map; `None` if it is too short.
    fn read(bytes: &[u8]) -> Option<Version> {
        let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let writes = u64::from_ne_bytes(*bytes.first_chunk()?);
        Some(Version { writes, default_action: half(8)?, tuples: half(12)? })
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.writes.to_ne_bytes()[..], &self.default_action.to_ne_bytes(), &self.tuples.to_ne_bytes()]
            .concat()
    }
}

/// The memory of a table's maps that can be reused without a grace period, as far as this process knows.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    /// Whether an element of the hash map may have been freed since `writes` last changed.
    freed: bool,
    default_action: Spare,
    tuples: Spare,
}

impl Reuse {
    /// The state for a program that was just loaded (`is_fresh`), which no packet has passed yet, or for a program that was running already.
    pub fn new(is_fresh: bool) -> Reuse {
        let clean = if is_fresh { VERSIONS - 1 } else { 0 };
        let spare = Spare { last: 0, clean };
        Reuse { freed: !is_fresh, default_action: spare.clone(), tuples: spare }
    }
}

/// The versions of an array that no packet can read.
#[derive(Clone, Debug)]
struct Spare {
    /// The index of the version that this process published last.
    last: u32,
    /// The number of versions after it that can be written without a grace period.
    clean: u32,
}

impl Spare {
    /// Returns the index where the next version of `size` elements must be written. `current` is the index of the published version. Calls
    /// `wait` if a grace period must end first.
    fn next(&mut self, current: u32, size: u32, wait: impl FnOnce() -> Result<()>) -> Result<u32> {
        // Another process has published a version in the meantime, so packets may read any of the others.
        if self.last != current {
            self.clean = 0;
        }
        if self.clean == 0 {
            wait()?;
            self.clean = VERSIONS - 1;
        }
        self.clean -= 1;
        self.last = (current / size + 1) % VERSIONS * size;
        Ok(self.last)
    }
}

/// Whether the entries are in a hash map, whose elements the kernel reuses immediately.
fn is_hashed(layout: &TableLayout) -> bool {
    matches!(layout.structure, Structure::Hash | Structure::TupleSpace)
}

impl KernelProgram {
    /// Adds an element. Returns false if the key exists.
    pub(super) fn add_element(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        if layout.structure == Structure::Array {
            let map = self.entries_map(table, layout)?;
            return match array::read(map, key)? {
                Some(_) => Ok(false),
                None => array::write(map, key, Some(value)).map(|existed| !existed),
            };
        }
        if is_hashed(layout) && self.reuse(table).freed {
            let version = self.version(table)?;
            self.publish(table, Version { writes: (version.writes + 2) & !1, ..version })?;
            self.reuse(table).freed = false;
        }
        self.entries_map(table, layout)?.insert(key, value)
    }

    /// Replaces the value of an element.
    pub(super) fn replace_element(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if layout.structure == Structure::Array {
            return array::write(self.entries_map(table, layout)?, key, Some(value)).map(|_| ());
        }
        if !is_hashed(layout) && layout.structure != Structure::Flow {
            return self.entries_map(table, layout)?.set(key, value);
        }
        let version = self.version(table)?;
        let writes = (version.writes + 2) | 1;
        self.publish(table, Version { writes, ..version })?;
        let replaced = self.entries_map(table, layout)?.set(key, value);
        self.publish(table, Version { writes: writes + 1, ..version })?;
        replaced
    }

    /// Deletes an element. Returns false if the key does not exist.
    pub(super) fn delete_element(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<bool> {
        if layout.structure == Structure::Array {
            return array::write(self.entries_map(table, layout)?, key, None);
        }
        self.reuse(table).freed = true;
        self.entries_map(table, layout)?.delete(key)
    }

    /// Writes a default action beside the current one, and publishes it.
    pub(super) fn write_fallback(&mut self, table: &Table, map: &str, data: &[u8]) -> Result<()> {
        let version = self.version(table)?;
        let default_action =
            self.reuse(table).default_action.next(version.default_action, 1, bpf::grace_period)?;
        self.map(map)?.set(&default_action.to_ne_bytes(), data)?;
        self.publish(table, Version { default_action, ..version })
    }

    /// Writes an array of tuples beside the current one, and publishes it. `size` is the number of elements of a version.
    pub(super) fn write_tuples(
        &mut self,
        table: &Table,
        array: &str,
        size: u32,
        write: impl FnOnce(&Map, u32) -> Result<()>,
    ) -> Result<()> {
        let version = self.version(table)?;
        let tuples = self.reuse(table).tuples.next(version.tuples, size, bpf::grace_period)?;
        write(self.map(array)?, tuples)?;
        self.publish(table, Version { tuples, ..version })
    }

    /// Reads the published version of a table.
    pub(super) fn version(&mut self, table: &Table) -> Result<Version> {
        let number = self.number(table)?;
        let bytes = self.map(&self.maps_of()?.versions.clone())?.lookup(&number)?;
        bytes.and_then(|b| Version::read(&b)).ok_or_else(|| missing(table))
    }

    /// Publishes a version. The fences order it after all previous writes and before all later ones.
    fn publish(&mut self, table: &Table, version: Version) -> Result<()> {
        let number = self.number(table)?;
        fence(Ordering::SeqCst);
        self.map(&self.maps_of()?.versions.clone())?.set(&number, &version.bytes())?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The reusable memory of a table's maps.
    fn reuse(&mut self, table: &Table) -> &mut Reuse {
        let is_fresh = self.is_fresh;
        self.reuse.entry(table.name.clone()).or_insert_with(|| Reuse::new(is_fresh))
    }

    /// The index of a table's version in the map: its position in the manifest.
    fn number(&self, table: &Table) -> Result<[u8; 4]> {
        let number = self.manifest.tables.iter().position(|t| t.name == table.name);
        number.map(|n| (n as u32).to_ne_bytes()).ok_or_else(|| missing(table))
    }
}

fn missing(table: &Table) -> Error {
    Error::NotFound(format!("version of table `{}`", table.name))
}
