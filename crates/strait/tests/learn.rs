//! Packets add entries to a table while others look up, the host inserts, changes and deletes, and entries expire. Every packet sees a whole
//! entry or none, no entry is lost or doubled, the counts add up, and the memory stays constant.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::id::ActionId;
use abi::{ActionCall, Bits, Entry, MatchValue};
use dataplane::Memory;
use dataplane::device::{Device, DeviceError, Entity, Update};
use io::native::{Batch, NativeProgram, Object, has_compiler};

use harness::over::Over;
use harness::writes::{delete, direct_count, entries, insert, modify};

/// A packet has a key and room for the result. The data of each entry is computed from its key, so data of another entry shows. Entries with
/// small keys never expire.
const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>
header h_t { bit<32> key; bit<32> mark; bit<128> wide; bit<8> seen; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, in pna_main_parser_input_metadata_t i) {
    state start { b.extract(hdr.h); transition accept; }
}
control Pre(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control I(inout headers hdr, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    DirectCounter<bit<64>>(PNA_CounterType_t.PACKETS) hits;
    action known(bit<32> mark, bit<128> wide) {
        hits.count();
        hdr.h.mark = mark;
        hdr.h.wide = wide;
        hdr.h.seen = 1;
    }
    action unknown() {
        ExpireTimeProfileId_t profile = (ExpireTimeProfileId_t) 1;
        if (hdr.h.key < 2048) { profile = (ExpireTimeProfileId_t) 2; }
        hdr.h.seen = 3;
        if (add_entry("known", { hdr.h.key * 3, (bit<128>) hdr.h.key << 96 | (bit<128>) hdr.h.key }, profile)) { hdr.h.seen = 2; }
    }
    table flows {
        key = { hdr.h.key : exact; }
        actions = { known; @defaultonly unknown; }
        default_action = unknown;
        pna_direct_counter = hits;
        add_on_miss = true;
        pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        size = 8192;
    }
    apply { flows.apply(); send_to_port((PortId_t) 1); }
}
control D(packet_out b, in headers hdr, in metadata m, in pna_main_output_metadata_t o) { apply { b.emit(hdr.h); } }
PNA_NIC(P(), Pre(), I(), D()) main;
"#;

/// The first key whose entries expire.
const VOLATILE: u32 = 2048;
/// The number of entries of the table.
const SIZE: u64 = 8192;
/// The number of different keys. The table is sometimes full.
const KEYS: u32 = 10_000;

fn load() -> Option<NativeProgram> {
    if !has_compiler() {
        println!("skipped: tables that learn: no C compiler is installed");
        return None;
    }
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, "learn.p4", PROGRAM, &[], &p4::Embedded, &mut diags);
    let output = emit::native(&program.expect("it is right")).expect("it is within the target");
    let object = Object::make(&output.c).expect("it compiles");
    Some(NativeProgram::load(&object, &output.manifest, &[]).expect("it loads"))
}

/// The host's entry for a key. It has the same data as that of a packet.
fn entry(key: u32) -> Entry {
    let wide = u128::from(key) << 96 | u128::from(key);
    let args = vec![Bits::new(32, key.wrapping_mul(3).into()), Bits::new(128, wide)];
    Entry {
        matches: vec![MatchValue::Exact(Bits::new(32, key.into()))],
        priority: 0,
        action: ActionCall { action: ActionId(0), args },
    }
}

fn packet(key: u32) -> Vec<u8> {
    [&key.to_be_bytes()[..], &[0; 21], b"payload"].concat()
}

/// What a packet saw.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Hit,
    Added,
    Refused,
}

/// The key of a packet that left, and what it saw. It is an error if the data is that of another entry.
fn seen(bytes: &[u8]) -> Result<(u32, Seen), String> {
    let key = u32::from_be_bytes(bytes[..4].try_into().map_err(|_| "too short")?);
    let mark = u32::from_be_bytes(bytes[4..8].try_into().map_err(|_| "too short")?);
    let wide = u128::from_be_bytes(bytes[8..24].try_into().map_err(|_| "too short")?);
    match bytes[24] {
        1 if mark != key.wrapping_mul(3) || wide != u128::from(key) << 96 | u128::from(key) => {
            Err(format!("key {key} has mark {mark} and {wide:x}"))
        }
        1 => Ok((key, Seen::Hit)),
        2 => Ok((key, Seen::Added)),
        3 => Ok((key, Seen::Refused)),
        other => Err(format!("key {key} has seen {other}")),
    }
}

fn run(program: &NativeProgram, worker: &mut dataplane::memory::Worker, keys: &[u32]) -> Vec<(u32, Seen)> {
    let mut batch = Batch::new(keys.len(), 64, 0);
    keys.iter().for_each(|key| assert!(batch.push(0, &packet(*key))));
    program.run(worker, &mut batch);
    batch.packets().map(|(_, bytes)| seen(bytes).expect("a whole entry")).collect()
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn random(x: &mut u64) -> u32 {
    *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*x >> 33) as u32
}

/// How many entries a sender added, and how many were refused.
#[derive(Debug, Default)]
struct Sent {
    added: u64,
    refused: u64,
    hits: u64,
}

/// Sends packets until `over`. Entries with small keys must stay once they have been seen, also for later packets of the same burst.
fn send(program: &NativeProgram, seed: u64, begun: Instant, over: &Over) -> Result<Sent, String> {
    let mut worker = program.memory().worker();
    let (mut x, mut sent, mut stable) = (seed, Sent::default(), HashSet::new());
    let mut batch = Batch::new(64, 64, 0);
    while !over.is() {
        batch.clear();
        for _ in 0..64 {
            let key = match random(&mut x) % 4 {
                0 => random(&mut x) % VOLATILE,
                _ => VOLATILE + random(&mut x) % (KEYS - VOLATILE),
            };
            assert!(batch.push(0, &packet(key)));
        }
        worker.set_clock(begun.elapsed().as_micros() as u64);
        program.run(&mut worker, &mut batch);
        for (_, bytes) in batch.packets() {
            let (key, what) = seen(bytes)?;
            match what {
                Seen::Hit => sent.hits += 1,
                Seen::Added => sent.added += 1,
                Seen::Refused => sent.refused += 1,
            }
            if key < VOLATILE {
                if what != Seen::Hit && stable.contains(&key) {
                    return Err(format!("the entry of key {key} was lost: {what:?}"));
                }
                if what != Seen::Refused {
                    stable.insert(key);
                }
            }
        }
    }
    Ok(sent)
}

/// The host's part: it deletes, inserts and changes entries, and lets them expire.
struct Control {
    x: u64,
    inserted: u64,
    deleted: u64,
    expired: u64,
}

impl Control {
    fn turn(&mut self, memory: &Arc<Memory>, now: u64) {
        for _ in 0..200 {
            let key = VOLATILE + random(&mut self.x) % (KEYS - VOLATILE);
            match random(&mut self.x) % 3 {
                0 => self.deleted += u64::from(delete(&mut memory.clone(), "I.flows", &entry(key)).is_ok()),
                1 => match insert(&mut memory.clone(), "I.flows", &entry(key)) {
                    Ok(()) => self.inserted += 1,
                    Err(DeviceError::AlreadyExists(_) | DeviceError::ResourceExhausted(_)) => {}
                    Err(other) => panic!("{other}"),
                },
                _ => match modify(&mut memory.clone(), "I.flows", &entry(key)) {
                    Ok(()) | Err(DeviceError::NotFound(_) | DeviceError::ResourceExhausted(_)) => {}
                    Err(other) => panic!("{other}"),
                },
            }
        }
        self.expired += memory.expire(now, 0.1);
    }
}

#[test]
fn senders_learn_while_entries_expire_and_the_host_writes() {
    let Some(program) = load() else { return };
    let memory = program.memory();
    let time = Entity::ExpireTime { profile: 1, micros: Some(3000) };
    memory.clone().write(&[Update::Modify(time)]).expect("it is right");
    // SOAK=SECONDS sets a longer duration.
    let soak = std::env::var("SOAK").ok().and_then(|s| s.parse().ok());
    let least = Duration::from_secs(soak.unwrap_or(3));
    let (begun, over) = (Instant::now(), Over::new());
    let mut control = Control { x: 99, inserted: 0, deleted: 0, expired: 0 };
    let mut used = (0, 0);
    let sent = std::thread::scope(|scope| {
        let end = over.at_end();
        let start = |seed| {
            let (program, over) = (&program, &over);
            scope.spawn(move || send(program, seed, begun, over))
        };
        let senders: Vec<_> = (1..=4).map(start).collect();
        while begun.elapsed() < least && !senders.iter().any(|s| s.is_finished()) {
            control.turn(memory, begun.elapsed().as_micros() as u64);
            if used.0 == 0 && begun.elapsed() > least / 4 {
                used.0 = resident();
            }
        }
        used.1 = resident();
        drop(end);
        senders.into_iter().map(|s| s.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
    });
    let sent = sent.expect("whole entries, and none is lost");
    let added: u64 = sent.iter().map(|s| s.added).sum();
    let entries = harness::writes::entries(&mut memory.clone(), "I.flows");
    let keys: HashSet<_> = entries.iter().map(|e| e.matches.clone()).collect();
    println!(
        "{sent:?}, {} inserted, {} deleted, {} expired, {} entries, {used:?} bytes resident",
        control.inserted,
        control.deleted,
        control.expired,
        entries.len()
    );
    assert_eq!(keys.len(), entries.len(), "no entry is there twice");
    assert_eq!(added + control.inserted - control.deleted - control.expired, entries.len() as u64);
    assert!(entries.iter().all(|found| *found == entry(found.matches[0].value() as u32)), "{entries:?}");
    assert!(entries.len() as u64 <= SIZE);
    assert!(added > 1000 && control.expired > 100 && control.deleted > 10 && sent.iter().all(|s| s.hits > 0));
    assert!(used.1 <= used.0 + (4 << 20), "memory grew from {} to {} bytes", used.0, used.1);
}

trait Value {
    fn value(&self) -> u64;
}

impl Value for MatchValue {
    fn value(&self) -> u64 {
        match self {
            MatchValue::Exact(v) => v.low_u64(),
            other => panic!("{other:?}"),
        }
    }
}

/// A table takes as many entries as its size, whoever adds them, and after all have expired as many again.
#[test]
fn a_full_table_refuses_and_empties() {
    let Some(program) = load() else { return };
    let memory = program.memory();
    let time = Entity::ExpireTime { profile: 1, micros: Some(1000) };
    memory.clone().write(&[Update::Modify(time)]).expect("it is right");
    let mut worker = memory.worker();
    for round in 0..3u64 {
        let (now, first) = (round * 10_000, VOLATILE + round as u32 * 9000);
        worker.set_clock(now);
        let keys: Vec<u32> = (first..first + SIZE as u32 + 100).collect();
        let results = run(&program, &mut worker, &keys);
        let added = results.iter().filter(|(_, what)| *what == Seen::Added).count();
        let refused = results.iter().filter(|(_, what)| *what == Seen::Refused).count();
        assert_eq!((added, refused), (SIZE as usize, 100), "round {round}");
        assert!(matches!(
            insert(&mut memory.clone(), "I.flows", &entry(5)),
            Err(DeviceError::ResourceExhausted(_))
        ));
        assert!(matches!(
            insert(&mut memory.clone(), "I.flows", &entry(first)),
            Err(DeviceError::AlreadyExists(_))
        ));
        assert_eq!(entries(&mut memory.clone(), "I.flows").len() as u64, SIZE);
        assert_eq!(memory.expire(now + 999, 1.0), 0);
        assert_eq!(memory.expire(now + 1000, 1.0), SIZE);
        assert_eq!(entries(&mut memory.clone(), "I.flows"), []);
    }
}

/// The second packet of a burst hits the entry that the first one added. The host reads, changes and deletes it like any other.
#[test]
fn entries_of_packets_are_entries_like_others() {
    let Some(program) = load() else { return };
    let memory = program.memory();
    let mut worker = memory.worker();
    let results = run(&program, &mut worker, &[7, 7, 8, 7]);
    let what: Vec<Seen> = results.into_iter().map(|(_, what)| what).collect();
    assert_eq!(what, [Seen::Added, Seen::Hit, Seen::Added, Seen::Hit]);
    assert_eq!(entries(&mut memory.clone(), "I.flows"), [entry(7), entry(8)]);
    assert_eq!(direct_count(&mut memory.clone(), "I.flows", &entry(7)).packets, 2);
    let mut changed = entry(7);
    changed.action.args[0] = Bits::new(32, 1);
    modify(&mut memory.clone(), "I.flows", &changed).expect("it exists");
    assert!(entries(&mut memory.clone(), "I.flows").contains(&changed));
    assert_eq!(direct_count(&mut memory.clone(), "I.flows", &entry(7)).packets, 2);
    modify(&mut memory.clone(), "I.flows", &entry(7)).expect("it exists");
    delete(&mut memory.clone(), "I.flows", &entry(8)).expect("it exists");
    assert!(matches!(delete(&mut memory.clone(), "I.flows", &entry(8)), Err(DeviceError::NotFound(_))));
    let what: Vec<Seen> = run(&program, &mut worker, &[8, 7]).into_iter().map(|(_, what)| what).collect();
    assert_eq!(what, [Seen::Added, Seen::Hit]);
    assert_eq!(direct_count(&mut memory.clone(), "I.flows", &entry(7)).packets, 3);
    // The new entry does not have the count of the deleted one.
    assert_eq!(direct_count(&mut memory.clone(), "I.flows", &entry(8)).packets, 0);
}
