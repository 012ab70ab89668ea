//! A lane hands a packet that the program drops to the kernel, unless an earlier round has changed the packet.

use std::process::Command;

use abi::id::DropId;
use dataplane::device::{Device, Key};
use io::bpf::{SkBuff, TestRun};
use io::ebpf::{KernelProgram, Lane};

mod on_tc;

/// The protocol of the IPv4 header says what happens: see the test.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<32> begin; bit<32> id; bit<8> ttl; bit<8> protocol; bit<16> sum; bit<32> source; bit<32> destination; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { @field_list(1) bit<8> rounds; }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.ethernet); b.extract(hdr.ipv4); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        m.rounds = m.rounds + 1;
        if (hdr.ipv4.protocol == 101) { mark_to_drop(sm); }
        if (hdr.ipv4.protocol == 102) {
            hdr.ipv4.ttl = 1;
            if (m.rounds == 1) { resubmit_preserving_field_list(1); } else { mark_to_drop(sm); }
        }
        if (hdr.ipv4.protocol == 104 && m.rounds == 2) { mark_to_drop(sm); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        if (hdr.ipv4.protocol >= 103 && m.rounds == 1) { truncate(64); recirculate_preserving_field_list(1); }
    }
}
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.ethernet); p.emit(hdr.ipv4); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const TC_ACT_OK: u32 = 0;
const TC_ACT_SHOT: u32 = 2;
const TTL: usize = 22;

/// A packet from 192.0.2.1 to 198.51.100.9.
fn packet(protocol: u8) -> Vec<u8> {
    let mut frame =
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, protocol, 0, 0];
    frame.extend([192, 0, 2, 1, 198, 51, 100, 9]);
    frame.resize(100, 0x55);
    frame
}

fn ip(arguments: &str) {
    let run = Command::new("ip").args(arguments.split(' ')).status().expect("ip runs");
    assert!(run.success(), "ip {arguments}");
}

/// Sends a packet into the lane. Returns also the number of drops so far.
fn send(program: &mut KernelProgram, ifindex: u32, protocol: u8) -> (TestRun, u64) {
    let run = program.test_run(&packet(protocol), &SkBuff { ifindex, ..SkBuff::default() }).expect("it runs");
    let reasons = program.manifest().drops.len() as u32;
    let mut count = |reason| program.count(&Key::Drop(DropId(reason))).expect("a count").packets;
    let drops = (0..reasons).map(&mut count).sum();
    (run, drops)
}

#[test]
fn a_packet_that_a_round_has_changed_is_dropped_for_good() {
    let Some((mut program, _kernel)) = on_tc::load_at(on_tc::At::Lane, "lanes", PROGRAM) else { return };
    // The program for the XDP hook is loaded beside it, with the same maps.
    let Some((xdp, _)) = on_tc::object(on_tc::At::XdpLane, "lanes", PROGRAM) else { return };
    program.load_xdp_lanes(&xdp).expect("it loads");
    let check = move || {
        ip("link add near address 02:00:00:00:00:01 type veth peer name past");
        ip("link set near up");
        ip("link set past up");
        ip("address add 198.51.100.1/24 dev past");
        io::link::sysctl::set("net/ipv4/ip_forward", "1").expect("a sysctl");
        let [near, past] = ["near", "past"].map(|name| io::link::index_of(name).expect("an interface"));
        let lane = Lane { port: 0, past, direct: false, mac: [0; 6] };
        program.set_lane(near, lane).expect("a lane");
        let mut send = |protocol| send(&mut program, near, protocol);

        let (run, drops) = send(100);
        assert_eq!((run.retval, run.data[TTL], drops), (TC_ACT_OK, 63, 0), "an ordinary packet");
        let (run, drops) = send(101);
        assert_eq!((run.retval, run.data, drops), (TC_ACT_OK, packet(101), 0), "dropped in the first round");
        let (run, drops) = send(102);
        assert_eq!(
            (run.retval, run.data, drops),
            (TC_ACT_OK, packet(102), 0),
            "dropped after it was resubmitted"
        );
        let (run, drops) = send(103);
        assert_eq!(
            (run.retval, run.data.len(), run.data[TTL], drops),
            (TC_ACT_OK, 64, 62, 0),
            "a second round"
        );
        let (run, drops) = send(104);
        assert_eq!((run.retval, drops), (TC_ACT_SHOT, 1), "dropped after it was recirculated");
        let (run, drops) = send(102);
        assert_eq!((run.retval, run.data, drops), (TC_ACT_OK, packet(102), 1), "the next packet begins anew");
    };
    io::netns::run_in_fresh(check).expect("a namespace");
}
