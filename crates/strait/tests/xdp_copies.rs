//! Programs at the XDP hook whose packets leave several times or pass stages again, between namespaces over veth pairs: copies of TCP streams,
//! groups, rounds, in native and in generic mode; and nothing is left behind.

mod lab;

use std::time::Duration;

use io::bpf::Instance;
use io::packet::PacketSocket;

use lab::{Lab, end, possible};

/// Ports 0 and 1 are connected. What they exchange is cloned to port 2 with one more header; broadcasts go to all other ports; frames of type 0x88b6
/// take two more rounds, and gain a header in each.
const HUB: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header mark_t { bit<8> port; bit<8> instance; bit<16> round; }
struct headers { ethernet_t ethernet; mark_t mark; }
struct meta_t { @field_list(1) bit<16> round; @field_list(1) bit<8> port; }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
  state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
  apply {
    if (m.round == 0) { m.port = (bit<8>)s.ingress_port; }
    s.egress_spec = s.ingress_port ^ 1;
    if (h.ethernet.dst == 0xffffffffffff) { s.mcast_grp = 1; }
    else if (m.round == 0) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
  }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) {
  apply {
    if (s.egress_rid == 1 && s.egress_port == s.ingress_port) { mark_to_drop(s); }
    bool again = h.ethernet.type == 0x88b6 && s.instance_type != 1 && m.round < 2;
    if (s.instance_type == 1 || again) {
      h.mark.setValid();
      h.mark.port = m.port;
      h.mark.instance = (bit<8>)s.instance_type;
      h.mark.round = m.round;
    }
    if (again) { m.round = m.round + 1; recirculate_preserving_field_list(1); }
  }
}
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); p.emit(h.mark); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;
const GROUPS: &str = "mirroring_add 5 2\nmc_mgrp_create 1\nmc_node_create 1 0 1 2\nmc_node_associate 1 0\n";
/// No packet comes for so long.
const QUIET: Duration = Duration::from_millis(300);

const ETHERNET: usize = 14;
const ROUNDS: [u8; 2] = [0x88, 0xb6];

impl Lab {
    fn socket(&self, host: usize) -> PacketSocket {
        let open = || PacketSocket::open(&format!("h{host}"));
        self.hosts[host].run(open).expect("a namespace").expect("a socket")
    }

    fn start_hub(&self, mode: &str) -> std::process::Child {
        let groups = self.files.path().join("groups.stf");
        let groups = groups.to_str().expect("text");
        let (child, told) = self.start(&["--xdp-mode", mode, "--entries", groups]).expect("it runs");
        assert!(told.contains(&format!("{mode} mode")), "{told}");
        child
    }
}

/// The frames of the test that have arrived, in order. The kernel sends others, such as ARP.
fn received(socket: &PacketSocket) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(frame) = socket.receive(QUIET).expect("a socket") {
        if frame[12..ETHERNET] == ROUNDS {
            all.push(frame);
        }
    }
    all
}

fn frame(to: u8, length: usize) -> Vec<u8> {
    let payload = (ETHERNET..length).map(|i| i as u8);
    [&[to; 6][..], &[2; 6], &ROUNDS].concat().into_iter().chain(payload).collect()
}

fn with(marks: &[[u8; 4]], frame: &[u8]) -> Vec<u8> {
    [&frame[..ETHERNET], &marks.concat(), &frame[ETHERNET..]].concat()
}

/// Frames that are cloned and recirculated, and frames to a group.
fn copies_are_right(lab: &Lab) {
    let sockets: Vec<_> = (0..3).map(|host| lab.socket(host)).collect();
    for length in [60, 300, 1400] {
        let sent = frame(4, length);
        sockets[0].send(&sent).expect("a socket");
        assert_eq!(received(&sockets[1]), [with(&[[0, 0, 0, 1], [0, 0, 0, 0]], &sent)], "{length}");
        assert_eq!(received(&sockets[2]), [with(&[[0, 1, 0, 0]], &sent)], "{length}");
    }
    // A group.
    let plain = [&[0xff; 6][..], &[2; 6], &[0x88, 0xb7], &[7; 100]].concat();
    sockets[1].send(&plain).expect("a socket");
    for (host, socket) in sockets.iter().enumerate() {
        let mut seen = 0;
        while let Some(frame) = socket.receive(QUIET).expect("a socket") {
            seen += usize::from(frame == plain);
        }
        assert_eq!(seen, usize::from(host != 1), "host {host}");
    }
}

/// A TCP stream arrives whole, and its packets' clones are whole, too.
fn streams_are_mirrored(lab: &Lab) {
    let mirror = lab.socket(2);
    lab.tcp(0);
    lab.tcp(1);
    let mut clones = 0;
    while let Some(frame) = mirror.receive(Duration::ZERO).expect("a socket") {
        if frame[12..ETHERNET] == [8, 0] {
            let length = u16::from_be_bytes([frame[ETHERNET + 4 + 2], frame[ETHERNET + 4 + 3]]);
            assert!(frame.len() >= ETHERNET + 4 + usize::from(length), "{frame:?}");
            assert_eq!(frame[ETHERNET + 1..ETHERNET + 5], [1, 0, 0, 0x45]);
            clones += 1;
        }
    }
    // The socket has no room for all of them.
    assert!(clones > 50, "{clones}");
}

#[test]
fn copies_and_rounds_in_both_modes() {
    if !possible("copies") {
        return;
    }
    let lab = Lab::new("copies", 3, HUB);
    lab.files.write("groups.stf", GROUPS.as_bytes()).expect("a file");
    (0..3).for_each(|host| lab.set(host, false, true));
    for mode in ["native", "generic"] {
        let child = lab.start_hub(mode);
        let instance = format!("run-{}", child.id());
        copies_are_right(&lab);
        streams_are_mirrored(&lab);
        end(child, "-INT");
        assert!((0..3).all(|i| !lab.has_program(&format!("s{i}"))));
        assert!(!Instance::all().expect("a directory").contains(&instance));
    }
    // What a killed run leaves, the next one sweeps: both programs.
    let child = lab.start_hub("native");
    let killed = format!("run-{}", child.id());
    end(child, "-KILL");
    let child = lab.start_hub("native");
    assert!(!Instance::all().expect("a directory").contains(&killed));
    copies_are_right(&lab);
    end(child, "-INT");
    assert!((0..3).all(|i| !lab.has_program(&format!("s{i}"))));
}
