//! `strait controller`: the control planes of apps as P4Runtime clients, with hosts around the switch. A controller dies, another one goes on, and no
//! station and no session is lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::lab::{self, Lab, PATIENCE, ip};

const SERVER: &str = "127.0.0.1:9559";

/// A switch that runs an app and serves P4Runtime.
struct Network {
    lab: Lab,
    switch: Child,
}

impl Network {
    fn start(target: &str, app: &str, hosts: usize, more: &[&str]) -> Network {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps");
        // It includes files that stand beside it.
        let text = format!("#include \"{root}/{app}/{app}.p4\"\n");
        let lab = Lab::new(&format!("p4rt-{app}-{target}"), hosts, &text);
        ip(&format!("-n {} link set lo up", lab.switch.name()));
        let more: Vec<&str> = ["--grpc", "9559"].iter().chain(more).copied().collect();
        let (switch, _) = lab.start_on(target, |_| "", &more).expect("it runs");
        Network { lab, switch }
    }

    /// BMv2 in the place of our switch, if it and p4c are installed.
    fn of_bmv2(app: &str, hosts: usize, cpu_port: Option<u32>) -> Network {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps");
        let lab = Lab::new(&format!("p4rt-{app}-bmv2"), hosts, "");
        ip(&format!("-n {} link set lo up", lab.switch.name()));
        let file = |name: &str| lab.files.path().join(name).to_str().expect("UTF-8").to_string();
        let (json, info) = (file("program.json"), file("p4info.txtpb"));
        let compiler = Command::new("p4c-bm2-ss")
            .args([&format!("{root}/{app}/{app}.p4"), "-o", &json, "--p4runtime-files", &info])
            .output()
            .expect("p4c runs");
        assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            lab.switch.name(),
            "simple_switch_grpc",
            "--no-p4",
            "--device-id",
            "1",
        ]);
        for port in 0..hosts {
            command.args(["-i", &format!("{port}@s{port}")]);
        }
        command.args(["--", "--grpc-server-addr", SERVER]);
        command.args(cpu_port.map(|port| format!("--cpu-port={port}")));
        let switch = command.spawn().expect("it starts");
        let net = Network { lab, switch };
        net.wait_for("BMv2 takes the program", |net| {
            let push = net.strait(&["pipeline", "--grpc", SERVER, "push", &json, "--p4info", &info]).output();
            push.expect("it runs").status.success()
        });
        net
    }

    /// A command beside the switch.
    fn strait(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.lab.switch.name(), env!("CARGO_BIN_EXE_strait")]).args(words);
        command
    }

    fn controller(&self, words: &[&str]) -> Running {
        let mut command = self.strait(&["controller", "--grpc", SERVER]);
        let child = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Running(child.expect("it starts"))
    }

    /// The entries of a table.
    fn dump(&self, table: &str) -> Vec<String> {
        let output = self.strait(&["table", "--grpc", SERVER, "dump", table]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&Network) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn in_host(&self, host: usize, line: &str) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.lab.hosts[host].name()]).args(line.split(' '));
        command.output().expect("it runs")
    }

    /// Packets of a host have their checksums and their final length when they leave it.
    fn without_offloads(&self, host: usize) {
        let off = self.in_host(host, &format!("ethtool -K h{host} tx off tso off gso off gro off"));
        assert!(off.status.success());
    }

    /// Sends pings. Whether at least one is answered: the first packet of a session, and one to an unknown neighbour, are lost.
    fn ping(&self, host: usize, to: &str, count: u32) -> bool {
        self.in_host(host, &format!("ping -c {count} -i 0.2 -W 1 {to}")).status.success()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.switch.id().to_string()]).status();
        let _ = self.switch.wait();
    }
}

/// A controller, which is killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn possible(name: &str) -> bool {
    let ping = Command::new("ping").arg("-V").output().is_ok();
    if !ping {
        println!("skipped: {name}: needs ping");
    }
    ping && lab::possible(name)
}

fn l2(target: &str) {
    if !possible(&format!("strait controller l2 on {target}")) {
        return;
    }
    l2_through(&Network::start(target, "l2", 3, &[]));
}

fn l2_through(net: &Network) {
    let first = net.controller(&["l2", "--ports", "0,1,2"]);
    net.wait_for("the first controller floods", |net| {
        let groups = net.strait(&["group", "--grpc", SERVER, "list"]).output().expect("it runs");
        String::from_utf8_lossy(&groups.stdout).contains("multicast 1: 0:0 1:0 2:0")
    });
    assert!(net.ping(0, "10.9.0.2", 3), "a ping through the switch");
    net.wait_for("stations are learnt", |net| net.dump("destinations").len() >= 2);
    let second = net.controller(&["l2", "--ports", "0,1,2"]);
    let before = net.dump("destinations");
    drop(first);
    // What the dead one has learnt is there, and the standby learns on.
    assert!(net.ping(0, "10.9.0.2", 3), "a ping without a controller");
    let other = "02:00:00:00:00:99";
    ip(&format!("-n {} link set h2 address {other}", net.lab.hosts[2].name()));
    net.wait_for("the standby learns a new station", |net| {
        net.ping(2, "10.9.0.1", 1);
        net.dump("destinations").iter().any(|line| line.contains(other))
    });
    let after = net.dump("destinations");
    assert!(before.iter().all(|line| after.contains(line)), "{before:?} {after:?}");
    drop(second);
}

#[test]
fn l2_on_interp() {
    l2("interp");
}

#[test]
fn l2_on_native() {
    l2("native");
}

#[test]
fn l2_on_tc() {
    l2("tc");
}

fn nat44(target: &str) {
    if !possible(&format!("strait controller nat44 on {target}")) {
        return;
    }
    nat44_through(&Network::start(target, "nat44", 2, &[]));
}

fn nat44_through(net: &Network) {
    let host = |n: usize| net.lab.hosts[n].name().to_string();
    // Host 0 is inside, and host 1 outside. The switch is the router 10.9.1.254 and 203.0.113.254.
    for (n, address, gateway) in [(0, "10.9.1.1/24", "10.9.1.254"), (1, "203.0.113.2/24", "203.0.113.254")] {
        ip(&format!("-n {} addr flush dev h{n}", host(n)));
        ip(&format!("-n {} addr add {address} dev h{n}", host(n)));
        ip(&format!("-n {} link set h{n} up", host(n)));
        ip(&format!("-n {} route add default via {gateway}", host(n)));
        // The program verifies checksums and cuts nothing.
        net.without_offloads(n);
    }
    let entries = [
        "interfaces 0 => interface 0 02:00:00:00:01:fe",
        "interfaces 1 => interface 1 02:00:00:00:02:fe",
        "own_addresses 0 10.9.1.254 => NoAction",
        "own_addresses 1 203.0.113.254 => NoAction",
        "own_addresses 1 203.0.113.9 => NoAction",
        "routes 10.9.1.0/24 => connected 0 0 02:00:00:00:01:fe 10.9.1.254",
        "routes 203.0.113.0/24 => connected 1 1 02:00:00:00:02:fe 203.0.113.254",
    ];
    let file = net.lab.files.write("entries", entries.join("\n").as_bytes()).expect("a file");
    let load = net.strait(&["table", "--grpc", SERVER, "load"]).arg(file).output().expect("it runs");
    assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
    let first = net.controller(&["nat44", "--pool", "203.0.113.9"]);
    net.wait_for("a ping through the translator", |net| net.ping(0, "203.0.113.2", 5));
    let sessions = net.dump("sessions_up");
    assert_eq!(sessions.len(), net.dump("sessions_down").len(), "{sessions:?}");
    assert!(sessions.iter().all(|line| line.contains("=> napt_src 203.0.113.9 ")), "{sessions:?}");
    let second = net.controller(&["nat44", "--pool", "203.0.113.9"]);
    drop(first);
    net.wait_for("a new session by the standby", |net| {
        net.ping(0, "203.0.113.2", 3);
        net.dump("sessions_up").len() > sessions.len()
    });
    let after = net.dump("sessions_up");
    assert!(sessions.iter().all(|line| after.contains(line)), "no session is lost: {sessions:?} {after:?}");
    drop(second);
}

#[test]
fn nat44_on_interp() {
    nat44("interp");
}

#[test]
fn nat44_on_native() {
    nat44("native");
}

#[test]
fn nat44_on_tc() {
    nat44("tc");
}

/// The configuration of the switch between host 0, which has IPv6 only, and host 1, which has IPv4 only.
const NAT64: &str = r#"
[nat64]
mode   = "stateful"
prefix = "2001:db8:64::/96"
pool   = ["203.0.113.9"]
secret = "00112233445566778899aabbccddeeff"

[switch]
mac       = "02:00:00:00:00:fe"
ports     = [0, 1]
addresses = ["2001:db8:100::1", "192.0.2.1"]

[[switch.route]]
to   = "2001:db8:100::/64"
port = 0
mac  = "02:00:00:00:00:0a"

[[switch.route]]
to   = "192.0.2.0/24"
port = 1
mac  = "02:00:00:00:00:0b"
"#;

fn nat64(target: &str) {
    if !possible(&format!("strait controller nat64 on {target}")) {
        return;
    }
    nat64_through(&Network::start(target, "nat64-controller", 2, &["--cpu-port", "510"]));
}

fn nat64_through(net: &Network) {
    for (n, mac, address, gateway) in [
        (0, "02:00:00:00:00:0a", "2001:db8:100::2/64", "2001:db8:100::1"),
        (1, "02:00:00:00:00:0b", "192.0.2.2/24", "192.0.2.1"),
    ] {
        let host = net.lab.hosts[n].name();
        ip(&format!("-n {host} addr flush dev h{n}"));
        ip(&format!("-n {host} link set h{n} address {mac}"));
        ip(&format!("-n {host} addr add {address} dev h{n}{}", if n == 0 { " nodad" } else { "" }));
        ip(&format!("-n {host} route add default via {gateway}"));
        // A segment that is longer than the next hop's MTU has no room there.
        net.without_offloads(n);
    }
    let file = net.lab.files.write("nat64.toml", NAT64.as_bytes()).expect("a file");
    let words = ["nat64", "--config", file.to_str().expect("UTF-8")];
    let first = net.controller(&words);
    net.wait_for("the switch answers for its address", |net| net.ping(0, "2001:db8:100::1", 1));
    let second = net.controller(&words);
    // The first packet opens the session, and is not lost.
    let pings = net.in_host(0, "ping -c 3 -i 0.2 -W 5 2001:db8:64::c000:202");
    let text = String::from_utf8_lossy(&pings.stdout).into_owned();
    assert!(text.contains("3 received"), "{text}");
    let server = (Ipv4Addr::new(192, 0, 2, 2), 4711).into();
    let seen: SocketAddr = "[2001:db8:64::c000:202]:4711".parse().expect("an address");
    net.lab.tcp_to(0, seen, server);
    let closed = |net: &Network| {
        let tcp: Vec<_> =
            net.dump("sessions").into_iter().filter(|line| line.starts_with("sessions 6 ")).collect();
        tcp.len() == 1 && tcp[0].contains(" 6 idle 4m")
    };
    net.wait_for("the controller sees both ends close", closed);
    let before = net.dump("sessions");
    drop(first);
    net.lab.tcp_to(0, seen, server);
    let after = net.dump("sessions");
    assert!(before.iter().all(|line| after.contains(line)), "no session is lost: {before:?} {after:?}");
    assert!(after.len() > before.len(), "the standby opens sessions: {after:?}");
    drop(second);
}

#[test]
fn nat64_on_interp() {
    nat64("interp");
}

#[test]
fn nat64_on_native() {
    nat64("native");
}

#[test]
fn nat64_on_tc() {
    nat64("tc");
}

/// The same controllers drive the switch of others. `cpu_port` is where the program sends packets for its controller.
fn on_bmv2(app: &str, hosts: usize, cpu_port: Option<u32>, through: fn(&Network)) {
    let name = format!("strait controller of {app} on simple_switch_grpc");
    let is_there = |program: &&str| Command::new(program).arg("--help").output().is_ok();
    if let Some(missing) = ["simple_switch_grpc", "p4c-bm2-ss"].iter().find(|program| !is_there(program)) {
        println!("skipped: {name}: {missing} is not installed");
    } else if possible(&name) {
        through(&Network::of_bmv2(app, hosts, cpu_port));
    }
}

#[test]
fn l2_on_simple_switch_grpc() {
    on_bmv2("l2", 3, None, l2_through);
}

#[test]
fn nat44_on_simple_switch_grpc() {
    on_bmv2("nat44", 2, None, nat44_through);
}

#[test]
fn nat64_on_simple_switch_grpc() {
    on_bmv2("nat64-controller", 2, Some(510), nat64_through);
}
