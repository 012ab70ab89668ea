//! What packets in the kernel tell the host: nothing is torn or told twice, the order is kept, and what finds no room is counted.

use std::time::Duration;

mod on_tc;

use abi::id::{ActionId, TableId};
use abi::{ActionCall, Bits, MatchValue};
use dataplane::device::{Action, Device, Entity, EntryKey, Event, Key, TableEntry, Update};
use io::bpf::{Instance, SkBuff};
use io::ebpf::KernelProgram;

use on_tc::At;

/// Each packet sends the number of packets before it, and its complement.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { h_t h; }
struct metadata { }
struct told_t { bit<32> number; bit<64> complement; }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    register<bit<32>>(1) last;
    apply {
        bit<32> number;
        last.read(number, 0);
        last.write(0, number + 1);
        digest<told_t>(0, { number, ~(bit<64>) number });
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The numbers of the digests that have come. Each has its complement.
fn numbers(program: &mut KernelProgram) -> Vec<u64> {
    let number = |event: Event| match event {
        Event::Digest(digest) => {
            let [number, complement] = &digest.values[..] else { panic!("two values: {digest:?}") };
            assert_eq!(number.low_u64(), !complement.low_u64(), "it is torn");
            number.low_u64()
        }
        other => panic!("no digest: {other:?}"),
    };
    program.events().expect("it reads").into_iter().map(number).collect()
}

#[test]
fn digests_keep_their_order_and_what_finds_no_room_is_counted() {
    let Some((mut program, kernel)) = on_tc::load("events", PROGRAM) else { return };
    let packets = |times: u32| {
        let instance = Instance::open(&kernel.0).expect("it is there");
        let skb = SkBuff { ifindex: 1, ..SkBuff::default() };
        instance.program().expect("it is there").test_run(&[0; 60], &skb, times).expect("it runs");
    };
    // A record has 8 bytes of the kernel, 8 of the head, and 12 of values: 32 in all.
    let room = (1 << 20) / 32;
    packets(room + 1000);
    let first = numbers(&mut program);
    let told = first.len() as u64;
    assert!(told >= u64::from(room) - 1 && told <= u64::from(room), "{told}");
    assert!(first.iter().copied().eq(0..told), "the first ones are kept, in order");
    let lost = program.events_lost().expect("it counts");
    assert_eq!(told + lost, u64::from(room) + 1000);
    // There is room again, and records at the end of the ring continue at its beginning. Another process would go on where this one ended.
    let manifest = program.manifest().clone();
    let mut program = KernelProgram::open(&manifest, &kernel.0).expect("it is there");
    assert_eq!(numbers(&mut program), Vec::<u64>::new());
    let sent = u64::from(room) + 1000;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..50).for_each(|_| packets(2000)));
        let mut got = Vec::new();
        while !sender.is_finished() {
            got.extend(numbers(&mut program));
        }
        got.extend(numbers(&mut program));
        assert!(got.iter().all(|number| (sent..sent + 100_000).contains(number)));
        assert!(got.is_sorted_by(|a, b| a < b), "none came twice");
        let lost = program.events_lost().expect("it counts") - lost;
        assert_eq!(got.len() as u64 + lost, 100_000);
    });
}

/// Each packet is looked up in tables of all structures, by the byte behind the addresses.
const TIMED: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> key; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) hits;
    table exacts {
        key = { hdr.h.key: exact; }
        actions = { NoAction; }
        default_action = NoAction;
        counters = hits;
        support_timeout = true;
        size = 16;
    }
    table masks {
        key = { hdr.h.key: ternary; }
        actions = { NoAction; }
        default_action = NoAction;
        support_timeout = true;
        size = 16;
    }
    table prefixes {
        key = { hdr.h.key: lpm; }
        actions = { NoAction; }
        default_action = NoAction;
        support_timeout = true;
        size = 16;
    }
    apply {
        exacts.apply();
        masks.apply();
        prefixes.apply();
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// An entry of one of the tables for a key.
fn entry(table: u32, key: u16, idle: Option<u64>) -> TableEntry {
    let bits = |v: u16| Bits::new(16, v.into());
    let value = match table {
        0 => MatchValue::Exact(bits(key)),
        1 => MatchValue::Ternary(bits(key), bits(0xffff)),
        _ => MatchValue::Lpm(bits(key), 16),
    };
    let priority = i32::from(table == 1);
    let key = EntryKey { table: TableId(table), matches: vec![value], priority };
    TableEntry { key, action: Action::Call(ActionCall { action: ActionId(0), args: vec![] }), idle }
}

#[test]
fn entries_that_no_packet_hits_are_told_and_others_are_not() {
    idle_entries(At::Tc, "idle");
}

#[test]
fn entries_that_no_packet_hits_are_told_at_the_xdp_hook() {
    idle_entries(At::Xdp, "idle-xdp");
}

fn idle_entries(at: At, name: &str) {
    let Some((mut program, _kernel)) = on_tc::load_at(at, name, TIMED) else { return };
    const IDLE: Duration = Duration::from_millis(400);
    let micros = IDLE.as_micros() as u64;
    for table in 0..3 {
        let entries = [entry(table, 1, Some(micros)), entry(table, 2, Some(micros)), entry(table, 3, None)];
        let updates = entries.map(|entry| Update::Insert(Entity::Entry(entry)));
        program.write(&updates).expect("there is room");
    }
    let idle = |program: &mut KernelProgram| {
        let key = |event: Event| match event {
            Event::Idle(entry) => entry,
            other => panic!("not idle: {other:?}"),
        };
        let mut all: Vec<TableEntry> = program.events().expect("it reads").into_iter().map(key).collect();
        all.sort_by_key(|entry| entry.key.table);
        all
    };
    assert_eq!(idle(&mut program), []);
    // Entries for key 1 are hit three times within their timeout, and those for key 2 never.
    let mut frame = [0u8; 60];
    frame[13] = 1;
    let mut told = Vec::new();
    for _ in 0..8 {
        std::thread::sleep(IDLE / 4);
        at.run(&program, &frame);
        told.extend(idle(&mut program));
    }
    let silent = |table| entry(table, 2, Some(micros));
    assert!(told.iter().all(|entry| *entry == silent(entry.key.table.0)), "{told:?}");
    for table in 0..3 {
        assert!(told.contains(&silent(table)), "table {table}: {told:?}");
    }
    // A changed entry keeps its counter and its hits; one without a timeout is not told again.
    let hits = |program: &mut KernelProgram| {
        program.count(&Key::DirectCounter(entry(0, 1, None).key)).expect("it counts").packets
    };
    assert_eq!(hits(&mut program), 8);
    for table in 0..3 {
        program.write(&[Update::Modify(Entity::Entry(entry(table, 2, None)))]).expect("it is there");
        program.write(&[Update::Delete(Key::Entry(entry(table, 3, None).key))]).expect("it is there");
    }
    std::thread::sleep(IDLE * 2);
    let told = idle(&mut program);
    assert_eq!(told, [0, 1, 2].map(|table| entry(table, 1, Some(micros))));
    let read = program.get(&Key::Entry(entry(0, 1, None).key)).expect("it is there");
    assert_eq!(read, Entity::Entry(entry(0, 1, Some(micros))));
    assert_eq!(hits(&mut program), 8);
}
