//! Forwarding pipelines (specification, sections 7, 14 and 15) and capabilities (section 17).

use std::time::Instant;

use proto::p4::config::v1::{P4DataTypeSpec, P4NamedType, p4_data_type_spec};
use proto::p4::v1::entity::Entity;
use proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use proto::p4::v1::{self, ForwardingPipelineConfig, TableEntry};
use tonic::Code;

use crate::client::{KINDS, Server, exact_entry, info, program};

fn kinds() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(KINDS.clone()),
        p4_device_config: program("kinds.p4"),
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: 77 }),
    }
}

#[test]
fn a_pushed_program_runs_and_is_read_back() {
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    assert_eq!(client.pipeline(ResponseType::All).expect("an answer"), None, "nothing is pushed yet");
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::FailedPrecondition);
    assert_eq!(client.read(Entity::TableEntry(TableEntry::default())), Err(Code::FailedPrecondition));
    let begun = Instant::now();
    client.push(Action::VerifyAndCommit, Some(kinds())).expect("it is accepted");
    println!("pushed in {:?}", begun.elapsed());
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    assert_eq!(
        client.pipeline(ResponseType::All).expect("an answer"),
        Some(kinds()),
        "what is written is read"
    );
    let of = |client: &mut crate::client::Client, kind| {
        client.pipeline(kind).expect("an answer").expect("a config")
    };
    let only_cookie = of(&mut client, ResponseType::CookieOnly);
    assert_eq!(only_cookie, ForwardingPipelineConfig { cookie: kinds().cookie, ..Default::default() });
    let described = of(&mut client, ResponseType::P4infoAndCookie);
    assert_eq!((described.p4info, described.p4_device_config.len()), (kinds().p4info, 0));
    let device = of(&mut client, ResponseType::DeviceConfigAndCookie);
    assert_eq!((device.p4info, device.p4_device_config), (None, program("kinds.p4")));
    // A push clears the state.
    client.push(Action::VerifyAndCommit, Some(kinds())).expect("it is accepted");
    assert_eq!(client.entries(TableEntry::default()).iter().filter(|e| !e.is_const).count(), 0);
}

#[test]
fn verify_changes_nothing_and_a_saved_pipeline_waits_for_its_commit() {
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    client.push(Action::VerifyAndCommit, Some(kinds())).expect("it is accepted");
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    client.push(Action::Verify, Some(kinds())).expect("it is right");
    let own = |client: &mut crate::client::Client| {
        client.entries(TableEntry::default()).iter().filter(|e| !e.is_const).count()
    };
    assert_eq!(own(&mut client), 1, "`VERIFY` changes nothing");
    assert_eq!(client.push(Action::Commit, None).expect_err("nothing is saved").code(), Code::NotFound);
    client.push(Action::VerifyAndSave, Some(kinds())).expect("it is right");
    assert_eq!(own(&mut client), 0, "reads refer to the saved pipeline");
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(2, 0, 1))), Code::Ok, "and so do writes");
    assert_eq!(
        client.push(Action::Commit, Some(kinds())).expect_err("no config").code(),
        Code::InvalidArgument
    );
    client.push(Action::Commit, None).expect("it is committed");
    assert_eq!(own(&mut client), 1, "what was written since then is there");
}

#[test]
fn reconcile_keeps_the_state_or_refuses() {
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    client.push(Action::VerifyAndCommit, Some(kinds())).expect("it is accepted");
    let with_metadata = TableEntry { metadata: b"mine".to_vec(), ..exact_entry(1, 0, 1) };
    assert_eq!(client.insert(Entity::TableEntry(with_metadata.clone())), Code::Ok);
    client.push(Action::ReconcileAndCommit, Some(kinds())).expect("the programs are compatible");
    let kept: Vec<_> = client.entries(TableEntry::default()).into_iter().filter(|e| !e.is_const).collect();
    assert_eq!(kept, std::slice::from_ref(&with_metadata));
    // A program without this table has no place for the entry.
    let other = ForwardingPipelineConfig {
        p4info: Some(info("small.p4")),
        p4_device_config: program("small.p4"),
        cookie: None,
    };
    let refused = client.push(Action::ReconcileAndCommit, Some(other.clone())).expect_err("it has no place");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("I.exact_"), "{refused}");
    let kept: Vec<_> = client.entries(TableEntry::default()).into_iter().filter(|e| !e.is_const).collect();
    assert_eq!(kept, [with_metadata], "the running state is whole");
    assert_eq!(client.delete(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    client.push(Action::ReconcileAndCommit, Some(other)).expect("nothing is lost");
}

#[test]
fn a_pipeline_that_cannot_be_realized_is_refused_and_the_running_one_goes_on() {
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    client.push(Action::VerifyAndCommit, Some(kinds())).expect("it is accepted");
    assert_eq!(client.insert(Entity::TableEntry(exact_entry(1, 0, 1))), Code::Ok);
    let with = |text: &[u8]| ForwardingPipelineConfig { p4_device_config: text.to_vec(), ..kinds() };
    let mut endless = KINDS.clone();
    let types = endless.type_info.as_mut().expect("types");
    for (name, of) in &mut types.structs {
        let itself = p4_data_type_spec::TypeSpec::Struct(P4NamedType { name: name.clone() });
        of.members[0].type_spec = Some(P4DataTypeSpec { type_spec: Some(itself) });
    }
    let cases: [(ForwardingPipelineConfig, &str); 8] = [
        (ForwardingPipelineConfig { p4info: Some(endless), ..kinds() }, "has itself inside"),
        (with(b"control broken {"), "pushed.p4:1"),
        (with(b"#include \"/etc/passwd\"\n"), "/etc/passwd"),
        (with(b"{\"header_types\": []}"), "push the P4 source"),
        (with(b""), "empty"),
        (with(&[0x7f, b'E', b'L', b'F', 0]), "no text"),
        (ForwardingPipelineConfig { p4info: None, ..kinds() }, "P4Info"),
        (ForwardingPipelineConfig { p4info: Some(info("small.p4")), ..kinds() }, "does not have"),
    ];
    for (config, text) in cases {
        let refused = client.push(Action::VerifyAndCommit, Some(config)).expect_err("it is refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(text), "{refused}");
        assert!(!refused.message().contains("root:"), "no file of the server is shown: {refused}");
    }
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit]
    {
        assert_eq!(client.push(action, None).expect_err("no config").code(), Code::InvalidArgument);
    }
    assert_eq!(
        client.push(Action::Unspecified, Some(kinds())).expect_err("no action").code(),
        Code::InvalidArgument
    );
    assert_eq!(client.entries(exact_entry(1, 0, 1)).len(), 1, "the running state is whole");
}

#[test]
fn only_the_primary_pushes() {
    let server = Server::empty();
    let mut client = server.client();
    assert_eq!(
        client.push(Action::VerifyAndCommit, Some(kinds())).expect_err("no stream").code(),
        Code::PermissionDenied
    );
    client.device = 9;
    assert_eq!(
        client.push(Action::VerifyAndCommit, Some(kinds())).expect_err("no device").code(),
        Code::NotFound
    );
    assert_eq!(client.pipeline(ResponseType::All).expect_err("no device").code(), Code::NotFound);
}

#[test]
fn a_program_in_the_wrapper_of_bmv2_is_unwrapped() {
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    // p4.tmp.P4DeviceConfig { reassign: true, device_data: … }
    let text = program("small.p4");
    let mut wrapped = vec![0x08, 0x01, 0x1a];
    let mut length = text.len();
    while length >= 0x80 {
        wrapped.push(length as u8 | 0x80);
        length >>= 7;
    }
    wrapped.push(length as u8);
    wrapped.extend(text);
    let config =
        ForwardingPipelineConfig { p4info: Some(info("small.p4")), p4_device_config: wrapped, cookie: None };
    client.push(Action::VerifyAndCommit, Some(config)).expect("it is accepted");
}

#[test]
fn the_version_is_that_of_the_specification() {
    let server = Server::empty();
    let mut client = server.client();
    assert_eq!(client.capabilities(0).expect("an answer").p4runtime_api_version, "1.5.0");
    assert_eq!(client.capabilities(1).expect("an answer").p4runtime_api_version, "1.5.0");
    assert_eq!(client.capabilities(2).expect_err("no device").code(), Code::NotFound);
}
