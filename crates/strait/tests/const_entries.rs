//! Const entries on every device: they can be read, nobody can write them, and their counters and meters work. The interpreter is the oracle.
//! Targets compile const entries without counters and meters into code, so a read must not depend on where the entries are.

mod every;
mod on_tc;

use abi::id::TableId;
use abi::{ActionCall, Bits, MatchValue};
use dataplane::device::{
    Action, Device, DeviceError, Entity, EntryKey, EntryQuery, Key, Query, TableEntry, Update,
};
use dataplane::{Count, Rate};

use every::Passes;

/// A packet is a key and room for a mark. The first five tables become code; `counted` and `metered` cannot.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; bit<16> key; bit<16> mark; }
struct headers { h_t h; }
struct metadata { bit<2> colour; }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_counter(CounterType.packets_and_bytes) hits_of_ranges;
    direct_meter<bit<2>>(MeterType.packets) rate;
    action mark(bit<16> a) { hdr.h.mark = a; }
    action set(bit<8> high, bit<8> low) { hdr.h.mark = high ++ low; }
    action metered() { rate.read(m.colour); }
    table exacts {
        key = { hdr.h.key: exact; hdr.h.type: exact; }
        actions = { mark; set; NoAction; }
        const default_action = NoAction();
        const entries = { (1, 0x1234): mark(7); (2, 0x1234): set(8, 9); }
    }
    table prefixes {
        key = { hdr.h.key: lpm; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        const entries = { 0x1200 &&& 0xff00: mark(1); 0x1234: mark(2); 0x1230 &&& 0xfff0: mark(3); }
    }
    table masks {
        key = { hdr.h.key: ternary; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        const entries = { 0x4321 &&& 0x0fff: mark(4); 0x4321 &&& 0x0f00: mark(5); _: NoAction(); }
    }
    table ranges {
        key = { hdr.h.key: range; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        const entries = { 100 .. 200: mark(6); 150 .. 300: mark(7); 400: mark(8); }
    }
    table options {
        key = { hdr.h.key: optional; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        const entries = { 500: mark(9); _: NoAction(); }
    }
    table counted {
        key = { hdr.h.key: ternary; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        counters = hits;
        const entries = { 0x0010 &&& 0x00f0: mark(10); 600: mark(11); }
    }
    table counted_ranges {
        key = { hdr.h.key: range; }
        actions = { NoAction; }
        const default_action = NoAction();
        counters = hits_of_ranges;
        const entries = { 600 .. 605: NoAction(); 603 .. 700: NoAction(); }
    }
    table metered_keys {
        key = { hdr.h.key: exact; }
        actions = { metered; NoAction; }
        const default_action = NoAction();
        meters = rate;
        const entries = { 700: metered(); 701: metered(); }
    }
    table open {
        key = { hdr.h.key: exact; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        entries = { 800: mark(12); }
        size = 16;
    }
    apply {
        exacts.apply();
        prefixes.apply();
        masks.apply();
        ranges.apply();
        options.apply();
        counted.apply();
        counted_ranges.apply();
        metered_keys.apply();
        open.apply();
        if (m.colour != 0) { hdr.h.mark = 8w0xc0 ++ 6w0 ++ m.colour; }
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The number of declared entries.
const ENTRIES: usize = 2 + 3 + 3 + 3 + 2 + 2 + 2 + 2 + 1;

fn packet(key: u16) -> Vec<u8> {
    let mut packet = vec![0; 64];
    packet[12..14].copy_from_slice(&[0x12, 0x34]);
    packet[14..16].copy_from_slice(&key.to_be_bytes());
    packet
}

fn mark_of(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[16], bytes[17]])
}

fn read(device: &mut dyn Device, query: &Query) -> Vec<String> {
    let mut all: Vec<String> =
        device.read(query).expect("it reads").iter().map(|entity| format!("{entity:?}")).collect();
    all.sort();
    all
}

fn id(device: &dyn Device, name: &str) -> TableId {
    let found = device.manifest().numbered_tables().find(|(_, t)| t.name == format!("I.{name}"));
    found.expect("it is there").0
}

fn bits(value: u128) -> Bits {
    Bits::new(16, value)
}

/// Queries of every form.
fn queries(device: &dyn Device) -> Vec<Query> {
    let masks = id(device, "masks");
    let masked = |mask| Some(MatchValue::Ternary(bits(0xf321), bits(mask)));
    let of = |table, matches, priority| Query::Entries(EntryQuery { table, matches, priority });
    let mut all = vec![
        Query::Entries(EntryQuery::default()),
        Query::DirectCounters(EntryQuery::default()),
        Query::DirectMeters(EntryQuery::default()),
        Query::Defaults(None),
        of(Some(masks), vec![masked(0x0f00)], None),
        of(Some(masks), vec![masked(0x00f0)], None),
        of(Some(id(device, "exacts")), vec![None, Some(MatchValue::Exact(bits(0x1234)))], None),
        of(None, vec![], Some(1)),
    ];
    all.extend((0..device.manifest().tables.len()).map(|at| Query::Entries(EntryQuery::table(at.into()))));
    all
}

fn entries(device: &mut dyn Device) -> Vec<TableEntry> {
    let found = device.read(&Query::Entries(EntryQuery::default())).expect("it reads");
    let entry = |entity| if let Entity::Entry(entry) = entity { Some(entry) } else { None };
    found.into_iter().filter_map(entry).collect()
}

/// Every const entry is found by its key, and every write to it is refused. That of a table whose entries are not const can be written.
fn are_const(device: &mut dyn Device) {
    let all = entries(device);
    assert_eq!(all.len(), ENTRIES);
    let open = id(device, "open");
    for entry in all {
        assert_eq!(device.get(&Key::Entry(entry.key.clone())), Ok(Entity::Entry(entry.clone())));
        let (key, entity) = (Key::Entry(entry.key.clone()), Entity::Entry(entry.clone()));
        let updates = [
            Update::Modify(entity.clone()),
            Update::Set(entity.clone()),
            Update::Unset(key.clone()),
            Update::Delete(key),
        ];
        for update in updates.into_iter().filter(|_| entry.key.table != open) {
            let refused = device.write(std::slice::from_ref(&update)).expect_err("it is const").error;
            assert!(matches!(refused, DeviceError::PermissionDenied(_)), "{refused} of {update:?}");
        }
    }
    let exacts = id(device, "exacts");
    let matches = vec![MatchValue::Exact(bits(3)), MatchValue::Exact(bits(0x1234))];
    let key = EntryKey { table: exacts, matches, priority: 0 };
    let absent = device.get(&Key::Entry(key.clone())).expect_err("there is none");
    assert!(matches!(absent, DeviceError::NotFound(_)), "{absent}");
    let action = Action::Call(ActionCall { action: abi::id::ActionId(0), args: vec![bits(1)] });
    let new = Update::Insert(Entity::Entry(TableEntry { key, action, idle: None }));
    let refused = device.write(&[new]).expect_err("the table is const").error;
    assert!(matches!(refused, DeviceError::PermissionDenied(_)), "{refused}");
}

/// The entries of a table with a direct counter or meter. Their cells can be written, although the entries cannot.
fn cells(device: &mut dyn Device, table: &str) -> Vec<EntryKey> {
    let id = id(device, table);
    entries(device).into_iter().map(|e| e.key).filter(|key| key.table == id).collect()
}

/// Lets packets pass, and writes counters and meters. Returns the marks.
fn use_cells(of: &mut dyn Passes) -> Vec<u16> {
    let keys =
        [1, 2, 3, 0x1234, 0x1239, 0x12ff, 0x9321, 0x9377, 120, 160, 250, 400, 500, 0x10, 600, 604, 650, 700];
    let mut marks: Vec<u16> = keys.iter().map(|key| mark_of(&of.pass(&packet(*key)))).collect();
    let (counted, metered) = (cells(of.device(), "counted"), cells(of.device(), "metered_keys"));
    let count = Count { packets: 1000, bytes: 99 };
    // A rate that the kernel holds exactly.
    let slow = Rate { per_microsecond: 1.0 / f64::from(1 << 30), burst: 1 };
    let updates = [
        Update::Modify(Entity::DirectCounter { entry: counted[1].clone(), count }),
        Update::Modify(Entity::DirectMeter { entry: metered[1].clone(), rates: vec![slow, slow] }),
    ];
    of.device().write(&updates).expect("cells of const entries can be written");
    marks.extend([600, 700, 701, 701, 701, 700].map(|key| mark_of(&of.pass(&packet(key)))));
    marks
}

/// What a device shows before and after packets have passed.
fn observe(of: &mut dyn Passes) -> Vec<String> {
    are_const(of.device());
    let queries = queries(of.device());
    let mut all: Vec<String> = queries.iter().flat_map(|query| read(of.device(), query)).collect();
    all.push(format!("{:x?}", use_cells(of)));
    all.extend(queries.iter().flat_map(|query| read(of.device(), query)));
    all
}

#[test]
fn const_entries_are_the_same_on_every_device() {
    every::all_equal("const", PROGRAM, |of| {
        let tables = &of.device().manifest().tables;
        let code: Vec<&str> = tables.iter().filter(|t| t.is_code()).map(|t| t.name.as_str()).collect();
        // The interpreter has no code.
        if tables[0].layout.is_some() {
            assert_eq!(code, ["I.exacts", "I.prefixes", "I.masks", "I.ranges", "I.options"]);
        }
        observe(of)
    });
}
