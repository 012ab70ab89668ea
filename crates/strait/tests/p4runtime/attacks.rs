//! Clients without rights that want to hurt others: the server keeps its memory and answers others in time. Raw HTTP/2 is sent, because no library does
//! what these clients do. `STRAIT_ATTACK_SECONDS` says how long the mixed attack lasts (3).

use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prost::Message as _;
use proto::p4::v1::entity::Entity;
use proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use proto::p4::v1::stream_message_request::Update as Request;
use proto::p4::v1::update::Type;
use proto::p4::v1::{self, ForwardingPipelineConfig, TableEntry};
use rustix::process::Uid;
use tonic::Code;

use crate::client::{Client, RUNTIME, Server, call, entry, exact, exact_entry, program, update};
use harness::over::Over;

/// The user who attacks.
const NOBODY: u32 = 65534;
/// An answer comes within this time on a machine that is busy with other tests. On a quiet one it takes some milliseconds.
const ANSWER: Duration = Duration::from_secs(10);
/// The time that something may take until it is over.
const OVER: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < OVER, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A connection of HTTP/2 that sends frames as it likes, and reads nothing.
struct Raw<S> {
    socket: S,
    next: u32,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A message of gRPC that announces a length.
fn message(length: usize, bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &(length as u32).to_be_bytes(), bytes].concat()
}

impl Raw<TcpStream> {
    fn connect(server: &Server, settings: &[(u16, u32)]) -> Option<Raw<TcpStream>> {
        let socket = TcpStream::connect(&server.address).ok()?;
        socket.set_write_timeout(Some(Duration::from_millis(200))).ok()?;
        Raw::begin(socket, settings)
    }
}

impl<S: Write> Raw<S> {
    fn begin(socket: S, settings: &[(u16, u32)]) -> Option<Raw<S>> {
        let mut raw = Raw { socket, next: 1 };
        let setting = |(key, value): &(u16, u32)| [&key.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let settings: Vec<u8> = settings.iter().flat_map(setting).collect();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        raw.send(&[preface, frame(SETTINGS, 0, 0, &settings)].concat()).then_some(raw)
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Opens a stream that calls a method. Returns its number.
    fn call(&mut self, method: &str) -> Option<u32> {
        let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        // :method POST and :scheme http have numbers; the rest is literal.
        let path = [vec![0x04], text(&format!("/p4.v1.P4Runtime/{method}"))].concat();
        let authority = [vec![0x01], text("strait")].concat();
        let kind = [vec![0x0f, 0x10], text("application/grpc")].concat();
        let trailers = [vec![0x00], text("te"), text("trailers")].concat();
        let block = [vec![0x83, 0x86], path, authority, kind, trailers].concat();
        let stream = self.next;
        self.next += 2;
        self.send(&frame(HEADERS, END_HEADERS, stream, &block)).then_some(stream)
    }

    /// Sends a whole request.
    fn ask(&mut self, method: &str, request: &[u8]) -> bool {
        let Some(stream) = self.call(method) else { return false };
        self.send(&frame(DATA, END_STREAM, stream, &message(request.len(), request)))
    }
}

/// A request that reads all table entries.
fn read_all() -> Vec<u8> {
    let all = v1::Entity { entity: Some(Entity::TableEntry(TableEntry::default())) };
    v1::ReadRequest { device_id: 1, role: String::new(), entities: vec![all] }.encode_to_vec()
}

/// A server with this many entries of about 200 bytes, and its primary.
fn filled(count: u32) -> (Server, Client, crate::client::Stream) {
    let server = Server::kinds();
    let (mut client, stream) = server.primary();
    let one = |n: u32| {
        let entry =
            entry("I.exact_", vec![exact(1, &n.to_be_bytes()), exact(2, &[0])], call("I.send", &[&[1]]));
        update(Type::Insert, Entity::TableEntry(TableEntry { metadata: vec![7; 150], ..entry }))
    };
    for first in (0..count).step_by(2000) {
        client.write((first..(first + 2000).min(count)).map(one).collect()).expect("they are added");
    }
    (server, client, stream)
}

/// The time until another client has read an entry, over a connection of its own.
fn another_reads(server: &Server) -> Duration {
    let begun = Instant::now();
    let found = server.client().entries(exact_entry(200, 0, 1));
    assert!(found.len() <= 1);
    begun.elapsed()
}

/// S8: nothing is reserved for bytes that are only announced.
#[test]
fn announced_lengths_reserve_nothing() {
    let server = Server::kinds();
    let (mut primary, _stream) = server.primary();
    let before = server.memory();
    let mut open = Vec::new();
    for _ in 0..40 {
        let Some(mut raw) = Raw::connect(&server, &[]) else { continue };
        for n in 0..64 {
            let method = ["Write", "StreamChannel", "SetForwardingPipelineConfig"][n % 3];
            let Some(stream) = raw.call(method) else { break };
            // 64 MB are announced, or as much as a stranger may send.
            let length = if n % 2 == 0 { 64_000_000 } else { 65_000 };
            raw.send(&frame(DATA, 0, stream, &message(length, &[0; 300])));
        }
        open.push(raw);
    }
    assert!(another_reads(&server) < ANSWER);
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    let more = server.memory().saturating_sub(before);
    assert!(more < 120 << 10, "{more} KiB for {} connections", open.len());
}

/// S8: a stranger's message is short; a primary's may be long.
#[test]
fn only_a_primary_sends_long_messages() {
    let server = Server::kinds();
    let (mut primary, _stream) = server.primary();
    let long = |id: u32| {
        let entry =
            entry("I.exact_", vec![exact(1, &id.to_be_bytes()), exact(2, &[0])], call("I.send", &[&[1]]));
        vec![update(Type::Insert, Entity::TableEntry(TableEntry { metadata: vec![0; 1 << 20], ..entry }))]
    };
    primary.write(long(1)).expect("the primary writes a megabyte");
    let mut stranger = server.client();
    stranger.election = primary.election;
    let refused = stranger.write(long(2)).expect_err("it is too long for a stranger");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("allowed"), "{refused}");
}

/// S2: what is refused is not sent back, and waits for nobody.
#[test]
fn refusals_do_not_repeat_what_was_refused() {
    let server = Server::kinds();
    let (mut primary, _stream) = server.primary();
    let before = server.memory();
    let payload = vec![1; 60_000];
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut client = server.client();
        let mut stream = client.stream();
        stream.arbitrate(&mut client, None);
        slow.push((client, stream));
    }
    for _ in 0..1000 {
        for (_, stream) in &slow {
            let packet = v1::PacketOut { payload: payload.clone(), metadata: Vec::new() };
            let message = v1::StreamMessageRequest { update: Some(Request::Packet(packet)) };
            let sent =
                RUNTIME.block_on(async { tokio::time::timeout(ANSWER, stream.send.send(message)).await });
            assert!(sent.is_ok(), "the server reads on, or ends the stream");
        }
    }
    let more = server.memory().saturating_sub(before);
    assert!(more < 130 << 10, "{more} KiB");
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    assert!(another_reads(&server) < ANSWER);
}

/// S2: a controller that does not take its messages loses its stream, and its place as the primary.
#[test]
fn a_client_that_never_reads_its_stream_loses_it() {
    let server = Server::kinds();
    // Its window is closed, so that it is not even told that it is the primary.
    let mut raw = Raw::connect(&server, &[(4, 0)]).expect("a connection");
    let stream = raw.call("StreamChannel").expect("a stream");
    let role = Some(v1::Role { name: "stalled".to_string(), ..v1::Role::default() });
    let election_id = Some(v1::Uint128 { high: 0, low: 5 });
    let update = v1::MasterArbitrationUpdate { device_id: 1, role, election_id, status: None };
    let message_of = v1::StreamMessageRequest { update: Some(Request::Arbitration(update)) }.encode_to_vec();
    assert!(raw.send(&frame(DATA, 0, stream, &message(message_of.len(), &message_of))));
    let mut backup = server.client();
    backup.role = "stalled".to_string();
    // It has a place behind the other one, as soon as the server has heard of that.
    until("the other one is the primary", || {
        let mut stream = backup.stream();
        stream.arbitrate(&mut backup, None);
        stream.arbitration().expect("an answer").status.is_some_and(|status| status.code == 6)
    });
    let mut second = backup.stream();
    second.arbitrate(&mut backup, None);
    second.arbitration().expect("an answer");
    assert!(second.next_within(OVER).is_some(), "it is told that the primary has gone");
}

/// The files without a name that a server has: answers that wait.
fn waiting_answers(server: &Server) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("it runs");
    let link = |file: std::io::Result<std::fs::DirEntry>| std::fs::read_link(file.ok()?.path()).ok();
    files.filter_map(link).filter(|link| link.to_string_lossy().ends_with("(deleted)")).count()
}

/// S3: readers that stop reading keep no turn, and lose their answers.
#[test]
fn readers_that_stop_reading_block_nobody() {
    let (server, mut primary, _stream) = filled(12_000);
    let before = server.memory();
    let mut stalled = Vec::new();
    for _ in 0..6 {
        let mut raw = Raw::connect(&server, &[]).expect("a connection");
        assert!(raw.ask("Read", &read_all()));
        stalled.push(raw);
    }
    until("the answers wait", || waiting_answers(&server) >= 2);
    another_reads(&server);
    assert_eq!(server.client().entries(TableEntry::default()).iter().filter(|e| !e.is_const).count(), 12_000);
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 1, 1))), Code::Ok);
    let more = server.memory().saturating_sub(before);
    assert!(more < 100 << 10, "{more} KiB");
    until("the answers are given up", || waiting_answers(&server) == 0);
}

/// S9, D3: connections that say nothing, and those that say little, lock nobody out.
#[test]
fn connections_of_one_peer_lock_nobody_out() {
    let server = Server::kinds();
    let (mut primary, _stream) = server.primary();
    let mut open = Vec::new();
    for n in 0..400 {
        let Ok(socket) = TcpStream::connect(&server.address) else { continue };
        // Half of them are alive: they have begun with HTTP/2.
        match n % 2 {
            0 => open.push(Raw { socket, next: 1 }),
            _ => open.extend(Raw::begin(socket, &[])),
        }
    }
    for _ in 0..5 {
        reads_within(&server, ANSWER);
    }
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    assert!(server.files() < 256, "the server has {} files", server.files());
    drop(open);
}

/// D3: who says nothing is not waited for.
#[test]
fn a_connection_without_a_beginning_is_ended() {
    let server = Server::kinds();
    for begin in [&b""[..], b"PRI * HTTP"] {
        let mut socket = TcpStream::connect(&server.address).expect("a connection");
        socket.write_all(begin).expect("it is open");
        socket.set_read_timeout(Some(OVER)).expect("a socket");
        // What the server says first may come; then it ends the connection.
        let begun = Instant::now();
        while matches!(socket.read(&mut [0; 64]), Ok(1..)) {}
        assert!(begun.elapsed() < OVER, "the server has ended it");
    }
}

/// S6: names of roles are free again.
#[test]
fn roles_end_with_their_streams() {
    let server = Server::kinds();
    for round in 0..2 {
        let mut streams = Vec::new();
        for n in 0..300u32 {
            let mut client = server.client();
            client.role = format!("role-{round}-{n}");
            let mut stream = client.stream();
            stream.arbitrate(&mut client, Some(1));
            stream.arbitration().expect("there is room for the role");
            streams.push((client, stream));
            // As many at a time as a peer has connections, and few.
            if streams.len() > 20 {
                streams.clear();
            }
        }
    }
    let mut client = server.client();
    client.role = "routes".to_string();
    client.primary(1);
}

/// A program that would be compiled for ever: a control has two instances of the one before, forty times.
fn endless() -> Vec<u8> {
    let mut text = "#include <core.p4>\n#include <v1model.p4>\nstruct H {} struct M { bit<32> x; }
        parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }
        control V(inout H h, inout M m) { apply {} } control C(inout H h, inout M m) { apply {} }
        control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
        control D(packet_out p, in H h) { apply {} } control Z0(inout bit<32> x) { apply { x = x + 1; } }\n"
        .to_string();
    for n in 1..40 {
        let of = format!("Z{}", n - 1);
        text += &format!(
            "control Z{n}(inout bit<32> x) {{ {of}() a; {of}() b; apply {{ a.apply(x); b.apply(x); }} }}\n"
        );
    }
    text += "control I(inout H h, inout M m, inout standard_metadata_t s) { Z39() a; apply { a.apply(m.x); s.egress_spec = 1; } }
        V1Switch(P(), V(), I(), E(), C(), D()) main;";
    text.into_bytes()
}

fn threads(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs").count()
}

/// S4: cancelled pushes do not compile side by side.
#[test]
fn cancelled_pushes_end() {
    let server = Server::kinds();
    let (mut primary, _stream) = server.primary();
    let (before, threads_before) = (server.memory(), threads(&server));
    let config = ForwardingPipelineConfig {
        p4info: Some(crate::client::KINDS.clone()),
        p4_device_config: endless(),
        cookie: None,
    };
    for _ in 0..16 {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: primary.election,
            action: Action::VerifyAndCommit.into(),
            config: Some(config.clone()),
            ..Default::default()
        };
        let mut rpc = primary.rpc.clone();
        let pushed = RUNTIME.block_on(async {
            tokio::time::timeout(Duration::from_millis(200), rpc.set_forwarding_pipeline_config(request))
                .await
        });
        assert!(!matches!(pushed, Ok(Ok(_))), "such a program is refused");
    }
    assert!(threads(&server) < threads_before + 12, "{} threads", threads(&server));
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok, "writes go on");
    let more = server.memory().saturating_sub(before);
    assert!(more < 300 << 10, "{more} KiB");
    // The next push has its turn, because the cancelled ones are over.
    let good = ForwardingPipelineConfig { p4_device_config: program("kinds.p4"), ..config };
    until("a push succeeds", || primary.push(Action::VerifyAndCommit, Some(good.clone())).is_ok());
}

/// S5: a program's memory is asked for before it is taken.
#[test]
fn a_program_that_needs_too_much_memory_is_refused_and_the_old_one_goes_on() {
    let kinds = crate::client::file("kinds.p4");
    let server = Server::start_on("native", &[kinds.to_str().expect("a path"), "--program-memory", "64"]);
    let (mut primary, _stream) = server.primary();
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    let text = String::from_utf8(program("kinds.p4")).expect("text");
    let large = text.replace("register<bit<32>>(8) seen;", "register<bit<32>>(100000000) seen;");
    assert_ne!(text, large);
    let mut info = crate::client::KINDS.clone();
    info.registers[0].size = 100_000_000;
    let config =
        ForwardingPipelineConfig { p4info: Some(info), p4_device_config: large.into_bytes(), cookie: None };
    let before = server.memory();
    let refused = primary.push(Action::VerifyAndCommit, Some(config)).expect_err("it needs 800 MB");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(server.memory() < before + (100 << 10));
    assert_eq!(primary.entries(exact_entry(1, 0, 1)).len(), 1, "the old program goes on");
}

/// Everything at once, from clients without rights, over TCP of this machine.
#[test]
fn a_client_without_rights_hurts_nobody() {
    if !rustix::process::geteuid().is_root() {
        println!(
            "skipped: a_client_without_rights_hurts_nobody: attackers are another user, which needs root"
        );
        return;
    }
    let seconds = std::env::var("STRAIT_ATTACK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let (server, mut primary, _stream) = filled(2000);
    let before = server.memory();
    let (over, attacks) = (Over::new(), AtomicU64::new(0));
    let (mut writes, mut reads, mut most) = (Duration::ZERO, Duration::ZERO, 0);
    std::thread::scope(|scope| {
        let _end = over.at_end();
        for kind in 0..6usize {
            let (server, over, attacks) = (&server, &over, &attacks);
            scope.spawn(move || {
                // Attackers are another user, and have the share of that user.
                let nobody = Uid::from_raw(NOBODY);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
                let mut open = Vec::new();
                while !over.is() {
                    attacks.fetch_add(1, Ordering::Relaxed);
                    open.extend(attack(server, kind));
                    if open.len() > 60 {
                        open.drain(..30);
                    }
                }
            });
        }
        let begun = Instant::now();
        let mut n = 10_000;
        while begun.elapsed() < Duration::from_secs(seconds) {
            n += 1;
            let asked = Instant::now();
            let found = exact_entry(1, 0, 1);
            let entry = TableEntry { r#match: vec![exact(1, &u32::to_be_bytes(n)), exact(2, &[0])], ..found };
            assert_eq!(primary.insert(Entity::TableEntry(entry)), Code::Ok, "a primary's write is answered");
            writes = writes.max(asked.elapsed());
            reads = reads.max(reads_within(&server, ANSWER));
            most = most.max(server.memory());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let attacks = attacks.load(Ordering::Relaxed);
    println!(
        "{attacks} attacks in {seconds} s: the slowest write took {writes:?}, the slowest read {reads:?}; {before} KiB before, {most} at most"
    );
    assert!(attacks > 20, "there was an attack");
    assert!(writes.max(reads) < ANSWER, "{writes:?}, {reads:?}");
    assert!(most < 200 << 10, "{most} KiB");
    until("the memory goes back", || server.memory() < before + before / 5);
    println!("{} KiB afterwards", server.memory());
}

/// The time until another client has read an entry. It may have to connect again while others fill the share of its peer.
fn reads_within(server: &Server, time: Duration) -> Duration {
    let begun = Instant::now();
    loop {
        if server
            .try_client()
            .is_some_and(|mut client| client.read(Entity::TableEntry(exact_entry(1, 0, 1))).is_ok())
        {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < time, "nobody else could read");
    }
}

/// A step of an attack. Returns what stays open.
fn attack(server: &Server, kind: usize) -> Option<Raw<TcpStream>> {
    let closed = &[(4, 0)][..];
    match kind {
        // Silence.
        0 => Some(Raw { socket: TcpStream::connect(&server.address).ok()?, next: 1 }),
        // Lengths that are announced.
        1 => {
            let mut raw = Raw::connect(server, &[])?;
            for _ in 0..64 {
                let stream = raw.call("Write")?;
                raw.send(&frame(DATA, 0, stream, &message(64_000, &[0; 900])));
            }
            Some(raw)
        }
        // Answers that nobody takes.
        2 => {
            let mut raw = Raw::connect(server, closed)?;
            for _ in 0..16 {
                raw.ask("Read", &read_all());
            }
            Some(raw)
        }
        // Streams that nobody reads.
        3 => {
            let mut raw = Raw::connect(server, closed)?;
            let arbitration =
                Request::Arbitration(v1::MasterArbitrationUpdate { device_id: 1, ..Default::default() });
            let packet = Request::Packet(v1::PacketOut { payload: vec![1; 10_000], metadata: Vec::new() });
            for _ in 0..4 {
                let stream = raw.call("StreamChannel")?;
                for update in [&arbitration, &packet, &packet, &packet] {
                    let bytes = v1::StreamMessageRequest { update: Some(update.clone()) }.encode_to_vec();
                    raw.send(&frame(DATA, 0, stream, &message(bytes.len(), &bytes)));
                }
            }
            Some(raw)
        }
        // Messages that become large when they are decoded.
        4 => {
            let mut raw = Raw::connect(server, &[])?;
            let updates = [0x22, 0].repeat(8_000);
            for _ in 0..4 {
                raw.ask("Write", &updates);
            }
            Some(raw)
        }
        // Bytes that are no HTTP/2.
        _ => {
            let mut socket = TcpStream::connect(&server.address).ok()?;
            let _ = socket.write_all(&[0x5a; 4000]);
            Some(Raw { socket, next: 1 })
        }
    }
}

/// Item 5: the Unix socket is for one user, and found by the command line; users have shares of their own.
#[test]
fn a_unix_socket_serves_its_user() {
    let dir = io::workdir::WorkDir::named("st-unix-").expect("a directory");
    let path = dir.path().join("grpc.sock");
    let address = format!("unix:{}", path.display());
    let kinds = crate::client::file("kinds.p4");
    let server = Server::start_with(&address, "interp", &[kinds.to_str().expect("a path")]);
    assert_eq!(server.address, address);
    // More connections than there are places, and none of them says anything.
    let open: Vec<_> = (0..300).filter_map(|_| UnixStream::connect(&path).ok()).collect();
    reads_within(&server, ANSWER);
    let (mut primary, _stream) = server.primary();
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["table", "dump", "--grpc", &address])
        .output()
        .expect("strait runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("exact_"));
    drop(open);
    // The path belongs to a server that lives.
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["run", "--target", "interp", "--grpc", &address])
        .output()
        .expect("strait runs");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && told.contains("another server listens there"), "{told}");
    drop(server);
    assert!(!path.exists(), "the socket goes with its server");
}

/// Item 5: without an address a server has a place of its own, and commands find it there.
#[test]
fn a_unix_socket_is_found_without_an_address() {
    use std::os::unix::fs::MetadataExt as _;
    if std::fs::metadata("/proc/self").map_or(true, |own| own.uid() != 0) {
        println!("skipped: a_unix_socket_is_found_without_an_address: /run/strait-grpc is root's");
        return;
    }
    // Others may test at the same time.
    let device = (u64::from(std::process::id()) << 8 | 7).to_string();
    let kinds = crate::client::file("kinds.p4");
    let server =
        Server::start_with("unix", "interp", &[kinds.to_str().expect("a path"), "--device-id", &device]);
    let path = format!("/run/strait-grpc/device-{device}.sock");
    assert_eq!(server.address, format!("unix:{path}"));
    let mode = |path: &str| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(&path), mode("/run/strait-grpc")), (0o600, 0o755));
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["table", "list", "--device", &device])
        .env_remove("STRAIT_GRPC")
        .output()
        .expect("strait runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("exact_"));
}
