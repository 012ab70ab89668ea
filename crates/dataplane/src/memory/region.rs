//! Memory regions that lookups read, announced to the host so that it can back them with huge pages; and the host's other services.

/// A contiguous range of memory that lookups read.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub length: usize,
    /// Whether the region has been written, so that its pages are already resident.
    pub written: bool,
}

/// A function that receives each new region. Huge pages make lookups faster: they save walks through the page tables.
pub type Advise = fn(Region);

/// What the memory needs from its host: this crate makes no system call and never sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Receives each new region.
    pub advise: Advise,
    /// Waits a moment for grace periods to end; the memory's lock is free meanwhile. The argument is the number of waits for the same
    /// write before. `false` means that there will be no more waits: the table is full.
    pub wait: fn(u32) -> bool,
    /// Returns a random number that nobody outside can predict. Hashes of tables that learn are keyed with such numbers.
    pub random: fn() -> u64,
}

impl Region {
    pub(super) fn of<T>(all: &[T], written: bool) -> Region {
        Region { start: all.as_ptr() as u64, length: size_of_val(all), written }
    }
}
