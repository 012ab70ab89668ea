//! The controller's port on machine code and in the kernel: what a program sends there reaches the controller whole, what the controller sends
//! arrives there, what finds no room is counted, and nothing stays.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::device::{Device, DeviceError, Event};
use interp::Interpreter;
use io::bpf::Hook;
use io::controller::ControllerPort;
use io::ebpf::XdpOptions;
use io::native::{NativeProgram, Object, has_compiler};
use io::port::Driver;
use io::switch::Switch;

mod lab;
mod on_tc;

use lab::{Lab, OUTPUT, PATIENCE, end, ip, possible};
use on_tc::At;

/// The controller's port.
const PORT: u32 = 5;

/// Everything goes to the controller, with the port that it came from in the place of its EtherType if that is the controller's.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { h_t h; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (sm.ingress_port == 5) { hdr.h.type = (bit<16>) sm.ingress_port; }
        sm.egress_spec = 5;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Sends packets of every size out of the controller's port, and compares what comes back with what the interpreter returns. Then sends more than
/// the queue holds.
fn exchange(device: &mut dyn Device, what: &str) {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program =
        p4::compile(&mut map, "test.p4", PROGRAM, &[], &p4::Embedded, &mut diags).expect("it is right");
    let mut interpreter = Interpreter::new(&program).expect("it loads");
    interpreter.set_controller_port(Some(PORT));
    for length in [14, 15, 60, 64, 1514, 4000, 9230] {
        let packet: Vec<u8> = (0..length).map(|i: u32| (i * 7) as u8).collect();
        interpreter.packet_out(&packet).expect("it has a port");
        device.packet_out(&packet).unwrap_or_else(|error| panic!("{what}, {length} bytes: {error}"));
        let wanted = interpreter.events().expect("they are there");
        assert_eq!(some_events(device, 1), wanted, "{what}, {length} bytes");
    }
    for length in [0, 13, 9239] {
        let refused = device.packet_out(&vec![1; length]).expect_err("no frame");
        assert!(matches!(refused, DeviceError::InvalidArgument(_)), "{what}: {refused}");
    }
}

/// Waits for this number of events.
fn some_events(device: &mut dyn Device, number: usize) -> Vec<Event> {
    let (begun, mut events) = (Instant::now(), Vec::new());
    while events.len() < number && begun.elapsed() < PATIENCE {
        events.extend(device.events().expect("they can be read"));
        std::thread::sleep(Duration::from_millis(1));
    }
    events
}

/// Sends more packets than wait for the controller. Each is read or counted as lost.
fn overflow<D: Device>(device: &mut D, port: impl Fn(&D) -> Option<&ControllerPort>, what: &str) {
    let lost = |device: &D| port(device).expect("it has one").lost().expect("it counts");
    assert_eq!(lost(device), 0, "{what}: nothing was lost so far");
    let sent = 20_000;
    for number in 0..sent {
        let mut packet = [0; 60];
        packet[20..24].copy_from_slice(&u32::to_be_bytes(number));
        while let Err(error) = device.packet_out(&packet) {
            assert!(matches!(error, DeviceError::ResourceExhausted(_)), "{what}: {error}");
        }
    }
    let (begun, mut got) = (Instant::now(), Vec::new());
    let number = |event: Event| match event {
        Event::Packet(packet) => u32::from_be_bytes([packet[20], packet[21], packet[22], packet[23]]),
        other => panic!("no packet: {other:?}"),
    };
    while (got.len() as u64 + lost(device)) < u64::from(sent) && begun.elapsed() < PATIENCE {
        got.extend(device.events().expect("they can be read").into_iter().map(number));
        std::thread::sleep(Duration::from_millis(1));
    }
    let lost = lost(device);
    println!("{what}: {} of {sent} read, {lost} lost", got.len());
    assert_eq!(got.len() as u64 + lost, u64::from(sent), "{what}");
    assert!(got.is_sorted_by(|a, b| a < b), "{what}: the order is kept, and none comes twice");
}

#[test]
fn packets_go_out_and_in_in_the_kernel() {
    for at in [At::Tc, At::Xdp] {
        let Some((mut program, _kernel)) = on_tc::load_at(at, "packets", PROGRAM) else { continue };
        let what = format!("{at:?}");
        let run = move || {
            let refused = program.packet_out(&[0; 60]).expect_err("no port is the controller's");
            assert!(matches!(refused, DeviceError::FailedPrecondition(_)), "{refused}");
            let port = ControllerPort::create().expect("root may make one");
            let (name, index) = (port.name().to_string(), port.index());
            program.set_controller(PORT, port).expect("there is room");
            match at {
                At::Xdp => {
                    let own = XdpOptions { controller: Some(index), ..XdpOptions::default() };
                    program.attach_xdp(&[name], own).map(drop)
                }
                _ => program.attach(&name, Hook::Ingress),
            }
            .expect("it attaches");
            exchange(&mut program, &what);
            overflow(&mut program, |program| program.controller(), &what);
        };
        io::netns::run_in_fresh(run).expect("a namespace");
    }
}

#[test]
fn packets_go_out_and_in_through_machine_code() {
    if !possible("the controller's port") || !has_compiler() {
        println!("skipped: the controller's port of machine code: needs root and a C compiler");
        return;
    }
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let program =
        p4::compile(&mut map, "test.p4", PROGRAM, &[], &p4::Embedded, &mut diags).expect("it is right");
    let output = emit::native(&program).expect("it is within the target");
    let object = Object::make(&output.c).expect("it compiles");
    let run = move || {
        let program = Arc::new(NativeProgram::load(&object, &output.manifest, &[]).expect("it loads"));
        let port = ControllerPort::create().expect("root may make one");
        let queues = Driver::AfPacket(port.name().to_string()).open(2).expect("it is an interface");
        let mut switch = Switch::start(program, vec![(PORT, queues)], 2).expect("it starts");
        let refused = switch.packet_out(&[0; 60]).expect_err("no port is the controller's");
        assert!(matches!(refused, DeviceError::FailedPrecondition(_)), "{refused}");
        switch.set_controller(port);
        exchange(&mut switch, "native");
    };
    io::netns::run_in_fresh(run).expect("a namespace");
}

#[test]
fn a_run_shows_complete_packets_and_leaves_no_interface() {
    if !possible("the controller's port of a run") {
        return;
    }
    for (target, driver) in [("tc", ""), ("native", "af_packet:"), ("xdp", "")] {
        if target == "native" && !has_compiler() {
            println!("skipped: the controller's port of a run on native: needs a C compiler");
            continue;
        }
        let lab = Lab::new(&format!("cpu-{target}"), 1, PROGRAM);
        // On xdp no port may leave checksums to others.
        lab.set(0, target != "xdp", true);
        let host = lab.hosts[0].name();
        ip(&format!("-n {host} neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev h0"));
        let (child, _) =
            lab.start_on(target, |_| driver, &["--cpu-port", "5", "--packets"]).expect("it runs");
        let send = || {
            let socket = UdpSocket::bind("10.9.0.1:0")?;
            socket.send_to(b"for the controller", "10.9.0.2:4711")
        };
        lab.hosts[0].run(send).expect("a namespace").expect("it leaves");
        let packet = printed(&lab, "666f722074686520636f6e74726f6c6c6572");
        assert_eq!(sum(&pseudo_packet(&packet)), 0xffff, "{target}: the checksum is complete");
        end(child, "-KILL");
        let begun = Instant::now();
        while links(&lab).contains("strait-cpu") {
            assert!(begun.elapsed() < PATIENCE, "{target}: the interface outlives the process");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (child, _) = lab.start_on(target, |_| driver, &["--cpu-port", "5"]).expect("it runs again");
        end(child, "-INT");
        let twice =
            lab.start_on(target, |_| driver, &["--cpu-port", "0"]).expect_err("port 0 is another one");
        assert!(twice.contains("port 0 is given twice"), "{twice}");
        assert!(!links(&lab).contains("strait-cpu"), "{target}");
    }
}

/// Waits for a printed packet that contains these bytes.
fn printed(lab: &Lab, bytes: &str) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(lab.files.path().join(OUTPUT)).expect("it prints");
        let line = text.lines().find(|line| line.contains(bytes));
        let packet = line.and_then(|line| line.strip_prefix("{\"packet\":\"")?.strip_suffix("\"}"));
        if let Some(hex) = packet {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            return (0..hex.len()).step_by(2).map(byte).collect();
        }
        assert!(begun.elapsed() < PATIENCE, "no such packet: {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the UDP checksum of a frame covers (RFC 768): the addresses, the protocol, the length, and the datagram.
fn pseudo_packet(frame: &[u8]) -> Vec<u8> {
    let (addresses, datagram) = (&frame[26..34], &frame[34..]);
    let length = [datagram[4], datagram[5]];
    [addresses, &[0, 17], &length, datagram].concat()
}

/// The sum of 16-bit words in one's complement (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn links(lab: &Lab) -> String {
    let output =
        std::process::Command::new("ip").args(["-n", lab.switch.name(), "link"]).output().expect("ip");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_second_run_on_an_interface_is_refused_and_says_who_has_it() {
    if !possible("two runs on one interface") {
        return;
    }
    for (first, second) in [("tc", "tc"), ("tc", "xdp"), ("xdp", "tc")] {
        let lab = Lab::new(&format!("two-{first}-{second}"), 1, PROGRAM);
        // On xdp no port may leave checksums to others.
        lab.set(0, false, true);
        let (mut one, _) = lab.start_on(first, |_| "", &[]).expect("it runs");
        let id = one.id();
        let told = lab.start_on(second, |_| "", &[]).map(drop).expect_err("the interface is taken");
        let names = ["`s0`".to_string(), format!("process {id}"), format!("instance run-1-{id}")];
        assert!(names.iter().all(|name| told.contains(name)), "{first}, {second}: {told}");
        assert!(one.try_wait().expect("it is ours").is_none(), "{first}, {second}: the first one goes on");
        // What a killed one has left is in nobody's way.
        one.kill().expect("it is ours");
        one.wait().expect("it ends");
        let (mut two, _) = lab.start_on(second, |_| "", &[]).expect("the first one is gone");
        let sent = std::process::Command::new("kill").args(["-INT", &two.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
        assert!(two.wait().expect("it ends").success(), "{first}, {second}");
    }
}
