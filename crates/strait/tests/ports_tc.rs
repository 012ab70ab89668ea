//! The ports of a program in the kernel are found whatever the index of the interface: small indices are in an array, others in a hash.

use std::process::Command;

use io::bpf::SkBuff;

mod on_tc;

/// Sends everything through port 1.
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
    apply { hdr.h.type = (bit<16>) sm.ingress_port; sm.egress_spec = 1; }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const TC_ACT_OK: u32 = 0;
const TC_ACT_REDIRECT: u32 = 7;

#[test]
fn interfaces_are_ports_whatever_their_index() {
    let Some((mut program, _kernel)) = on_tc::load("ports", PROGRAM) else { return };
    let ports = move || {
        let mut port = 3;
        for index in [100, 1023, 1024, 70_000] {
            let name = format!("d{index}");
            let ip = ["link", "add", &name, "index", &index.to_string(), "type", "veth"];
            assert!(Command::new("ip").args(ip).status().expect("it runs").success(), "{name}");
            let verdict = |program: &io::ebpf::KernelProgram| {
                let run = program.test_run(&[0; 60], &SkBuff { ifindex: index, ..SkBuff::default() });
                let run = run.expect("it runs");
                (run.retval, u16::from_be_bytes([run.data[12], run.data[13]]))
            };
            assert_eq!(verdict(&program), (TC_ACT_OK, 0), "{index} is no port yet");
            port += 1;
            program.set_ingress_port(index, port).expect("there is room");
            assert_eq!(verdict(&program), (TC_ACT_REDIRECT, port as u16), "{index}");
            program.forget_ingress(index).expect("it is there");
            assert_eq!(verdict(&program), (TC_ACT_OK, 0), "{index} is no port any more");
        }
    };
    io::netns::run_in_fresh(ports).expect("a namespace");
}
