//! Queues in front of ports that have a rate: machine code waits as the interpreter does, and a run shows congestion.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use dataplane::memory::Worker;
use dataplane::queue::Shape;
use harness::stf;
use interp::{Interpreter, Silent};
use io::native::queues::{Leaving, Queues};
use io::native::{Batch, NativeProgram, Object, has_compiler};

use crate::lab::{Lab, OUTPUT, end, ip, possible};

const WAITS: &str = include_str!("waits.p4");

type Sent = Vec<(u32, Vec<u8>)>;

fn shapes() -> BTreeMap<u32, Shape> {
    let shape = |rate: &str, depth| Shape { rate: rate.parse().expect("a rate"), depth };
    BTreeMap::from([(1, shape("1000pps", 4)), (2, shape("0.2mbit", 3))])
}

/// Machine code with its queues.
struct Native {
    program: NativeProgram,
    worker: Worker,
    batch: Batch,
    queues: Queues,
}

impl Native {
    fn load(program: &ir::Verified) -> Native {
        let output = emit::native_with_queues(program).expect("it is within the target");
        let object = Object::make(&output.c).expect("it compiles");
        let program = NativeProgram::load(&object, &output.manifest, &[]).expect("it loads");
        let worker = program.memory().worker();
        Native { program, worker, batch: Batch::new(8, 2000, 32), queues: Queues::new(&shapes()) }
    }

    /// Lets packets leave at a time, and then lets one arrive.
    fn turn(&mut self, now: u64, arriving: &[u8]) -> Sent {
        let Native { program, worker, batch, queues } = self;
        worker.set_clock(now);
        let mut sent = Sent::new();
        let leaving =
            |batch: &Batch| batch.sent().map(|(port, bytes)| (port, bytes.to_vec())).collect::<Sent>();
        while program.dequeue(worker, batch, queues, now, Leaving::Due) {
            sent.extend(leaving(batch));
        }
        batch.clear();
        assert!(batch.push(0, arriving));
        program.run_with(worker, batch, queues, now);
        sent.extend(leaving(batch));
        sent
    }
}

/// The packets by their ports: those of different ports may leave in any order.
fn by_port(sent: Sent) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut ports = BTreeMap::<u32, Vec<Vec<u8>>>::new();
    sent.into_iter().for_each(|(port, bytes)| ports.entry(port).or_default().push(bytes));
    ports
}

fn compile(name: &str, text: &str) -> ir::Verified {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    p4::compile(&mut map, name, text, &[], &p4::Embedded, &mut diags).expect("it is right")
}

/// Plays packets on both targets, each one three times, two a millisecond. Returns what was sent, and the counted drops.
fn play(program: &ir::Verified, entries: &str, packets: &[Vec<u8>]) -> (Sent, u64) {
    let mut interp = Interpreter::new(program).expect("it loads");
    shapes().into_iter().for_each(|(port, shape)| interp.set_queue(port, shape));
    let mut native = Native::load(program);
    let case = stf::parse("entries", entries).expect("a case");
    assert!(stf::load(&case, &mut interp).passed);
    assert!(stf::load(&case, &mut native.program.memory().clone()).passed);
    let mut all = Sent::new();
    let played = packets.iter().flat_map(|packet| [packet; 3]);
    for (i, packet) in played.enumerate() {
        let now = 500 * i as u64;
        interp.set_clock(now);
        let mut expected = interp.dequeue(&mut Silent).sent;
        expected.extend(interp.process(0, packet, &mut Silent).sent);
        all.extend(expected.iter().cloned());
        assert_eq!(by_port(native.turn(now, packet)), by_port(expected), "packet {i}");
    }
    assert_eq!(native.queues.counts(), interp.queue_counts());
    let dropped = native.queues.counts().values().map(|counts| counts.dropped.packets).sum();
    let counted = |device: &mut dyn dataplane::Device| {
        let at = device.manifest().drops.iter().position(|d| d.name == abi::drops::QUEUE_FULL);
        device.drops().expect("they are counted")[at.expect("it has the reason")].packets
    };
    assert_eq!(counted(&mut interp), dropped);
    assert_eq!(counted(&mut native.program.memory().clone()), dropped);
    (all, dropped)
}

/// Depths on entering and on leaving, of packets that have waited.
fn depths(packet: &[u8]) -> (u16, u16) {
    let at = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (at(22), at(24))
}

#[test]
fn machine_code_waits_as_the_interpreter_does() {
    if !has_compiler() {
        println!("skipped: queues of machine code: no C compiler is installed");
        return;
    }
    let packets: Vec<Vec<u8>> = (0..8u8).map(|i| [&[0; 12][..], &[0x88, 0xb5], &[i; 40]].concat()).collect();
    let (sent, dropped) = play(&compile("waits.p4", WAITS), "", &packets);
    let seen: Vec<(u16, u16)> = sent.iter().map(|(_, packet)| depths(packet)).collect();
    // Two packets a millisecond into a port that sends one: the queue grows, and then every second packet finds it full.
    assert_eq!(seen[..4], [(0, 0), (0, 0), (0, 1), (1, 2)]);
    assert!(seen.ends_with(&[(3, 3), (3, 3)]), "{seen:?}");
    assert!(dropped > 4, "{dropped}");

    // Clones, replicas, resubmitted and recirculated packets.
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let [text, case] = ["p4", "stf"].map(|ending| {
        std::fs::read_to_string(cases.join(format!("copies.{ending}"))).expect("a case of the project")
    });
    let entries: String =
        case.lines().take_while(|line| !line.starts_with("packet")).map(|l| format!("{l}\n")).collect();
    let bytes = |line: &str| {
        let hex: String = line.split_whitespace().skip(2).collect();
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("bytes")).collect()
    };
    let packets: Vec<Vec<u8>> = case.lines().filter(|line| line.starts_with("packet 0")).map(bytes).collect();
    let (sent, dropped) = play(&compile("copies.p4", &text), &entries, &packets);
    assert!(dropped > 0 && sent.len() > packets.len());
}

#[test]
fn a_run_shows_congestion() {
    if !possible("queues of a run") {
        return;
    }
    for target in ["interp", "native"] {
        if target == "native" && !has_compiler() {
            println!("skipped: queues of a run on native: needs a C compiler");
            continue;
        }
        let lab = Lab::new(&format!("queue-{target}"), 2, WAITS);
        lab.set(0, false, false);
        let [first, second] = [0, 1].map(|host| lab.hosts[host].name().to_string());
        ip(&format!("-n {second} link set h1 address 02:00:00:00:00:02"));
        ip(&format!("-n {first} neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev h0"));
        let options = ["--port-rate", "1=100pps", "--port-queue", "1=8", "--json"];
        let (child, _) = lab.start_on(target, |_| "", &options).expect("it runs");
        let server =
            lab.hosts[1].run(|| UdpSocket::bind("10.9.0.2:4711")).expect("a namespace").expect("a socket");
        server.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        let send = || {
            let socket = UdpSocket::bind("10.9.0.1:0").expect("a socket");
            for _ in 0..60 {
                socket.send_to(&[0; 40], "10.9.0.2:4711").expect("it leaves");
                std::thread::sleep(Duration::from_micros(400));
            }
        };
        lab.hosts[0].run(send).expect("a namespace");
        let (mut bytes, mut seen) = ([0; 64], Vec::new());
        while let Ok(length) = server.recv(&mut bytes) {
            assert_eq!(length, 40);
            seen.push(u16::from_be_bytes([bytes[8], bytes[9]]));
        }
        end(child, "-INT");
        let text = std::fs::read_to_string(lab.files.path().join(OUTPUT)).expect("it prints");
        let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let queue =
            &told["ports"].as_array().expect("ports").iter().find(|port| port["port"] == 1).expect("port 1")
                ["queue"];
        assert_eq!((seen.first(), seen.iter().max()), (Some(&0), Some(&7)), "{target}: {seen:?}");
        assert_eq!(queue["deepest"], 8, "{target}: {text}");
        let dropped = queue["dropped"]["packets"].as_u64().expect("a number");
        let reasons = told["drops"].as_array().expect("drops");
        let reason = reasons.iter().find(|drop| drop["reason"] == "target.queue_full").expect("the reason");
        assert!(dropped > 20 && reason["packets"] == dropped, "{target}: {text}");
        assert!(seen.len() as u64 + dropped >= 60, "{target}: {seen:?}, {text}");
    }
}
