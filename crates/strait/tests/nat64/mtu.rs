//! Packets of every length over paths of different MTUs: they arrive, or bring back the error that lets the sender adapt.

use std::process::Command;

use crate::attach::XDP;
use crate::lab::{CLIENT4, Lab, SERVER6, both, ip, possible};
use crate::{BYPASS, DEVICE, EXPRESS};

/// The MTUs of the links to the server (IPv4) and to the client (IPv6).
const PATHS: [(usize, usize); 9] = [
    (1500, 1280),
    (1500, 1420),
    (1500, 1500),
    (1420, 1420),
    (1420, 1500),
    (1280, 1500),
    (9000, 1500),
    (1500, 9000),
    (9000, 9000),
];

/// The paths for lanes, which leave to the device what they cannot do.
const SOME_PATHS: [(usize, usize); 3] = [(1500, 1280), (1280, 1500), (9000, 9000)];

/// Who sends an echo request, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    /// The server, by IPv4 with the DF flag.
    DontFragment,
    /// The server, by IPv4 without the DF flag.
    MayFragment,
    /// The client, by IPv6.
    Six,
}

const SENDERS: [Sender; 3] = [Sender::DontFragment, Sender::MayFragment, Sender::Six];

/// What becomes of an echo request.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Arrives,
    /// An error comes back that tells this MTU.
    TooBig(usize),
    Lost,
}

/// What RFC 7915 wants of an IP packet with this number of bytes.
fn expected(sender: Sender, bytes: usize, (mtu4, mtu6): (usize, usize)) -> Fate {
    match sender {
        // Section 4: fragmented, so that it fits.
        Sender::MayFragment => Fate::Arrives,
        Sender::DontFragment if bytes + 20 <= mtu6 => Fate::Arrives,
        // Section 5.2: the MTU of the IPv6 link, less the difference of the headers.
        Sender::DontFragment => Fate::TooBig(mtu6 - 20),
        // Section 5: up to 1260 bytes of IPv4, routers may fragment.
        Sender::Six if bytes - 20 <= mtu4.max(1260) => Fate::Arrives,
        // Section 4.2: IPv6 has no MTU below 1280.
        Sender::Six => Fate::TooBig((mtu4 + 20).max(1280)),
    }
}

/// The lengths at which something changes, for a sender whose own link has this MTU.
fn lengths(own: usize, (mtu4, mtu6): (usize, usize)) -> Vec<usize> {
    let edges = [1260, 1280, mtu4, mtu4 + 20, mtu6 - 20, mtu6];
    let mut all: Vec<usize> = edges.iter().flat_map(|n| [n - 1, *n, n + 1]).chain([100]).collect();
    all.retain(|n| *n <= own);
    all.sort_unstable();
    all.dedup();
    all
}

/// The number of echo requests that a host has received.
fn echoes(namespace: &str, file: &str, name: &str) -> u64 {
    let text = ns(namespace, &["cat", file]);
    if file.ends_with('6') {
        let line = text.lines().find(|line| line.starts_with(name)).expect("the counter");
        return line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    }
    let mut lines = text.lines().filter(|line| line.starts_with("Icmp:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|n| n == name).expect("the counter");
    values.split(' ').nth(at).and_then(|n| n.parse().ok()).expect("a number")
}

fn ns(namespace: &str, words: &[&str]) -> String {
    both(&Command::new("ip").args(["netns", "exec", namespace]).args(words).output().expect("ip starts"))
}

/// Sends an echo request with this number of bytes of IP packet.
fn send(lab: &Lab, sender: Sender, bytes: usize) -> Fate {
    let [client, server] = [lab.client(), lab.server()];
    let (from, to, counters, headers) = match sender {
        Sender::Six => (client, SERVER6, (server, "/proc/net/snmp", "InEchos"), 48),
        _ => (server, CLIENT4, (client, "/proc/net/snmp6", "Icmp6InEchos"), 28),
    };
    let before = echoes(counters.0, counters.1, counters.2);
    let hint = if sender == Sender::MayFragment { "dont" } else { "do" };
    let size = (bytes - headers).to_string();
    let said = ns(from, &["ping", "-n", "-c", "1", "-W", "0.2", "-M", hint, "-s", &size, to]);
    if echoes(counters.0, counters.1, counters.2) > before {
        return Fate::Arrives;
    }
    let told = said.split_once("mtu").map(|(_, rest)| rest.trim_start_matches([' ', '=', ':']));
    let mtu = told.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    mtu.map_or(Fate::Lost, Fate::TooBig)
}

/// Changes the MTUs of the links.
fn set_path(lab: &Lab, (mtu4, mtu6): (usize, usize)) {
    for (space, link, mtu) in [
        (lab.client(), "c0", mtu6),
        (lab.router.name(), "r0", mtu6),
        (lab.server(), "s0", mtu4),
        (lab.router.name(), "r1", mtu4),
    ] {
        ip(&format!("-n {space} link set {link} mtu {mtu}"));
    }
    forget(lab);
}

/// Lets the hosts forget what they learned about paths.
fn forget(lab: &Lab) {
    for space in [lab.client(), lab.router.name(), lab.server()] {
        for family in ["-4", "-6"] {
            ip(&format!("-n {space} {family} route flush cache"));
        }
    }
}

/// Every cell of the matrix whose result is not what it should be.
fn wrong_cells(lab: &Lab, paths: &[(usize, usize)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for &path in paths {
        set_path(lab, path);
        for sender in SENDERS {
            forget(lab);
            let own = if sender == Sender::Six { path.1 } else { path.0 };
            for bytes in lengths(own, path) {
                let (got, right) = (send(lab, sender, bytes), expected(sender, bytes, path));
                if got != right {
                    let (mtu4, mtu6) = path;
                    wrong.push(format!(
                        "IPv4 {mtu4}, IPv6 {mtu6}, {sender:?}, {bytes} bytes: {got:?}, not {right:?}"
                    ));
                }
            }
        }
    }
    wrong
}

fn matrix(name: &str, attach: &str, paths: &[(usize, usize)]) {
    if !possible(name) {
        return;
    }
    let lab = Lab::new(name);
    if attach == XDP {
        lab.complete_checksums();
    }
    lab.config(attach, "");
    lab.must("up");
    let wrong = wrong_cells(&lab, paths);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // UDP datagrams of all lengths arrive both ways, from senders that set DF and from others.
    for path in [(1500, 1280), (1280, 1500), (9000, 9000)] {
        set_path(&lab, path);
        for (space, value) in [(lab.server(), 0), (lab.server(), 1)] {
            ns(space, &["sysctl", "-w", &format!("net.ipv4.ip_no_pmtu_disc={value}")]);
            for size in
                [1, 1204, 1205, 1232, 1233, 1252, 1253, 1400, 1452, 1472, 1473, 2463, 2464, 4000, 9000]
            {
                lab.learn(size);
                lab.datagram(size);
            }
        }
    }
    lab.transfer(4, |_| ());
}

#[test]
fn packets_of_every_length_pass_the_device() {
    matrix("mtu-device", DEVICE, &PATHS);
}

#[test]
fn packets_of_every_length_pass_lanes() {
    matrix("mtu-express", EXPRESS, &SOME_PATHS);
}

#[test]
fn packets_of_every_length_pass_lanes_past_netfilter() {
    matrix("mtu-bypass", BYPASS, &SOME_PATHS);
}

#[test]
fn packets_of_every_length_pass_lanes_at_the_xdp_hook() {
    matrix("mtu-xdp", XDP, &SOME_PATHS);
}
