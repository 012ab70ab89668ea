//! Tests `strait nat64` end to end, in namespaces of its own: what operators do, and what can go wrong.

mod attach;
mod broken;
mod clat;
mod clients;
mod errors;
mod faults;
mod lab;
mod local;
mod loops;
mod mtu;
mod native;
mod network;
mod openings;
mod operator;
mod page;
mod recipes;
mod service;
mod sessions;
mod shares;

use std::time::Duration;

use lab::{Lab, both, ip, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
const EXPRESS: &str = "{ device = \"nat64\", express = [\"r0\", \"r1\"] }";
const BYPASS: &str = "{ device = \"nat64\", express = [\"r0\", \"r1\"], bypass-netfilter = true }";

/// The version of the kernel.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Sends TCP and UDP through the router with one kind of attachment, and returns all counters.
fn carries(name: &str, attach: &str) -> Option<serde_json::Value> {
    if !possible(name) {
        return None;
    }
    Some(carries_in(&Lab::new(name), attach))
}

/// Like [`carries`], in a lab.
fn carries_in(lab: &Lab, attach: &str) -> serde_json::Value {
    lab.config(attach, "");
    let status = carries_configured(lab);
    assert_eq!(status["state"], "up", "{status}");
    status
}

/// Like [`carries_in`], with the file that the lab has.
fn carries_configured(lab: &Lab) -> serde_json::Value {
    let before = lab.state();
    lab.must("up");
    lab.ping(3);
    lab.transfer(4, |_| ());
    for size in [1, 1200, 4000] {
        lab.datagram(size);
    }
    lab.datagrams_at_once(1200, 20);
    lab.refused();
    let status = lab.strait("status").arg("--json").output().expect("strait starts");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    for counter in ["translated_6to4", "translated_4to6"] {
        let all = status["counters"].as_array().expect("counters");
        let packets = all.iter().find(|c| c["name"] == counter).and_then(|c| c["packets"].as_u64());
        assert!(packets.expect("is there") > 3, "{counter}: {status}");
    }
    // The kernel sends nothing of its own into the device, such as messages about multicast groups.
    let drops = status["drops"].as_array().expect("drops").iter();
    let dropped: Vec<_> = drops.filter(|drop| drop["packets"] != 0).map(|drop| &drop["reason"]).collect();
    assert!(dropped.is_empty(), "{dropped:?}");
    lab.must("down");
    assert_eq!(lab.state(), before, "nothing is left");
    status
}

#[test]
fn the_device_carries_traffic() {
    carries("device", DEVICE);
}

#[test]
fn express_lanes_carry_traffic() {
    let Some(status) = carries("express", EXPRESS) else { return };
    assert_eq!(status["express"], serde_json::json!(["r0", "r1"]));
}

#[test]
fn lanes_past_netfilter_carry_traffic() {
    carries("bypass", BYPASS);
}

#[test]
fn a_lane_takes_only_packets_for_the_device() {
    if !possible("lane") {
        return;
    }
    let lab = Lab::new("lane");
    lab.config(EXPRESS, "");
    lab.must("up");
    // Packets between mapped IPv6 hosts, and packets to the router itself, could be translated but must not be.
    let router = lab.router.name();
    ip(&format!("-n {router} addr add 198.51.100.77/32 dev lo"));
    ip(&format!("-n {router} link set lo up"));
    let server = router.replace("-r", "-s");
    let ping = |space: &str, to: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", space, "ping", "-c", "1", "-W", "2", to]);
        command.output().expect("ping starts")
    };
    let answer = ping(&server, "198.51.100.77");
    assert!(answer.status.success(), "{}", both(&answer));
    let answer = ping(&server, lab::CLIENT4);
    assert!(answer.status.success(), "{}", both(&answer));
}

#[test]
fn up_twice_changes_nothing() {
    if !possible("twice") {
        return;
    }
    let lab = Lab::new("twice");
    lab.config(EXPRESS, "");
    lab.must("up");
    let once = lab.state();
    lab.must("up");
    assert_eq!(lab.state(), once);
    // A lane that is no longer in the file is removed.
    lab.config(DEVICE, "");
    lab.must("reload");
    let status = lab.must("status");
    assert!(!status.contains("express"), "{status}");
    lab.transfer(1, |_| ());
}

#[test]
fn several_at_once_do_not_interfere() {
    if !possible("at once") {
        return;
    }
    let lab = Lab::new("once");
    lab.config(EXPRESS, "");
    let clean = lab.state();
    for verb in ["up", "up", "down"] {
        let all: Vec<_> = (0..4).map(|_| lab.strait(verb).spawn().expect("strait starts")).collect();
        for mut one in all {
            assert!(one.wait().expect("it ends").success(), "{verb}");
        }
        match verb {
            "up" => lab.transfer(1, |_| ()),
            _ => assert_eq!(lab.state(), clean),
        }
    }
}

#[test]
fn a_rejected_reload_changes_nothing() {
    if !possible("reload") {
        return;
    }
    let lab = Lab::new("reload");
    lab.config(DEVICE, "");
    lab.must("up");
    let running = lab.state();
    for (attach, more, said) in [
        (DEVICE, "tos = 300", "line 5"),
        (DEVICE, "[[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:9::/120\"", "mapped twice"),
        ("{ device = \"nat64\", express = [\"lo\"] }", "", "no Ethernet headers"),
        ("{ device = \"r0\" }", "", "an interface `r0`, a veth of somebody else"),
    ] {
        lab.config(attach, more);
        let output = lab.strait("reload").output().expect("strait starts");
        assert_eq!(output.status.code(), Some(1), "{more}");
        assert!(both(&output).contains(said), "{said}: {}", both(&output));
        assert_eq!(lab.state(), running);
    }
    lab.config(DEVICE, "");
    lab.transfer(1, |_| ());
}

#[test]
fn strict_reverse_path_filtering_is_reported() {
    if !possible("rp_filter") {
        return;
    }
    let lab = Lab::new("rp");
    lab.config(EXPRESS, "");
    lab.router
        .run(|| io::link::sysctl::set("net/ipv4/conf/r0/rp_filter", "1"))
        .expect("router")
        .expect("sysctl");
    let before = lab.state();
    let output = lab.strait("up").output().expect("strait starts");
    assert!(!output.status.success() && both(&output).contains("rp_filter=0"), "{}", both(&output));
    assert_eq!(lab.state(), before);
}

#[test]
fn a_foreign_interface_is_not_changed() {
    if !possible("taken") {
        return;
    }
    let lab = Lab::new("taken");
    lab.config(DEVICE, "");
    let router = lab.router.name();
    ip(&format!("-n {router} link add nat64 type bridge"));
    let before = lab.state();
    let output = lab.strait("up").output().expect("strait starts");
    assert!(!output.status.success() && both(&output).contains("a bridge"), "{}", both(&output));
    assert_eq!(lab.state(), before);
    ip(&format!("-n {router} link del nat64"));
}

#[test]
fn without_forwarding_it_warns() {
    if !possible("forwarding") {
        return;
    }
    let lab = Lab::new("fwd");
    lab.config(DEVICE, "");
    lab.router.run(|| io::link::sysctl::set("net/ipv4/ip_forward", "0")).expect("router").expect("sysctl");
    let said = lab.must("up");
    assert!(said.contains("warning: net.ipv4.ip_forward is 0") && said.contains("hint: sysctl"), "{said}");
}

#[test]
fn traffic_continues_after_a_kill_at_any_moment() {
    if !possible("kill") {
        return;
    }
    let lab = Lab::new("kill");
    lab.config(EXPRESS, "");
    let clean = lab.state();
    lab.must("up");
    let up = lab.state();
    lab.transfer(30, |round| {
        // Runs `up` repeatedly, and kills each one a little later than the last, so that each leaves another partial state.
        let mut again =
            lab.strait(if round % 2 == 0 { "up" } else { "reload" }).spawn().expect("strait starts");
        std::thread::sleep(Duration::from_millis(round as u64));
        again.kill().expect("it is ours");
        again.wait().expect("it ends");
    });
    lab.must("up");
    assert_eq!(lab.state(), up);
    lab.must("down");
    assert_eq!(lab.state(), clean);
    // If the first `up` is killed, the next `up` completes its state, or `down` removes it.
    for milliseconds in [0, 2, 5, 10, 20, 50, 100, 150, 200] {
        let mut first = lab.strait("up").spawn().expect("strait starts");
        std::thread::sleep(Duration::from_millis(milliseconds));
        first.kill().expect("it is ours");
        first.wait().expect("it ends");
        if milliseconds % 4 == 0 {
            lab.must("up");
            lab.transfer(1, |_| ());
        }
        lab.must("down");
        assert_eq!(lab.state(), clean, "after {milliseconds} ms");
    }
}

#[test]
fn two_namespaces_have_a_device_of_the_same_name() {
    if !possible("two") {
        return;
    }
    let (one, two) = (Lab::new("one"), Lab::new("two"));
    for lab in [&one, &two] {
        lab.config(DEVICE, "");
        lab.must("up");
    }
    one.must("down");
    two.transfer(1, |_| ());
}

#[test]
fn pins_of_a_deleted_namespace_are_removed_by_the_next_up() {
    if !possible("sweep") {
        return;
    }
    if kernel() < (6, 6) {
        println!("skipped: nat64 sweep: needs the links of tcx, which Linux 6.6 has");
        return;
    }
    let (lost, next) = (Lab::new("lost"), Lab::new("next"));
    lost.config(DEVICE, "");
    lost.must("up");
    let pins = format!(
        "/sys/fs/bpf/strait/nat64-{}",
        lost.router.run(|| io::netns::id().expect("an id")).expect("it")
    );
    ip(&format!("netns del {}", lost.router.name()));
    // The kernel removes a namespace with some delay.
    next.config(DEVICE, "");
    let gone = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        next.must("up");
        !std::path::Path::new(&pins).exists()
    });
    assert!(gone, "{pins} is left");
}
