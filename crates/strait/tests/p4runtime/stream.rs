//! Messages of the stream (specification, section 16). Digests and idle entries need packets: `foreign` has them.

use std::time::Duration;

use proto::p4::v1::stream_message_request::Update as Request;
use proto::p4::v1::stream_message_response::Update;
use proto::p4::v1::{self, stream_error::Details};

use crate::client::{Server, id};

const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;

fn packet(port: &[u8], payload: &[u8]) -> v1::PacketOut {
    let field = |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: value.to_vec() };
    v1::PacketOut { payload: payload.to_vec(), metadata: vec![field(1, port), field(2, &[0])] }
}

#[test]
fn a_packet_comes_back_with_its_metadata() {
    let server = Server::kinds();
    let (_client, mut stream) = server.primary();
    // The program sends it to the port that the metadata name: the controller's own.
    let payload = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x12, 0x34][..], b"data"].concat();
    stream.send(Request::Packet(packet(&[64], &payload)));
    let Ok(Update::Packet(found)) = stream.next() else { panic!("a packet") };
    assert_eq!(found.payload, payload);
    let metadata: Vec<_> = found.metadata.iter().map(|m| (m.metadata_id, m.value.clone())).collect();
    assert_eq!(metadata, [(1, vec![64]), (2, vec![1])]);
}

#[test]
fn packets_that_do_not_fit_p4info_are_errors_of_the_stream() {
    let server = Server::kinds();
    let (_client, mut stream) = server.primary();
    let good = packet(&[64], b"frame of fourteen bytes");
    let field = |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: value.to_vec() };
    let wrong = [
        vec![],
        vec![field(1, &[1])],
        vec![field(1, &[1]), field(2, &[0]), field(7, &[0])],
        vec![field(1, &[1]), field(1, &[1])],
        vec![field(1, &[1]), field(2, &[])],
        vec![field(1, &[2, 0, 0]), field(2, &[0])],
    ];
    for metadata in wrong {
        stream.send(Request::Packet(v1::PacketOut { metadata, ..good.clone() }));
        let error = stream.error();
        assert!([INVALID_ARGUMENT, 11].contains(&error.canonical_code), "{error:?}");
        let Some(Details::PacketOut(details)) = error.details else { panic!("which message it was") };
        assert_eq!(details.packet_out, None, "what is refused is not sent back");
    }
    stream.send(Request::Packet(good));
    assert!(matches!(stream.next(), Ok(Update::Packet(_))), "the stream goes on");
}

#[test]
fn only_the_primary_sends_and_receives_packets() {
    let server = Server::kinds();
    let (_primary, mut first) = server.primary();
    let mut backup = server.client();
    let mut second = backup.stream();
    second.arbitrate(&mut backup, None);
    second.arbitration().expect("it is a backup");
    second.send(Request::Packet(packet(&[64], b"frame of fourteen bytes")));
    assert_eq!(second.error().canonical_code, PERMISSION_DENIED);
    first.send(Request::Packet(packet(&[64], b"frame of fourteen bytes")));
    assert!(matches!(first.next(), Ok(Update::Packet(_))));
    assert_eq!(second.next_within(Duration::from_millis(200)), None);
    second.send(Request::DigestAck(v1::DigestListAck { digest_id: id("learnt_t"), list_id: 1 }));
    assert_eq!(second.error().canonical_code, PERMISSION_DENIED);
}

#[test]
fn other_messages_are_answered_with_errors() {
    let server = Server::kinds();
    let (_client, mut stream) = server.primary();
    stream.send(Request::DigestAck(v1::DigestListAck { digest_id: 9, list_id: 1 }));
    let error = stream.error();
    assert_eq!(error.canonical_code, INVALID_ARGUMENT);
    assert!(matches!(error.details, Some(Details::DigestListAck(_))));
    stream.send(Request::DigestAck(v1::DigestListAck { digest_id: id("learnt_t"), list_id: 99 }));
    stream.send(Request::Other(prost_types::Any::default()));
    let error = stream.error();
    assert!(
        matches!(error.details, Some(Details::Other(_))),
        "an acknowledgement of no list is no error: {error:?}"
    );
    let without = Server::empty();
    let (_client, mut stream) = without.primary();
    stream.send(Request::Packet(packet(&[1], b"frame")));
    assert_eq!(stream.error().canonical_code, 9, "FAILED_PRECONDITION: there is no pipeline");
}
