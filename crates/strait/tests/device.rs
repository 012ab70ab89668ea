//! One interface to a running program, whatever it runs on: every device accepts, refuses and holds what the model of a device does; and two
//! controllers and a reader under traffic neither lose an update nor see a part of a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod on_tc;

use abi::id::{ActionId, CounterId, RegisterId, TableId};
use abi::{ActionCall, Bits, Manifest, MatchValue};
use dataplane::device::{
    Action, Device, DeviceError, Entity, EntryKey, EntryQuery, Event, Key, Model, Query, Shared, TableEntry,
    Update,
};
use dataplane::{Count, Memory};
use harness::rng::Rng;
use interp::Interpreter;
use io::bpf::{Instance, SkBuff};
use io::native::{Batch, NativeProgram, Object, Verdict, has_compiler};

use harness::over::Over;

/// A packet is a key and room for a mark. An entry's action data is the mark twice.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; bit<32> key; bit<32> mark; bit<32> again; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    counter(4, CounterType.packets_and_bytes) seen;
    register<bit<32>>(4) kept;
    action mark(bit<32> a, bit<32> b) { hdr.h.mark = a; hdr.h.again = b; }
    table exacts {
        key = { hdr.h.key: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        counters = hits;
        size = 16;
    }
    table masks {
        key = { hdr.h.key: ternary; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table prefixes {
        key = { hdr.h.key: lpm; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        size = 64;
    }
    table shorts {
        key = { hdr.h.dst[7:0]: exact; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 256;
    }
    table ranges {
        key = { hdr.h.key: range; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    apply {
        bit<32> value;
        kept.read(value, 3);
        seen.count(1);
        masks.apply();
        prefixes.apply();
        shorts.apply();
        ranges.apply();
        exacts.apply();
        if (value == 77) { hdr.h.mark = value; }
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const EXACTS: TableId = TableId(0);
const MASKS: TableId = TableId(1);
const PREFIXES: TableId = TableId(2);
/// A table with a key so short that targets index an array with it.
const SHORTS: TableId = TableId(3);
/// A table whose entries overlap: in the kernel, several of them have the same masked key.
const RANGES: TableId = TableId(4);

fn program() -> ir::Verified {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program = p4::compile(&mut map, "device.p4", PROGRAM, &[], &p4::Embedded, &mut diags);
    program.expect("it is right")
}

fn native() -> Option<Arc<NativeProgram>> {
    if !has_compiler() {
        println!("skipped: machine code: needs a C compiler");
        return None;
    }
    let output = emit::native(&program()).expect("it is within the target");
    let object = Object::make(&output.c).expect("it compiles");
    Some(Arc::new(NativeProgram::load(&object, &output.manifest, &[]).expect("it loads")))
}

fn mark(number: u64) -> ActionCall {
    let value = Bits::new(32, number.into());
    ActionCall { action: ActionId(0), args: vec![value.clone(), value] }
}

fn key(table: TableId, n: u64) -> EntryKey {
    let bits = |v: u64| Bits::new(32, v.into());
    let (matches, priority) = match table {
        EXACTS => (MatchValue::Exact(bits(n)), 0),
        SHORTS => (MatchValue::Exact(Bits::new(8, n.into())), 0),
        MASKS => (MatchValue::Ternary(bits(n), bits(0xff | 0x100 << (n % 3))), 1 + n as i32),
        RANGES => (MatchValue::Range(bits(n), bits(40 + n / 2)), 1 + n as i32),
        _ => (MatchValue::Lpm(bits(n << 8), 20 + n as u32 % 5), 0),
    };
    EntryKey { table, matches: vec![matches], priority }
}

fn entry(table: TableId, n: u64, number: u64) -> Entity {
    Entity::Entry(TableEntry { key: key(table, n), action: Action::Call(mark(number)), idle: None })
}

/// A random update. Some are wrong.
fn update(rng: &mut Rng) -> Update {
    let table = [EXACTS, MASKS, PREFIXES, SHORTS, RANGES][rng.index(5)];
    let (n, number) = (rng.below(24), rng.below(1 << 20));
    let count = Count { packets: number, bytes: 64 * number };
    let cell = rng.below(5);
    let entity = match rng.index(12) {
        0 => Entity::Default { table, action: mark(number) },
        1 => Entity::Counter { counter: CounterId(0), index: cell, count },
        2 => {
            let value = Bits::new(32, number.into());
            Entity::Register { register: RegisterId(0), index: cell, value }
        }
        3 => Entity::DirectCounter { entry: key(EXACTS, n), count },
        _ => entry(table, n, number),
    };
    match rng.index(10) {
        0..=3 => Update::Set(entity),
        4 => Update::Insert(entity),
        5 => Update::Modify(entity),
        6 => Update::Delete(entity.key()),
        _ => Update::Unset(entity.key()),
    }
}

/// Everything that a device holds.
fn all(device: &mut dyn Device) -> Vec<String> {
    let queries = [
        Query::Entries(EntryQuery::default()),
        Query::DirectCounters(EntryQuery::default()),
        Query::Defaults(None),
        Query::Counters(None),
        Query::Registers(None),
    ];
    let found = queries.iter().flat_map(|query| device.read(query).expect("it reads"));
    let mut all: Vec<String> = found.map(|entity| format!("{entity:?}")).collect();
    all.sort();
    all
}

fn kind(error: &DeviceError) -> std::mem::Discriminant<DeviceError> {
    std::mem::discriminant(error)
}

/// Writes random batches to a device and to the model. Both refuse the same update for the same kind of reason, and hold the same.
fn behaves_as_the_model(device: &mut dyn Device, seed: u64) {
    let manifest: Manifest = device.manifest().clone();
    let (mut model, mut rng) = (Model::new(manifest), Rng::new(seed));
    let (mut applied, mut refused) = (0, 0);
    for round in 0..300 {
        let batch: Vec<Update> = (0..1 + rng.index(6)).map(|_| update(&mut rng)).collect();
        let (wanted, got) = (model.write(&batch), device.write(&batch));
        match (&wanted, &got) {
            (Ok(()), Ok(())) => applied += 1,
            (Err(wanted), Err(got)) => {
                refused += 1;
                assert_eq!(wanted.index, got.index, "{wanted} and {got} of {batch:?}");
                assert_eq!(kind(&wanted.error), kind(&got.error), "{wanted} and {got} of {batch:?}");
            }
            _ => panic!("{wanted:?} and {got:?} of {batch:?}"),
        }
        if round % 10 == 0 {
            assert_eq!(all(device), all(&mut model), "after batch {round}");
        }
    }
    assert_eq!(all(device), all(&mut model));
    assert!(applied > 50 && refused > 50, "{applied} applied, {refused} refused");
}

/// A batch with more entries than there is room for, after changes of every kind, leaves nothing. The kernel refuses it only when its map is
/// full, so there it is undone.
fn a_late_refusal_leaves_nothing(device: &mut dyn Device) {
    let clean: Vec<Update> =
        all_entries(device).into_iter().map(|key| Update::Delete(Key::Entry(key))).collect();
    device.write(&clean).expect("it empties the tables");
    let twelve: Vec<Update> = (0..12).map(|n| Update::Insert(entry(EXACTS, n, n))).collect();
    device.write(&twelve).expect("there is room");
    let count = Count { packets: 3, bytes: 300 };
    let counted = Entity::DirectCounter { entry: key(EXACTS, 3), count };
    device.write(&[Update::Set(entry(MASKS, 1, 1)), Update::Modify(counted)]).expect("it is right");
    let before = all(device);
    let mut batch = vec![
        Update::Modify(Entity::Counter { counter: CounterId(0), index: 0, count: Count::default() }),
        Update::Modify(Entity::Default { table: EXACTS, action: mark(5) }),
        Update::Delete(Key::Entry(key(EXACTS, 3))),
        Update::Delete(Key::Entry(key(MASKS, 1))),
        Update::Set(entry(MASKS, 2, 9)),
        Update::Set(entry(PREFIXES, 2, 9)),
    ];
    batch.extend((100..110).map(|n| Update::Insert(entry(EXACTS, n, n))));
    let refused = device.write(&batch).expect_err("there is room for sixteen");
    assert!(matches!(refused.error, DeviceError::ResourceExhausted(_)), "{refused}");
    assert_eq!(all(device), before);
}

#[test]
fn every_device_behaves_as_the_model() {
    let verified = program();
    let mut interpreter = Interpreter::new(&verified).expect("it loads");
    let native = native();
    let kernel = on_tc::load("device", PROGRAM);
    let mut memory = native.as_ref().map(|program| program.memory().clone());
    let (mut kernel, _removed) = kernel.unzip();
    let devices: [Option<&mut dyn Device>; 3] = [
        Some(&mut interpreter),
        memory.as_mut().map(|device| device as &mut dyn Device),
        kernel.as_mut().map(|device| device as &mut dyn Device),
    ];
    for device in devices.into_iter().flatten() {
        behaves_as_the_model(device, 11);
        a_late_refusal_leaves_nothing(device);
    }
}

/// The controllers' turns. Even marks are of batches that are right, odd ones of batches that end in a mistake.
struct Contest<D> {
    device: Shared<D>,
    over: Over,
    turns: AtomicU64,
    /// How often a controller was the first to insert the contested entry.
    inserted: AtomicU64,
    deleted: AtomicU64,
}

impl<D: Device + Send> Contest<D> {
    fn new(mut device: D) -> Contest<D> {
        let clean: Vec<Update> =
            all_entries(&mut device).into_iter().map(|key| Update::Delete(Key::Entry(key))).collect();
        device.write(&clean).expect("it empties the tables");
        for table in [EXACTS, SHORTS] {
            let pair = [1, 2].map(|n| Update::Insert(entry(table, n, 0)));
            device.write(&pair).expect("there is room");
        }
        let zero = Count::default();
        device
            .write(&[Update::Modify(Entity::Counter { counter: CounterId(0), index: 1, count: zero })])
            .unwrap();
        Contest {
            device: Shared::new(device),
            over: Over::new(),
            turns: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
        }
    }

    /// What one controller does: it changes entries of two tables together, tries a batch that is refused, adds to a register and to a counter that it
    /// has read, and inserts an entry unless the other controller has.
    fn control(&self, id: u64) {
        for turn in 0.. {
            if self.over.is() {
                return;
            }
            let number = (turn << 2) | (id << 1);
            let changed = [(EXACTS, 1), (EXACTS, 2), (SHORTS, 1), (SHORTS, 2)];
            let pairs = |number| changed.map(|(table, n)| Update::Modify(entry(table, n, number)));
            self.device.with(|d| d.write(&pairs(number & !1))).expect("it is right");
            let mut wrong = pairs(number | 1).to_vec();
            wrong.push(Update::Insert(entry(EXACTS, 1, 7)));
            self.device.with(|d| d.write(&wrong)).expect_err("it exists");
            self.device.with(add_one);
            match self.device.with(|d| d.write(&[Update::Insert(entry(EXACTS, 9, number & !1))])) {
                Ok(()) => drop(self.inserted.fetch_add(1, Ordering::Relaxed)),
                Err(refused) => assert!(matches!(refused.error, DeviceError::AlreadyExists(_)), "{refused}"),
            }
            if self.device.with(|d| d.write(&[Update::Delete(Key::Entry(key(EXACTS, 9)))])).is_ok() {
                self.deleted.fetch_add(1, Ordering::Relaxed);
            }
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the reader does: the two entries are equal whenever it reads them together, and never of a refused batch.
    fn read(&self) -> u64 {
        let mut reads = 0;
        while !self.over.is() {
            let found = self.device.with(|d| d.read(&Query::Entries(EntryQuery::table(EXACTS))));
            let found = found.expect("it reads");
            let of = |n| found.iter().find(|e| e.key() == Key::Entry(key(EXACTS, n))).and_then(number_of);
            let (one, two) = (of(1).expect("it is there"), of(2).expect("it is there"));
            assert_eq!(one, two, "a part of a batch");
            assert_eq!(one % 2, 0, "a part of a batch that was refused");
            reads += 1;
        }
        reads
    }

    /// Lets two controllers and a reader work while `traffic` runs.
    fn run(&self, traffic: impl Fn() + Sync) {
        let least = std::env::var("SOAK").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
        std::thread::scope(|scope| {
            let end = self.over.at_end();
            let controllers = [0, 1].map(|id| scope.spawn(move || self.control(id)));
            let reader = scope.spawn(|| self.read());
            let packets = scope.spawn(&traffic);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(least) || self.turns.load(Ordering::Relaxed) < 50 {
                std::thread::sleep(Duration::from_millis(10));
                if controllers.iter().any(|c| c.is_finished())
                    || reader.is_finished()
                    || packets.is_finished()
                {
                    break;
                }
            }
            drop(end);
            controllers.into_iter().for_each(|c| c.join().expect("a controller found no mistake"));
            packets.join().expect("no packet found a mistake");
            println!(
                "{} turns, {} reads",
                self.turns.load(Ordering::Relaxed),
                reader.join().expect("no mistake")
            );
        });
        let turns = self.turns.load(Ordering::Relaxed);
        let Ok(Entity::Register { value, .. }) =
            self.device.with(|d| d.get(&Key::Register(RegisterId(0), 0)))
        else {
            panic!("there is no register")
        };
        assert_eq!(value.low_u64(), turns, "updates of the register were lost");
        let (inserted, deleted) = (&self.inserted, &self.deleted);
        assert_eq!(
            inserted.load(Ordering::Relaxed),
            deleted.load(Ordering::Relaxed),
            "an entry came or went twice"
        );
    }
}

/// Adds 1 to a register, and one packet to a counter that packets count in, too.
fn add_one<D: Device>(device: &mut D) {
    let Ok(Entity::Register { value, .. }) = device.get(&Key::Register(RegisterId(0), 0)) else {
        panic!("there is no register")
    };
    let value = Bits::new(32, u128::from(value.low_u64() + 1));
    let seen = device.count(&Key::Counter(CounterId(0), 2)).expect("it is there");
    let count = Count { packets: seen.packets + 1, bytes: seen.bytes };
    let updates = [
        Update::Modify(Entity::Register { register: RegisterId(0), index: 0, value }),
        Update::Modify(Entity::Counter { counter: CounterId(0), index: 2, count }),
    ];
    device.write(&updates).expect("it is right");
}

fn all_entries(device: &mut dyn Device) -> Vec<EntryKey> {
    let found = device.read(&Query::Entries(EntryQuery::default())).expect("it reads");
    found.into_iter().filter_map(|e| if let Entity::Entry(e) = e { Some(e.key) } else { None }).collect()
}

fn number_of(entity: &Entity) -> Option<u64> {
    match entity {
        Entity::Entry(TableEntry { action: Action::Call(call), .. }) => Some(call.args[0].low_u64()),
        _ => None,
    }
}

fn packet(key: u32) -> Vec<u8> {
    let mut packet = vec![0; 64];
    packet[14..18].copy_from_slice(&key.to_be_bytes());
    packet
}

/// A packet that hits only in the table with short keys.
fn short_packet(key: u8) -> Vec<u8> {
    let mut packet = packet(0xffff_ffff);
    packet[5] = key;
    packet
}

/// Whether a packet left with a whole entry of a batch that was right.
fn is_whole(bytes: &[u8]) -> bool {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    word(18) == word(22) && word(18) % 2 == 0
}

#[test]
fn two_controllers_and_a_reader_under_traffic_on_native() {
    let Some(program) = native() else { return };
    let contest = Contest::new(program.memory().clone());
    let sent = [AtomicU64::new(0), AtomicU64::new(0)];
    contest.run(|| {
        std::thread::scope(|scope| {
            for sent in &sent {
                let (contest, program) = (&contest, &program);
                scope.spawn(move || {
                    let mut worker = program.memory().worker();
                    while !contest.over.is() {
                        let mut batch = Batch::new(32, 128, 0);
                        (0..32).for_each(|n| assert!(batch.push(0, &packet(1 + n % 2))));
                        program.run(&mut worker, &mut batch);
                        for (verdict, bytes) in batch.packets() {
                            assert_eq!(verdict, Some(Verdict::Sent(1)));
                            assert!(is_whole(bytes), "a part of an entry or of a refused batch: {bytes:?}");
                        }
                        sent.fetch_add(32, Ordering::Relaxed);
                    }
                });
            }
        });
    });
    // Every packet was counted, and every entry's hit, although entries were changed all the time.
    let sent: u64 = sent.iter().map(|s| s.load(Ordering::Relaxed)).sum();
    let mut memory = program.memory().clone();
    let mut count = |key| memory.count(&key).expect("it is there").packets;
    assert_eq!(count(Key::Counter(CounterId(0), 1)), sent);
    let hits = count(Key::DirectCounter(key(EXACTS, 1))) + count(Key::DirectCounter(key(EXACTS, 2)));
    assert_eq!(hits, sent);
    assert_eq!(count(Key::Counter(CounterId(0), 2)), contest.turns.load(Ordering::Relaxed));
}

/// A controller adds to a counter while workers count packets in it. Neither loses what the other adds.
#[test]
fn a_counter_that_is_written_under_traffic_loses_no_packet() {
    let Some(program) = native() else { return };
    let (over, mut added) = (Over::new(), 0u64);
    let mut memory: Arc<Memory> = program.memory().clone();
    let sent: u64 = std::thread::scope(|scope| {
        let end = over.at_end();
        let count = || {
            let (mut worker, mut sent) = (program.memory().worker(), 0);
            while !over.is() {
                let mut batch = Batch::new(32, 128, 0);
                (0..32).for_each(|_| assert!(batch.push(0, &packet(5))));
                program.run(&mut worker, &mut batch);
                sent += 32;
            }
            sent
        };
        let workers = [scope.spawn(count), scope.spawn(count)];
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(500) {
            // The count is set far above what packets can reach meanwhile, and each setting counts from there.
            added += 1;
            let count = Count { packets: added << 40, bytes: 0 };
            let set = Update::Modify(Entity::Counter { counter: CounterId(0), index: 1, count });
            memory.write(&[set]).expect("it is right");
            let seen = memory.count(&Key::Counter(CounterId(0), 1)).expect("it is there").packets;
            assert_eq!(seen >> 40, added, "a worker's count replaced the controller's");
        }
        let last = memory.count(&Key::Counter(CounterId(0), 1)).expect("it is there").packets;
        std::thread::sleep(Duration::from_millis(50));
        drop(end);
        let sent: u64 = workers.into_iter().map(|w| w.join().expect("it runs")).sum();
        let end = memory.count(&Key::Counter(CounterId(0), 1)).expect("it is there").packets;
        assert!(end >= last && end - (added << 40) <= sent, "{last:x} {end:x} of {sent}");
        sent
    });
    assert!(sent > 0 && added > 100);
}

#[test]
fn two_controllers_and_a_reader_under_traffic_on_tc() {
    let Some((loaded, kernel)) = on_tc::load("contest", PROGRAM) else { return };
    let contest = Contest::new(loaded);
    let runs = AtomicU64::new(0);
    let skb = SkBuff { ifindex: 1, ..SkBuff::default() };
    contest.run(|| {
        let program = Instance::open(&kernel.0).and_then(|i| i.program()).expect("it is there");
        while !contest.over.is() {
            for sent in [packet(1), packet(2), short_packet(1), short_packet(2)] {
                let run = program.test_run(&sent, &skb, 1).expect("it runs");
                assert!(is_whole(&run.data), "a part of an entry or of a refused batch: {:?}", run.data);
                runs.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    println!("{} packets", runs.load(Ordering::Relaxed));
    assert!(runs.load(Ordering::Relaxed) > 100);
}

/// The interpreter has a port for packets of the controller. The memory of machine code has none; its host has (`tests/packets.rs`).
#[test]
fn packets_of_the_controller_go_in_and_out_through_its_port() {
    let verified = program();
    let mut interpreter = Interpreter::new(&verified).expect("it loads");
    let refused = interpreter.packet_out(&packet(1)).expect_err("no port is the controller's");
    assert!(matches!(refused, DeviceError::FailedPrecondition(_)), "{refused}");
    // The program sends everything to port 1.
    interpreter.set_controller_port(Some(1));
    interpreter.packet_out(&packet(1)).expect("it has a port");
    assert_eq!(interpreter.events(), Ok(vec![Event::Packet(packet(1))]));
    interpreter.set_controller_port(Some(2));
    interpreter.packet_out(&packet(1)).expect("it has a port");
    assert_eq!(interpreter.take_injected(), [(1, packet(1))]);
    assert_eq!(interpreter.events(), Ok(vec![]));
    if let Some(program) = native() {
        let refused = program.memory().clone().packet_out(&packet(1)).expect_err("it has no such port");
        assert!(matches!(refused, DeviceError::Unimplemented(_)), "{refused}");
    }
}
