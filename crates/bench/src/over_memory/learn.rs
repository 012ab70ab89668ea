//! `strait bench learn`: measures tables to which packets add entries. One worker adds entries as fast as it can. Then a worker looks up
//! entries that stay, first alone, and then while another worker adds entries and the host removes those that have expired.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use abi::id::TableId;
use anyhow::ensure;
use dataplane::device::{Device, Entity, EntryQuery, Query, Update};
use dataplane::memory::Worker;
use harness::rng::Rng;
use io::native::{Batch, NativeProgram};
use serde::Serialize;

use super::compiled;

/// The number of measurements. The best one counts.
const TURNS: usize = 5;
/// The number of packets in a burst.
const BURST: usize = 64;
/// The table of the program.
const TABLE: TableId = TableId(0);
/// The profiles of entries that stay, and of entries that expire after [`SHORT`].
const STAY: u8 = 1;
const LEAVE: u8 = 2;
/// The expire time of the entries that another worker adds, in microseconds.
const SHORT: u64 = 50_000;
/// The duration of a measurement of lookups.
const WHILE: Duration = Duration::from_millis(400);

/// What was measured with a number of entries.
#[derive(Debug, Serialize)]
pub struct Figures {
    entries: u64,
    /// Entries that one worker adds in a second. The time includes all that the program does with a packet.
    inserts_per_second: f64,
    /// The time of a packet that hits, without and with another worker that adds entries.
    quiet_nanoseconds: f64,
    busy_nanoseconds: f64,
    /// The median of the pairs of measurements.
    ratio: f64,
    /// Entries that the other worker added in a second meanwhile.
    others_inserts_per_second: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9} entries: {:>6.2} million inserts/s; a hit takes {:>6.1} ns, and {:>6.1} ns ({:.2} times) while another worker makes {:.2} million inserts/s",
            self.entries,
            self.inserts_per_second / 1e6,
            self.quiet_nanoseconds,
            self.busy_nanoseconds,
            self.ratio,
            self.others_inserts_per_second / 1e6
        )
    }
}

/// Measures each number of entries. Tables have room for twice as many. Gives the figures to `each` as they come.
pub fn run(entries: &[usize], each: &mut dyn FnMut(&Figures)) -> anyhow::Result<Vec<Figures>> {
    let measure = |entries: &usize| {
        let figures = one(entries.next_multiple_of(BURST) as u64)?;
        each(&figures);
        Ok(figures)
    };
    entries.iter().map(measure).collect()
}

fn one(entries: u64) -> anyhow::Result<Figures> {
    // Half of the table is for entries that stay, and the rest for those that come and go.
    let (object, manifest) = compiled("learn.p4", &program(2 * entries))?;
    let mut program = NativeProgram::load(&object, &manifest, &[])?;
    let mut best = 0f64;
    for turn in 0..TURNS {
        if turn > 0 {
            program = NativeProgram::load(&object, &manifest, &[])?;
        }
        let spent = inserts(&program, &mut Keys { next: 0, profile: STAY }, entries)?;
        best = best.max(entries as f64 / spent.as_secs_f64());
    }
    let mut memory = program.memory().clone();
    let added = memory.read(&Query::Entries(EntryQuery::table(TABLE)))?.len() as u64;
    ensure!(added == entries, "{added} of {entries} entries were added");
    let time = Entity::ExpireTime { profile: LEAVE.into(), micros: Some(SHORT) };
    memory.write(&[Update::Modify(time)])?;
    let first = 0;
    let mut pairs = Vec::new();
    for turn in 0..TURNS as u64 {
        let quiet = lookups(&program, first, entries, None)?;
        let keys = Keys { next: (100 + turn) << 40, profile: LEAVE };
        let rate = Mutex::new(0.0);
        let busy = lookups(&program, first, entries, Some((keys, &rate)))?;
        pairs.push((quiet, busy, rate.into_inner().unwrap_or_default()));
    }
    pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (quiet, busy, others) = pairs[TURNS / 2];
    Ok(Figures {
        entries,
        inserts_per_second: best,
        quiet_nanoseconds: quiet,
        busy_nanoseconds: busy,
        ratio: busy / quiet,
        others_inserts_per_second: others,
    })
}

/// New keys, one after another.
struct Keys {
    next: u64,
    profile: u8,
}

impl Keys {
    /// Replaces the packets of a burst by packets with new keys.
    fn burst(&mut self, batch: &mut Batch) {
        batch.clear();
        for _ in 0..BURST {
            batch.push(0, &packet(self.next, self.profile));
            self.next += 1;
        }
    }
}

/// A packet with a key of 13 bytes, like the five fields of a flow. Successive numbers give unlike keys.
fn packet(number: u64, profile: u8) -> [u8; 60] {
    let mut bytes = [0; 60];
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    bytes[8..12].copy_from_slice(&(number as u32).to_be_bytes());
    bytes[12] = 6;
    bytes[13] = profile;
    bytes
}

/// The time that a worker takes to add entries: only the program is timed, not the making of packets.
fn inserts(program: &NativeProgram, keys: &mut Keys, entries: u64) -> anyhow::Result<Duration> {
    let mut worker = program.memory().worker();
    let mut batch = Batch::new(BURST, 128, 0);
    let (mut spent, end) = (Duration::ZERO, keys.next + entries);
    while keys.next < end {
        keys.burst(&mut batch);
        let begun = Instant::now();
        program.run(&mut worker, &mut batch);
        spent += begun.elapsed();
    }
    Ok(spent)
}

/// The time of a packet that hits one of the entries from `first` on, in nanoseconds. With `others`, another worker adds entries
/// meanwhile, and this thread removes them when they have expired.
fn lookups(
    program: &NativeProgram,
    first: u64,
    entries: u64,
    others: Option<(Keys, &Mutex<f64>)>,
) -> anyhow::Result<f64> {
    let processors = io::port::processors();
    let over = AtomicBool::new(false);
    let clock = Instant::now();
    let quiet = others.is_none();
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            let pinned = io::port::pin(processors[0]);
            let cost = hits(&mut program.memory().worker(), program, first, entries);
            over.store(true, Ordering::Release);
            pinned.map(|()| cost)
        });
        if let Some((keys, rate)) = others {
            let (processors, over) = (&processors, &over);
            scope.spawn(move || {
                let _ = io::port::pin(processors[1 % processors.len()]);
                let added = add(program, keys, clock, over);
                *rate.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = added;
            });
        }
        let mut swept = 0;
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(10));
            let now = clock.elapsed().as_micros() as u64;
            if !quiet {
                program.memory().expire(now, (now - swept) as f64 / SHORT as f64);
            }
            swept = now;
        }
        let cost = measured.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
        Ok(cost?)
    })
    .inspect(|_| {
        program.memory().expire(u64::MAX >> 16, 1.0);
    })
}

fn hits(worker: &mut Worker, program: &NativeProgram, first: u64, entries: u64) -> f64 {
    let mut rng = Rng::new(7);
    let mut batch = Batch::new(BURST, 128, 0);
    let (mut spent, mut packets, begun) = (Duration::ZERO, 0u64, Instant::now());
    while begun.elapsed() < WHILE {
        batch.clear();
        for _ in 0..BURST {
            batch.push(0, &packet(first + rng.below(entries), STAY));
        }
        let from = Instant::now();
        program.run(worker, &mut batch);
        spent += from.elapsed();
        packets += BURST as u64;
        debug_assert!(batch.packets().all(|(_, bytes)| bytes[14] == 1));
    }
    spent.as_nanos() as f64 / packets as f64
}

/// Adds entries until `over`. Returns the number of entries a second.
fn add(program: &NativeProgram, mut keys: Keys, clock: Instant, over: &AtomicBool) -> f64 {
    let mut worker = program.memory().worker();
    let mut batch = Batch::new(BURST, 128, 0);
    let mut added = 0;
    let begun = Instant::now();
    while !over.load(Ordering::Acquire) {
        keys.burst(&mut batch);
        worker.set_clock(clock.elapsed().as_micros() as u64);
        program.run(&mut worker, &mut batch);
        added += batch.packets().filter(|(_, bytes)| bytes[14] == 2).count();
    }
    added as f64 / begun.elapsed().as_secs_f64()
}

/// The program: its table learns, and it writes into the packet whether it hit an entry (1) or added one (2).
fn program(size: u64) -> String {
    format!(
        "#include <core.p4>
#include <pna.p4>
header h_t {{ bit<32> src; bit<32> dst; bit<16> sport; bit<16> dport; bit<8> protocol; bit<8> profile; bit<8> seen; bit<32> found; }}
struct headers {{ h_t h; }}
struct metadata {{ }}
parser P(packet_in b, out headers hdr, inout metadata m, in pna_main_parser_input_metadata_t i) {{
    state start {{ b.extract(hdr.h); transition accept; }}
}}
control Pre(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) {{ apply {{ }} }}
control I(inout headers hdr, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {{
    action known(bit<32> found) {{ hdr.h.found = found; hdr.h.seen = 1; }}
    action unknown() {{
        hdr.h.seen = 3;
        if (add_entry(\"known\", hdr.h.src, (ExpireTimeProfileId_t) (ExpireTimeProfileIdUint_t) hdr.h.profile)) {{ hdr.h.seen = 2; }}
    }}
    table flows {{
        key = {{ hdr.h.src: exact; hdr.h.dst: exact; hdr.h.sport: exact; hdr.h.dport: exact; hdr.h.protocol: exact; }}
        actions = {{ known; @defaultonly unknown; }}
        default_action = unknown;
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = {size};
    }}
    apply {{ flows.apply(); send_to_port((PortId_t) 1); }}
}}
control D(packet_out b, in headers hdr, in metadata m, in pna_main_output_metadata_t o) {{ apply {{ b.emit(hdr.h); }} }}
PNA_NIC(P(), Pre(), I(), D()) main;
"
    )
}
