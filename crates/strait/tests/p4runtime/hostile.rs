//! Clients that do what they should not: the server answers with errors, keeps its memory, and goes on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use proto::p4::v1::entity::Entity;
use proto::p4::v1::stream_message_request::Update as Request;
use proto::p4::v1::update::Type;
use proto::p4::v1::{self, TableEntry};
use tonic::Code;

use crate::client::{RUNTIME, Server, details, exact_entry, update};

/// The memory that a server may need beside that of its start, in KiB.
const MORE: u64 = 400 << 10;

fn works(server: &Server) {
    let mut client = server.client();
    assert_eq!(client.capabilities(0).expect("an answer").p4runtime_api_version, "1.5.0");
}

#[test]
fn bytes_that_are_no_http2_or_no_protobuf_are_refused() {
    let server = Server::kinds();
    let mut seed = 1u64;
    for round in 0..200 {
        let mut bytes = Vec::new();
        if round % 2 == 0 {
            bytes.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        }
        for _ in 0..round * 7 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bytes.push((seed >> 33) as u8);
        }
        let mut socket = TcpStream::connect(&server.address).expect("a connection");
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let _ = socket.read(&mut [0; 64]);
    }
    works(&server);
}

#[test]
fn streams_and_connections_are_limited() {
    let server = Server::kinds();
    let before = server.memory();
    let (mut primary, _stream) = server.primary();
    // Ten thousand streams over 50 connections: each connection has 64 at a time, and the others wait for their turn.
    let clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    let opened = RUNTIME.block_on(async {
        let mut tasks = Vec::new();
        for client in &clients {
            for _ in 0..200 {
                let mut rpc = client.rpc.clone();
                tasks.push(tokio::spawn(async move {
                    let messages = tokio_stream::pending::<v1::StreamMessageRequest>();
                    let stream =
                        tokio::time::timeout(Duration::from_secs(2), rpc.stream_channel(messages)).await;
                    stream.is_ok_and(|stream| stream.is_ok())
                }));
            }
        }
        let mut opened = 0;
        for task in tasks {
            opened += u32::from(task.await.unwrap_or(false));
        }
        opened
    });
    println!("{opened} of 10000 streams were opened, {} KiB more", server.memory().saturating_sub(before));
    assert_eq!(primary.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok, "the primary goes on");
    assert!(server.memory() < before + MORE, "{} KiB, {before} before", server.memory());
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let entry = TableEntry { metadata: vec![0; 65 << 20], ..exact_entry(1, 0, 1) };
    let refused =
        client.write(vec![update(Type::Insert, Entity::TableEntry(entry))]).expect_err("it is too long");
    assert!([Code::OutOfRange, Code::ResourceExhausted].contains(&refused.code()), "{refused}");
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
}

#[test]
fn a_huge_batch_of_mistakes_has_an_answer_that_clients_can_read() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    for (count, in_details) in [(20, true), (100_000, false)] {
        let wrong = TableEntry { table_id: 1, ..exact_entry(1, 0, 1) };
        let updates = (0..count).map(|_| update(Type::Insert, Entity::TableEntry(wrong.clone()))).collect();
        let status = client.write(updates).expect_err("all are wrong");
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.message().starts_with(&format!("{count} of {count} failed; 0: ")), "{status}");
        assert!(status.details().len() <= 4096);
        assert_eq!(details(&status).len(), if in_details { count } else { 0 });
    }
}

#[test]
fn a_controller_that_does_not_read_loses_packets_and_nobody_else_does() {
    let server = Server::kinds();
    let (mut client, slow) = server.primary();
    let before = server.memory();
    let payload = vec![2; 1400];
    let field = |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: value.to_vec() };
    let packet = v1::PacketOut { payload, metadata: vec![field(1, &[64]), field(2, &[0])] };
    // What it sends comes back to it, and it reads nothing of it.
    for _ in 0..20_000 {
        let message = v1::StreamMessageRequest { update: Some(Request::Packet(packet.clone())) };
        let sent = RUNTIME
            .block_on(async { tokio::time::timeout(Duration::from_secs(5), slow.send.send(message)).await });
        sent.expect("the server reads on").expect("the stream is open");
    }
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    assert!(server.memory() < before + MORE, "{} KiB, {before} before", server.memory());
    drop(slow);
    let _stream = client.primary(2);
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(2, 0, 1))), Code::Ok);
}

#[test]
fn a_stream_begins_with_arbitration() {
    let server = Server::kinds();
    let mut client = server.client();
    let mut stream = client.stream();
    stream.send(Request::Packet(v1::PacketOut::default()));
    assert_eq!(stream.next().expect_err("it ends").code(), Code::FailedPrecondition);
    works(&server);
}

/// Bytes that once were requests, with some of them changed. What can still be decoded is sent.
#[test]
fn requests_with_changed_bytes_are_answered() {
    use prost::Message as _;
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let entry = crate::client::entry;
    let updates = [
        update(Type::Insert, Entity::TableEntry(exact_entry(1, 0, 1))),
        update(
            Type::Insert,
            Entity::TableEntry(entry(
                "I.route",
                vec![crate::client::lpm(1, &[1, 0, 0, 0], 8)],
                crate::client::call("I.drop_routed", &[]),
            )),
        ),
        update(
            Type::Modify,
            Entity::CounterEntry(v1::CounterEntry {
                counter_id: crate::client::id("I.arrived"),
                index: Some(v1::Index { index: 1 }),
                data: Some(v1::CounterData { byte_count: 1, packet_count: 1 }),
            }),
        ),
        update(
            Type::Modify,
            Entity::RegisterEntry(v1::RegisterEntry {
                register_id: crate::client::id("I.seen"),
                index: None,
                data: Some(v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(vec![1])) }),
            }),
        ),
        update(
            Type::Insert,
            Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry {
                r#type: Some(v1::packet_replication_engine_entry::Type::MulticastGroupEntry(
                    v1::MulticastGroupEntry {
                        multicast_group_id: 1,
                        replicas: vec![v1::Replica::default()],
                        metadata: Vec::new(),
                    },
                )),
            }),
        ),
        update(
            Type::Insert,
            Entity::DigestEntry(v1::DigestEntry { digest_id: crate::client::id("learnt_t"), config: None }),
        ),
    ];
    let mut seed = 7u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    let (mut sent, rounds) = (0, 6000);
    for _ in 0..rounds {
        let mut bytes = updates[random(updates.len())].encode_to_vec();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes[at] ^= 1 << random(8),
                _ => drop(bytes.remove(at)),
            }
        }
        let Ok(changed) = v1::Update::decode(bytes.as_slice()) else { continue };
        sent += 1;
        let request = changed.entity.clone().and_then(|entity| entity.entity);
        let _ = client.write(vec![changed]);
        if let Some(request) = request {
            let _ = client.read(request);
        }
    }
    assert!(sent > 300, "{sent} of {rounds} could be sent");
    works(&server);
}
