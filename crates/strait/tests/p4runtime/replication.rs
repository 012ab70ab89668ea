//! Multicast groups and clone sessions (specification, section 9.5).

use proto::p4::v1::entity::Entity;
use proto::p4::v1::packet_replication_engine_entry::Type;
use proto::p4::v1::replica::PortKind;
use proto::p4::v1::{self, CloneSessionEntry, MulticastGroupEntry, Replica};
use tonic::Code;

use crate::client::Server;

fn replica(port: u8, instance: u32) -> Replica {
    Replica { port_kind: Some(PortKind::Port(vec![port])), instance, backup_replicas: Vec::new() }
}

fn of(entry: Type) -> Entity {
    Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) })
}

fn group(id: u32, replicas: Vec<Replica>) -> Entity {
    of(Type::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: id,
        replicas,
        metadata: b"m".to_vec(),
    }))
}

fn session(id: u32, replicas: Vec<Replica>) -> Entity {
    of(Type::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas,
        ..CloneSessionEntry::default()
    }))
}

#[test]
fn multicast_groups_are_read_as_they_are_written() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let written = group(1, vec![replica(1, 1), replica(2, 1), replica(1, 2)]);
    assert_eq!(client.modify(written.clone()), Code::NotFound);
    assert_eq!(client.insert(written.clone()), Code::Ok);
    assert_eq!(client.insert(written.clone()), Code::AlreadyExists);
    assert_eq!(client.read(group(1, vec![])), Ok(vec![written.clone()]));
    assert_eq!(client.read(group(0, vec![])), Ok(vec![written]));
    assert_eq!(client.insert(group(0, vec![replica(1, 1)])), Code::InvalidArgument);
    assert_eq!(client.insert(group(2, vec![replica(1, 1), replica(1, 1)])), Code::InvalidArgument);
    assert_eq!(client.insert(group(2, vec![replica(1, 1 << 20)])), Code::InvalidArgument);
    let port_0 = Replica { port_kind: None, ..replica(1, 1) };
    assert_eq!(client.insert(group(2, vec![port_0.clone(), replica(0, 1)])), Code::InvalidArgument);
    assert_eq!(client.insert(group(2, vec![port_0])), Code::Ok, "older clients write port 0 so");
    assert_eq!(client.delete(group(2, vec![])), Code::Ok);
    let far = Replica { port_kind: Some(PortKind::Port(vec![2, 0])), ..replica(1, 1) };
    assert_eq!(client.insert(group(2, vec![far])), Code::InvalidArgument);
    let backup = v1::BackupReplica { port: vec![2], instance: 1 };
    let with_backup = Replica { backup_replicas: vec![backup], ..replica(1, 1) };
    assert_eq!(client.insert(group(2, vec![with_backup])), Code::Unimplemented);
    #[allow(deprecated)]
    let older = group(1, vec![Replica { port_kind: Some(PortKind::EgressPort(3)), ..replica(1, 1) }]);
    assert_eq!(client.modify(older.clone()), Code::Ok);
    assert_eq!(client.read(group(1, vec![])), Ok(vec![older]));
    assert_eq!(client.delete(group(1, vec![])), Code::Ok);
    assert_eq!(client.delete(group(1, vec![])), Code::NotFound);
    assert_eq!(client.read(group(0, vec![])), Ok(Vec::new()));
}

#[test]
fn clone_sessions_have_one_or_several_replicas() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let one = session(5, vec![replica(2, 0)]);
    let several = session(5, vec![replica(1, 1), replica(2, 1)]);
    assert_eq!(client.modify(one.clone()), Code::NotFound);
    assert_eq!(client.insert(one.clone()), Code::Ok);
    assert_eq!(client.insert(one.clone()), Code::AlreadyExists);
    assert_eq!(client.read(session(5, vec![])), Ok(vec![one.clone()]));
    assert_eq!(client.modify(several.clone()), Code::Ok);
    assert_eq!(client.read(session(0, vec![])), Ok(vec![several.clone()]));
    assert_eq!(client.read(group(0, vec![])), Ok(Vec::new()), "what the session needs is not seen");
    // The multicast group that it uses is not a controller's.
    assert_eq!(client.insert(group((1 << 16) - 1, vec![replica(1, 1)])), Code::AlreadyExists);
    assert_eq!(client.delete(group((1 << 16) - 1, vec![])), Code::NotFound);
    assert_eq!(client.modify(one), Code::Ok);
    assert_eq!(client.insert(group((1 << 16) - 1, vec![replica(1, 1)])), Code::Ok, "it was given back");
    assert_eq!(client.insert(session(0, vec![replica(1, 0)])), Code::InvalidArgument);
    let truncated = CloneSessionEntry {
        session_id: 6,
        replicas: vec![replica(1, 0)],
        packet_length_bytes: 64,
        ..Default::default()
    };
    assert_eq!(client.insert(of(Type::CloneSessionEntry(truncated))), Code::Unimplemented);
    let classed = CloneSessionEntry {
        session_id: 6,
        replicas: vec![replica(1, 0)],
        class_of_service: 1,
        ..Default::default()
    };
    assert_eq!(client.insert(of(Type::CloneSessionEntry(classed))), Code::Unimplemented);
    assert_eq!(client.delete(session(5, vec![])), Code::Ok);
    assert_eq!(client.read(session(0, vec![])), Ok(Vec::new()));
    let neither = Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: None });
    assert_eq!(client.insert(neither), Code::InvalidArgument);
}
