//! Members and groups (specification, section 9.2), counters, meters, registers, value sets and digests (sections 9.3, 9.4, 9.6 to 9.8).

use proto::p4::v1::entity::Entity;
use proto::p4::v1::{self, TableEntry, table_action};
use tonic::Code;

use crate::client::{Client, Server, action, call, entry, exact, exact_entry, id};

fn member(member_id: u32, port: u8) -> Entity {
    let action = Some(action("I.send", &[&[port]]));
    Entity::ActionProfileMember(v1::ActionProfileMember {
        action_profile_id: id("I.selector"),
        member_id,
        action,
    })
}

fn group(group_id: u32, members: &[(u32, i32)]) -> Entity {
    let member = |(member_id, weight): &(u32, i32)| v1::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    };
    let members = members.iter().map(member).collect();
    Entity::ActionProfileGroup(v1::ActionProfileGroup {
        action_profile_id: id("I.selector"),
        group_id,
        members,
        max_size: 0,
    })
}

fn refers(dst: u8, to: table_action::Type) -> Entity {
    Entity::TableEntry(entry("I.group", vec![exact(1, &[dst])], Some(v1::TableAction { r#type: Some(to) })))
}

fn all_members() -> Entity {
    Entity::ActionProfileMember(v1::ActionProfileMember::default())
}

fn all_groups() -> Entity {
    Entity::ActionProfileGroup(v1::ActionProfileGroup::default())
}

#[test]
fn members_and_groups_mind_who_refers_to_them() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.insert(member(1, 1)), Code::Ok);
    assert_eq!(client.insert(member(1, 2)), Code::AlreadyExists);
    assert_eq!(client.modify(member(2, 1)), Code::NotFound);
    assert_eq!(client.delete(member(2, 1)), Code::NotFound);
    assert_eq!(client.insert(member(0, 1)), Code::InvalidArgument);
    assert_eq!(client.insert(member(2, 2)), Code::Ok);
    assert_eq!(client.insert(group(1, &[(1, 1), (3, 1)])), Code::NotFound);
    assert_eq!(client.insert(group(1, &[(1, 1), (1, 1)])), Code::InvalidArgument, "a member is there twice");
    assert_eq!(client.insert(group(1, &[(1, 0)])), Code::InvalidArgument, "a weight is not 0");
    assert_eq!(client.insert(group(0, &[(1, 1)])), Code::InvalidArgument);
    assert_eq!(client.insert(group(1, &[(1, 1), (2, 3)])), Code::Ok);
    assert_eq!(client.insert(group(1, &[(1, 1)])), Code::AlreadyExists);
    assert_eq!(client.modify(group(2, &[(1, 1)])), Code::NotFound);
    assert_eq!(client.read(all_groups()), Ok(vec![group(1, &[(1, 1), (2, 3)])]));
    assert_eq!(client.read(all_members()), Ok(vec![member(1, 1), member(2, 2)]));
    assert_eq!(client.insert(refers(1, table_action::Type::ActionProfileGroupId(7))), Code::NotFound);
    assert_eq!(client.insert(refers(1, table_action::Type::ActionProfileMemberId(7))), Code::NotFound);
    assert_eq!(client.insert(refers(1, table_action::Type::ActionProfileGroupId(1))), Code::Ok);
    assert_eq!(client.insert(refers(2, table_action::Type::ActionProfileMemberId(1))), Code::Ok);
    assert_eq!(client.delete(member(2, 2)), Code::FailedPrecondition, "the group has it");
    assert_eq!(client.delete(group(1, &[])), Code::FailedPrecondition, "an entry has it");
    assert_eq!(client.modify(group(1, &[(1, 1)])), Code::Ok);
    assert_eq!(client.delete(member(2, 2)), Code::Ok);
    assert_eq!(client.modify(member(1, 5)), Code::Ok);
    assert_eq!(client.delete(refers(1, table_action::Type::ActionProfileGroupId(1))), Code::Ok);
    assert_eq!(client.delete(group(1, &[])), Code::Ok);
    let watching = |port| {
        let Entity::ActionProfileGroup(mut group) = group(1, &[(1, 1)]) else {
            unreachable!("it is a group")
        };
        group.members[0].watch_kind =
            Some(v1::action_profile_group::member::WatchKind::WatchPort(vec![port]));
        Entity::ActionProfileGroup(group)
    };
    assert_eq!(client.insert(watching(1)), Code::InvalidArgument, "there is no port 1");
    assert_eq!(client.insert(watching(64)), Code::Ok, "that is the controller's");
    assert_eq!(client.read(all_groups()), Ok(vec![watching(64)]));
}

fn one_shot(dst: u8, weights: &[i32]) -> TableEntry {
    let one = |(at, weight): (usize, &i32)| v1::ActionProfileAction {
        action: Some(action("I.send", &[&[at as u8 + 1]])),
        weight: *weight,
        watch_kind: None,
    };
    let set = v1::ActionProfileActionSet {
        action_profile_actions: weights.iter().enumerate().map(one).collect(),
        ..v1::ActionProfileActionSet::default()
    };
    let set = table_action::Type::ActionProfileActionSet(set);
    entry("I.group", vec![exact(1, &[dst])], Some(v1::TableAction { r#type: Some(set) }))
}

fn in_group(client: &mut Client) -> Vec<TableEntry> {
    client.entries(TableEntry { table_id: id("I.group"), ..TableEntry::default() })
}

#[test]
fn one_shots_are_read_as_they_are_written() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.insert(Entity::TableEntry(one_shot(1, &[2, 4]))), Code::Ok);
    assert_eq!(in_group(&mut client), [one_shot(1, &[2, 4])]);
    assert_eq!(client.insert(Entity::TableEntry(one_shot(1, &[1]))), Code::AlreadyExists);
    assert_eq!(in_group(&mut client), [one_shot(1, &[2, 4])], "a refused one leaves nothing");
    assert_eq!(client.modify(Entity::TableEntry(one_shot(1, &[1, 1, 1]))), Code::Ok);
    assert_eq!(in_group(&mut client), [one_shot(1, &[1, 1, 1])]);
    let metadata = TableEntry { action: None, metadata: b"x".to_vec(), ..one_shot(1, &[]) };
    assert_eq!(client.modify(Entity::TableEntry(metadata)), Code::Ok);
    assert_eq!(in_group(&mut client), [TableEntry { metadata: b"x".to_vec(), ..one_shot(1, &[1, 1, 1]) }]);
    assert_eq!(client.read(all_members()), Ok(Vec::new()), "its members are its own");
    assert_eq!(client.read(all_groups()), Ok(Vec::new()));
    assert_eq!(client.insert(member(1, 1)), Code::InvalidArgument, "the two styles are not mixed");
    assert_eq!(client.insert(Entity::TableEntry(one_shot(2, &[0]))), Code::InvalidArgument);
    assert_eq!(client.insert(Entity::TableEntry(one_shot(2, &[]))), Code::Ok, "a set may be empty");
    assert_eq!(client.delete(Entity::TableEntry(one_shot(2, &[]))), Code::Ok);
    assert_eq!(client.delete(Entity::TableEntry(one_shot(1, &[]))), Code::Ok);
    assert_eq!(client.insert(member(1, 1)), Code::Ok, "now it is the other style's turn");
    assert_eq!(client.insert(Entity::TableEntry(one_shot(1, &[1]))), Code::InvalidArgument);
}

#[test]
fn many_one_shots_leave_no_members_behind() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    // The selector has room for 64 members.
    for round in 0..50 {
        assert_eq!(client.insert(Entity::TableEntry(one_shot(1, &[1; 30]))), Code::Ok, "round {round}");
        assert_eq!(client.modify(Entity::TableEntry(one_shot(1, &[2; 30]))), Code::Ok, "round {round}");
        assert_eq!(client.delete(Entity::TableEntry(one_shot(1, &[]))), Code::Ok, "round {round}");
    }
    assert_eq!(client.insert(Entity::TableEntry(one_shot(1, &[1; 65]))), Code::ResourceExhausted);
}

fn index(at: i64) -> Option<v1::Index> {
    Some(v1::Index { index: at })
}

fn counter(at: Option<v1::Index>, packets: Option<i64>) -> Entity {
    let data = packets.map(|packets| v1::CounterData { packet_count: packets, byte_count: 2 * packets });
    Entity::CounterEntry(v1::CounterEntry { counter_id: id("I.arrived"), index: at, data })
}

#[test]
fn counters_are_written_one_by_one_or_all_at_once() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.insert(counter(index(1), Some(1))), Code::InvalidArgument);
    assert_eq!(client.delete(counter(index(1), None)), Code::InvalidArgument);
    assert_eq!(client.modify(counter(index(1), Some(5))), Code::Ok);
    assert_eq!(client.modify(counter(index(1), None)), Code::Ok, "without data nothing changes");
    assert_eq!(client.read(counter(index(1), None)), Ok(vec![counter(index(1), Some(5))]));
    assert_eq!(client.modify(counter(index(-1), Some(1))), Code::InvalidArgument);
    assert_eq!(client.modify(counter(index(8), Some(1))), Code::OutOfRange);
    assert_eq!(client.read(counter(index(8), None)), Err(Code::OutOfRange));
    assert_eq!(client.read(counter(index(-1), None)), Err(Code::InvalidArgument));
    assert_eq!(client.modify(counter(None, Some(3))), Code::Ok);
    let all: Vec<_> = (0..8).map(|at| counter(index(at), Some(3))).collect();
    assert_eq!(client.read(counter(None, None)), Ok(all.clone()));
    assert_eq!(client.read(Entity::CounterEntry(v1::CounterEntry::default())), Ok(all));
    let unknown = v1::CounterEntry { counter_id: 3, ..v1::CounterEntry::default() };
    assert_eq!(client.read(Entity::CounterEntry(unknown)), Err(Code::InvalidArgument));
}

fn meter(at: Option<v1::Index>, config: Option<v1::MeterConfig>) -> Entity {
    Entity::MeterEntry(v1::MeterEntry { meter_id: id("I.rate"), index: at, config, counter_data: None })
}

#[test]
fn meters_have_two_rates() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let config = v1::MeterConfig { cir: 1000, cburst: 10, pir: 2000, pburst: 20, eburst: 0 };
    assert_eq!(client.insert(meter(index(1), Some(config))), Code::InvalidArgument);
    assert_eq!(client.delete(meter(index(1), None)), Code::InvalidArgument);
    assert_eq!(client.modify(meter(index(1), Some(config))), Code::Ok);
    assert_eq!(client.read(meter(index(1), None)), Ok(vec![meter(index(1), Some(config))]));
    assert_eq!(
        client.modify(meter(index(1), Some(v1::MeterConfig { eburst: 1, ..config }))),
        Code::InvalidArgument
    );
    assert_eq!(
        client.modify(meter(index(1), Some(v1::MeterConfig { cir: -1, ..config }))),
        Code::InvalidArgument
    );
    assert_eq!(client.modify(meter(index(8), None)), Code::OutOfRange);
    assert_eq!(client.modify(meter(index(1), None)), Code::Ok);
    assert_eq!(
        client.read(meter(index(1), None)),
        Ok(vec![meter(index(1), None)]),
        "every packet is green again"
    );
    let counted =
        v1::MeterEntry { counter_data: Some(v1::MeterCounterData::default()), ..v1::MeterEntry::default() };
    assert_eq!(client.read(Entity::MeterEntry(counted)), Err(Code::Unimplemented));
    let route = entry("I.route", vec![], call("I.drop_routed", &[]));
    assert_eq!(client.insert(Entity::TableEntry(route.clone())), Code::Ok);
    let key = TableEntry { action: None, ..route };
    let direct = |config| {
        Entity::DirectMeterEntry(v1::DirectMeterEntry {
            table_entry: Some(key.clone()),
            config,
            counter_data: None,
        })
    };
    assert_eq!(client.insert(direct(Some(config))), Code::InvalidArgument);
    assert_eq!(client.modify(direct(Some(config))), Code::Ok);
    assert_eq!(client.read(direct(None)), Ok(vec![direct(Some(config))]));
    assert_eq!(client.modify(direct(None)), Code::Ok);
    assert_eq!(client.read(direct(None)), Ok(vec![direct(None)]));
    let none =
        v1::DirectMeterEntry { table_entry: Some(exact_entry(1, 0, 1)), ..v1::DirectMeterEntry::default() };
    assert_eq!(client.modify(Entity::DirectMeterEntry(none)), Code::InvalidArgument);
}

fn register(at: Option<v1::Index>, value: Option<&[u8]>) -> Entity {
    let data = value.map(|value| v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(value.to_vec())) });
    Entity::RegisterEntry(v1::RegisterEntry { register_id: id("I.seen"), index: at, data })
}

#[test]
fn registers_are_written_and_read() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.modify(register(index(2), Some(&[1, 2]))), Code::Ok);
    assert_eq!(client.read(register(index(2), None)), Ok(vec![register(index(2), Some(&[1, 2]))]));
    assert_eq!(client.modify(register(None, Some(&[7]))), Code::Ok);
    let all: Vec<_> = (0..8).map(|at| register(index(at), Some(&[7]))).collect();
    assert_eq!(client.read(register(None, None)), Ok(all));
    assert_eq!(client.insert(register(index(1), Some(&[1]))), Code::InvalidArgument);
    assert_eq!(client.delete(register(index(1), None)), Code::InvalidArgument);
    assert_eq!(client.modify(register(index(-1), Some(&[1]))), Code::InvalidArgument);
    assert_eq!(client.modify(register(index(8), Some(&[1]))), Code::OutOfRange);
    assert_eq!(client.modify(register(index(1), None)), Code::InvalidArgument);
    assert_eq!(client.modify(register(index(1), Some(&[1, 0, 0, 0, 0]))), Code::OutOfRange);
    let wrong = v1::P4Data { data: Some(v1::p4_data::Data::Bool(true)) };
    let wrong = v1::RegisterEntry { register_id: id("I.seen"), index: index(1), data: Some(wrong) };
    assert_eq!(client.modify(Entity::RegisterEntry(wrong)), Code::InvalidArgument);
}

#[test]
fn value_sets_are_written_as_a_whole() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let name = crate::client::KINDS.value_sets[0].preamble.as_ref().expect("a name").name.clone();
    let set = |members: &[u8]| {
        let member = |value: &u8| v1::ValueSetMember { r#match: vec![exact(1, &[*value])] };
        let members = members.iter().map(member).collect();
        Entity::ValueSetEntry(v1::ValueSetEntry { value_set_id: id(&name), members })
    };
    assert_eq!(client.modify(set(&[1, 2])), Code::Ok);
    assert_eq!(client.read(set(&[])), Ok(vec![set(&[1, 2])]));
    assert_eq!(client.read(Entity::ValueSetEntry(v1::ValueSetEntry::default())), Ok(vec![set(&[1, 2])]));
    assert_eq!(client.modify(set(&[1, 1])), Code::AlreadyExists);
    assert_eq!(client.modify(set(&[1, 2, 3, 4, 5])), Code::ResourceExhausted);
    assert_eq!(client.insert(set(&[1])), Code::InvalidArgument);
    assert_eq!(client.delete(set(&[])), Code::InvalidArgument);
    assert_eq!(client.modify(set(&[])), Code::Ok);
    assert_eq!(client.read(set(&[])), Ok(vec![set(&[])]));
}

#[test]
fn digests_are_switched_on_and_off() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    let digest = |max_list_size| {
        let config = v1::digest_entry::Config { max_list_size, max_timeout_ns: 5, ack_timeout_ns: 6 };
        Entity::DigestEntry(v1::DigestEntry { digest_id: id("learnt_t"), config: Some(config) })
    };
    let all = || Entity::DigestEntry(v1::DigestEntry::default());
    assert_eq!(client.modify(digest(1)), Code::NotFound);
    assert_eq!(client.delete(digest(1)), Code::NotFound);
    assert_eq!(client.insert(digest(1)), Code::Ok);
    assert_eq!(client.insert(digest(2)), Code::AlreadyExists);
    assert_eq!(client.modify(digest(3)), Code::Ok);
    assert_eq!(client.read(all()), Ok(vec![digest(3)]));
    assert_eq!(client.modify(digest(-3)), Code::InvalidArgument);
    assert_eq!(client.delete(digest(3)), Code::Ok);
    assert_eq!(client.read(all()), Ok(Vec::new()));
    let unknown = Entity::DigestEntry(v1::DigestEntry { digest_id: 8, config: None });
    assert_eq!(client.insert(unknown), Code::InvalidArgument);
}

#[test]
fn no_program_has_externs_of_other_architectures() {
    let server = Server::kinds();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.read(Entity::ExternEntry(v1::ExternEntry::default())), Ok(Vec::new()));
    let one = v1::ExternEntry { extern_type_id: 0x81, extern_id: 1, entry: None };
    assert_eq!(client.read(Entity::ExternEntry(one.clone())), Err(Code::InvalidArgument));
    assert_eq!(client.insert(Entity::ExternEntry(one)), Code::InvalidArgument);
}
