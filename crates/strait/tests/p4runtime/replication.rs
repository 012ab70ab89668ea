//! Multicast groups and clone sessions (specification, section 9.5).

use proto::p4::v1::entity::Entity;
use proto::p4::v1::packet_replication_engine_entry::Type;
use proto::p4::v1::replica::PortKind;
use proto::p4::v1::{self, CloneSessionEntry, MulticastGroupEntry, Replica};
use tonic::Code;

use crate::client::{Server, file};
use crate::lab::{self, Lab, ip};

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
    #[allow(deprecated)]
    let older = group(1, vec![Replica { port_kind: Some(PortKind::EgressPort(3)), ..replica(1, 1) }]);
    assert_eq!(client.modify(older.clone()), Code::Ok);
    assert_eq!(client.read(group(1, vec![])), Ok(vec![older]));
    assert_eq!(client.delete(group(1, vec![])), Code::Ok);
    assert_eq!(client.delete(group(1, vec![])), Code::NotFound);
    assert_eq!(client.read(group(0, vec![])), Ok(Vec::new()));
}

/// A replica with backups, each as port and instance.
fn with_backups(port: u8, instance: u32, backups: &[(u8, u32)]) -> Replica {
    let backup = |(port, instance): &(u8, u32)| v1::BackupReplica { port: vec![*port], instance: *instance };
    Replica { backup_replicas: backups.iter().map(backup).collect(), ..replica(port, instance) }
}

#[test]
fn backup_replicas_are_checked_and_read_as_they_are_written() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let written = group(1, vec![replica(1, 1), with_backups(2, 2, &[(4, 5), (3, 6)])]);
    assert_eq!(client.insert(written.clone()), Code::Ok);
    assert_eq!(client.read(group(1, vec![])), Ok(vec![written]));
    for wrong in [
        vec![with_backups(1, 1, &[(1, 2)])],
        vec![with_backups(1, 1, &[(2, 2), (2, 2)])],
        vec![with_backups(1, 1, &[(2, 2)]), replica(2, 2)],
    ] {
        assert_eq!(client.insert(group(2, wrong)), Code::InvalidArgument);
    }
    assert_eq!(client.insert(session(5, vec![with_backups(1, 1, &[(2, 2)])])), Code::Unimplemented);
}

#[test]
fn backup_replicas_take_the_place_of_ports_without_a_link() {
    for target in ["interp", "native", "tc", "xdp"] {
        if !lab::possible(&format!("backup replicas on {target}")) {
            return;
        }
        let net = Lab::new(&format!("backup-{target}"), 4, "");
        for host in 0..4 {
            net.set(host, false, true);
        }
        let kinds = file("kinds.p4");
        let mut more = vec![kinds.to_str().expect("UTF-8"), "--netns", net.switch.name()];
        let ports: Vec<String> = (0..4).map(|n| format!("--port={n}=s{n}")).collect();
        more.extend(ports.iter().map(String::as_str));
        let server = Server::start_on(target, &more);
        let (mut client, _stream) = server.primary();
        let copies = vec![replica(1, 1), with_backups(2, 2, &[(3, 3)])];
        assert_eq!(client.insert(group(1, copies)), Code::Ok);
        // A frame that asks for multicast group 1.
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x10, 0x06];
        frame.resize(64, 0x41);
        // A veth has a link as long as its other end is up.
        let link = |host: usize, state: &str| {
            ip(&format!("-n {} link set h{host} {state}", net.hosts[host].name()));
        };
        let sent_to = |hosts: &[usize]| {
            let begun = std::time::Instant::now();
            while reached(&net, &frame) != hosts {
                assert!(begun.elapsed() < lab::PATIENCE, "{target}: not {hosts:?}");
            }
        };
        sent_to(&[1, 2]);
        link(2, "down");
        sent_to(&[1, 3]);
        link(2, "up");
        sent_to(&[1, 2]);
    }
}

/// The hosts that a frame of host 0 reaches.
fn reached(net: &Lab, frame: &[u8]) -> Vec<usize> {
    let open = |host: usize| {
        let open = || io::packet::PacketSocket::open(&format!("h{host}"));
        net.hosts[host].run(open).expect("a namespace").ok()
    };
    let sockets: Vec<_> = (1..4).map(|host| (host, open(host))).collect();
    open(0).expect("it is up").send(frame).expect("it is sent");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let got = |socket: &io::packet::PacketSocket| {
        std::iter::from_fn(|| socket.receive(std::time::Duration::ZERO).ok().flatten())
            .any(|got| got == frame)
    };
    sockets.iter().filter(|(_, socket)| socket.as_ref().is_some_and(got)).map(|(host, _)| *host).collect()
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
