//! One packet with hop limit 64, and routes that lead it back into the translator: it ends, each of its translations is counted, and `status` names
//! the loop. The rows are the arrangements.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use io::bpf::Instance;
use io::netns::Namespace;
use serde_json::Value;

use crate::attach::{TC, XDP};
use crate::lab::{Lab, both, ip, possible};
use crate::native::Native;
use crate::{DEVICE, EXPRESS};

const PATIENCE: Duration = Duration::from_secs(30);
const HOPS: u64 = 64;
const ROUTES: &str = "routes = [\"203.0.113.0/24\"]";
/// The network of `routes` after translation.
const BEYOND: &str = "2001:db8:64::cb00:7100/120";

/// Sends one datagram with 64 hops.
fn send(from: &Namespace, source: &str, to: &str) {
    let socket = from.run(|| UdpSocket::bind((source, 0)).expect("binds")).expect("a namespace");
    // It is the hop limit of IPv6 sockets by default.
    if source.contains('.') {
        socket.set_ttl(HOPS as u32).expect("a TTL");
    }
    from.run(|| socket.send_to(b"round and round", (to, 9)).expect("sends")).expect("a namespace");
}

/// What `status` says of a translator, and its exit code.
fn status(command: &mut Command) -> (Value, i32) {
    let output = command.arg("--json").output().expect("strait starts");
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", both(&output)));
    (said, output.status.code().expect("it ends"))
}

fn counter(status: &Value, name: &str) -> u64 {
    let all = status["counters"].as_array().expect("counters").iter();
    all.filter(|c| c["name"] == name).filter_map(|c| c["packets"].as_u64()).sum()
}

fn translated(status: &Value) -> u64 {
    counter(status, "translated_4to6") + counter(status, "translated_6to4")
}

/// Waits until translators have translated more packets than `before`, and then nothing more. Returns what they say.
fn settled(before: u64, translators: &mut dyn FnMut() -> Vec<Value>) -> Vec<Value> {
    let begun = Instant::now();
    let mut last = before;
    loop {
        let now = translators();
        let sum: u64 = now.iter().map(translated).sum();
        if sum > before && sum == last {
            return now;
        }
        last = sum;
        assert!(begun.elapsed() < PATIENCE, "{sum} translations, and there is no end");
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn names_a_loop(status: &Value) -> bool {
    let problems = status["problems"].as_array().expect("problems").iter();
    problems.filter_map(|p| p["problem"].as_str()).any(|what| what.starts_with("a loop: "))
}

/// The routes that `up` puts under those of others.
fn floors(lab: &Lab) -> String {
    lab.sh("ip route show type unreachable; ip -6 route show type unreachable")
}

fn lab(name: &str, attach: &str) -> Option<Lab> {
    if !possible(name) {
        return None;
    }
    let lab = Lab::new(name);
    lab.complete_checksums();
    lab.config(attach, ROUTES);
    Some(lab)
}

/// The packet comes from IPv4, and from IPv6.
fn ends_on(name: &str, attach: &str) {
    let Some(lab) = lab(name, attach) else { return };
    let check = lab.must("check");
    assert!(check.contains(&format!("no route leads to {BEYOND}")), "{check}");
    let up = lab.must("up");
    assert!(up.contains(BEYOND) && up.contains("ip -6 route add"), "it names what is missing: {up}");
    assert!(floors(&lab).contains(BEYOND), "{}", floors(&lab));

    // It is unreachable, and not translated again.
    send(&lab.server, "192.0.2.2", "203.0.113.5");
    let said = settled(0, &mut || vec![status(&mut lab.strait("status")).0]);
    assert!(translated(&said[0]) == 1 && said[0]["state"] == "up", "nothing is wrong: {said:?}");

    // Without that, it goes round and round.
    lab.sh(&format!("ip -6 route del unreachable {BEYOND}"));
    let mut before = said;
    for (space, source, to) in [
        (&lab.server, "192.0.2.2", "203.0.113.5"),
        (&lab.client, "2001:db8:100::2", "2001:db8:64::203.0.113.5"),
    ] {
        send(space, source, to);
        let after = settled(translated(&before[0]), &mut || vec![status(&mut lab.strait("status")).0]);
        let rounds = translated(&after[0]) - translated(&before[0]);
        assert!((8..=HOPS).contains(&rounds), "from {source}: {rounds} translations");
        let again = counter(&after[0], "came_again") - counter(&before[0], "came_again");
        assert!(again + 3 >= rounds, "{again} of {rounds} came again");
        before = after;
    }
    let (said, code) = status(&mut lab.strait("status"));
    assert!(names_a_loop(&said) && code == 4, "{code} {said}");

    lab.must("reload");
    let (said, code) = status(&mut lab.strait("status"));
    assert!(code == 0 && !names_a_loop(&said), "{code} {said}");
    lab.must("down");
    assert_eq!(floors(&lab), "", "nothing is left");
}

#[test]
fn a_packet_ends_in_the_device() {
    ends_on("loopdev", DEVICE);
}

#[test]
fn a_packet_ends_on_express_lanes() {
    ends_on("loopexp", EXPRESS);
}

#[test]
fn a_packet_ends_at_the_tc_hook() {
    ends_on("looptc", TC);
}

#[test]
fn a_packet_ends_at_the_xdp_hook() {
    ends_on("loopxdp", XDP);
}

/// In a VRF the kernel names the VRF, and not the device, as the interface where a packet was received.
#[test]
fn a_packet_ends_in_a_vrf() {
    let Some(lab) = lab("loopvrf", DEVICE) else { return };
    let router = lab.router.name();
    let made = format!("-n {router} link add red type vrf table 100");
    if !Command::new("ip").args(made.split(' ')).output().is_ok_and(|made| made.status.success()) {
        println!("skipped: nat64 loopvrf: this kernel has no VRFs");
        return;
    }
    lab.must("up");
    lab.sh("ip link set red up; ip link set r1 master red; ip link set nat64 master red");
    lab.sh("ip route add 203.0.113.0/24 dev nat64 table 100; ip -6 route add 2001:db8:64::/96 dev nat64 table 100");
    send(&lab.server, "192.0.2.2", "203.0.113.5");
    let said = settled(0, &mut || vec![status(&mut lab.strait("status")).0]);
    let rounds = translated(&said[0]);
    assert!((8..=HOPS).contains(&rounds), "{rounds} translations: {said:?}");
}

/// Without VRFs in the kernel, the same can be seen where the program does not know the device as the interface where its own packets arrive: they have a
/// mark.
#[test]
fn a_packet_ends_where_the_kernel_hides_the_device() {
    let Some(lab) = lab("loophide", DEVICE) else { return };
    lab.must("up");
    lab.sh(&format!("ip -6 route del unreachable {BEYOND}"));
    let index = lab.router.run(|| io::link::index_of("nat64").expect("a device")).expect("the router");
    let instance = lab.pins("nat64").file_name().expect("a name").to_string_lossy().into_owned();
    let ports = Instance::open(&instance).and_then(|i| i.map("strait_near_ports")).expect("it is up");
    let key = index.to_ne_bytes();
    let mut port = ports.lookup(&key).expect("a map").expect("a port");
    // The flags are the third word; 16 says that the interface receives what programs have sent.
    assert_eq!(port[8] & 16, 16, "{port:?}");
    port[8] &= !16;
    ports.set(&key, &port).expect("a map");
    send(&lab.server, "192.0.2.2", "203.0.113.5");
    let said = settled(0, &mut || vec![status(&mut lab.strait("status")).0]);
    let rounds = translated(&said[0]);
    assert!((8..=HOPS).contains(&rounds), "{rounds} translations: {said:?}");
    assert!(counter(&said[0], "came_again") + 3 >= rounds, "{said:?}");
}

/// A process is not told where a packet was before.
#[test]
fn a_packet_ends_on_the_native_target() {
    let Some(lab) = lab("loopnat", DEVICE) else { return };
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: nat64 loopnat: needs /dev/net/tun");
        return;
    }
    let native = Native::start(&lab);
    assert!(floors(&lab).contains(BEYOND), "{}", floors(&lab));
    lab.sh(&format!("ip -6 route del unreachable {BEYOND}"));
    let sent = || {
        let text =
            lab.sh("cat /sys/class/net/nat64/statistics/rx_packets 2>/dev/null || ip -s link show nat64");
        text.trim().parse::<u64>().unwrap_or_else(|_| received(&text))
    };
    for (space, source, to) in [
        (&lab.server, "192.0.2.2", "203.0.113.5"),
        (&lab.client, "2001:db8:100::2", "2001:db8:64::203.0.113.5"),
    ] {
        let before = sent();
        send(space, source, to);
        let begun = Instant::now();
        let (mut last, mut now) = (before, sent());
        while now == before || now != last {
            assert!(begun.elapsed() < PATIENCE, "{} translations, and there is no end", now - before);
            std::thread::sleep(Duration::from_millis(300));
            (last, now) = (now, sent());
        }
        // The error for the sender is one more, or several if it is translated.
        let rounds = now - before;
        assert!((8..=HOPS + 2).contains(&rounds), "from {source}: {rounds} translations");
    }
    let counted = native.end();
    assert!(counted["sent"].as_u64() <= Some(2 * HOPS + 4), "{counted}");

    // What is under the routes goes with the process.
    let native = Native::start(&lab);
    assert!(floors(&lab).contains(BEYOND), "{}", floors(&lab));
    native.end();
    assert_eq!(floors(&lab), "", "nothing is left");
}

/// The packets that an interface has received, in what `ip -s link` prints.
fn received(text: &str) -> u64 {
    let at = text.find("RX:").expect("statistics");
    let line = text[at..].lines().nth(1).expect("a line");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// Two translators of one machine: the routes lead from one into the other, and back.
#[test]
fn a_packet_ends_between_two_translators_of_one_machine() {
    let Some(lab) = lab("looptwo", DEVICE) else { return };
    lab.must("up");
    let second = lab.file("second.toml");
    let text =
        "[nat64]\nmode = \"stateless\"\nprefix = \"2001:db8:64::/96\"\nattach = { device = \"nat46\" }\n";
    std::fs::write(&second, text).expect("a file");
    // Its route for the prefix comes before the other one.
    let up = lab.strait_with("up", &second).arg("--force").output().expect("strait starts");
    assert!(up.status.success(), "{}", both(&up));
    lab.sh(&format!("ip -6 route del unreachable {BEYOND}"));
    send(&lab.server, "192.0.2.2", "203.0.113.5");
    let said = settled(0, &mut || {
        vec![status(&mut lab.strait("status")).0, status(&mut lab.strait_with("status", &second)).0]
    });
    let rounds: Vec<u64> = said.iter().map(translated).collect();
    assert!(rounds.iter().all(|rounds| *rounds > 4), "{rounds:?}");
    assert!(rounds.iter().sum::<u64>() <= HOPS, "{rounds:?}");
    let down = lab.strait_with("down", &second).output().expect("strait starts");
    assert!(down.status.success(), "{}", both(&down));
}

/// Two machines, each of which routes what it has translated to the other.
#[test]
fn a_packet_ends_between_two_machines() {
    let Some(lab) = lab("loopfar", DEVICE) else { return };
    let (router, server) = (lab.router.name(), lab.server.name());
    let file = lab.file("server.toml");
    let text = format!("[nat64]\nmode = \"stateless\"\nprefix = \"2001:db8:64::/96\"\n{ROUTES}\n");
    std::fs::write(&file, text).expect("a file");
    ip(&format!("-n {router} addr add 2001:db8:2::1/64 dev r1 nodad"));
    ip(&format!("-n {server} addr add 2001:db8:2::2/64 dev s0 nodad"));
    lab.server
        .run(|| {
            for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                io::link::sysctl::set(key, "1").expect("forwarding");
            }
        })
        .expect("the server");
    let there = |verb: &str| strait_in(&lab.server, verb, &file);
    lab.config(DEVICE, "");
    lab.must("up");
    let up = there("up").output().expect("strait starts");
    assert!(up.status.success(), "{}", both(&up));
    // The router translates to IPv4, and the server to IPv6.
    ip(&format!("-n {router} route add 203.0.113.0/24 via 192.0.2.2"));
    ip(&format!("-n {server} -6 route add {BEYOND} via 2001:db8:2::1"));
    send(&lab.client, "2001:db8:100::2", "2001:db8:64::203.0.113.5");
    let said = settled(0, &mut || vec![status(&mut lab.strait("status")).0, status(&mut there("status")).0]);
    let rounds: Vec<u64> = said.iter().map(translated).collect();
    let down = there("down").output().expect("strait starts");
    assert!(down.status.success(), "{}", both(&down));
    assert!(rounds.iter().all(|rounds| *rounds > 4), "{rounds:?}");
    assert!(rounds.iter().sum::<u64>() <= HOPS, "{rounds:?}");
}

fn strait_in(space: &Namespace, verb: &str, file: &PathBuf) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", space.path().display())).arg(env!("CARGO_BIN_EXE_strait"));
    command.args(["nat64", verb, "--config"]).arg(file);
    command
}

/// A CLAT whose IPv4 hosts have lost their network: the default route leads back into it.
#[test]
fn a_packet_ends_in_a_clat() {
    let Some(lab) = lab("loopclat", DEVICE) else { return };
    let (router, client) = (lab.router.name(), lab.client.name());
    let file = lab.file("clat.toml");
    let text = "[nat64]\nmode = \"clat\"\nprefix = \"2001:db8:64::/96\"\n[clat]\nipv6 = \"2001:db8:1::c1a7\"\n\
                [[map]]\nipv4 = \"198.51.100.128/25\"\nipv6 = \"2001:db8:7::/121\"\n";
    std::fs::write(&file, text).expect("a file");
    let clat = |verb: &str| strait_in(&lab.client, verb, &file);
    let up = clat("up").output().expect("strait starts");
    assert!(up.status.success() && both(&up).contains("198.51.100.128/25"), "{}", both(&up));
    lab.client
        .run(|| io::link::sysctl::set("net/ipv4/ip_forward", "1"))
        .expect("a host")
        .expect("forwarding");
    ip(&format!("-n {router} link set lo up"));
    ip(&format!("-n {router} addr add 2001:db8:64::c000:209/128 dev lo nodad"));
    ip(&format!("-n {router} route add 2001:db8:7::/121 via 2001:db8:1::2"));
    ip(&format!("-n {client} route del unreachable 198.51.100.128/25"));
    send(&lab.router, "2001:db8:64::c000:209", "2001:db8:7::5");
    let said = settled(0, &mut || vec![status(&mut clat("status")).0]);
    let rounds = translated(&said[0]);
    let loops = names_a_loop(&said[0]);
    let down = clat("down").output().expect("strait starts");
    assert!(down.status.success(), "{}", both(&down));
    assert!((8..=HOPS).contains(&rounds), "{rounds} translations: {said:?}");
    assert!(loops, "{said:?}");
}

/// A sender whose own address leads into the device gets no endless errors: the error goes round, too, and nobody answers an error with one.
#[test]
fn errors_of_packets_that_end_end() {
    let Some(lab) = lab("looperr", DEVICE) else { return };
    lab.must("up");
    let server = lab.server.name();
    ip(&format!("-n {server} addr add 203.0.113.9/32 dev lo"));
    lab.sh(&format!("ip -6 route del unreachable {BEYOND}"));
    send(&lab.server, "203.0.113.9", "203.0.113.5");
    let said = settled(0, &mut || vec![status(&mut lab.strait("status")).0]);
    let errors = counter(&said[0], "errors_4to6") + counter(&said[0], "errors_6to4");
    assert!(translated(&said[0]) <= HOPS && errors <= 2 * HOPS, "{said:?}");
}
