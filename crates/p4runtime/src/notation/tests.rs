//! Entries are read as they are written.

use proto::p4::config::v1::P4Info;

use super::*;

/// P4Info with two tables and two actions, as text.
const INFO: &str = r#"
tables {
  preamble { id: 1 name: "I.route" alias: "route" }
  match_fields { id: 1 name: "hdr.ipv4.dst" bitwidth: 32 match_type: LPM }
  match_fields { id: 2 name: "port" bitwidth: 9 match_type: TERNARY }
  match_fields { id: 3 name: "length" bitwidth: 16 match_type: RANGE }
  match_fields { id: 4 name: "label" bitwidth: 20 match_type: OPTIONAL }
  action_refs { id: 16777217 }
  action_refs { id: 16777218 }
}
tables {
  preamble { id: 2 name: "I.hosts" alias: "hosts" }
  match_fields { id: 1 name: "src" bitwidth: 128 match_type: EXACT }
  action_refs { id: 16777217 }
  implementation_id: 285212673
}
actions {
  preamble { id: 16777217 name: "I.send" alias: "send" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "mac" bitwidth: 48 }
}
actions { preamble { id: 16777218 name: "I.drop" alias: "drop" } }
"#;

fn info() -> P4Info {
    proto::parse(INFO).expect("P4Info")
}

fn read(text: &str) -> Result<String, Mistake> {
    let info = info();
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(entry_text(&info, &entry(&info, &words)?))
}

#[test]
fn entries_are_printed_as_they_are_read() {
    let lines = [
        "route 10.0.0.0/8 1&&&0x1ff 1..5 0x7 => send 3 02:00:00:00:00:01 priority 10",
        "route * * * * => drop priority 1 idle 30s metadata mine",
        "route 10.0.0.0/8 * * * => drop priority 1 idle 1500us metadata 0x0001",
        "route default => drop",
        "hosts 2001:db8::1 => member 3",
        "hosts 2001:db8::1 => group 1",
        "hosts 2001:db8::1 => one-shot send(1,02:00:00:00:00:01)*2 send(2,02:00:00:00:00:02)*1@7",
    ];
    for line in lines {
        assert_eq!(read(line).as_deref(), Ok(line));
    }
}

#[test]
fn people_may_write_less() {
    let cases = [
        (
            "I.route dst=10.1.2.3/8 => send mac=2:0:0:0:0:1 port=0x3",
            "route 10.0.0.0/8 * * * => send 3 02:00:00:00:00:01",
        ),
        ("route 10.0.0.1 => drop", "route 10.0.0.1/32 * * * => drop"),
        ("route length=7 port=1/9 => drop", "route * 1&&&0x1ff 7..7 * => drop"),
        ("route 0.0.0.0/0 0&&&0 0..0xffff _ => drop", "route * * * * => drop"),
    ];
    for (given, expected) in cases {
        assert_eq!(read(given).as_deref(), Ok(expected), "{given}");
    }
}

#[test]
fn mistakes_say_what_is_wrong() {
    let cases = [
        ("rout 1 => drop", "did you mean `route`?"),
        ("route 10.0.0.1", "`=>` and an action are missing"),
        ("route 10.0.0.1 =>", "the action is missing"),
        ("route 10.0.0.1 => dorp", "did you mean `drop`?"),
        ("route 10.0.0.1 => send 1", "takes 2 arguments (port, mac), not 1"),
        ("route 10.0.0.1 => send 512 02:00:00:00:00:01", "does not fit into the 9 bits of `port`"),
        ("route 2001:db8::1 => drop", "an address of 128 bits, and `hdr.ipv4.dst` has 32"),
        ("route 10.0.0.1/33 => drop", "the length of the prefix is 0 to 32"),
        ("route 1 2 3 4 5 => drop", "`5` is too much: the key takes 4"),
        ("route dst=1 dst=2 => drop", "given twice"),
        ("route fast => drop", "is no number and no address"),
        ("hosts * => member 1", "the key `src` is missing: it is exact"),
        ("route 1 => drop priority 0", "they are above 0"),
        ("route 1 => drop 5", "`5` has no value"),
        ("route 1 => drop often 5", "`often` is too much"),
        ("route 1 => drop idle soon", "is no time"),
    ];
    for (given, expected) in cases {
        let mistake = read(given).expect_err(given);
        assert!(mistake.contains(expected), "{given}: {mistake}");
    }
}

#[test]
fn files_of_bmv2_are_read() {
    let info = info();
    let lines = |imported: &bmv2::Imported| -> Vec<String> {
        imported.entries.iter().map(|entry| entry_text(&info, entry)).collect()
    };
    let json = r#"{
        "target": "bmv2",
        "table_entries": [
            {"table": "I.route", "default_action": true, "action_name": "I.drop", "action_params": {}},
            {"table": "I.route", "match": {"hdr.ipv4.dst": ["10.0.1.1", 32], "port": [1, 511], "length": [1, 5]},
             "action_name": "I.send", "action_params": {"mac": "08:00:00:00:01:11", "port": 1}, "priority": 3}
        ],
        "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 2, "instance": 1}]}],
        "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 3, "instance": 1}]}]
    }"#;
    assert!(bmv2::is_bmv2(json));
    let imported = bmv2::import(&info, json).expect("it is right");
    let expected = [
        "route default => drop",
        "route 10.0.1.1/32 1&&&0x1ff 1..5 * => send 1 08:00:00:00:01:11 priority 3",
    ];
    assert_eq!(lines(&imported), expected);
    assert_eq!(imported.groups[&1], [(1, 2)]);
    assert_eq!(imported.sessions[&5], [(1, 3)]);
    let commands = "# a comment\ntable_set_default route drop\n\
        table_add I.route I.send 10.0.1.0/24 1&&&0x1ff 1->5 7 => 1 08:00:00:00:01:11 0\n\
        mc_mgrp_create 1\nmc_node_create 4 1 2\nmc_node_associate 1 0\nmirroring_add 5 3\n";
    assert!(bmv2::is_bmv2(commands));
    let imported = bmv2::import(&info, commands).expect("it is right");
    let expected = [
        "route default => drop",
        "route 10.0.1.0/24 1&&&0x1ff 1..5 0x7 => send 1 08:00:00:00:01:11 priority 1048576",
    ];
    assert_eq!(lines(&imported), expected);
    assert_eq!(
        (imported.groups[&1].as_slice(), imported.sessions[&5].as_slice()),
        (&[(4, 1), (4, 2)][..], &[(0, 3)][..])
    );
    let mistakes = bmv2::import(&info, "table_add rout a =>\nport_add x\n").expect_err("both are wrong");
    assert!(mistakes[0].contains("line 1: there is no table `rout`"), "{mistakes:?}");
    assert!(mistakes[1].contains("line 2: `port_add` is not imported"), "{mistakes:?}");
    assert!(!bmv2::is_bmv2("route 1 => drop"));
}
