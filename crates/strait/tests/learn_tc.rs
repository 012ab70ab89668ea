//! Packets in the kernel add entries to a table on every processor, while the host inserts, changes and deletes entries, and lets them expire.
//! Every packet sees a whole entry or none, no entry is lost or doubled, and the counts add up.
//!
//! The P4 program draws the keys and detects mixtures itself, so that one system call can run it many times.

use std::collections::HashSet;
use std::time::{Duration, Instant};

mod on_tc;

use abi::id::{ActionId, CounterId};
use abi::{ActionCall, Bits, Entry, MatchValue};
use dataplane::device::{Device, Entity, Key, Update};
use io::bpf::{Instance, SkBuff};
use io::ebpf::KernelProgram;

use harness::over::Over;
use harness::writes::{delete, entries, insert, modify};

/// Entries have as action data what is computed from their key. KEY sets the key.
const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; bit<32> pad; }
struct headers { h_t h; }
struct metadata { bit<32> key; bit<32> of; bit<128> a; bit<8> seen; }
parser P(packet_in b, out headers hdr, inout metadata m, in pna_main_parser_input_metadata_t i) {
    state start { b.extract(hdr.h); transition accept; }
}
control Pre(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control I(inout headers hdr, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    Counter<bit<64>, bit<32>>(8, PNA_CounterType_t.PACKETS) seen;
    Random<bit<32>>(0, 4499) random;
    action known(bit<32> of, bit<128> a) { m.of = of; m.a = a; m.seen = 1; }
    action unknown() {
        m.seen = 3;
        if (add_entry("known", { m.key, (bit<128>) m.key << 96 | (bit<128>) m.key }, (ExpireTimeProfileId_t) 1)) { m.seen = 2; }
    }
    table flows {
        key = { m.key : exact; }
        actions = { known; @defaultonly unknown; }
        default_action = unknown;
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 4096;
    }
    apply {
        KEY
        flows.apply();
        if (m.seen == 1 && (m.of != m.key || m.a != ((bit<128>) m.key << 96 | (bit<128>) m.key))) { m.seen = 4; }
        seen.count((bit<32>) m.seen);
        send_to_port((PortId_t) 1);
    }
}
control D(packet_out b, in headers hdr, in metadata m, in pna_main_output_metadata_t o) { apply { b.emit(hdr.h); } }
PNA_NIC(P(), Pre(), I(), D()) main;
"#;

fn load(what: &str, key: &str, size: u32) -> Option<(KernelProgram, on_tc::Kernel)> {
    on_tc::load(what, &PROGRAM.replace("KEY", key).replace("4096", &size.to_string()))
}

fn entry(key: u32) -> Entry {
    let wide = u128::from(key) << 96 | u128::from(key);
    Entry {
        matches: vec![MatchValue::Exact(Bits::new(32, key.into()))],
        priority: 0,
        action: ActionCall {
            action: ActionId(0),
            args: vec![Bits::new(32, key.into()), Bits::new(128, wide)],
        },
    }
}

/// The number of packets that saw something.
fn seen(program: &mut KernelProgram, what: u64) -> u64 {
    program.count(&Key::Counter(CounterId(0), what)).expect("counts").packets
}

fn expire_after(program: &mut KernelProgram, micros: u64) {
    let time = Entity::ExpireTime { profile: 1, micros: Some(micros) };
    program.write(&[Update::Modify(time)]).expect("it is right");
}

fn random(x: &mut u64) -> u32 {
    *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*x >> 33) as u32
}

const SKB: SkBuff = SkBuff { ifindex: 1, mark: 0, ingress_ifindex: 0, gso_segs: 0, gso_size: 0 };

#[test]
fn every_processor_learns_while_entries_expire_and_the_host_writes() {
    let Some((mut program, name)) = load("learn", "m.key = random.read();", 4096) else { return };
    expire_after(&mut program, 3000);
    let over = Over::new();
    // SOAK=SECONDS sets a longer duration.
    let soak = std::env::var("SOAK").ok().and_then(|s| s.parse().ok());
    let (begun, least) = (Instant::now(), Duration::from_secs(soak.unwrap_or(3)));
    let (mut inserted, mut deleted, mut expired, mut x) = (0u64, 0u64, 0u64, 5);
    std::thread::scope(|threads| {
        let _end = over.at_end();
        for processor in io::port::processors() {
            let (name, over) = (&name.0, &over);
            threads.spawn(move || {
                // The state of a packet belongs to its processor.
                io::port::pin(processor).expect("it is there");
                let program = Instance::open(name).and_then(|i| i.program()).expect("it is there");
                while !over.is() {
                    program.test_run(&[0; 64], &SKB, 5_000).expect("it runs");
                }
            });
        }
        while begun.elapsed() < least {
            for _ in 0..20 {
                let key = random(&mut x) % 4500;
                match random(&mut x) % 3 {
                    0 => deleted += u64::from(delete(&mut program, "I.flows", &entry(key)).is_ok()),
                    1 => inserted += u64::from(insert(&mut program, "I.flows", &entry(key)).is_ok()),
                    _ => drop(modify(&mut program, "I.flows", &entry(key))),
                }
            }
            expired += program.expire(KernelProgram::now(), 0.2).expect("expires");
        }
    });
    let [hits, added, refused, mixed] = [1, 2, 3, 4].map(|at| seen(&mut program, at));
    let entries = entries(&mut program, "I.flows");
    println!(
        "{hits} hits, {added} added, {refused} refused, {inserted} inserted, {deleted} deleted, {expired} expired, {} entries",
        entries.len()
    );
    assert_eq!(mixed, 0, "no packet sees the data of another entry");
    let keys: HashSet<_> = entries.iter().map(|e| e.matches.clone()).collect();
    assert_eq!(keys.len(), entries.len(), "no entry is there twice");
    assert_eq!(added + inserted - deleted - expired, entries.len() as u64);
    assert!(added > 1000 && expired > 100 && hits > 1000 && deleted > 10, "too little was tried");
    let drops = Device::drops(&mut program).expect("drops are counted");
    let reasons = program.manifest().drops.iter().map(|d| d.name.as_str());
    let busy: Vec<_> =
        reasons.zip(drops).filter(|(name, count)| name.starts_with("target.") && count.packets > 0).collect();
    assert!(busy.is_empty(), "{busy:?}");
    // The entries of packets expire in the end. Those of the host do not.
    expire_after(&mut program, 0);
    let mut left = u64::MAX;
    for _ in 0..40 {
        program.expire(KernelProgram::now(), 1.0).expect("expires");
        left = harness::writes::entries(&mut program, "I.flows").len() as u64;
        if left <= inserted {
            break;
        }
    }
    assert!(left <= inserted, "{left} entries remain");
}

/// How long packets take that add an entry, that are refused, and that hit an entry while the table is quiet and while another processor adds
/// entries. The figures are in docs/tables.md.
#[test]
fn packets_add_entries_fast() {
    const COUNT: u32 = 200_000;
    let key = "if (hdr.h.pad == 0) { m.key = (bit<32>) (FlowIdUint_t) allocate_flow_id(); } else { m.key = hdr.h.pad; }";
    let Some((mut program, name)) = load("learn-fast", key, 8 * COUNT) else { return };
    let open = || Instance::open(&name.0).and_then(|i| i.program()).expect("it is there");
    let running = open();
    let mut hit = [0; 64];
    hit[14..18].copy_from_slice(&17u32.to_be_bytes());
    let add = |count| running.test_run(&[0; 64], &SKB, count).expect("it runs").nanoseconds;
    let inserting = (0..3).map(|_| add(COUNT)).min().unwrap_or(0);
    assert_eq!(seen(&mut program, 2), 3 * u64::from(COUNT));
    println!("{inserting} ns for a packet that adds an entry: {:.2} million/s", 1e3 / f64::from(inserting));
    let processors = io::port::processors();
    let measured = || {
        io::port::pin(processors[0]).expect("it is there");
        open().test_run(&hit, &SKB, 2 * COUNT).expect("it runs").nanoseconds
    };
    let quiet = std::thread::scope(|s| s.spawn(measured).join()).expect("no panic");
    let over = Over::new();
    let busy = std::thread::scope(|threads| {
        let _end = over.at_end();
        threads.spawn(|| {
            io::port::pin(processors[1 % processors.len()]).expect("it is there");
            let other = open();
            while !over.is() {
                other.test_run(&[0; 64], &SKB, 5_000).expect("it runs");
            }
        });
        threads.spawn(measured).join()
    });
    let busy = busy.expect("no panic");
    let ratio = f64::from(busy) / f64::from(quiet);
    println!(
        "{quiet} ns for a packet that hits, {busy} ns ({ratio:.2} times) while another processor adds entries"
    );
    while seen(&mut program, 3) == 0 {
        add(COUNT);
    }
    println!("{} ns for a packet that is refused", add(COUNT));
    assert_eq!(seen(&mut program, 2), 8 * u64::from(COUNT));
    assert_eq!(seen(&mut program, 4), 0);
}

/// A process that is killed while it removes entries leaves rows that are neither entries nor free. The next one puts them back.
#[test]
fn rows_that_a_killed_process_has_left_are_free_again() {
    let Some((mut program, name)) = load("reclaim", "m.key = random.read();", 256) else { return };
    let table = program.manifest().tables[0].clone();
    let learning = table.layout.and_then(|layout| layout.learning).expect("it learns");
    let rows = learning.count;
    // As such a process leaves them: one marked as removed, and one whose key a packet has used again meanwhile.
    let (mut taken, timers) = (Vec::new(), [1u64 << 61, 1 << 63 | 1 << 62 | 5 << 8 | 1]);
    for timer in timers {
        let free = program.map(&learning.free).expect("a map").pop().expect("it pops").expect("a row");
        let map = program.map(&learning.rows).expect("a map");
        let mut row = map.lookup(&free).expect("it reads").expect("a row");
        row[..8].copy_from_slice(&timer.to_ne_bytes());
        map.set(&free, &row).expect("it writes");
        taken.push(free);
    }
    // Another one holds a row that it has not written yet: a packet that is adding an entry.
    let busy = program.map(&learning.free).expect("a map").pop().expect("it pops").expect("a row");
    let mut next = KernelProgram::open(program.manifest(), &name.0).expect("it is there");
    assert_eq!(next.reclaim().expect("it can"), 2);
    assert_eq!(next.reclaim().expect("it can"), 0, "once");
    let mut free = Vec::new();
    while let Some(row) = program.map(&learning.free).expect("a map").pop().expect("it pops") {
        free.push(row);
    }
    assert_eq!(free.len() as u32, rows - 1, "all but the one that is in use");
    assert!(taken.iter().all(|row| free.contains(row)) && !free.contains(&busy));
    let distinct: HashSet<_> = free.iter().collect();
    assert_eq!(distinct.len(), free.len(), "no row is free twice");
}

/// What is taught is an entry like one that a packet has added, and a larger program takes it over.
#[test]
fn entries_are_taught_with_their_timers() {
    let Some((mut program, _name)) = load("teach", "m.key = 7;", 256) else { return };
    let id = abi::id::TableId(0);
    let now = KernelProgram::now();
    let taught = io::ebpf::Learnt { entry: entry(7), timer: Some((1, now)), register: None };
    assert!(program.teach(id, &taught).expect("there is room"));
    assert!(!program.teach(id, &taught).expect("it can"), "its key is there");
    let mut all = Vec::new();
    program.each_learnt(id, |learnt| all.push(learnt)).expect("it reads");
    assert_eq!(all, [taught]);
    // A packet hits it, and it expires like others.
    program.instance().program().expect("it is there").test_run(&[0; 64], &SKB, 1).expect("it runs");
    assert_eq!(seen(&mut program, 1), 1);
    expire_after(&mut program, 1000);
    let mut told = Vec::new();
    let removed =
        program.expire_and_tell(now + 1000, 1.0, Some(&mut |table, learnt| told.push((table, learnt.entry))));
    assert_eq!(removed.expect("it can"), 1);
    assert_eq!(told, [(id, entry(7))]);
}
