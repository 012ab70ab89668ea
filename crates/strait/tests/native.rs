//! Writes tables of machine code while packets read them. No packet may see half an entry. A full table must report that it is full.
//! `queues`: packets that wait for ports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod lab;
mod queues;

use abi::id::{ActionId, ProfileId, TableId};
use abi::{ActionCall, Bits, Entry, MatchValue};
use dataplane::device::{Action, Device, DeviceError, Entity, EntryKey, Key, TableEntry, Update};
use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError, Unsent};
use io::native::{Batch, NativeProgram, Object, Verdict, has_compiler};
use io::switch::Switch;

use harness::over::Over;
use harness::writes::{clear, delete, entries, insert, modify};

/// A packet is an address and room for the result. In every entry, the mark is three times the port.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> address; bit<32> mark; bit<16> range; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) hits;
    action send(bit<9> port, bit<32> mark) { sm.egress_spec = port; hdr.h.mark = mark; }
    action lost() { mark_to_drop(sm); }
    table routes {
        key = { hdr.h.address: lpm; }
        actions = { send; lost; }
        default_action = lost();
        counters = hits;
        size = 4096;
    }
    table ranges {
        key = { hdr.h.address: ternary; hdr.h.range: range; }
        actions = { send; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    apply { routes.apply(); ranges.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Loads the program. `size` is that of the routes: a small table is searched by masks, and a large one by a trie.
fn load(size: u32) -> Option<NativeProgram> {
    load_text(PROGRAM, size)
}

fn load_text(text: &str, size: u32) -> Option<NativeProgram> {
    if !has_compiler() {
        println!("skipped: machine code under change: no C compiler is installed");
        return None;
    }
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(
        &mut map,
        "churn.p4",
        &text.replace("4096", &size.to_string()),
        &[],
        &p4::Embedded,
        &mut diags,
    );
    let output = emit::native(&program.expect("it is right")).expect("it is within the target");
    let object = Object::make(&output.c).expect("it compiles");
    Some(NativeProgram::load(&object, &output.manifest, &[]).expect("it loads"))
}

fn send(port: u32) -> ActionCall {
    // It is the first action of each table.
    ActionCall {
        action: ActionId(0),
        args: vec![Bits::new(9, port.into()), Bits::new(32, u128::from(port) * 3)],
    }
}

fn route(address: u32, length: u32, port: u32) -> Entry {
    let matches = vec![MatchValue::Lpm(Bits::new(32, address.into()), length)];
    Entry { matches, priority: 0, action: send(port) }
}

fn range(address: u32, mask: u32, (low, high): (u16, u16), priority: i32, port: u32) -> Entry {
    let bits = |v: u32| Bits::new(32, v.into());
    let matches = vec![
        MatchValue::Ternary(bits(address & mask), bits(mask)),
        MatchValue::Range(Bits::new(16, low.into()), Bits::new(16, high.into())),
    ];
    Entry { matches, priority, action: send(port) }
}

fn packet(address: u32, range: u16) -> Vec<u8> {
    [&address.to_be_bytes()[..], &[0; 4], &range.to_be_bytes(), b"payload"].concat()
}

/// The port of a sent packet. It is an error if the packet's mark belongs to another entry.
fn way((verdict, bytes): (Option<Verdict>, &[u8])) -> Result<Option<u32>, String> {
    match verdict {
        Some(Verdict::Sent(port)) => {
            let mark = u32::from_be_bytes(bytes[4..8].try_into().map_err(|_| "too short")?);
            match mark == port * 3 && bytes.ends_with(b"payload") {
                true => Ok(Some(port)),
                false => Err(format!("port {port}, mark {mark}, {} bytes", bytes.len())),
            }
        }
        Some(Verdict::Dropped(_)) => Ok(None),
        None => Err("no verdict".into()),
    }
}

#[test]
fn tables_change_under_traffic() {
    change_under_traffic(load(4096), nested, Some(route(0x0a00_0000, 8, 1)));
}

#[test]
fn tries_change_under_traffic() {
    change_under_traffic(load(100_000), nested, Some(route(0x0a00_0000, 8, 1)));
}

#[test]
fn hashes_change_under_traffic() {
    let exact = |i, round, port| Entry {
        matches: vec![MatchValue::Exact(Bits::new(16, u128::from((i + round) % 64) * 1000))],
        ..route(0, 0, port)
    };
    // A key of two bytes indexes an array, and one of three bytes is hashed. The third byte is equal in all packets.
    change_under_traffic(
        load_text(&PROGRAM.replace("hdr.h.address: lpm", "hdr.h.range: exact"), 4096),
        exact,
        None,
    );
    let wide = |i, round, port| {
        let mut entry = exact(i, round, port);
        entry.matches.push(MatchValue::Exact(Bits::new(8, 10)));
        entry
    };
    let keys = "hdr.h.range: exact; hdr.h.address[31:24]: exact @name(\"top\")";
    change_under_traffic(load_text(&PROGRAM.replace("hdr.h.address: lpm", keys), 4096), wide, None);
}

/// A route of 12 to 31 bits. Several routes of a round have the same prefix.
fn nested(i: u32, round: u32, port: u32) -> Entry {
    route(0x0a00_0000 | (i << 14), 12 + (i + round) % 20, port)
}

/// Adds, modifies and deletes entries, each with a port of its own, while two workers look up. The entry `kept` always exists; without it,
/// packets may miss.
fn change_under_traffic(
    program: Option<NativeProgram>,
    entry: impl Fn(u32, u32, u32) -> Entry + Copy,
    kept: Option<Entry>,
) {
    let Some(program) = program else { return };
    let memory = program.memory();
    let mut device = memory.clone();
    if let Some(kept) = &kept {
        insert(&mut device, "I.routes", kept).unwrap();
    }
    let over = Over::new();
    let bursts = [AtomicU64::new(0), AtomicU64::new(0)];
    let traffic = |seed: u32, bursts: &AtomicU64| {
        let mut worker = memory.worker();
        let (mut x, mut seen) = (seed, [0u64; 4]);
        while !over.is() {
            let address = |x: &mut u32| {
                *x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                0x0a00_0000 | (*x >> 8)
            };
            let mut batch = Batch::new(64, 64, 0);
            (0..64).for_each(|i| assert!(batch.push(0, &packet(address(&mut x), i * 1000))));
            program.run(&mut worker, &mut batch);
            for packet in batch.packets() {
                match way(packet)? {
                    Some(port @ 1..=3) => seen[port as usize] += 1,
                    None if kept.is_none() => seen[0] += 1,
                    other => return Err(format!("{other:?}")),
                }
            }
            bursts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(seen)
    };
    // SOAK=SECONDS sets a longer duration. On a busy machine, the workers may start late.
    let least =
        std::env::var("SOAK").ok().and_then(|s| s.parse().ok()).map_or(Duration::ZERO, Duration::from_secs);
    let begun = Instant::now();
    let enough = || begun.elapsed() >= least && bursts.iter().all(|b| b.load(Ordering::Relaxed) > 200);
    let seen = std::thread::scope(|scope| {
        let end = over.at_end();
        let start = |(seed, bursts)| scope.spawn(move || traffic(seed, bursts));
        let workers: Vec<_> = [1, 77].into_iter().zip(&bursts).map(start).collect();
        for round in (0..).take_while(|round| *round < 40 || !enough()) {
            // A worker that found an error has ended.
            if workers.iter().any(|w| w.is_finished()) {
                break;
            }
            for i in 0..500 {
                let _ = insert(&mut device, "I.routes", &entry(i, round, 2));
                let _ = modify(&mut device, "I.routes", &entry(i, round, 3));
            }
            for i in 0..8u16 {
                let (low, high) = (i * 4000, i * 4000 + 3000);
                let range = range(u32::from(i) << 20, 0x0010_0000, (low, high), 1 + i32::from(i), 2);
                insert(&mut device, "I.ranges", &range).unwrap();
            }
            for i in 0..500 {
                let _ = delete(&mut device, "I.routes", &entry(i, round, 0));
            }
            clear(&mut device, "I.ranges").unwrap();
        }
        drop(end);
        workers.into_iter().map(|w| w.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
    });
    let seen = seen.expect("every packet follows one whole entry");
    assert!(kept.is_none() || seen.iter().all(|s| s[1] > 0), "{seen:?}");
    assert!((2..4).all(|port| seen.iter().any(|s| s[port] > 0)), "{seen:?}");
    println!("{seen:?} packets by port, in {:?}", begun.elapsed());
    // All entries that were added have been deleted.
    assert_eq!(entries(&mut device, "I.routes").len(), usize::from(kept.is_some()));
    if let Some(kept) = &kept {
        assert!(device.count(&Key::DirectCounter(EntryKey::of(TableId(0), kept))).unwrap().packets > 0);
    }
}

/// The kernel would segment what is left of it, and complete a checksum that is final.
#[test]
fn a_packet_that_was_truncated_has_no_offload_any_more() {
    let Some(program) = load_text(include_str!("../../../tests/cases/truncate.p4"), 0) else { return };
    let mut worker = program.memory().worker();
    let mut batch = Batch::new(2, 128, 0);
    // Its first byte behind the Ethernet header says whether a packet is truncated.
    for op in [1, 0] {
        let room = batch.room().expect("a free buffer");
        room[..100].fill(0);
        room[14] = op;
        assert!(batch.add(0, 100, Some(Offload { segment: 50, udp: true, start: 34, offset: 6 })));
    }
    program.run(&mut worker, &mut batch);
    let sent: Vec<_> = batch.leaving().map(|(_, bytes, offload)| (bytes.len(), offload.is_some())).collect();
    assert_eq!(sent, [(20, false), (100, true)]);
}

#[test]
fn a_full_table_reports_an_error() {
    let Some(program) = load(4096) else { return };
    let memory = program.memory();
    let mut device = memory.clone();
    for i in 0..64u16 {
        insert(&mut device, "I.ranges", &range(0, 0, (i, i), 1, 2)).unwrap();
    }
    let one_more = range(0, 0, (64, 64), 1, 2);
    assert!(matches!(insert(&mut device, "I.ranges", &one_more), Err(DeviceError::ResourceExhausted(_))));
    assert!(matches!(
        insert(&mut device, "I.ranges", &range(0, 0, (3, 3), 1, 2)),
        Err(DeviceError::AlreadyExists(_))
    ));
    delete(&mut device, "I.ranges", &range(0, 0, (3, 3), 1, 0)).unwrap();
    insert(&mut device, "I.ranges", &one_more).unwrap();
    assert!(matches!(
        delete(&mut device, "I.ranges", &range(0, 0, (3, 3), 1, 0)),
        Err(DeviceError::NotFound(_))
    ));
}

#[test]
fn entries_are_listed_as_they_were_added() {
    let Some(program) = load(4096) else { return };
    let memory = program.memory();
    let mut device = memory.clone();
    let mut added: Vec<Entry> =
        (0..20).map(|i| range(i << 8, 0xffff_0000 >> (i % 3), (i as u16, 900), 1 + i as i32, 2)).collect();
    added.iter().for_each(|entry| insert(&mut device, "I.ranges", entry).unwrap());
    delete(&mut device, "I.ranges", &added.remove(7)).unwrap();
    added[3].action = send(5);
    modify(&mut device, "I.ranges", &added[3]).unwrap();
    let mut listed = entries(&mut device, "I.ranges");
    listed.sort_by_key(|entry| entry.priority);
    assert_eq!(listed, added);
    insert(&mut device, "I.routes", &route(0x0a0b_0000, 16, 3)).unwrap();
    assert_eq!(entries(&mut device, "I.routes"), [route(0x0a0b_0000, 16, 3)]);
}

#[test]
fn the_best_of_equal_masks_and_ranges_wins() {
    let Some(program) = load(4096) else { return };
    let memory = program.memory();
    let mut device = memory.clone();
    insert(&mut device, "I.routes", &route(0, 0, 9)).unwrap();
    insert(&mut device, "I.ranges", &range(0, 0, (0, 100), 1, 1)).unwrap();
    insert(&mut device, "I.ranges", &range(0, 0, (50, 200), 5, 2)).unwrap();
    insert(&mut device, "I.ranges", &range(0, 0xff, (90, 95), 3, 3)).unwrap();
    insert(&mut device, "I.ranges", &range(0, 0, (90, 300), 5, 4)).unwrap();
    let mut worker = memory.worker();
    let mut port = |value: u16| {
        let mut batch = Batch::new(1, 64, 0);
        assert!(batch.push(0, &packet(0x0b00_0000, value)));
        program.run(&mut worker, &mut batch);
        batch.packets().next().map(|packet| way(packet).unwrap()).unwrap()
    };
    let found = [10, 60, 92, 150, 250, 301].map(&mut port);
    // Of several equal entries, the oldest wins.
    assert_eq!(found, [Some(1), Some(2), Some(2), Some(2), Some(4), Some(9)]);
}

/// The address, mask, range, priority and port of a rule.
type Line = (u32, u32, (u16, u16), i32, u32);

/// Compares the table with a linear search over two thousand rules of all shapes. Every third rule is deleted again.
#[test]
fn merged_tuples_find_what_a_search_line_by_line_finds() {
    let Some(program) = load_text(&PROGRAM.replace("size = 64", "size = 4000"), 4096) else { return };
    let memory = program.memory();
    let mut device = memory.clone();
    insert(&mut device, "I.routes", &route(0, 0, 511)).unwrap();
    let mut x = 7u64;
    let mut random = |end: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % end
    };
    let mut lines: Vec<Line> = Vec::new();
    for number in 0..2000u32 {
        // The masks are prefixes, masks with holes, and empty; the ranges are single values, ranges with common bits, and others.
        let mask = match random(4) {
            0 => u32::MAX.checked_shl(random(33) as u32).unwrap_or(0),
            1 => [0xff00_ff00, 0x0000_00ff, 0xf0f0_0f0f, 0x8000_0001][random(4) as usize],
            2 => 0xffff_ff00,
            _ => u32::MAX,
        };
        // There are few different addresses, so that many rules match one packet.
        let address =
            [0x0a00_0000, 0x0a00_00ff, 0x0a0f_f001, 0xffff_ffff][random(4) as usize] ^ random(4) as u32;
        let low = random(300) as u16;
        let high = low + [0, 0, 1, 200][random(4) as usize] + random(3) as u16;
        lines.push((address & mask, mask, (low, high), 1 + random(50) as i32, number % 500));
    }
    let entry = |line: &Line| range(line.0, line.1, line.2, line.3, line.4);
    lines.retain(|line| insert(&mut device, "I.ranges", &entry(line)).is_ok());
    let (gone, kept): (Vec<_>, Vec<_>) =
        lines.into_iter().enumerate().partition(|(number, _)| number % 3 == 0);
    gone.iter().for_each(|(_, line)| delete(&mut device, "I.ranges", &entry(line)).unwrap());
    assert_eq!(entries(&mut device, "I.ranges").len(), kept.len());
    let mut worker = memory.worker();
    for _ in 0..200 {
        let mut batch = Batch::new(64, 64, 0);
        let mut wanted = Vec::new();
        for _ in 0..64 {
            let address = [0x0a00_0000, 0x0a00_00ff, 0x0a0f_f001, 0xffff_ffff, 5][random(5) as usize]
                ^ random(8) as u32;
            let value = random(520) as u16;
            let matches = kept.iter().map(|(_, line)| line).filter(|(of, mask, (low, high), ..)| {
                address & mask == *of && (*low..=*high).contains(&value)
            });
            // Of equal rules the first one wins. (`max_by_key` would return the last.)
            let best = matches.min_by_key(|line| -line.3).map_or(511, |line| line.4);
            wanted.push(Some(best));
            assert!(batch.push(0, &packet(address, value)));
        }
        program.run(&mut worker, &mut batch);
        let found: Vec<_> = batch.packets().map(|packet| way(packet).unwrap()).collect();
        // Port 511 drops the packet.
        let wanted: Vec<_> = wanted.into_iter().map(|port| port.filter(|port| *port != 511)).collect();
        assert_eq!(found, wanted);
    }
}

/// The same program, where the entries of the routes refer to members.
fn members() -> String {
    let profile = PROGRAM.replace("direct_counter(CounterType.packets) hits;", "action_profile(16) members;");
    profile.replace("counters = hits;", "implementation = members;")
}

/// A second entry with the same match is refused. The first one still refers to its member, also after the member has changed.
#[test]
fn a_refused_entry_leaves_the_members_of_the_first() {
    for size in [4096, 100_000] {
        let Some(program) = load_text(&members(), size) else { return };
        let memory = program.memory();
        let mut device = memory.clone();
        let member = |port| Entity::Member { profile: ProfileId(0), id: 1, action: send(port) };
        let key = EntryKey::of(TableId(0), &route(0x0a00_0000, 8, 0));
        let entry = Update::Insert(Entity::Entry(TableEntry { key, action: Action::Member(1), idle: None }));
        device.write(&[Update::Insert(member(1)), entry.clone()]).expect("it is new");
        device.write(&[entry]).expect_err("it is there");
        for port in [1, 2, 3] {
            device.write(&[Update::Set(member(port))]).expect("it changes");
            let (mut worker, mut batch) = (memory.worker(), Batch::new(1, 64, 0));
            assert!(batch.push(0, &packet(0x0a01_0203, 0)));
            program.run(&mut worker, &mut batch);
            let ways: Vec<_> = batch.packets().map(way).collect();
            assert_eq!(ways, [Ok(Some(port))], "a table of {size}");
        }
    }
}

/// A port that always has a packet, and panics when it is told to.
struct Planted {
    panic: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

impl Port for Planted {
    fn receive(&mut self, inbox: &mut dyn Inbox) -> Result<(), PortError> {
        assert!(!self.panic.load(Ordering::Relaxed), "planted");
        if let Some(room) = inbox.room() {
            room[..60].fill(0);
            inbox.take(60, None);
            self.received.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn send(&mut self, _packet: &[u8], _offload: Option<&Offload>) -> Result<(), Unsent> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn counts(&mut self) -> PortCounts {
        PortCounts::default()
    }
}

/// Waits for something that must happen.
fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_worker_that_panics_ends_all_with_its_reason_and_nobody_waits_for_it() {
    let (Some(first), Some(second)) = (load(4096), load(4096)) else { return };
    let panics: [Arc<AtomicBool>; 2] = Default::default();
    let received: [Arc<AtomicU64>; 2] = Default::default();
    let queues = [0, 1].map(|at| {
        let planted = Planted { panic: panics[at].clone(), received: received[at].clone() };
        Box::new(planted) as Box<dyn Port>
    });
    let ports = vec![(0, Vec::from(queues))];
    let mut switch = Switch::start(Arc::new(first), ports, 2).expect("it starts");
    wait_until("both workers run", || received.iter().all(|count| count.load(Ordering::Relaxed) > 0));
    panics[1].store(true, Ordering::Relaxed);
    // Neither a batch between two bursts nor another program waits for a worker that is gone.
    let worker = std::thread::spawn(move || {
        let entry = |address| Entity::entry(TableId(0), route(address, 24, 1));
        let batch = [1, 2].map(|n| Update::Insert(entry(n << 8)));
        switch.write_atomically(&batch).expect("there is room");
        switch.replace(Arc::new(second));
        switch
    });
    wait_until("nobody waits for a worker that has panicked", || worker.is_finished());
    let mut switch = worker.join().expect("the host does not panic");
    wait_until("all workers end with it", || switch.ended());
    assert_eq!(switch.panics(), 1);
    let why = switch.halt().expect("the reason is kept").to_string();
    assert_eq!(why, "worker 1 panicked: planted");
}
