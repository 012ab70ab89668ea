//! `strait run --target xdp` between two namespaces, over veth pairs: TCP is right with every setting of offloads, or the run is refused with
//! a hint; and the run leaves nothing behind.

mod lab;

use std::sync::RwLock;

use io::link::features;

use lab::{Lab, end, possible};

/// A run takes away what killed ones have left, also those of other tests: who kills one is alone.
static RUNS: RwLock<()> = RwLock::new(());

/// A program that connects ports 0 and 1.
const WIRE: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct meta_t { }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
  state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
  apply { s.egress_spec = s.ingress_port ^ 1; }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn tcp_is_right_or_refused_with_every_setting_of_checksum_offloads() {
    if !possible("checksum offloads") {
        return;
    }
    let _others = RUNS.read();
    let lab = Lab::new("tx", 2, WIRE);
    for setting in 0..4 {
        let on = [setting & 1 != 0, setting & 2 != 0];
        (0..2).for_each(|host| lab.set(host, on[host], true));
        match lab.start(&[]) {
            Ok((child, told)) => {
                assert_eq!(on, [false, false], "{told}");
                assert!(told.contains("native mode"), "{told}");
                lab.tcp(0);
                lab.tcp(1);
                end(child, "-INT");
            }
            Err(told) => {
                let first = if on[0] { 0 } else { 1 };
                let hint = format!("ip netns exec {} ethtool -K h{first} tx off", lab.hosts[first].name());
                assert!(on[first] && told.contains(&hint), "{on:?}: {told}");
                assert!(lab.start(&["--trust-checksums"]).is_err(), "the program would send wrong checksums");
            }
        }
        assert!(!lab.has_program("s0") && !lab.has_program("s1"), "{on:?}");
    }
    // The settings of the switch's own ends do not matter.
    let own = || {
        features::set_tx_checksum("s0", false)?;
        features::set_tx_checksum("s1", true)
    };
    lab.switch.run(own).expect("a namespace").expect("veths have these offloads");
    (0..2).for_each(|host| lab.set(host, false, true));
    let (child, _) = lab.start(&[]).expect("it runs");
    lab.tcp(0);
    end(child, "-INT");
}

#[test]
fn without_polling_peers_the_stack_runs_the_program() {
    if !possible("modes") {
        return;
    }
    let _others = RUNS.read();
    let lab = Lab::new("gro", 2, WIRE);
    (0..2).for_each(|host| lab.set(host, false, host == 0));
    let (child, told) = lab.start(&[]).expect("it runs");
    assert!(told.contains("generic mode") && told.contains("ethtool -K h1 gro on"), "{told}");
    lab.tcp(0);
    lab.tcp(1);
    end(child, "-INT");
    let told = lab.start(&["--xdp-mode", "native"]).expect_err("frames would be lost");
    assert!(told.contains("ethtool -K h1 gro on"), "{told}");
    lab.set(1, false, true);
    let (child, told) = lab.start(&["--xdp-mode", "generic"]).expect("it runs");
    assert!(told.contains("generic mode"), "{told}");
    lab.tcp(0);
    end(child, "-INT");
}

#[test]
fn other_programs_stay_and_a_killed_run_is_swept() {
    if !possible("sweep") {
        return;
    }
    let _alone = RUNS.write();
    let lab = Lab::new("sweep", 2, WIRE);
    (0..2).for_each(|host| lab.set(host, false, true));
    let (child, _) = lab.start(&[]).expect("it runs");
    let told = lab.start(&[]).expect_err("there is a program already");
    assert!(told.contains("`s0` is a port of another `strait run` already"), "{told}");
    lab.tcp(0);
    end(child, "-KILL");
    assert!(lab.has_program("s0"), "what is pinned outlives the process");
    let (child, _) = lab.start(&[]).expect("the next run sweeps");
    lab.tcp(1);
    end(child, "-INT");
    assert!(!lab.has_program("s0") && !lab.has_program("s1"));
}
