//! `strait controller`: the control planes of apps as P4Runtime clients, with hosts around the switch. A controller dies, another one goes on, and no
//! station and no session is lost.

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
        let text = std::fs::read_to_string(format!("{root}/{app}/{app}.p4")).expect("the app");
        let lab = Lab::new(&format!("p4rt-{app}-{target}"), hosts, &text);
        ip(&format!("-n {} link set lo up", lab.switch.name()));
        let more: Vec<&str> = ["--grpc", "9559"].iter().chain(more).copied().collect();
        let (switch, _) = lab.start_on(target, |_| "", &more).expect("it runs");
        Network { lab, switch }
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
    let net = Network::start(target, "l2", 3, &[]);
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
    let net = Network::start(target, "nat44", 2, &[]);
    let host = |n: usize| net.lab.hosts[n].name().to_string();
    // Host 0 is inside, and host 1 outside. The switch is the router 10.9.1.254 and 203.0.113.254.
    for (n, address, gateway) in [(0, "10.9.1.1/24", "10.9.1.254"), (1, "203.0.113.2/24", "203.0.113.254")] {
        ip(&format!("-n {} addr flush dev h{n}", host(n)));
        ip(&format!("-n {} addr add {address} dev h{n}", host(n)));
        ip(&format!("-n {} link set h{n} up", host(n)));
        ip(&format!("-n {} route add default via {gateway}", host(n)));
        // The program verifies checksums and cuts nothing.
        let off = net.in_host(n, &format!("ethtool -K h{n} tx off tso off gso off gro off"));
        assert!(off.status.success());
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
