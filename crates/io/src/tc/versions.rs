//! How tables are written while packets read them: `struct version` in the emitter's prelude, the host's half.
//!
//! * Elements of a hash: the kernel reuses their memory at once, so `writes` changes before memory is written that was in use
//!   before. It is odd while an element is being replaced. Packets check it around each lookup.
//! * Default actions and arrays of tuples: a new version is written beside the old one, and then published as one word. A version
//!   that packets may still read is written again only after a grace period; there are [`VERSIONS`], so few writes wait.
//! * LPM tries need nothing: the kernel itself keeps their values for a grace period.
//!
//! A program has one writer at a time.

use std::sync::atomic::{Ordering, fence};

use abi::manifest::{Structure, Table, TableLayout, VERSIONS};

use super::TcProgram;
use crate::bpf::{self, Map};
use crate::{Error, Result};

const MAP: &str = "strait_versions";

/// What packets know of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// Changes with writes to the hash of entries.
    writes: u64,
    /// Where the default action stands in its array.
    pub fallback: u32,
    /// Where the tuples begin in their array.
    pub tuples: u32,
}

impl Version {
    fn read(bytes: &[u8]) -> Option<Version> {
        let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let writes = u64::from_ne_bytes(*bytes.first_chunk()?);
        Some(Version { writes, fallback: half(8)?, tuples: half(12)? })
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.writes.to_ne_bytes()[..], &self.fallback.to_ne_bytes(), &self.tuples.to_ne_bytes()].concat()
    }
}

/// What this process knows of the memory of a table's maps.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    /// An element of the hash may have been freed since `writes` last changed.
    freed: bool,
    fallback: Spare,
    tuples: Spare,
}

impl Reuse {
    /// Of a program that was just loaded (no packet has met it), or of one that was found.
    pub fn new(is_fresh: bool) -> Reuse {
        let clean = if is_fresh { VERSIONS - 1 } else { 0 };
        let spare = Spare { last: 0, clean };
        Reuse { freed: !is_fresh, fallback: spare.clone(), tuples: spare }
    }
}

/// The versions of an array that no packet reads.
#[derive(Clone, Debug)]
struct Spare {
    /// The version that this process published last.
    last: u32,
    /// How many after it can be written now.
    clean: u32,
}

impl Spare {
    /// Where to write the next version, `size` elements long. `current` is the one that counts now.
    fn next(&mut self, current: u32, size: u32, wait: impl FnOnce() -> Result<()>) -> Result<u32> {
        // Another process has published one in between: nothing is known of the rest.
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

/// Whether entries are in a hash, whose elements the kernel reuses at once.
fn is_hashed(layout: &TableLayout) -> bool {
    matches!(layout.structure, Structure::Hash | Structure::TupleSpace)
}

impl TcProgram {
    /// Adds an element; `false` if there is one with this key.
    pub(super) fn add_element(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        if is_hashed(layout) && self.reuse(table).freed {
            let version = self.version(table)?;
            self.publish(table, Version { writes: (version.writes + 2) & !1, ..version })?;
            self.reuse(table).freed = false;
        }
        self.entries_map(table, layout)?.insert(key, value)
    }

    /// Replaces an element.
    pub(super) fn replace_element(
        &mut self,
        table: &Table,
        layout: &TableLayout,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if !is_hashed(layout) {
            return self.entries_map(table, layout)?.set(key, value);
        }
        let version = self.version(table)?;
        let writes = (version.writes + 2) | 1;
        self.publish(table, Version { writes, ..version })?;
        let replaced = self.entries_map(table, layout)?.set(key, value);
        self.publish(table, Version { writes: writes + 1, ..version })?;
        replaced
    }

    /// Deletes an element; `false` if there was none.
    pub(super) fn delete_element(&mut self, table: &Table, layout: &TableLayout, key: &[u8]) -> Result<bool> {
        self.reuse(table).freed = true;
        self.entries_map(table, layout)?.delete(key)
    }

    /// Writes a default action beside the current one, and lets it count.
    pub(super) fn write_fallback(&mut self, table: &Table, map: &str, data: &[u8]) -> Result<()> {
        let version = self.version(table)?;
        let fallback = self.reuse(table).fallback.next(version.fallback, 1, bpf::grace_period)?;
        self.map(map)?.set(&fallback.to_ne_bytes(), data)?;
        self.publish(table, Version { fallback, ..version })
    }

    /// Writes the tuples beside the current ones, and lets them count.
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

    /// What packets know of a table now.
    pub(super) fn version(&mut self, table: &Table) -> Result<Version> {
        let number = self.number(table)?;
        let bytes = self.map(MAP)?.lookup(&number)?;
        bytes.and_then(|b| Version::read(&b)).ok_or_else(|| missing(table))
    }

    /// Tells packets. All that was written before is seen before this, and this before all that is written afterwards.
    fn publish(&mut self, table: &Table, version: Version) -> Result<()> {
        let number = self.number(table)?;
        fence(Ordering::SeqCst);
        self.map(MAP)?.set(&number, &version.bytes())?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn reuse(&mut self, table: &Table) -> &mut Reuse {
        let is_fresh = self.is_fresh;
        self.reuse.entry(table.name.clone()).or_insert_with(|| Reuse::new(is_fresh))
    }

    fn number(&self, table: &Table) -> Result<[u8; 4]> {
        let number = self.manifest.tables.iter().position(|t| t.name == table.name);
        number.map(|n| (n as u32).to_ne_bytes()).ok_or_else(|| missing(table))
    }
}

fn missing(table: &Table) -> Error {
    Error::NotFound(format!("version of table `{}`", table.name))
}
