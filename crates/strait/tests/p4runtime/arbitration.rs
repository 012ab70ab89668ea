//! Who is the primary (specification, section 5).

use std::collections::BTreeMap;

use proto::p4::v1::{self, stream_message_request::Update};
use tonic::Code;

use crate::client::{Client, Server, Stream, exact_entry};
use proto::p4::v1::entity::Entity;

const OK: i32 = 0;
const NOT_FOUND: i32 = 5;
const ALREADY_EXISTS: i32 = 6;

/// What an arbitration message says: the status and the highest election id.
fn said(stream: &mut Stream) -> (i32, Option<u64>) {
    let answer = stream.arbitration().expect("the stream is open");
    (answer.status.expect("a status").code, answer.election_id.map(|id| id.low))
}

#[test]
fn the_highest_election_id_is_the_primary_and_all_are_told() {
    let server = Server::kinds();
    let (mut a, mut b) = (server.client(), server.client());
    let mut first = a.primary(5);
    let mut second = b.stream();
    second.arbitrate(&mut b, Some(3));
    assert_eq!(said(&mut second), (ALREADY_EXISTS, Some(5)), "a backup is told, and nobody else");
    assert_eq!(b.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::PermissionDenied);
    assert_eq!(a.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    second.arbitrate(&mut b, Some(6));
    assert_eq!(said(&mut first), (ALREADY_EXISTS, Some(6)));
    assert_eq!(said(&mut second), (OK, Some(6)));
    assert_eq!(a.delete(Entity::TableEntry(exact_entry(1, 0, 1))), Code::PermissionDenied);
    drop(second);
    assert_eq!(said(&mut first), (NOT_FOUND, Some(6)), "the primary has gone");
    assert_eq!(b.delete(Entity::TableEntry(exact_entry(1, 0, 1))), Code::PermissionDenied);
    first.arbitrate(&mut a, Some(5));
    assert_eq!(
        said(&mut first),
        (NOT_FOUND, Some(6)),
        "a lower id than the highest that ever was is a backup's"
    );
    first.arbitrate(&mut a, Some(6));
    assert_eq!(said(&mut first), (OK, Some(6)));
}

#[test]
fn a_primary_downgrades_itself() {
    let server = Server::kinds();
    let (mut a, mut b) = (server.client(), server.client());
    let mut first = a.primary(5);
    let mut second = b.stream();
    second.arbitrate(&mut b, None);
    assert_eq!(said(&mut second), (ALREADY_EXISTS, Some(5)), "without an id one is never the primary");
    first.arbitrate(&mut a, Some(1));
    assert_eq!(said(&mut second), (NOT_FOUND, Some(5)));
    assert_eq!(said(&mut first), (NOT_FOUND, Some(5)));
}

#[test]
fn an_id_that_another_live_controller_has_ends_the_stream() {
    let server = Server::kinds();
    let (mut a, mut b) = (server.client(), server.client());
    let _first = a.primary(5);
    let mut second = b.stream();
    second.arbitrate(&mut b, Some(5));
    assert_eq!(second.arbitration().expect_err("it ends").code(), Code::InvalidArgument);
    let mut third = b.stream();
    third.arbitrate(&mut b, Some(4));
    assert_eq!(said(&mut third).0, ALREADY_EXISTS);
    third.arbitrate(&mut b, Some(5));
    assert_eq!(third.arbitration().expect_err("it ends").code(), Code::InvalidArgument);
}

#[test]
fn device_and_role_of_a_stream_are_fixed() {
    let server = Server::kinds();
    let mut client = server.client();
    client.device = 7;
    let mut stream = client.stream();
    stream.arbitrate(&mut client, Some(1));
    assert_eq!(stream.arbitration().expect_err("it ends").code(), Code::NotFound);
    client.device = 1;
    let mut stream = client.primary(1);
    client.device = 2;
    stream.arbitrate(&mut client, Some(1));
    assert_eq!(stream.arbitration().expect_err("it ends").code(), Code::FailedPrecondition);
    client.device = 1;
    let mut stream = client.primary(2);
    client.role = "other".to_string();
    stream.arbitrate(&mut client, Some(2));
    assert_eq!(stream.arbitration().expect_err("it ends").code(), Code::FailedPrecondition);
}

#[test]
fn too_many_controllers_of_a_role_are_refused() {
    let server = Server::kinds();
    let mut streams = Vec::new();
    let mut client = server.client();
    for n in 1..=64u64 {
        // A connection has a limited number of streams.
        if n % 16 == 1 {
            client = server.client();
        }
        let mut stream = client.stream();
        stream.arbitrate(&mut client, Some(n));
        stream.arbitration().expect("an answer");
        streams.push(stream);
    }
    let mut client = server.client();
    let mut stream = client.stream();
    stream.arbitrate(&mut client, Some(65));
    assert_eq!(stream.arbitration().expect_err("it ends").code(), Code::ResourceExhausted);
}

#[test]
fn each_role_has_its_own_primary_and_its_own_objects() {
    let server = Server::kinds();
    let (mut all, _stream) = server.primary();
    let mut routes = server.client();
    routes.role = "routes".to_string();
    assert_eq!(
        routes.insert(Entity::TableEntry(exact_entry(1, 0, 1))),
        Code::NotFound,
        "nobody has asked for the role"
    );
    let mut stream = routes.stream();
    routes.election = Some(v1::Uint128 { high: 0, low: 1 });
    // stratum.P4RoleConfig: shared_p4_ids = [the table `I.route`].
    let mut value = vec![0x12, 5];
    prost_varint(crate::client::id("I.route"), &mut value);
    value[1] = (value.len() - 2) as u8;
    let config = prost_types::Any { type_url: "type.googleapis.com/stratum.P4RoleConfig".to_string(), value };
    stream.send(Update::Arbitration(v1::MasterArbitrationUpdate {
        device_id: 1,
        role: Some(v1::Role { name: "routes".to_string(), config: Some(config), ..v1::Role::default() }),
        election_id: routes.election,
        status: None,
    }));
    let answer = stream.arbitration().expect("an answer");
    assert_eq!(answer.status.map(|s| s.code), Some(OK), "the default role has another primary");
    assert!(answer.role.is_some_and(|role| role.name == "routes" && role.config.is_some()));
    assert_eq!(routes.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::PermissionDenied);
    assert_eq!(all.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    let route = crate::client::entry(
        "I.route",
        vec![crate::client::lpm(1, &[1], 32)],
        crate::client::call("I.drop_routed", &[]),
    );
    assert_eq!(routes.insert(Entity::TableEntry(route)), Code::Ok);
    assert_eq!(routes.entries(v1::TableEntry::default()).len(), 1, "a role reads its own");
    assert_eq!(all.entries(v1::TableEntry::default()).iter().filter(|e| !e.is_const).count(), 2);
    let pushed = routes.push(v1::set_forwarding_pipeline_config_request::Action::Verify, None);
    assert_eq!(pushed.expect_err("it may not").code(), Code::PermissionDenied);
    let mut unknown = server.client();
    unknown.role = "odd".to_string();
    let mut stream = unknown.stream();
    let config =
        prost_types::Any { type_url: "type.googleapis.com/odd.Config".to_string(), value: Vec::new() };
    stream.send(Update::Arbitration(v1::MasterArbitrationUpdate {
        device_id: 1,
        role: Some(v1::Role { name: "odd".to_string(), config: Some(config), ..v1::Role::default() }),
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        status: None,
    }));
    assert_eq!(stream.arbitration().expect_err("it ends").code(), Code::InvalidArgument);
}

fn prost_varint(mut value: u32, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Two controllers, and a script of 200 steps from a number. After each step, both have heard what the specification says, and only the primary
/// can write.
#[test]
fn two_controllers_fight_for_200_steps() {
    let server = Server::kinds();
    let mut clients: Vec<Client> = (0..2).map(|_| server.client()).collect();
    let mut streams: BTreeMap<usize, Stream> = BTreeMap::new();
    // The model: the election id of each live controller, the highest id of all times, and the primary.
    let (mut ids, mut highest, mut primary) =
        (BTreeMap::<usize, Option<u64>>::new(), None::<u64>, None::<usize>);
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for step in 0..200 {
        let who = random(2) as usize;
        if streams.contains_key(&who) && random(4) == 0 {
            streams.remove(&who);
            ids.remove(&who);
            if primary == Some(who) {
                primary = None;
                // The server sees the end of a stream later than its client.
                while clients[who].delete(Entity::TableEntry(exact_entry(1, 0, 1))) != Code::PermissionDenied
                {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                for stream in streams.values_mut() {
                    assert_eq!(said(stream), (NOT_FOUND, highest), "step {step}: the primary has left");
                }
            } else {
                // What the server does about a backup that leaves is not seen.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            clients[who].election = None;
            continue;
        }
        let election = [None, Some(random(12) + 1), highest, highest.map(|h| h + 1)][random(4) as usize];
        let stream = streams.entry(who).or_insert_with(|| clients[who].stream());
        stream.arbitrate(&mut clients[who], election);
        let other = 1 - who;
        if election.is_some() && ids.get(&other) == Some(&election) {
            assert_eq!(
                stream.arbitration().expect_err("it ends").code(),
                Code::InvalidArgument,
                "step {step}"
            );
            streams.remove(&who);
            ids.remove(&who);
            // A server trusts controllers to use their own ids.
            clients[who].election = None;
            if primary == Some(who) {
                primary = None;
                for stream in streams.values_mut() {
                    assert_eq!(said(stream), (NOT_FOUND, highest), "step {step}: the primary was ended");
                }
            }
            continue;
        }
        ids.insert(who, election);
        let was = primary;
        if election.is_some() && election >= highest {
            (highest, primary) = (election, Some(who));
        } else if primary == Some(who) {
            primary = None;
        }
        let status = |of: usize| match primary {
            Some(p) if p == of => OK,
            Some(_) => ALREADY_EXISTS,
            None => NOT_FOUND,
        };
        let all_are_told = primary == Some(who) || was == Some(who);
        assert_eq!(said(streams.get_mut(&who).expect("it is live")), (status(who), highest), "step {step}");
        if let Some(stream) = streams.get_mut(&other).filter(|_| all_are_told) {
            assert_eq!(said(stream), (status(other), highest), "step {step}, the other one");
        }
        for (of, client) in clients.iter_mut().enumerate() {
            let expected = if primary == Some(of) { Code::Ok } else { Code::PermissionDenied };
            let mut route = exact_entry(1, 0, 1);
            route.r#match[0] = crate::client::exact(1, &[(step % 250) as u8 + 1, of as u8]);
            assert_eq!(
                client.insert(Entity::TableEntry(route.clone())),
                expected,
                "step {step}: {of} writes"
            );
            if expected == Code::Ok {
                assert_eq!(client.delete(Entity::TableEntry(route)), Code::Ok);
            }
        }
    }
    assert!(highest.is_some_and(|id| id > 20), "the script has fought");
}
