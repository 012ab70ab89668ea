//! Benchmarks from memory to memory: no namespace and no link. They measure what a program and its tables cost on native, and need no root
//! for it; [`sessions`] measures tc too.
//!
//! Each gives a function its figures one after another, as they are measured, and returns all of them. Figures can be shown as lines, and
//! serialized. This file has what the benchmarks share: it loads a bundled program, and moves packets from memory through it to memory.

pub mod pipeline;

pub mod lpm;
pub mod tables;

pub mod learn;

pub mod floods;
pub mod nat44_sessions;
pub mod sessions;

use std::fmt;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use abi::id::{ActionId, TableId};
use abi::manifest::Manifest;
use abi::{ActionCall, Bits, Entry, MatchValue};
use anyhow::Context;
use dataplane::Memory;
use dataplane::port::{Inbox, Offload, Port};
use io::lookup::{Timing, cycles};
use io::native::{Batch, NativeProgram, Object};
use io::port::mem::{Mem, Packets};
use serde::Serialize;

use crate::report::lines::{Lines, SMALLEST_AT_10G};

/// The number of measurements. The best one counts.
const TURNS: usize = 5;
/// The size in bytes of the smallest packet, without its frame check sequence.
const SMALLEST: usize = 60;

/// The cost of a packet or a lookup.
#[derive(Clone, Copy, Debug, Serialize)]
struct Cost {
    /// The time of one in nanoseconds.
    nanoseconds: f64,
    /// The cost in cycles of the time-stamp counter.
    cycles: f64,
    /// Millions in a second.
    million_per_second: f64,
}

impl From<Timing> for Cost {
    fn from(t: Timing) -> Cost {
        Cost { nanoseconds: t.nanoseconds, cycles: t.cycles, million_per_second: 1e3 / t.nanoseconds }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8.1} ns {:>8.1} cycles {:>8.1} M/s",
            self.nanoseconds, self.cycles, self.million_per_second
        )
    }
}

/// Compiles a bundled program to machine code.
fn compiled(name: &str, text: &str) -> anyhow::Result<(Object, Manifest)> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, name, text, &[], &p4::Embedded, &mut diags);
    let program = program.with_context(|| format!("{name} is not accepted"))?;
    let output = emit::native(&program).map_err(|limits| anyhow::anyhow!("{limits:?}"))?;
    Ok((Object::make(&output.c)?, output.manifest))
}

/// The entries of one table and one action.
struct Rows<'m> {
    memory: &'m Memory,
    table: TableId,
    action: ActionId,
}

impl<'m> Rows<'m> {
    /// Finds a table and an action by their full names.
    fn of(memory: &'m Memory, table: &str, action: &str) -> anyhow::Result<Rows<'m>> {
        let manifest = memory.manifest();
        let id = manifest.table_id(table).with_context(|| format!("there is no table {table}"))?;
        let action = manifest.tables[id.index()].action_id(action);
        Ok(Rows { memory, table: id, action: action.with_context(|| format!("{table} has no such action"))? })
    }

    /// The number of the table.
    fn table(&self) -> TableId {
        self.table
    }

    /// An entry. Each argument is given as width and value.
    fn entry(&self, matches: Vec<MatchValue>, priority: i32, args: &[(u32, u128)]) -> Entry {
        let args = args.iter().map(|(width, value)| Bits::new(*width, *value)).collect();
        Entry { matches, priority, action: ActionCall { action: self.action, args } }
    }

    /// Adds an entry that matches values of these widths exactly.
    fn add(&self, keys: &[(u32, u128)], args: &[(u32, u128)]) -> anyhow::Result<()> {
        let exact = |(width, value): &(u32, u128)| MatchValue::Exact(Bits::new(*width, *value));
        let entry = self.entry(keys.iter().map(exact).collect(), 0, args);
        Ok(self.memory.insert(self.table, &entry)?)
    }
}

/// A burst that is received from a port.
struct Filling<'b>(&'b mut Batch);

impl Inbox for Filling<'_> {
    fn room(&mut self) -> Option<&mut [u8]> {
        self.0.room()
    }

    fn take(&mut self, length: usize, offload: Option<Offload>) {
        self.0.add(0, length, offload);
    }
}

/// The number of packets in a worker's burst.
const BURST: usize = 64;

/// Measures workers, each on a processor of its own and with a queue of its own. They move packets from a port in memory (port 0 of the
/// program) to another one, and every packet must leave. The cost is the time per packet of all workers together.
fn carry(program: &NativeProgram, packets: &Arc<Packets>, workers: usize) -> anyhow::Result<Cost> {
    let rounds = packets.len().max(1 << 20) / BURST;
    let (begin, end) = (Barrier::new(workers + 1), Barrier::new(workers + 1));
    std::thread::scope(|scope| {
        let work = |number: usize| {
            let (packets, begin, end) = (packets.clone(), &begin, &end);
            scope.spawn(move || {
                let done = queue(program, packets, number, workers, rounds, begin, end);
                done.map_err(|error| error.to_string())
            })
        };
        let threads: Vec<_> = (0..workers).map(work).collect();
        let sent = (rounds * BURST * workers) as f64;
        let mut best = Cost { nanoseconds: f64::INFINITY, cycles: 0.0, million_per_second: 0.0 };
        for _ in 0..TURNS {
            begin.wait();
            let (begun, from) = (Instant::now(), cycles());
            end.wait();
            let nanoseconds = begun.elapsed().as_secs_f64() * 1e9 / sent;
            if nanoseconds < best.nanoseconds {
                let cycles = (cycles() - from) as f64 / sent;
                best = Cost { nanoseconds, cycles, million_per_second: 1e3 / nanoseconds };
            }
        }
        for thread in threads {
            let done = thread.join().unwrap_or_else(|_| Err("a worker panicked".to_string()));
            done.map_err(anyhow::Error::msg)?;
        }
        Ok(best)
    })
}

/// The measurements of one worker.
fn queue(
    program: &NativeProgram,
    packets: Arc<Packets>,
    number: usize,
    workers: usize,
    rounds: usize,
    begin: &Barrier,
    end: &Barrier,
) -> anyhow::Result<()> {
    let processors = io::port::processors();
    let pinned = io::port::pin(processors[number % processors.len()]);
    let first = packets.len() * number / workers;
    let mut port = Mem::new(packets, first);
    let mut worker = program.memory().worker();
    let mut batch = Batch::new(BURST, 128, 0);
    let mut turn = || {
        for _ in 0..rounds {
            batch.clear();
            port.receive(&mut Filling(&mut batch))?;
            program.run(&mut worker, &mut batch);
            for (_, bytes, offload) in batch.leaving() {
                port.send(bytes, offload)?;
            }
        }
        anyhow::Ok(())
    };
    let mut done = pinned.map_err(anyhow::Error::from);
    for _ in 0..TURNS {
        // A worker that failed must still take part in the others' barriers.
        begin.wait();
        done = done.and_then(|()| turn());
        end.wait();
    }
    done?;
    let sent = port.counts().sent.packets as usize;
    anyhow::ensure!(sent == TURNS * rounds * BURST, "only {sent} packets left");
    Ok(())
}

/// The cost with each number of workers.
#[derive(Clone, Copy, Debug, Serialize)]
struct Scaled {
    /// The number of workers.
    workers: usize,
    #[serde(flatten)]
    /// The cost of a packet, of all workers together.
    cost: Cost,
    /// The rate divided by that of the first number of workers.
    scaling: f64,
}

/// Measures each number of workers.
fn scaled(program: &NativeProgram, packets: Packets, workers: &[usize]) -> anyhow::Result<Vec<Scaled>> {
    let packets = Arc::new(packets);
    let mut all: Vec<Scaled> = Vec::new();
    for &workers in workers {
        let cost = carry(program, &packets, workers)?;
        let scaling = all.first().map_or(1.0, |first| first.cost.nanoseconds / cost.nanoseconds);
        all.push(Scaled { workers, cost, scaling });
    }
    Ok(all)
}

impl Scaled {
    /// The name of a curve: the measured quantity and the number of workers.
    fn named(&self, what: &str) -> String {
        if self.workers == 1 { what.to_string() } else { format!("{what}, {} workers", self.workers) }
    }
}

/// A graph of packet rates, with the rate of a full link.
fn rates(title: &str, x: &str) -> Lines {
    Lines {
        title: title.to_string(),
        x: x.to_string(),
        y: "million packets a second".to_string(),
        log_x: true,
        limit: Some(SMALLEST_AT_10G),
        series: Vec::new(),
    }
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cost)?;
        match self.workers {
            1 => Ok(()),
            workers => write!(f, "  {workers} workers, {:.2} times", self.scaling),
        }
    }
}
