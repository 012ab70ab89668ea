//! Whoever may talk to a translator with sessions hurts nobody else: two processors at once, strangers, one subscriber, fragments.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::lab::{Lab, SERVER6, both, ip, possible};
use crate::native::Native;
use crate::service::Service;
use crate::sessions::{fragments, holds, open};
use crate::{DEVICE, EXPRESS};

/// Neither the cells of the two subscribers of these tests nor their candidates collide.
const SECRET: &str = "secret = \"00112233445566778899aabbccddeeff\"";
/// The ends of the lab's links send complete checksums.
const XDP: &str =
    "{ device = \"nat64\", interfaces = [\"r0\", \"r1\"], hook = \"xdp\", trust-checksums = true }";
/// A second subscriber: another /64.
const OTHER: &str = "2001:db8:100:1::2";
const PATIENCE: Duration = Duration::from_secs(30);

/// A lab whose client has addresses of two subscribers.
fn lab(name: &str) -> Option<Lab> {
    if !possible(name) {
        return None;
    }
    let lab = Lab::new(name);
    lab.complete_checksums();
    ip(&format!("-n {} addr add {OTHER}/128 dev lo nodad", lab.client()));
    ip(&format!("-n {} route add 2001:db8:100:1::/64 via 2001:db8:1::2", lab.router.name()));
    Some(lab)
}

/// Whether the native target can run. Prints the reason if it cannot.
fn native(name: &str) -> bool {
    let possible = std::path::Path::new("/dev/net/tun").exists();
    if !possible {
        println!("skipped: nat64 {name}: needs /dev/net/tun");
    }
    possible
}

/// A socket of the client with an address and port.
fn bound(lab: &Lab, at: &str) -> UdpSocket {
    let socket = lab.client.run(|| UdpSocket::bind(at).expect("binds")).expect("client");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    socket
}

/// Sockets of the server, with room for what comes at once.
fn servers<const N: usize>(lab: &Lab) -> [UdpSocket; N] {
    std::array::from_fn(|_| {
        let socket = lab.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        let room = nix::sys::socket::sockopt::RcvBufForce;
        nix::sys::socket::setsockopt(&socket, room, &(16 << 20)).expect("root may");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        socket
    })
}

/// How many datagrams have come.
fn received(socket: &UdpSocket) -> usize {
    let mut count = 0;
    while socket.recv(&mut [0; 64]).is_ok() {
        count += 1;
    }
    count
}

/// Two threads send at once from each of these sockets: to one port of the server, so both open one session, or to two, so both open one binding.
fn send_at_once(sockets: &[UdpSocket], servers: &[UdpSocket; 2]) {
    let ports = servers.each_ref().map(|socket| socket.local_addr().expect("bound").port());
    let ready = AtomicUsize::new(0);
    let work = |thread: usize| {
        for (round, socket) in sockets.iter().enumerate() {
            let port = if round % 2 == 0 { ports[0] } else { ports[thread] };
            ready.fetch_add(1, SeqCst);
            let begun = Instant::now();
            while ready.load(SeqCst) < 2 * (round + 1) {
                // Both are to run when the second one arrives.
                match begun.elapsed() < Duration::from_millis(2) {
                    true => std::hint::spin_loop(),
                    false => std::thread::yield_now(),
                }
            }
            socket.send_to(b"at once", (SERVER6, port)).expect("sends");
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || work(thread));
        }
    });
}

/// The number of bindings for UDP but the one of the file.
fn bindings(lab: &Lab) -> u64 {
    lab.flows("bindings", &["--protocol", "udp", "--count"])[0]["count"].as_u64().expect("a number") - 1
}

#[test]
fn two_processors_that_open_one_session_or_binding_lose_nothing() {
    const ROUNDS: usize = 300;
    for (name, attach) in [("at-once", DEVICE), ("at-once-e", EXPRESS), ("at-once-x", XDP)] {
        let Some(lab) = lab(name) else { return };
        lab.stateful(attach, SECRET);
        let service = Service::start(&lab, &[]);
        lab.ping(1);
        let servers = servers::<2>(&lab);
        let sockets: Vec<_> = (0..ROUNDS).map(|_| bound(&lab, "[2001:db8:100::2]:0")).collect();
        send_at_once(&sockets, &servers);
        let came: usize = servers.iter().map(received).sum();
        assert_eq!(came, 2 * ROUNDS, "{name}: {}", both(&lab.strait("status").output().expect("starts")));
        // A port that was claimed for nothing is given back.
        let begun = Instant::now();
        while bindings(&lab) != ROUNDS as u64 {
            assert!(begun.elapsed() < PATIENCE, "{name}: {} of {ROUNDS}: {}", bindings(&lab), service.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn two_workers_that_open_one_binding_lose_nothing() {
    const ROUNDS: usize = 300;
    let Some(lab) = lab("at-once-n").filter(|_| native("at-once-n")) else { return };
    lab.stateful(DEVICE, SECRET);
    let process = Native::start_with(&lab, &["--workers", "2"]);
    lab.ping(1);
    let servers = servers::<2>(&lab);
    let sockets: Vec<_> = (0..ROUNDS).map(|_| bound(&lab, "[2001:db8:100::2]:0")).collect();
    send_at_once(&sockets, &servers);
    let came: usize = servers.iter().map(received).sum();
    let counted = process.end();
    assert_eq!(came, 2 * ROUNDS, "{counted}");
}

/// A number of a counter or of a reason in `status`.
fn counted(lab: &Lab, list: &str, name: &str) -> u64 {
    let output = lab.strait("status").arg("--json").output().expect("strait starts");
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = status[list].as_array().expect("a list");
    let is = |item: &serde_json::Value, key| item[key].as_str().is_some_and(|text| text.ends_with(name));
    let found = all.iter().find(|item| is(item, "name") || is(item, "reason"));
    found.map_or(0, |item| item["packets"].as_u64().expect("a number"))
}

/// Sends a datagram from this many ports of the server to an address and port. The host hears all of them.
fn strangers(lab: &Lab, ports: std::ops::Range<u16>, to: std::net::SocketAddr, host: &UdpSocket) {
    let send = || {
        for port in ports {
            let socket = UdpSocket::bind(("192.0.2.2", port)).expect("binds");
            socket.send_to(b"stranger", to).expect("sends");
            host.recv(&mut [0; 16]).unwrap_or_else(|error| panic!("from port {port}: {error}"));
        }
    };
    lab.server.run(send).expect("server");
}

#[test]
fn strangers_neither_stop_new_sessions_nor_lose_a_packet() {
    const STRANGERS: u16 = 1500;
    for (name, attach) in [("strangers", Some(DEVICE)), ("strangers-n", None)] {
        let Some(lab) = lab(name).filter(|_| attach.is_some() || native(name)) else { return };
        lab.stateful(attach.unwrap_or(DEVICE), &format!("max-sessions = 1024\n{SECRET}"));
        let process = attach.is_none().then(|| Native::start(&lab));
        let _service = attach.map(|_| Service::start(&lab, &[]));
        let (host, server) = open(&lab, &lab.client);
        let external = server.peer_addr().expect("connected");
        strangers(&lab, 20_000..20_000 + STRANGERS, external, &host);
        for _ in 0..10 {
            open(&lab, &lab.client);
        }
        // An answer makes a session of the host's own.
        let last = 20_000 + STRANGERS - 1;
        let socket = lab.server.run(|| UdpSocket::bind(("192.0.2.2", last)).expect("binds")).expect("server");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        host.send_to(b"answer", (SERVER6, last)).expect("sends");
        assert_eq!(socket.recv(&mut [0; 16]).expect("it comes"), 6);
        if process.is_some() {
            continue;
        }
        let sessions = lab.flows("sessions", &["--count"])[0]["count"].as_u64().expect("a number");
        assert!((200..300).contains(&sessions), "a quarter of 1024: {sessions}");
        assert_eq!(lab.flows("sessions", &["--remote-port", &last.to_string()]).len(), 1);
        assert!(counted(&lab, "counters", "passed_without_session") >= u64::from(STRANGERS) - 300);
        assert_eq!(counted(&lab, "drops", "sessions_full"), 0);
    }
}

#[test]
fn one_subscriber_that_opens_all_it_can_leaves_room_for_others() {
    const PORTS: usize = 1500;
    for (name, attach) in [("subscriber", Some(DEVICE)), ("subscriber-x", Some(XDP)), ("subscriber-n", None)]
    {
        let Some(lab) = lab(name).filter(|_| attach.is_some() || native(name)) else { return };
        lab.stateful(
            attach.unwrap_or(DEVICE),
            &format!("max-sessions = 1024\ntimeouts = {{ udp = 3 }}\n{SECRET}"),
        );
        let process = attach.is_none().then(|| Native::start(&lab));
        let service = attach.map(|_| Service::start(&lab, &[]));
        let [server, second] = servers::<2>(&lab);
        let [port, second_port] = [&server, &second].map(|socket| socket.local_addr().expect("bound").port());
        let first = bound(&lab, "[2001:db8:100::2]:0");
        first.send_to(b"all", (SERVER6, port)).expect("sends");
        let flood = || {
            for _ in 1..PORTS {
                let socket = UdpSocket::bind("[2001:db8:100::2]:0").expect("binds");
                socket.send_to(b"all", (SERVER6, port)).expect("sends");
            }
        };
        lab.client.run(flood).expect("client");
        // The queue of an interface is no part of what is tested: what is sent at once may find it full.
        let mut all = received(&server);
        // Another one is served.
        for _ in 0..10 {
            let socket = bound(&lab, &format!("[{OTHER}]:0"));
            socket.send_to(b"other", (SERVER6, port)).expect("sends");
        }
        let mut others = 0;
        let mut buffer = [0; 16];
        while let Ok(size) = server.recv(&mut buffer) {
            all += usize::from(&buffer[..size] == b"all");
            others += usize::from(&buffer[..size] == b"other");
        }
        assert_eq!(others, 10, "{name}: {all} of the first one");
        assert!((100..300).contains(&all), "{name}: an eighth of 1024, and not {all}");
        if let Some(service) = &service {
            let drops = counted(&lab, "drops", "session_limit") + counted(&lab, "drops", "binding_limit");
            assert!(drops >= 1000, "{name}: {drops} are counted by reason: {}", service.said());
            let output = lab.strait("top").args(["--json", "--subscriber", "64"]).output().expect("starts");
            let top: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(top[0]["subscriber"], "2001:db8:100::/64");
            assert!(top[0]["refused"].as_u64().is_some_and(|n| n >= 1000), "{name}: {top}");
        }
        // Who has ended its sessions has room again: the process counts what there is.
        let begun = Instant::now();
        second.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        loop {
            first.send_to(b"again", (SERVER6, second_port)).expect("sends");
            if second.recv(&mut buffer).is_ok() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: there is no room");
        }
        drop(process);
    }
}

#[test]
fn fragments_of_one_source_leave_room_for_others() {
    const FIRST: u32 = 17_000;
    /// Where a frame has it: behind Ethernet, IPv6, and half of the fragment header.
    const IDENTIFICATION: std::ops::Range<usize> = 14 + 40 + 4..14 + 40 + 8;
    let Some(lab) = lab("fragment-share") else { return };
    lab.stateful(DEVICE, SECRET);
    let service = Service::start(&lab, &[]);
    // The server gets the first fragments, too.
    let room = || io::link::sysctl::set("net/ipv4/ipfrag_high_thresh", "268435456");
    lab.server.run(room).expect("the server").expect("a sysctl");
    let [server] = servers::<1>(&lab);
    let port = server.local_addr().expect("bound").port();
    lab.ping(1);
    let link = lab.client.run(|| io::packet::PacketSocket::open("c0")).expect("client").expect("a socket");
    holds(&lab);
    let payload: Vec<u8> = (0..200).collect();
    let mut frames = fragments(&lab, "2001:db8:100::2", 5000, port, &payload);
    for identification in 0..FIRST {
        frames[0][IDENTIFICATION].copy_from_slice(&identification.to_be_bytes());
        link.send(&frames[0]).expect("sends");
    }
    // What is sent at once may find a queue of the links full, so it is sent again, but not for as long as the flood is remembered.
    server.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    let mut buffer = [0; 512];
    let arrives = (FIRST..FIRST + 4).any(|identification| {
        for mut frame in fragments(&lab, OTHER, 5000, port, &payload) {
            frame[IDENTIFICATION].copy_from_slice(&identification.to_be_bytes());
            link.send(&frame).expect("sends");
        }
        server.recv(&mut buffer).is_ok_and(|size| buffer[..size] == payload)
    });
    assert!(arrives, "{}", service.said());
    assert!(counted(&lab, "counters", "fragments_limited") > 1000);
}
