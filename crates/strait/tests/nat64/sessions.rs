//! Mode `stateful`: hosts share an address, and operators look at what the kernel has learnt, remove it, and carry it elsewhere.

use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use io::netns::Namespace;

use crate::lab::{CLIENT4, Lab, SERVER6, both, possible};
use crate::service::Service;
use crate::{BYPASS, DEVICE, EXPRESS, carries_configured};

const XDP: &str = "{ device = \"nat64\", interfaces = [\"r0\", \"r1\"], hook = \"xdp\" }";

#[test]
fn hosts_share_an_address_with_every_attachment() {
    if !possible("stateful") {
        return;
    }
    for (name, attach) in
        [("sf-device", DEVICE), ("sf-express", EXPRESS), ("sf-bypass", BYPASS), ("sf-xdp", XDP)]
    {
        let lab = Lab::new(name);
        lab.complete_checksums();
        lab.stateful(attach, "");
        let status = carries_configured(&lab);
        let problems = status["problems"].as_array().expect("problems");
        // `up` starts no process, and says what that means.
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        assert!(
            problems[0]["problem"].as_str().expect("text").contains("no process removes"),
            "{problems:?}"
        );
    }
}

/// A socket that sends a datagram to the server, which answers it.
pub fn open(lab: &Lab, host: &Namespace) -> (UdpSocket, UdpSocket) {
    let server = lab.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
    let client = host.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    }
    client.send_to(b"to", (SERVER6, server.local_addr().expect("bound").port())).expect("sends");
    let mut buffer = [0; 16];
    let (_, from) = server.recv_from(&mut buffer).expect("it comes");
    assert_eq!(from.ip().to_string(), CLIENT4);
    server.connect(from).expect("connects");
    server.send(b"back").expect("sends");
    assert_eq!(client.recv(&mut buffer).expect("it comes back"), 4);
    (client, server)
}

/// Whether a datagram of the server still reaches the client.
fn reaches(client: &UdpSocket, server: &UdpSocket) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    server.send(b"again").is_ok() && client.recv(&mut [0; 16]).is_ok_and(|n| n == 5)
}

#[test]
fn operators_see_remove_and_carry_sessions() {
    if !possible("sessions") {
        return;
    }
    let lab = Lab::new("sessions");
    lab.stateful(DEVICE, "secret = \"00112233445566778899aabbccddeeff\"");
    let service = Service::start(&lab, &[]);
    let (client, server) = open(&lab, &lab.client);
    lab.ping(1);
    let port = client.local_addr().expect("bound").port();
    let external = server.peer_addr().expect("connected").to_string();
    let host = format!("[2001:db8:100::2]:{port}");

    let sessions = lab.flows("sessions", &["--protocol", "udp"]);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0]["host"], host);
    assert_eq!(sessions[0]["address"], external);
    assert_eq!(sessions[0]["remote"], server.local_addr().expect("bound").to_string());
    assert!(sessions[0]["expires"].as_u64().is_some_and(|left| (295..=300).contains(&left)), "{sessions:?}");
    let bindings = lab.flows("bindings", &["--host", "2001:db8:100::/64", "--protocol", "udp"]);
    assert_eq!(bindings.len(), 2, "one of the file, one of the packet: {bindings:?}");
    assert_eq!(lab.flows("sessions", &["--remote", "203.0.113.1"]).len(), 0);
    assert_eq!(lab.flows("sessions", &["--count"])[0]["count"], 2);
    let output = lab.strait("who").arg(&external).output().expect("strait starts");
    assert!(both(&output).contains(&host), "{}", both(&output));
    let output = lab.strait("top").args(["--json"]).output().expect("strait starts");
    let top: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&top[0]["bindings"], &top[0]["sessions"]), (&serde_json::json!(3), &serde_json::json!(2)));
    let pool = lab.must("pool");
    assert!(pool.contains("udp           2 of 64512 ports"), "{pool}");

    // Away with them, and back again.
    let exported = lab.must("export");
    assert_eq!(exported.lines().count(), 5, "{exported}");
    let output = lab.strait("flush").output().expect("strait starts");
    assert!(!output.status.success() && both(&output).contains("--all"), "{}", both(&output));
    let output = lab.strait("flush").arg("--all").output().expect("strait starts");
    assert!(both(&output).contains("2 bindings and 2 sessions are removed"), "{}", both(&output));
    assert!(!reaches(&client, &server), "the session is gone");
    std::fs::write(lab.file("sessions.jsonl"), &exported).expect("a file");
    let import = |name: &str| lab.strait("import").arg(lab.file(name)).output().expect("strait starts");
    let output = import("sessions.jsonl");
    assert!(both(&output).contains("2 bindings and 2 sessions are added"), "{}", both(&output));
    assert!(reaches(&client, &server), "the session is there again");
    // What is not from `export` changes nothing.
    for (text, words) in [
        ("", "line 1"),
        ("{\"format\":\"strait-nat64-sessions\",\"version\":2}", "version 2"),
        (&exported.replace("\"udp\"", "\"sctp\""), "sctp"),
        (&exported.replace("\"profile\":0", "\"profile\":7"), "profile"),
    ] {
        std::fs::write(lab.file("bad.jsonl"), text).expect("a file");
        let output = import("bad.jsonl");
        assert!(!output.status.success() && both(&output).contains(words), "{words}: {}", both(&output));
    }
    // A second router with the same secret gives the same ports.
    drop(service);
    lab.must("down");
    lab.must("up");
    client.send_to(b"to", (SERVER6, server.local_addr().expect("bound").port())).expect("sends");
    assert!(server.recv(&mut [0; 16]).is_ok(), "the client has the address and port that it had");
}

#[test]
fn a_subscriber_has_its_limit_and_room_again_when_sessions_have_ended() {
    if !possible("limits") {
        return;
    }
    let lab = Lab::new("limits");
    lab.stateful(DEVICE, "subscriber-sessions = 16\ntimeouts = { udp = 2 }");
    let service = Service::start(&lab, &[]);
    let sockets: Vec<_> = (0..16).map(|_| open(&lab, &lab.client)).collect();
    let client = lab.client.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
    for _ in 0..5 {
        let (_, server) = &sockets[0];
        let _ = client.send_to(b"no", (SERVER6, server.local_addr().expect("bound").port()));
    }
    assert_eq!(lab.flows("sessions", &["--count"])[0]["count"], 16);
    let output = lab.strait("top").args(["--json", "--subscriber", "64"]).output().expect("strait starts");
    let top: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(top[0]["refused"], 5, "{top}");
    let begun = Instant::now();
    while lab.flows("sessions", &["--count"])[0]["count"] != 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", service.said());
        std::thread::sleep(Duration::from_millis(100));
    }
    // The process counts what there is once a second, and a count may be of the moment when the last ones had not ended.
    let begun = Instant::now();
    for (client, server) in &sockets[..10] {
        server.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
        let to = (SERVER6, server.local_addr().expect("bound").port());
        client.send_to(b"again", to).expect("sends");
        while server.recv(&mut [0; 16]).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", service.said());
            client.send_to(b"again", to).expect("sends");
        }
    }
}

#[test]
fn sessions_end_when_their_time_has_passed() {
    if !possible("timeouts") {
        return;
    }
    let lab = Lab::new("timeouts");
    lab.stateful(DEVICE, "timeouts = { udp = 1 }");
    let service = Service::start(&lab, &[]);
    let _sockets = open(&lab, &lab.client);
    assert_eq!(lab.flows("sessions", &[]).len(), 1);
    let begun = Instant::now();
    while !lab.flows("sessions", &[]).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", service.said());
        std::thread::sleep(Duration::from_millis(100));
    }
    // The binding lives longer, so that the session may begin again.
    assert_eq!(lab.flows("bindings", &["--protocol", "udp"]).len(), 2);
    // Another time counts after a reload.
    lab.stateful(DEVICE, "timeouts = { udp = 600 }");
    lab.must("reload");
    let _more = open(&lab, &lab.client);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(lab.flows("sessions", &[]).len(), 1);
}

#[test]
fn sessions_survive_reloads_upgrades_and_kills() {
    if !possible("survive") {
        return;
    }
    let lab = Lab::new("survive");
    lab.stateful(EXPRESS, "");
    let mut service = Service::start(&lab, &[]);
    let sockets: Vec<_> = (0..200).map(|_| open(&lab, &lab.client)).collect();
    for round in 0..2 {
        service.end("KILL");
        lab.stateful(EXPRESS, &format!("tos = {round}"));
        lab.must("reload");
        lab.outdate();
        lab.must("reload");
        service = Service::start(&lab, &[]);
        let count = lab.flows("sessions", &["--count"]);
        assert_eq!(count[0]["count"], 200, "round {round}");
        let lost = sockets.iter().filter(|(client, server)| !reaches(client, server)).count();
        assert_eq!(lost, 0, "round {round}");
    }
    // What the file allows no more goes, and a static binding takes the place of a learnt one and stays.
    let (client, server) = &sockets[0];
    let port = client.local_addr().expect("bound").port();
    let external = server.peer_addr().expect("connected").port();
    let binding = format!(
        "[[binding]]\nprotocol = \"udp\"\nipv4 = \"{CLIENT4}:{external}\"\nipv6 = \"[2001:db8:100::2]:{port}\"\n"
    );
    lab.stateful(EXPRESS, "ports = \"60000-60001\"");
    let file = lab.file("nat64.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, format!("{text}{binding}")).expect("a file");
    lab.must("reload");
    assert_eq!(lab.flows("sessions", &["--count"])[0]["count"], 1);
    let left = lab.flows("bindings", &[]);
    assert!(left.len() == 2 && left.iter().all(|binding| binding["static"] == true), "{left:?}");
    assert!(reaches(client, server) && !reaches(&sockets[1].0, &sockets[1].1));
    // The other mode has none, and is a change like others.
    lab.config(EXPRESS, "");
    lab.must("reload");
    lab.ping(1);
    let output = lab.strait("sessions").stdin(Stdio::null()).output().expect("strait starts");
    assert!(!output.status.success() && both(&output).contains("without sessions"), "{}", both(&output));
}

#[test]
fn a_host_with_an_address_for_itself_is_reached_at_every_port() {
    if !possible("host") {
        return;
    }
    let lab = Lab::new("host");
    for attach in [DEVICE, XDP] {
        lab.complete_checksums();
        let file = lab.stateful(attach, "");
        let text = std::fs::read_to_string(&file).expect("a file");
        let binding = "[[binding]]\nipv4 = \"198.51.100.3\"\nipv6 = \"2001:db8:100::3\"\n";
        std::fs::write(&file, format!("{text}{binding}")).expect("a file");
        lab.must("up");
        let ip = |space: &Namespace, words: &str| {
            let mut command = std::process::Command::new("ip");
            assert!(
                command
                    .args(["-n", space.name()])
                    .args(words.split(' '))
                    .status()
                    .expect("ip starts")
                    .success()
            );
        };
        ip(&lab.client, "addr replace 2001:db8:100::3/128 dev lo nodad");
        // The server calls first, at a port that nobody has bound.
        let bind = |space: &Namespace, at: &str| {
            let socket = space.run(|| UdpSocket::bind(at).expect("binds")).expect("a namespace");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
            socket
        };
        let (server, client) =
            (bind(&lab.server, "192.0.2.2:0"), bind(&lab.client, "[2001:db8:100::3]:4242"));
        server.send_to(b"to", "198.51.100.3:4242").expect("sends");
        let mut buffer = [0; 16];
        let (_, from) = client.recv_from(&mut buffer).expect("it comes");
        assert_eq!(from.to_string(), format!("[{SERVER6}]:{}", server.local_addr().expect("bound").port()));
        client.send_to(b"back", from).expect("sends");
        let (_, from) = server.recv_from(&mut buffer).expect("it comes back");
        assert_eq!(from.to_string(), "198.51.100.3:4242");
        let bindings = lab.flows("bindings", &["--address", "198.51.100.3"]);
        assert_eq!(bindings[0]["host"], "2001:db8:100::3");
        let output = lab.strait("who").arg("198.51.100.3:80").output().expect("strait starts");
        assert!(both(&output).contains("2001:db8:100::3 has all of"), "{}", both(&output));
        assert_eq!(lab.flows("sessions", &["--count"])[0]["count"], 0);
        lab.must("down");
    }
}

#[test]
fn a_block_of_ports_tells_its_subscriber_without_a_log() {
    if !possible("blocks") {
        return;
    }
    let lab = Lab::new("blocks");
    let text = "[nat64]\nmode = \"stateful\"\nprefix = \"2001:db8:64::/96\"\n\
                [[pool]]\nhosts = \"2001:db8:100::/59\"\naddresses = [\"198.51.100.2\"]\nblock = 1024\nsubscriber = 64\n";
    std::fs::write(lab.file("nat64.toml"), text).expect("a file");
    lab.must("up");
    for _ in 0..20 {
        let (_, server) = open(&lab, &lab.client);
        let external = server.peer_addr().expect("connected");
        assert!((1024..2048).contains(&external.port()), "{external} is of the first block");
        let output = lab.strait("who").arg(external.to_string()).output().expect("strait starts");
        assert!(both(&output).contains("2001:db8:100::/64 has that port"), "{}", both(&output));
    }
}

/// Waits for a datagram of a server of logs.
fn datagram(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let size = socket.recv(&mut buffer).expect("a datagram");
    buffer[..size].to_vec()
}

#[test]
fn logs_answer_who_had_a_port() {
    if !possible("logs") {
        return;
    }
    let lab = Lab::new("logs");
    lab.sh("ip link set lo up");
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("binds");
    let server = || lab.router.run(bind).expect("the router");
    let (syslog, ipfix) = (server(), server());
    for socket in [&syslog, &ipfix] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    }
    let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
    let file = lab.file("log.jsonl");
    lab.stateful(
        DEVICE,
        &format!(
            "timeouts = {{ udp = 1 }}\nlog = \"sessions\"\nlog-to = [\"{}\", \"syslog://127.0.0.1:{}\", \"ipfix://127.0.0.1:{}\"]",
            file.display(),
            port(&syslog),
            port(&ipfix)
        ),
    );
    let service = Service::start(&lab, &[]);
    let (client, server) = open(&lab, &lab.client);
    let external = server.peer_addr().expect("connected").to_string();
    let host = format!("[2001:db8:100::2]:{}", port(&client));
    let message = String::from_utf8(datagram(&syslog)).expect("text");
    assert!(message.starts_with("<134>1 20") && message.contains("\"binding-created\""), "{message}");
    assert!(message.contains(&host) && message.contains(&external), "{message}");
    let message = datagram(&ipfix);
    assert_eq!((message[1], usize::from(u16::from_be_bytes([message[2], message[3]]))), (10, message.len()));
    // The binding ends twenty seconds after its last packet.
    let begun = Instant::now();
    let text = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.contains("binding-deleted") {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "{text}: {}", service.said());
        std::thread::sleep(Duration::from_millis(200));
    };
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().expect("text")).collect();
    assert_eq!(events, ["binding-created", "session-created", "session-deleted", "binding-deleted"]);
    let who = |at: &str| {
        let mut command = lab.strait("who");
        command.arg(&external).args(["--at", at, "--log"]).arg(&file);
        let output = command.output().expect("strait starts");
        (output.status.code(), both(&output))
    };
    let (code, said) = who(lines[1]["time"].as_str().expect("text"));
    assert!(code == Some(0) && said.contains(&host), "{said}");
    let (code, said) = who(lines[3]["time"].as_str().expect("text"));
    assert!(code == Some(3) && said.contains("nobody"), "{said}");
}

/// nfdump's collector stores the IPFIX messages, and nfdump prints what it has understood.
#[test]
fn a_collector_of_others_reads_the_logs() {
    if !possible("collector") {
        return;
    }
    let run = |words: &str| std::process::Command::new("sh").args(["-c", words]).output().expect("sh starts");
    if !run("command -v nfcapd nfdump").status.success() {
        println!("skipped: nat64 collector: needs nfdump");
        return;
    }
    let lab = Lab::new("collector");
    lab.sh("ip link set lo up");
    let directory = lab.file("flows");
    std::fs::create_dir(&directory).expect("a directory");
    let file = lab.file("log.jsonl");
    let targets = format!("\"ipfix://127.0.0.1:9995\", \"{}\"", file.display());
    lab.stateful(DEVICE, &format!("log = \"sessions\"\nlog-to = [{targets}]"));
    let mut collector = std::process::Command::new("nsenter")
        .arg(format!("--net={}", lab.router.path().display()))
        .args(["nfcapd", "-p", "9995", "-b", "127.0.0.1", "-w"])
        .arg(&directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nfcapd starts");
    let listens = || lab.sh("ss -lnu").contains("127.0.0.1:9995");
    let begun = Instant::now();
    while !listens() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nfcapd does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let service = Service::start(&lab, &[]);
    let (client, server) = open(&lab, &lab.client);
    let begun = Instant::now();
    while !std::fs::read_to_string(&file).unwrap_or_default().contains("session-created") {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", service.said());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(service.end("TERM"), Some(0));
    std::thread::sleep(Duration::from_millis(300));
    // It writes its file when it ends.
    assert!(run(&format!("kill {}", collector.id())).status.success());
    collector.wait().expect("nfcapd ends");
    let said = both(&run(&format!("nfdump -R {} -o raw", directory.display())));
    let records: Vec<&str> = said.split("Flow Record:").skip(1).collect();
    let (external, remote) = (server.peer_addr().expect("connected"), server.local_addr().expect("bound"));
    let own = client.local_addr().expect("bound").port();
    // What nfdump prints, and what it prints for a binding (NAT64 BIB create, RFC 8158) and for a session.
    for (event, words) in [
        (
            "10:",
            vec![("src addr", "2001:db8:100::2".to_string()), ("src xlt port", external.port().to_string())],
        ),
        (
            "6:",
            vec![
                ("src port", own.to_string()),
                ("dst xlt ip", remote.ip().to_string()),
                ("dst xlt port", remote.port().to_string()),
            ],
        ),
    ] {
        let line = |record: &str, name: &str, value: &str| {
            record.lines().any(|line| {
                line.split_once('=').is_some_and(|(n, v)| n.trim() == name && v.trim().starts_with(value))
            })
        };
        let found =
            records.iter().any(|r| line(r, "nat event", event) && words.iter().all(|(n, v)| line(r, n, v)));
        assert!(found, "no event {event} with {words:?}: {said}");
    }
}

/// Waits until the process holds packets.
pub fn holds(lab: &Lab) {
    let begun = Instant::now();
    while !lab.state().contains("strait-cpu") {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", lab.state());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The program is told behind that.
    std::thread::sleep(Duration::from_millis(200));
}

/// The fragments of an IPv6 packet with a UDP datagram of an address of the client, in frames for the router.
pub fn fragments(lab: &Lab, source: &str, source_port: u16, port: u16, payload: &[u8]) -> [Vec<u8>; 2] {
    let mac = |space: &Namespace, link: &str| {
        let output = std::process::Command::new("ip")
            .args(["-n", space.name(), "-br", "link", "show", link])
            .output()
            .expect("ip starts");
        let text = String::from_utf8(output.stdout).expect("text");
        let mac = text.split_whitespace().nth(2).expect("an address").to_string();
        let bytes: Vec<u8> = mac.split(':').map(|b| u8::from_str_radix(b, 16).expect("hex")).collect();
        <[u8; 6]>::try_from(bytes).expect("six bytes")
    };
    let (client, router) = (mac(&lab.client, "c0"), mac(&lab.router, "r0"));
    let source: std::net::Ipv6Addr = source.parse().expect("an address");
    let target: std::net::Ipv6Addr = SERVER6.parse().expect("an address");
    let whole = etherparse::PacketBuilder::ethernet2(client, router)
        .ipv6(source.octets(), target.octets(), 64)
        .udp(source_port, port);
    let mut bytes = Vec::new();
    whole.write(&mut bytes, payload).expect("a packet");
    let datagram = &bytes[14 + 40..];
    let cut = 64;
    [(0, &datagram[..cut], 1), (cut, &datagram[cut..], 0)].map(|(offset, part, more)| {
        let mut frame = bytes[..14 + 40].to_vec();
        frame[18..20].copy_from_slice(&((part.len() + 8) as u16).to_be_bytes());
        frame[20] = 44;
        frame.extend([17, 0]);
        frame.extend((offset as u16 | more).to_be_bytes());
        frame.extend(0x1234_5678u32.to_be_bytes());
        frame.extend(part);
        frame
    })
}

#[test]
fn fragments_may_come_in_any_order() {
    if !possible("fragment order") {
        return;
    }
    for (name, attach) in [("order", DEVICE), ("order-x", EXPRESS), ("order-b", BYPASS)] {
        let lab = Lab::new(name);
        lab.stateful(attach, "");
        let service = Service::start(&lab, &[]);
        let server = lab.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        server.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let payload: Vec<u8> = (0..200).collect();
        let [first, last] =
            fragments(&lab, "2001:db8:100::2", 5000, server.local_addr().expect("bound").port(), &payload);
        // Neighbours are known.
        lab.ping(1);
        let link =
            lab.client.run(|| io::packet::PacketSocket::open("c0")).expect("client").expect("a socket");
        holds(&lab);
        link.send(&last).expect("sends");
        std::thread::sleep(Duration::from_millis(30));
        link.send(&first).expect("sends");
        let mut buffer = [0; 512];
        let received = server.recv(&mut buffer).unwrap_or_else(|e| {
            let status = both(&lab.strait("status").output().expect("strait starts"));
            panic!("{name}: {e}: {}{status}", service.said())
        });
        assert_eq!(buffer[..received], payload, "{name}");
    }
}

#[test]
fn a_syn_that_nobody_has_asked_for_is_answered_after_six_seconds() {
    if !possible("unasked") {
        return;
    }
    let lab = Lab::new("unasked");
    lab.stateful(DEVICE, "");
    let service = Service::start(&lab, &[]);
    holds(&lab);
    let begun = Instant::now();
    let to = format!("{CLIENT4}:4567").parse().expect("an address");
    let connected = lab.server.run(|| std::net::TcpStream::connect_timeout(&to, Duration::from_secs(20)));
    let error = connected.expect("server").expect_err("nobody is there");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}: {}", service.said());
    assert!(begun.elapsed() >= Duration::from_secs(6), "{:?}", begun.elapsed());
    let before = lab.state();
    assert!(before.contains("strait-cpu"), "the interface of the process is there: {before}");
    service.end("KILL");
    assert!(!lab.state().contains("strait-cpu"), "and goes with it");
    // What it held is dropped; other packets do not need it.
    lab.ping(1);
    let (client, server) = open(&lab, &lab.client);
    assert!(reaches(&client, &server));
}

/// Another router with the same secret gives hosts the addresses and ports that they had, whatever the order in which they call: no session is replicated.
#[test]
fn another_router_makes_the_same_bindings() {
    if !possible("another router") {
        return;
    }
    const FLOWS: usize = 400;
    let lab = Lab::new("another");
    lab.stateful(EXPRESS, "secret = \"00112233445566778899aabbccddeeff\"");
    lab.must("up");
    let flows: Vec<_> = (0..FLOWS).map(|_| open(&lab, &lab.client)).collect();
    // It knows nothing of the first one but the file.
    lab.must("down");
    lab.must("up");
    assert!(lab.flows("sessions", &[]).is_empty());
    let survives = |(client, server): &(UdpSocket, UdpSocket)| {
        let to = (SERVER6, server.local_addr().expect("bound").port());
        server.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        // The server's socket hears only the address and port that it was called from before.
        client.send_to(b"on", to).is_ok() && server.recv(&mut [0; 16]).is_ok_and(|n| n == 2)
    };
    let survived = flows.iter().rev().filter(|flow| survives(flow)).count();
    // Two of them may have wanted one port, and then the order of calls decides.
    assert!(survived >= FLOWS - 20, "{survived} of {FLOWS} connections go on");
    println!("{survived} of {FLOWS} connections go on");
}
