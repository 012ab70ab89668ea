//! Table entries (specification, sections 8 and 9.1), batches (section 12) and reads (section 13).

use proto::p4::v1::entity::Entity;
use proto::p4::v1::update::Type;
use proto::p4::v1::write_request::Atomicity;
use proto::p4::v1::{self, TableEntry};
use tonic::Code;

use crate::client::{
    Client, Server, call, details, entry, exact, exact_entry, id, lpm, optional, range, ternary, update,
};

fn own(client: &mut Client) -> Vec<TableEntry> {
    client.entries(TableEntry::default()).into_iter().filter(|entry| !entry.is_const).collect()
}

fn with_priority(table: &str, matches: Vec<v1::FieldMatch>, priority: i32) -> TableEntry {
    TableEntry { priority, ..entry(table, matches, call("I.send", &[&[1]])) }
}

#[test]
fn what_is_written_is_read() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    #[allow(deprecated)]
    let all = [
        TableEntry {
            idle_timeout_ns: 1_500,
            metadata: b"m".to_vec(),
            controller_metadata: 9,
            ..exact_entry(1, 0, 1)
        },
        entry(
            "I.route",
            vec![lpm(1, &[10, 0, 0, 0], 8)],
            call("I.send_routed", &[&[1], &[2, 0, 0, 0, 0, 1]]),
        ),
        entry("I.route", vec![], call("I.drop_routed", &[])),
        with_priority("I.ternary_", vec![ternary(1, &[1], &[0xff])], 5),
        with_priority("I.ternary_", vec![], 1),
        with_priority("I.range_", vec![range(1, &[1], &[2, 0])], 1),
        with_priority("I.optional_", vec![optional(2, &[3])], 7),
    ];
    for entry in &all {
        assert_eq!(client.insert(Entity::TableEntry(entry.clone())), Code::Ok, "{entry:?}");
    }
    let read = own(&mut client);
    assert_eq!(read.len(), all.len());
    for entry in &all {
        assert!(read.contains(entry), "{entry:?} is not in {read:?}");
    }
}

#[test]
fn byte_strings_of_any_length_are_read_back_shortest() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let long = entry(
        "I.exact_",
        vec![exact(1, &[0, 0, 0, 0, 0, 0, 0, 1]), exact(2, &[0, 0])],
        call("I.send", &[&[0, 1]]),
    );
    assert_eq!(client.insert(Entity::TableEntry(long)), Code::Ok);
    assert_eq!(own(&mut client), [exact_entry(1, 0, 1)]);
    let refused: [(&[u8], &[u8]); 3] = [(&[1, 0, 0, 0, 0, 0, 0], &[1]), (&[], &[1]), (&[2], &[2, 0])];
    for (dst, port) in refused {
        let entry = entry("I.exact_", vec![exact(1, dst), exact(2, &[0])], call("I.send", &[port]));
        assert_eq!(client.insert(Entity::TableEntry(entry)), Code::OutOfRange, "{dst:?} {port:?}");
    }
}

#[test]
fn matches_that_are_not_canonical_are_refused() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let send = || call("I.send", &[&[1]]);
    let route = || call("I.drop_routed", &[]);
    let priority = |table, m| TableEntry { priority: 1, ..entry(table, vec![m], send()) };
    let wrong = [
        ("a missing exact field", entry("I.exact_", vec![exact(1, &[1])], send())),
        ("an unknown field", entry("I.exact_", vec![exact(1, &[1]), exact(2, &[1]), exact(3, &[1])], send())),
        ("a field twice", entry("I.exact_", vec![exact(1, &[1]), exact(1, &[1])], send())),
        ("another kind of match", entry("I.exact_", vec![lpm(1, &[1], 8), exact(2, &[1])], send())),
        (
            "no match set",
            entry(
                "I.exact_",
                vec![v1::FieldMatch { field_id: 1, field_match_type: None }, exact(2, &[1])],
                send(),
            ),
        ),
        ("a prefix of 0 bits", entry("I.route", vec![lpm(1, &[0], 0)], route())),
        ("a prefix that is too long", entry("I.route", vec![lpm(1, &[1], 33)], route())),
        ("a negative prefix", entry("I.route", vec![lpm(1, &[1], -1)], route())),
        ("bits behind the prefix", entry("I.route", vec![lpm(1, &[1], 8)], route())),
        ("a mask of zeros", priority("I.ternary_", ternary(1, &[0], &[0]))),
        ("bits outside of the mask", priority("I.ternary_", ternary(1, &[3], &[1]))),
        ("a range that ends before it begins", priority("I.range_", range(1, &[2], &[1]))),
        ("a range of everything", priority("I.range_", range(1, &[0], &[0xff, 0xff]))),
    ];
    for (what, entry) in wrong {
        assert_eq!(client.insert(Entity::TableEntry(entry)), Code::InvalidArgument, "{what}");
    }
    assert_eq!(own(&mut client), []);
}

#[test]
fn priorities_are_for_tables_that_need_them() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let ternary = |priority| with_priority("I.ternary_", vec![ternary(1, &[1], &[1])], priority);
    assert_eq!(client.insert(Entity::TableEntry(ternary(0))), Code::InvalidArgument);
    assert_eq!(client.insert(Entity::TableEntry(ternary(-1))), Code::InvalidArgument);
    assert_eq!(
        client.insert(Entity::TableEntry(TableEntry { priority: 1, ..exact_entry(1, 0, 1) })),
        Code::InvalidArgument
    );
    assert_eq!(client.insert(Entity::TableEntry(ternary(1))), Code::Ok);
    assert_eq!(
        client.insert(Entity::TableEntry(ternary(2))),
        Code::Ok,
        "an entry is its matches and its priority"
    );
    assert_eq!(
        client.insert(Entity::TableEntry(with_priority("I.ternary_", vec![], 2))),
        Code::Ok,
        "a priority may be there twice"
    );
}

#[test]
fn actions_are_those_of_the_table() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let keys = || vec![exact(1, &[1]), exact(2, &[0])];
    let param = |id, value: &[u8]| v1::action::Param { param_id: id, value: value.to_vec() };
    let action = |action_id, params| {
        let action = v1::Action { action_id, params };
        Some(v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) })
    };
    let send = id("I.send");
    let wrong = [
        ("no action", None),
        ("an empty action", Some(v1::TableAction { r#type: None })),
        ("another table's action", call("I.send_routed", &[&[1], &[1]])),
        ("an action that nobody has", action(1, vec![])),
        ("a missing parameter", action(send, vec![])),
        ("an extra parameter", action(send, vec![param(1, &[1]), param(2, &[1])])),
        ("a parameter twice", action(send, vec![param(1, &[1]), param(1, &[1])])),
        (
            "a member of a direct table",
            Some(v1::TableAction { r#type: Some(v1::table_action::Type::ActionProfileMemberId(1)) }),
        ),
    ];
    for (what, action) in wrong {
        assert_eq!(
            client.insert(Entity::TableEntry(entry("I.exact_", keys(), action))),
            Code::InvalidArgument,
            "{what}"
        );
    }
    let scoped = with_priority("I.ternary_", vec![], 1);
    let only_default = TableEntry { action: call("NoAction", &[]), ..scoped };
    assert_eq!(client.insert(Entity::TableEntry(only_default)), Code::PermissionDenied);
    let only_entries =
        TableEntry { is_default_action: true, ..entry("I.optional_", vec![], call("I.drop", &[])) };
    assert_eq!(client.modify(Entity::TableEntry(only_entries)), Code::PermissionDenied);
    let indirect = entry("I.group", vec![exact(1, &[1])], call("I.send", &[&[1]]));
    assert_eq!(client.insert(Entity::TableEntry(indirect)), Code::InvalidArgument);
}

#[test]
fn insert_modify_and_delete_mind_what_exists() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let entry = |to| Entity::TableEntry(exact_entry(1, 0, to));
    assert_eq!(client.modify(entry(1)), Code::NotFound);
    assert_eq!(client.delete(entry(1)), Code::NotFound);
    assert_eq!(client.insert(entry(1)), Code::Ok);
    assert_eq!(client.insert(entry(2)), Code::AlreadyExists);
    assert_eq!(own(&mut client), [exact_entry(1, 0, 1)], "the entry is as it was");
    assert_eq!(client.modify(entry(2)), Code::Ok);
    assert_eq!(own(&mut client), [exact_entry(1, 0, 2)]);
    let no_action = TableEntry { action: None, ..exact_entry(1, 0, 2) };
    assert_eq!(client.modify(Entity::TableEntry(no_action)), Code::Ok);
    assert_eq!(own(&mut client), [exact_entry(1, 0, 2)], "without an action it stays");
    let nonsense =
        TableEntry { action: call("I.send_routed", &[]), idle_timeout_ns: -1, ..exact_entry(1, 0, 2) };
    assert_eq!(client.delete(Entity::TableEntry(nonsense)), Code::Ok, "only the key counts");
    assert_eq!(own(&mut client), []);
    assert_eq!(client.one(Type::Unspecified, entry(1)), Code::InvalidArgument);
    let is_const = TableEntry { is_const: true, ..exact_entry(1, 0, 1) };
    assert_eq!(client.insert(Entity::TableEntry(is_const)), Code::InvalidArgument);
    let unknown = TableEntry { table_id: 5, ..exact_entry(1, 0, 1) };
    assert_eq!(client.insert(Entity::TableEntry(unknown)), Code::InvalidArgument);
}

#[test]
fn a_full_table_has_no_room() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let route = |n: u16| entry("I.route", vec![lpm(1, &n.to_be_bytes(), 32)], call("I.drop_routed", &[]));
    let all = (1..=1024).map(|n| update(Type::Insert, Entity::TableEntry(route(n)))).collect();
    client.write(all).expect("the table has 1024 entries");
    assert_eq!(client.insert(Entity::TableEntry(route(2000))), Code::ResourceExhausted);
    assert_eq!(own(&mut client).len(), 1024);
}

#[test]
fn default_actions_are_modified_only() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let default = |action| TableEntry { is_default_action: true, ..entry("I.exact_", vec![], action) };
    let send = || call("I.send", &[&[3]]);
    assert_eq!(client.insert(Entity::TableEntry(default(send()))), Code::InvalidArgument);
    assert_eq!(client.delete(Entity::TableEntry(default(send()))), Code::InvalidArgument);
    let wrong = [
        TableEntry { priority: 1, ..default(send()) },
        TableEntry { r#match: vec![exact(1, &[1])], ..default(send()) },
        TableEntry { idle_timeout_ns: 1, ..default(send()) },
        TableEntry { time_since_last_hit: Some(v1::table_entry::IdleTimeout::default()), ..default(send()) },
    ];
    for entry in wrong {
        assert_eq!(client.modify(Entity::TableEntry(entry)), Code::InvalidArgument);
    }
    let fixed = TableEntry { is_default_action: true, ..entry("I.fixed", vec![], call("I.drop", &[])) };
    assert_eq!(client.modify(Entity::TableEntry(fixed)), Code::PermissionDenied, "it is const");
    let written = TableEntry { metadata: b"x".to_vec(), ..default(send()) };
    assert_eq!(client.modify(Entity::TableEntry(written.clone())), Code::Ok);
    assert_eq!(client.entries(default(None)), [written]);
    assert_eq!(client.modify(Entity::TableEntry(default(None))), Code::Ok);
    assert_eq!(
        client.entries(default(None)),
        [default(call("I.drop", &[]))],
        "it is what the program declares again"
    );
}

#[test]
fn const_entries_are_read_and_not_written() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let fixed = |action| entry("I.fixed", vec![exact(1, &[0x86, 0xdd])], action);
    let read = client.entries(TableEntry { table_id: id("I.fixed"), ..TableEntry::default() });
    assert_eq!(read, [TableEntry { is_const: true, ..fixed(call("I.drop", &[])) }]);
    assert_eq!(client.insert(Entity::TableEntry(fixed(call("I.drop", &[])))), Code::PermissionDenied);
    assert_eq!(client.modify(Entity::TableEntry(fixed(call("I.drop", &[])))), Code::PermissionDenied);
    assert_eq!(client.delete(Entity::TableEntry(fixed(None))), Code::PermissionDenied);
    assert_eq!(client.modify(Entity::TableEntry(fixed(None))), Code::Ok, "nothing of it is changed");
}

#[test]
fn idle_timeouts_are_for_tables_that_have_them() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let route = |idle_timeout_ns| TableEntry {
        idle_timeout_ns,
        ..entry("I.route", vec![], call("I.drop_routed", &[]))
    };
    assert_eq!(client.insert(Entity::TableEntry(route(1))), Code::InvalidArgument);
    let since = Some(v1::table_entry::IdleTimeout::default());
    let hit = TableEntry { time_since_last_hit: since, ..exact_entry(1, 0, 1) };
    assert_eq!(client.insert(Entity::TableEntry(hit)), Code::InvalidArgument, "it is read only");
    assert_eq!(
        client.insert(Entity::TableEntry(TableEntry { idle_timeout_ns: -5, ..exact_entry(1, 0, 1) })),
        Code::InvalidArgument
    );
    assert_eq!(
        client.insert(Entity::TableEntry(TableEntry { idle_timeout_ns: 1, ..exact_entry(1, 0, 1) })),
        Code::Ok
    );
    std::thread::sleep(std::time::Duration::from_millis(20));
    let request =
        TableEntry { table_id: id("I.exact_"), time_since_last_hit: since, ..TableEntry::default() };
    let read = client.entries(request);
    assert_eq!(read[0].idle_timeout_ns, 1, "as it was written");
    assert!(read[0].time_since_last_hit.is_some_and(|time| time.elapsed_ns >= 20_000_000), "{read:?}");
    assert_eq!(own(&mut client)[0].time_since_last_hit, None, "it was not asked for");
    let request = TableEntry { table_id: id("I.route"), time_since_last_hit: since, ..TableEntry::default() };
    assert_eq!(client.read(Entity::TableEntry(request)), Err(Code::InvalidArgument));
}

#[test]
fn reads_select_by_what_they_give() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    #[allow(deprecated)]
    let all = [
        TableEntry { metadata: b"a".to_vec(), ..exact_entry(1, 0, 1) },
        TableEntry { controller_metadata: 4, ..exact_entry(2, 0, 1) },
        entry("I.exact_", vec![exact(1, &[3]), exact(2, &[0])], call("I.drop", &[])),
        with_priority("I.ternary_", vec![ternary(1, &[1], &[1])], 11),
        with_priority("I.ternary_", vec![ternary(1, &[1], &[1])], 12),
        entry("I.route", vec![], call("I.drop_routed", &[])),
    ];
    for entry in &all {
        assert_eq!(client.insert(Entity::TableEntry(entry.clone())), Code::Ok);
    }
    let table = |name: &str| TableEntry { table_id: id(name), ..TableEntry::default() };
    let count = |client: &mut Client, request| client.entries(request).len();
    assert_eq!(count(&mut client, table("I.exact_")), 3);
    let one = TableEntry { r#match: vec![exact(1, &[2]), exact(2, &[0])], ..table("I.exact_") };
    assert_eq!(client.entries(one), [all[1].clone()]);
    assert_eq!(count(&mut client, TableEntry { action: call("I.drop", &[]), ..table("I.exact_") }), 1);
    assert_eq!(count(&mut client, TableEntry { metadata: b"a".to_vec(), ..table("I.exact_") }), 1);
    #[allow(deprecated)]
    let cookie = TableEntry { controller_metadata: 4, ..table("I.exact_") };
    assert_eq!(count(&mut client, cookie), 1);
    assert_eq!(count(&mut client, TableEntry { priority: 12, ..table("I.ternary_") }), 1);
    let matched = TableEntry { r#match: vec![ternary(1, &[1], &[1])], ..table("I.ternary_") };
    assert_eq!(count(&mut client, matched), 2, "the priority is a wildcard");
    let unknown = TableEntry { table_id: 99, ..TableEntry::default() };
    assert_eq!(client.read(Entity::TableEntry(unknown)), Err(Code::InvalidArgument));
    let (found, status) = client.read_all(vec![
        Entity::TableEntry(table("I.route")),
        Entity::TableEntry(TableEntry { table_id: 99, ..TableEntry::default() }),
        Entity::TableEntry(table("I.ternary_")),
    ]);
    let status = status.expect("one of them is wrong");
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(details(&status), [Code::Ok, Code::InvalidArgument, Code::Ok]);
    assert_eq!(found.len(), 3, "the others are answered");
}

#[test]
fn the_counters_of_entries_are_written_and_read_with_them() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let counted = |packets| Some(v1::CounterData { byte_count: 10 * packets, packet_count: packets });
    let config = Some(v1::MeterConfig { cir: 10, cburst: 20, pir: 30, pburst: 40, eburst: 0 });
    let route = || entry("I.route", vec![lpm(1, &[1, 0, 0, 0], 8)], call("I.drop_routed", &[]));
    let full = TableEntry { counter_data: counted(7), meter_config: config, ..route() };
    assert_eq!(client.insert(Entity::TableEntry(full.clone())), Code::Ok);
    let asked = TableEntry {
        table_id: id("I.route"),
        counter_data: Some(v1::CounterData::default()),
        meter_config: Some(v1::MeterConfig::default()),
        ..TableEntry::default()
    };
    assert_eq!(client.entries(asked.clone()), [full]);
    assert_eq!(own(&mut client), [route()], "they are not read unless they are asked for");
    let direct =
        |data| Entity::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(route()), data });
    assert_eq!(client.modify(direct(counted(9))), Code::Ok);
    assert_eq!(client.insert(direct(counted(9))), Code::InvalidArgument);
    assert_eq!(client.delete(direct(None)), Code::InvalidArgument);
    assert_eq!(client.modify(direct(None)), Code::Ok, "without data nothing changes");
    // A modification without the meter resets it, and leaves the counter.
    assert_eq!(client.modify(Entity::TableEntry(route())), Code::Ok);
    assert_eq!(client.entries(asked), [TableEntry { counter_data: counted(9), ..route() }]);
    let key = |route: TableEntry| TableEntry { action: None, ..route };
    let read = client.read(Entity::DirectCounterEntry(v1::DirectCounterEntry {
        table_entry: Some(key(route())),
        data: None,
    }));
    let expected = v1::DirectCounterEntry { table_entry: Some(key(route())), data: counted(9) };
    assert_eq!(read, Ok(vec![Entity::DirectCounterEntry(expected)]));
    let missing = entry("I.route", vec![lpm(1, &[9, 0, 0, 0], 8)], None);
    let of =
        |entry| Entity::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(entry), data: None });
    assert_eq!(client.read(of(missing.clone())), Err(Code::NotFound));
    assert_eq!(client.modify(of(missing)), Code::NotFound);
    assert_eq!(
        client.modify(of(exact_entry(1, 0, 1))),
        Code::InvalidArgument,
        "its entries have no counters"
    );
    let with_colours = TableEntry { meter_counter_data: Some(v1::MeterCounterData::default()), ..route() };
    assert_eq!(client.modify(Entity::TableEntry(with_colours)), Code::Unimplemented);
}

fn inserts(entries: &[TableEntry]) -> Vec<v1::Update> {
    entries.iter().map(|entry| update(Type::Insert, Entity::TableEntry(entry.clone()))).collect()
}

#[test]
fn every_update_of_a_batch_is_tried_and_answered() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let updates = vec![
        update(Type::Insert, Entity::TableEntry(exact_entry(1, 0, 1))),
        update(Type::Delete, Entity::TableEntry(exact_entry(9, 0, 1))),
        update(Type::Insert, Entity::TableEntry(exact_entry(1, 0, 1))),
        update(Type::Insert, Entity::TableEntry(exact_entry(2, 0, 1))),
        v1::Update { r#type: Type::Insert.into(), entity: None },
        v1::Update { r#type: Type::Insert.into(), entity: Some(v1::Entity { entity: None }) },
    ];
    let status = client.write(updates).expect_err("some are wrong");
    assert_eq!(status.code(), Code::Unknown);
    let expected = [
        Code::Ok,
        Code::NotFound,
        Code::AlreadyExists,
        Code::Ok,
        Code::InvalidArgument,
        Code::InvalidArgument,
    ];
    assert_eq!(details(&status), expected);
    assert_eq!(own(&mut client).len(), 2);
    client.write(Vec::new()).expect("an empty batch is right");
}

#[test]
fn a_batch_is_rolled_back_as_a_whole() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let noted = TableEntry { metadata: b"before".to_vec(), ..exact_entry(1, 0, 1) };
    assert_eq!(client.insert(Entity::TableEntry(noted.clone())), Code::Ok);
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let updates = vec![
            update(Type::Modify, Entity::TableEntry(exact_entry(1, 0, 2))),
            update(Type::Insert, Entity::TableEntry(exact_entry(2, 0, 1))),
            update(Type::Insert, Entity::TableEntry(exact_entry(2, 0, 1))),
        ];
        let status = client.write_as(updates, atomicity).expect_err("one is wrong");
        assert_eq!(details(&status), [Code::Aborted, Code::Aborted, Code::AlreadyExists]);
        assert_eq!(own(&mut client), std::slice::from_ref(&noted), "and so is the metadata");
    }
    client
        .write_as(inserts(&[exact_entry(3, 0, 1), exact_entry(4, 0, 1)]), Atomicity::DataplaneAtomic)
        .expect("all are right");
    assert_eq!(own(&mut client).len(), 3);
}

#[test]
fn a_batch_may_depend_on_itself() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let no_action = TableEntry { action: None, metadata: b"later".to_vec(), ..exact_entry(1, 0, 1) };
    let updates = vec![
        update(Type::Insert, Entity::TableEntry(exact_entry(1, 0, 1))),
        update(Type::Modify, Entity::TableEntry(exact_entry(1, 0, 2))),
        update(Type::Modify, Entity::TableEntry(no_action)),
        update(Type::Insert, Entity::TableEntry(exact_entry(2, 0, 2))),
        update(Type::Delete, Entity::TableEntry(exact_entry(2, 0, 2))),
    ];
    client.write(updates).expect("in their order they are right");
    assert_eq!(own(&mut client), [TableEntry { metadata: b"later".to_vec(), ..exact_entry(1, 0, 2) }]);
}

/// A capture file with one frame of 60 bytes.
fn capture() -> Vec<u8> {
    let mut file =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    file.extend([2; 60]);
    file
}

#[test]
fn packets_see_an_atomic_batch_whole() {
    let info = crate::client::info("pair.p4");
    let id = |name| crate::client::id_in(&info, name);
    let dir = io::workdir::WorkDir::named("st-pair-").expect("a directory");
    let frames = dir.write("frames.pcap", &capture()).expect("a file");
    let port = format!("0=mem:{}", frames.display());
    let program = crate::client::file("pair.p4");
    for target in ["interp", "native"] {
        if target == "native" && !io::native::has_compiler() {
            println!("skipped: packets_see_an_atomic_batch_whole on native: needs cc");
            continue;
        }
        let server = Server::start_on(target, &[program.to_str().expect("a path"), "--port", &port]);
        let (mut client, _stream) = server.primary();
        let default = |table, action, value: u32| {
            let params = vec![v1::action::Param { param_id: 1, value: value.to_be_bytes().to_vec() }];
            let action = v1::Action { action_id: id(action), params };
            let action = Some(v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) });
            let entry =
                TableEntry { table_id: id(table), is_default_action: true, action, ..TableEntry::default() };
            update(Type::Modify, Entity::TableEntry(entry))
        };
        for value in 1..200 {
            let both =
                vec![default("I.first", "I.set_first", value), default("I.second", "I.set_second", value)];
            client.write_as(both, Atomicity::DataplaneAtomic).expect("it is right");
        }
        let all = v1::CounterEntry { counter_id: id("I.seen"), ..v1::CounterEntry::default() };
        let counts: Vec<i64> = client
            .read(Entity::CounterEntry(all))
            .expect("it reads")
            .into_iter()
            .map(|cell| match cell {
                Entity::CounterEntry(cell) => cell.data.expect("a count").packet_count,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(counts[0] > 100, "packets pass on {target}: {counts:?}");
        assert_eq!(counts[1], 0, "a packet has seen half of a batch on {target}");
    }
}

/// Names have numbers only while a request that has succeeded needs them (section 8.4.6).
#[test]
fn what_is_refused_or_only_read_takes_no_number_of_a_name() {
    let path = crate::client::file("named.p4");
    let server = Server::start(&[path.to_str().expect("a path")]);
    let (mut client, _stream) = server.primary();
    let info = crate::client::info("named.p4");
    let (table_id, action_id) =
        (crate::client::id_in(&info, "slots"), crate::client::id_in(&info, "forward"));
    let entry = |name: &str| {
        let params = vec![v1::action::Param { param_id: 1, value: vec![1] }];
        let action = v1::table_action::Type::Action(v1::Action { action_id, params });
        TableEntry {
            table_id,
            r#match: vec![exact(1, name.as_bytes())],
            action: Some(v1::TableAction { r#type: Some(action) }),
            ..TableEntry::default()
        }
    };
    assert_eq!(client.insert(Entity::TableEntry(entry("a"))), Code::Ok);
    for at in 0..20 {
        let name = format!("other-{at}");
        let mut wrong = entry(&name);
        wrong.action = None;
        assert_eq!(client.insert(Entity::TableEntry(wrong)), Code::InvalidArgument);
        assert_eq!(client.read(Entity::TableEntry(entry(&name))), Ok(Vec::new()));
        let both = [entry(&name), entry("a")].map(|e| update(Type::Insert, Entity::TableEntry(e)));
        client.write_as(both.to_vec(), Atomicity::RollbackOnError).expect_err("`a` is there");
    }
    for name in ["b", "c", "d"] {
        assert_eq!(client.insert(Entity::TableEntry(entry(name))), Code::Ok, "{name}");
    }
    assert_eq!(client.insert(Entity::TableEntry(entry("e"))), Code::ResourceExhausted);
    let found = client.entries(TableEntry { table_id, ..TableEntry::default() });
    let mut names: Vec<_> = found.iter().flat_map(|e| e.r#match.clone()).collect();
    names.sort_by_key(prost::Message::encode_to_vec);
    assert_eq!(names, ["a", "b", "c", "d"].map(|name| exact(1, name.as_bytes())));
}
