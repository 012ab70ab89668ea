//! Topologies that are right, and all that can be wrong with one.

use std::time::Duration;

use super::command::{self, Command};
use super::{Form, Grpc, parse};

const TWO: &str = r#"
program = "l3.p4"
target = "native"

[host.h1]
addresses = ["192.0.2.1/24", "2001:db8:1::1/64"]
mac = "02:00:00:00:00:01"
gateways = ["192.0.2.254"]
routes = ["203.0.113.0/24 via 192.0.2.253"]
neighbours = { "192.0.2.254" = "02:00:00:00:00:FE" }

[host.h2]
addresses = ["198.51.100.1/24"]

[switch.s1]
entries = ["s1.txt"]

[switch.s10]
program = "other.p4"

[switch.s2]
target = "interp"
grpc = 4711
cpu-port = 64

[[link]]
ends = ["h1", "s1:1"]
delay = "10ms"
loss = "0.5%"
rate = "10mbit"
queue = 64

[[link]]
ends = ["s1:2", "h2"]
"#;

#[test]
fn our_own_form() {
    let topology = parse(TWO).expect("a good file");
    let h1 = topology.host("h1").expect("a host");
    assert_eq!(h1.addresses[1].to_string(), "2001:db8:1::1/64");
    assert_eq!(h1.neighbours[0].1, "02:00:00:00:00:fe");
    assert_eq!(h1.routes[0].1.to_string(), "192.0.2.253");
    // Numbers follow the natural order.
    let switches: Vec<_> = topology.switches.iter().map(|s| (s.name.as_str(), s.grpc, s.device)).collect();
    let usual = |port| Grpc::Usual(port);
    assert_eq!(switches, [("s1", usual(9559), 1), ("s2", Grpc::Fixed(4711), 2), ("s10", usual(9561), 3)]);
    let s10 = topology.switch("s10").expect("a switch");
    assert_eq!((s10.program.as_deref(), s10.target.as_deref()), (Some("other.p4"), Some("native")));
    let link = &topology.links[0];
    assert_eq!(link.ends[1].interface(), "eth1");
    assert_eq!(link.conditions.delay, Some(Duration::from_millis(10)));
    assert_eq!(link.conditions.loss, Some(0.5));
    assert_eq!((link.conditions.rate, link.conditions.queue), (Some(10_000_000), Some(64)));
    assert!(topology.links[1].conditions.is_ideal());
}

#[test]
fn the_form_of_p4lang() {
    let text = r#"{
  "hosts": {"h1": {"ip": "192.0.2.1/31", "mac": "08:00:00:00:01:01", "commands": ["true"]},
            "h2": {"ip": "192.0.2.9/31", "mac": "08:00:00:00:02:02"}},
  "switches": {"s1": {"runtime_json": "s1.json", "program": "build/a.json", "cpu_port": "510"}, "s2": {}},
  "links": [["h1", "s1-p2"], ["s1-p3", "s2-p3", "0", 0.5], ["h2", "s2-p1", 5]]
}"#;
    let topology = parse(text).expect("a good file");
    assert_eq!(topology.form, Form::P4lang);
    let s1 = topology.switch("s1").expect("a switch");
    assert_eq!((s1.grpc, s1.device, s1.cpu_port), (Grpc::Usual(50051), 0, Some(510)));
    assert_eq!(s1.entries, ["s1.json"]);
    let conditions: Vec<_> = topology.links.iter().map(|l| (l.conditions.delay, l.conditions.rate)).collect();
    assert_eq!(conditions, [(None, None), (None, Some(500_000)), (Some(Duration::from_millis(5)), None)]);
    assert_eq!(topology.links[1].ends[1].port, 3);
}

/// The messages about a file, each with its line.
fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).expect_err("a wrong file");
    problems.iter().map(|p| format!("{}: {}", p.line, p.message)).collect()
}

#[test]
fn every_problem_has_its_line() {
    let text = r#"
[host.h1]
addresses = ["192.0.2.1"]
mac = "01:00:00:00:00:01"
gateways = ["198.51.100.1"]
[host."h 2"]
[host.pingall]
[host.alone]
addresses = ["192.0.2.3/24"]
[switch.s1]
target = "bmv2"
cpu-port = 1
grpc = 4711
[switch.s2]
grpc = 4711
[[link]]
ends = ["h1", "s1:1"]
[[link]]
ends = ["h3", "s1:1"]
[[link]]
ends = ["s1"]
[[link]]
ends = ["s1", "s2:x"]
delay = "10 minutes"
loss = "1"
rate = "10m"
"#;
    assert_eq!(
        problems(text),
        [
            "3: `192.0.2.1` is not an address with its prefix length",
            "4: `01:00:00:00:00:01` is not a link-layer address",
            "5: `198.51.100.1` is in no network of `h1`",
            "6: `h 2` cannot be the name of a node",
            "7: `pingall` cannot be the name of a node",
            "8: the host `alone` has addresses, and no link",
            "11: `bmv2` is not a target",
            "12: port 1 of s1 has a link, and is the controller's",
            "15: port 4711 is that of s1 already",
            "19: there is no node `h3`",
            "19: port 1 of s1 is used twice",
            "21: a link has two ends, not 1",
            "23: `s1` is a switch, and its port is missing",
            "23: `x` is not the number of a port",
            "24: `10 minutes` is not a time",
            "25: `1` is not a share",
            "26: `10m` is not a rate",
        ]
    );
    let unknown = parse("[host.h1]\naddress = []\n").expect_err("a wrong file");
    assert_eq!(unknown[0].line, 2);
    assert!(unknown[0].message.contains("unknown field `address`"), "{}", unknown[0]);
    let json = "{\"hosts\": {}, \"switches\": {\"s1\": {}},\n \"links\": [[\"h1\", \"s1-p1\"]]}";
    assert_eq!(problems(json), ["2: there is no node `h1`"]);
}

#[test]
fn commands_name_hosts() {
    let topology = parse(TWO).expect("a good file");
    let read = |line: &str| command::read(&topology, line);
    let on = |node: &str, line: &str| Ok(Command::On(node.to_string(), line.to_string()));
    assert_eq!(read("h1 ping -c1  h2"), on("h1", "ping -c1  198.51.100.1"));
    assert_eq!(read("s1 echo h10 'h2 '"), on("s1", "echo h10 'h2 '"));
    assert_eq!(read("  "), Ok(Command::Nothing));
    assert_eq!(read("table s1"), Ok(Command::Table("s1".to_string(), vec!["dump".to_string()])));
    let Ok(Command::Capture(end, file)) = read("capture s1:2 x.pcap") else { panic!("a capture") };
    assert_eq!((end.node.as_str(), end.port, file.as_str()), ("s1", 2, "x.pcap"));
    for (line, why) in [
        ("h3 ls", "is no node and no command"),
        ("h1", "what is to run on h1?"),
        ("log h1", "is no switch"),
        ("capture s1:7 x.pcap", "there are s1:1, s1:2"),
        ("pingall now", "is not a command"),
    ] {
        let said = read(line).expect_err("a wrong line");
        assert!(said.contains(why), "{said}");
    }
}
