//! Two senders, openings at once: two packets of a host's new port set out together, to one server port or to two. None is lost, none is doubled, both
//! have the same port of the pool, and no other port stays claimed.
//!
//! The number of openings is that of the environment's `STRAIT_OPENINGS` (a million takes minutes), and small without it.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::DEVICE;
use crate::attach::{TC, XDP};
use crate::lab::{Lab, SERVER6, ip, possible};

/// How long the native target takes at most, which may have to compile its program first.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a datagram may be under way.
const LATEST: Duration = Duration::from_secs(3);
/// Openings whose sockets are there at a time.
const BATCH: usize = 200;
/// The host ports that are used, of each host: a pool of 256 addresses stays half empty, as a host has one address.
const FIRST_PORT: usize = 1024;
const PORTS: usize = 5000;

fn openings() -> usize {
    std::env::var("STRAIT_OPENINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
}

/// What the server has received: for each opening and sender, from where.
type Received = HashMap<(u32, u8), Vec<SocketAddr>>;

/// A lab whose hosts share a pool that is large enough.
fn lab(name: &str, attach: &str) -> Option<Lab> {
    if !possible(name) {
        return None;
    }
    let lab = Lab::new(name);
    lab.complete_checksums();
    let text = format!(
        "[nat64]\nmode = \"stateful\"\nprefix = \"2001:db8:64::/96\"\npool = [\"198.51.100.0/24\"]\nattach = {attach}\nmax-sessions = {}\n\
         subscriber-sessions = 16777215\nsubscriber-bindings = 16777215\n",
        (2 * openings()).max(65_536)
    );
    std::fs::write(lab.file("nat64.toml"), text).expect("a file");
    ip(&format!("-n {} -6 route add local 2001:db8:100::/120 dev lo", lab.client.name()));
    // Sockets of all its addresses, which the client does not have one by one.
    let bindable = || io::link::sysctl::set("net/ipv6/ip_nonlocal_bind", "1");
    lab.client.run(bindable).expect("the client").expect("a sysctl");
    Some(lab)
}

/// The port of a host that an opening has.
fn own(lab: &Lab, opening: usize) -> UdpSocket {
    let (host, port) = (2 + opening / PORTS, FIRST_PORT + opening % PORTS);
    let bind = || UdpSocket::bind(format!("[2001:db8:100::{host:x}]:{port}")).expect("binds");
    lab.client.run(bind).expect("the client")
}

/// Plays all openings. Of two, one is to two ports of the server, and one twice to the first.
fn play(lab: &Lab) -> Received {
    let servers = [0, 1].map(|_| {
        let socket = lab.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        setsockopt(&socket, RcvBufForce, &(64 << 20)).expect("root may");
        socket.set_nonblocking(true).expect("a socket");
        socket
    });
    let ports = servers.each_ref().map(|socket| socket.local_addr().expect("bound").port());
    // Neighbours are known before it counts. What is sent meanwhile is no opening.
    lab.ping(2);
    let mut received = Received::new();
    for first in (0..openings()).step_by(BATCH) {
        let count = BATCH.min(openings() - first);
        let sockets: Vec<UdpSocket> = (first..first + count).map(|opening| own(lab, opening)).collect();
        let arrived = AtomicUsize::new(0);
        let send = |sender: u8| {
            for (at, socket) in sockets.iter().enumerate() {
                arrived.fetch_add(1, Ordering::SeqCst);
                let mut turns = 0u32;
                while arrived.load(Ordering::SeqCst) < 2 * (at + 1) {
                    turns += 1;
                    if turns.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
                let opening = first + at;
                let to = if opening.is_multiple_of(2) { ports[usize::from(sender)] } else { ports[0] };
                let mut payload = (opening as u32).to_be_bytes().to_vec();
                payload.push(sender);
                socket.send_to(&payload, (SERVER6, to)).expect("sends");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| send(1));
            send(0);
        });
        receive(&servers, 2 * count, &mut received);
    }
    received
}

/// Receives this number of datagrams, or what comes.
fn receive(servers: &[UdpSocket; 2], count: usize, received: &mut Received) {
    let mut buffer = [0; 16];
    let mut left = count;
    let begun = Instant::now();
    while left > 0 && begun.elapsed() < LATEST {
        for server in servers {
            while let Ok((5, from)) = server.recv_from(&mut buffer) {
                note(&buffer, from, received);
                left = left.saturating_sub(1);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn note(buffer: &[u8; 16], from: SocketAddr, received: &mut Received) {
    let opening = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
    received.entry((opening, buffer[4])).or_default().push(from);
}

/// What is wrong with what was received.
fn faults(received: &Received) -> Vec<String> {
    let mut all = Vec::new();
    for opening in 0..openings() as u32 {
        let of = |sender: u8| received.get(&(opening, sender)).map(Vec::as_slice).unwrap_or_default();
        match (of(0), of(1)) {
            ([one], [other]) if one == other => {}
            (one, other) => all.push(format!("opening {opening}: {one:?} and {other:?}")),
        }
    }
    all
}

fn count(lab: &Lab, verb: &str) -> u64 {
    lab.flows(verb, &["--count", "--protocol", "udp"])[0]["count"].as_u64().expect("a number")
}

#[test]
fn two_senders_at_once_lose_nothing_in_the_kernel() {
    for (name, attach) in [("opendev", DEVICE), ("opentc", TC), ("openxdp", XDP)] {
        let Some(lab) = lab(name, attach) else { return };
        lab.must("up");
        let wrong = faults(&play(&lab));
        assert!(wrong.is_empty(), "{name}: {} of {}, such as {}", wrong.len(), openings(), wrong[0]);
        let (bindings, sessions) = (count(&lab, "bindings"), count(&lab, "sessions"));
        let twice = openings().div_ceil(2);
        assert_eq!(bindings, openings() as u64, "{name}: no port is claimed for nothing");
        assert_eq!(sessions, (openings() + twice) as u64, "{name}");
    }
}

/// A translator in a process. It is killed when the value is dropped.
struct Native(Child);

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_senders_at_once_lose_nothing_on_two_workers() {
    let Some(lab) = lab("openwork", DEVICE) else { return };
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("skipped: nat64 openwork: needs /dev/net/tun");
        return;
    }
    let mut command = lab.strait("up");
    command.args(["--target", "native", "--workers", "2", "--json"]).stdout(Stdio::null());
    let _native = Native(command.spawn().expect("strait starts"));
    let begun = Instant::now();
    while !lab.sh("ip route show proto 64").contains("198.51.100.0/24") {
        assert!(begun.elapsed() < PATIENCE, "the native target does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    let received = play(&lab);
    let wrong = faults(&received);
    assert!(wrong.is_empty(), "{} of {}, such as {}", wrong.len(), openings(), wrong[0]);
    // Each host port has a port of its own.
    let mut ports: Vec<_> = received.values().flatten().collect();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), openings());
}
