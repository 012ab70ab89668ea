//! Counts the sessions and bindings of subscribers once a second, and corrects what packets have counted ([`nat64::shares`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::Manifest;
use abi::id::TableId;
use dataplane::Device;
use dataplane::memory::Memory;
use io::ebpf::KernelProgram;
use nat64::Stateful;
use nat64::flows::Flows;
use nat64::shares::{Counter, Counts};

/// The interval between two counts.
const INTERVAL: Duration = Duration::from_secs(1);
/// Counting takes at most one part in this many of the time.
const PART: u32 = 20;

/// A running program whose tables can be counted.
pub trait Countable: Device {
    /// Calls `f` with the action data of each entry of a table to which packets add entries.
    fn each(&mut self, table: TableId, f: &mut dyn FnMut(&[u8])) -> anyhow::Result<()>;
}

impl Countable for KernelProgram {
    fn each(&mut self, table: TableId, f: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
        Ok(self.each_action_data(table, f)?)
    }
}

impl Countable for Arc<Memory> {
    fn each(&mut self, table: TableId, f: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
        self.each_action_data(table, f);
        Ok(())
    }
}

/// What counts, and when it does so next.
pub struct Counting {
    flows: Flows,
    counter: Counter,
    next: Instant,
}

impl Counting {
    /// Begins now; `None` if the program has no shares.
    pub fn new(stateful: &Stateful, manifest: &Manifest) -> Option<Self> {
        let flows = Flows::of(manifest)?;
        let counter = Counter::new(stateful, manifest, &flows)?;
        Some(Self { flows, counter, next: Instant::now() })
    }

    /// Counts, if it is time.
    pub fn turn(&mut self, program: &mut impl Countable) -> anyhow::Result<()> {
        let begun = Instant::now();
        if begun < self.next {
            return Ok(());
        }
        self.counter.begin(program)?;
        let mut counts = Counts::default();
        program.each(self.flows.sessions, &mut |data| self.counter.session(data, &mut counts))?;
        program.each(self.flows.bib4, &mut |data| self.counter.binding(data, &mut counts))?;
        self.counter.correct(counts, program)?;
        self.next = begun + (begun.elapsed() * PART).max(INTERVAL);
        Ok(())
    }
}
