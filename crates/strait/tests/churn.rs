//! Writes tables on tc while packets read them. No packet may see half an entry, the entry of another key, or half a default action.
//!
//! The P4 program detects such mixtures itself, so that one system call can run it many times.

use std::time::{Duration, Instant};

mod on_tc;

use abi::id::{ActionId, CounterId};
use abi::{ActionCall, Bits, Entry, MatchValue};
use dataplane::device::{Device, DeviceError, Key};
use io::bpf::{Instance, SkBuff};
use io::ebpf::KernelProgram;

use harness::over::Over;
use harness::writes::{delete, insert, modify, set_default};

/// A program whose entries have as action data their key, and a number twice.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; bit<32> key; }
struct headers { h_t h; }
struct metadata { bit<32> of; bit<128> a; bit<128> b; }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    counter(8, CounterType.packets) seen;
    action set(bit<32> of, bit<128> a, bit<128> b) { m.of = of; m.a = a; m.b = b; }
    table exacts { key = { hdr.h.key: exact; } actions = { set; NoAction; } default_action = NoAction(); size = 64; }
    table masks { key = { hdr.h.key: ternary; } actions = { set; NoAction; } default_action = NoAction(); size = 64; }
    table prefixes { key = { hdr.h.key: lpm; } actions = { set; NoAction; } default_action = NoAction(); size = 64; }
    table defaults { key = { hdr.h.key: exact; } actions = { set; } default_action = set(0, 0, 0); size = 64; }
    apply {
        if (!exacts.apply().hit) { seen.count(1); }
        else if (m.of != hdr.h.key || m.a != m.b) { seen.count(2); }
        if (!masks.apply().hit) { seen.count(3); }
        else if (m.of != hdr.h.key || m.a != m.b) { seen.count(4); }
        if (!prefixes.apply().hit) { seen.count(5); }
        else if (m.of != hdr.h.key || m.a != m.b) { seen.count(6); }
        defaults.apply();
        if (m.a != m.b) { seen.count(7); }
        seen.count(0);
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The key of all packets. It always has an entry.
const KEY: u32 = 7;

fn set(of: u32, number: u64) -> ActionCall {
    // A different number changes every byte of both values.
    let value = Bits::new(128, u128::from(number & 0xff) * (u128::MAX / 0xff));
    ActionCall { action: ActionId(0), args: vec![Bits::new(32, of.into()), value.clone(), value] }
}

fn exact(key: u32, number: u64) -> Entry {
    Entry {
        matches: vec![MatchValue::Exact(Bits::new(32, key.into()))],
        priority: 0,
        action: set(key, number),
    }
}

/// An entry for a key. Its mask has one bit more than the key needs, so that different bits give different masks.
fn ternary(key: u32, bit: u32, priority: i32, number: u64) -> Entry {
    let mask = Bits::new(32, u128::from(0xffffu32 | 1 << bit));
    Entry {
        matches: vec![MatchValue::Ternary(Bits::new(32, key.into()), mask)],
        priority,
        action: set(key, number),
    }
}

fn lpm(key: u32, number: u64) -> Entry {
    Entry {
        matches: vec![MatchValue::Lpm(Bits::new(32, key.into()), 32)],
        priority: 0,
        action: set(key, number),
    }
}

/// A change that one test makes under traffic. The number differs in each call.
type Change = fn(&mut KernelProgram, u64) -> Result<(), DeviceError>;

/// Replaces the packets' entry, so that elements are reused as fast as possible.
fn replace(program: &mut KernelProgram, number: u64) -> Result<(), DeviceError> {
    modify(program, "I.exacts", &exact(KEY, number))
}

/// Adds and deletes other entries.
fn add_and_delete(program: &mut KernelProgram, number: u64) -> Result<(), DeviceError> {
    let other = 100 + (number % 8) as u32;
    insert(program, "I.exacts", &exact(other, number))?;
    modify(program, "I.exacts", &exact(KEY, number))?;
    delete(program, "I.exacts", &exact(other, number))?;
    modify(program, "I.prefixes", &lpm(KEY, number))?;
    insert(program, "I.prefixes", &lpm(other, number))?;
    delete(program, "I.prefixes", &lpm(other, number))
}

/// Adds and deletes tuples before that of the packets' entry, for the packets' key and for another one.
fn reorder(program: &mut KernelProgram, number: u64) -> Result<(), DeviceError> {
    let (bit, other) = (16 + (number % 8) as u32, 100 + (number % 8) as u32);
    insert(program, "I.masks", &ternary(KEY, bit, 20, number))?;
    modify(program, "I.masks", &ternary(KEY, 31, 10, number))?;
    delete(program, "I.masks", &ternary(KEY, bit, 20, number))?;
    insert(program, "I.masks", &ternary(other, bit, 30, number))?;
    delete(program, "I.masks", &ternary(other, bit, 30, number))
}

fn replace_default(program: &mut KernelProgram, number: u64) -> Result<(), DeviceError> {
    set_default(program, "I.defaults", &set(0, number))
}

#[test]
fn packets_see_whole_entries_while_tables_change() {
    let Some((mut program, name)) = on_tc::load("churn", PROGRAM) else { return };
    insert(&mut program, "I.exacts", &exact(KEY, 0)).expect("inserts");
    insert(&mut program, "I.prefixes", &lpm(KEY, 0)).expect("inserts");
    insert(&mut program, "I.masks", &ternary(KEY, 31, 10, 0)).expect("inserts");
    let mut frame = vec![0; 64];
    frame[14..18].copy_from_slice(&KEY.to_be_bytes());
    let skb = SkBuff { ifindex: 1, ..SkBuff::default() };

    let mut changes = [0; 4];
    let all: [Change; 4] = [replace, add_and_delete, reorder, replace_default];
    for (change, done) in all.iter().zip(&mut changes) {
        let over = Over::new();
        let result = std::thread::scope(|threads| {
            let _end = over.at_end();
            threads.spawn(|| {
                let program = Instance::open(&name.0).and_then(|i| i.program()).expect("it is there");
                while !over.is() {
                    program.test_run(&frame, &skb, 20_000).expect("it runs");
                }
            });
            let end = Instant::now() + Duration::from_secs(2);
            let mut result = Ok(());
            while Instant::now() < end && result.is_ok() {
                *done += 1;
                result = change(&mut program, *done);
            }
            result
        });
        result.expect("tables take changes");
    }
    let mut seen = |at| program.count(&Key::Counter(CounterId(0), at)).expect("counts").packets;
    let runs = seen(0);
    println!("{runs} packets met {changes:?} rounds of changes");
    assert!(
        changes.iter().all(|n| *n > 20) && runs > 10_000,
        "{runs} packets, {changes:?}: nothing was tried"
    );
    let what = ["exact: misses", "exact: mixtures", "ternary: misses", "ternary: mixtures", "lpm: misses"];
    let what = what.iter().chain(&["lpm: mixtures", "default: mixtures"]);
    let wrong: Vec<_> = what.zip(1..).map(|(what, at)| (*what, seen(at))).filter(|(_, n)| *n > 0).collect();
    assert!(wrong.is_empty(), "of {runs} packets: {wrong:?}");
    let drops = Device::drops(&mut program).expect("drops are counted");
    let reasons = program.manifest().drops.iter().map(|d| d.name.as_str());
    let dropped: Vec<_> =
        reasons.zip(drops).filter(|(name, count)| name.starts_with("target.") && count.packets > 0).collect();
    assert!(dropped.is_empty(), "{dropped:?}");
}
