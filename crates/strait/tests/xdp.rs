//! `strait run --target xdp` between two namespaces, over veth pairs: TCP is right with every setting of offloads, or the run is refused with
//! a hint; and the run leaves nothing behind.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use io::link::features;
use io::netns::Namespace;
use io::workdir::WorkDir;

const PATIENCE: Duration = Duration::from_secs(10);
/// A program that connects ports 0 and 1.
const WIRE: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct meta_t { }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
  state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply {} }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
  apply { s.egress_spec = s.ingress_port ^ 1; }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta_t m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Two hosts, each connected to a switch by a veth pair: `h0` to `s0`, and `h1` to `s1`.
struct Lab {
    hosts: [Namespace; 2],
    switch: Namespace,
    files: WorkDir,
}

fn possible(name: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = if !status.lines().any(|line| line.starts_with("Uid:\t0\t0")) {
        "needs root"
    } else if Command::new("ip").arg("-V").output().is_err() {
        "needs iproute2"
    } else if Command::new("clang").arg("--version").output().is_err() {
        "needs clang"
    } else {
        return true;
    };
    println!("skipped: xdp {name}: {missing}");
    false
}

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Lab {
    fn new(name: &str) -> Lab {
        let space = |role: &str| {
            Namespace::temporary(&format!("st-xdp-{}-{name}-{role}", std::process::id()))
                .expect("a namespace")
        };
        let files = WorkDir::named(&format!("st-xdp-{name}-")).expect("a directory");
        files.write("wire.p4", WIRE.as_bytes()).expect("a file");
        let lab = Lab { hosts: [space("h0"), space("h1")], switch: space("s"), files };
        let switch = lab.switch.name();
        for (i, host) in lab.hosts.iter().enumerate() {
            let host = host.name();
            ip(&format!("-n {switch} link add s{i} type veth peer name h{i} netns {host}"));
            ip(&format!("-n {switch} link set s{i} up"));
            ip(&format!("-n {host} link set h{i} up"));
            ip(&format!("-n {host} addr add 10.9.0.{}/24 dev h{i}", i + 1));
        }
        lab
    }

    /// Switches the completion of checksums and GRO of a host's interface.
    fn set(&self, host: usize, tx: bool, gro: bool) {
        let interface = format!("h{host}");
        let set =
            || features::set_tx_checksum(&interface, tx).and_then(|()| features::set_gro(&interface, gro));
        self.hosts[host].run(set).expect("a namespace").expect("veths have these offloads");
    }

    /// Starts the program. Returns the running process and its first lines, or the error of one that ended.
    fn start(&self, more: &[&str]) -> Result<(Child, String), String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.switch.name(), env!("CARGO_BIN_EXE_strait"), "run"]);
        command.arg(self.files.path().join("wire.p4"));
        command.args(["--target", "xdp", "--port", "0=xdp:s0", "--port", "1=s1"]).args(more);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("strait starts");
        let mut told = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        while lines.read_line(&mut told).expect("text") > 0 {
            if told.contains("Ctrl-C ends it") {
                return Ok((child, told));
            }
        }
        child.wait().expect("it ended");
        Err(told)
    }

    /// Sends data from one host to the other and back, by TCP.
    fn tcp(&self, from: usize) {
        let (client, server) = (&self.hosts[from], &self.hosts[1 - from]);
        let address = SocketAddr::from((Ipv4Addr::new(10, 9, 0, 2 - from as u8), 4711));
        let listener = server.run(|| TcpListener::bind(address)).expect("a namespace").expect("a listener");
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 3) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                let mut got = vec![0; data.len()];
                stream.read_exact(&mut got).expect("data arrives");
                assert!(got == data, "the server gets other bytes");
                stream.write_all(&got).expect("data leaves");
            });
            let connect = || TcpStream::connect_timeout(&address, PATIENCE);
            let connected = client.run(connect).expect("a namespace");
            let Ok(mut stream) = connected else {
                // The listener would wait for ever.
                let _ = server.run(|| TcpStream::connect_timeout(&address, PATIENCE));
                panic!("no connection: {connected:?}");
            };
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream.write_all(&data).expect("data leaves");
            let mut got = vec![0; data.len()];
            stream.read_exact(&mut got).expect("data comes back");
            assert!(got == data, "the client gets other bytes");
        });
    }

    /// Whether an XDP program is attached to an interface of the switch.
    fn has_program(&self, interface: &str) -> bool {
        let show = Command::new("ip").args(["-n", self.switch.name(), "link", "show", interface]).output();
        String::from_utf8_lossy(&show.expect("ip").stdout).contains("prog/xdp")
    }
}

/// Ends a run by a signal, and waits for it. The process is a child of `ip`, which becomes it.
fn end(mut child: Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn tcp_is_right_or_refused_with_every_setting_of_checksum_offloads() {
    if !possible("checksum offloads") {
        return;
    }
    let lab = Lab::new("tx");
    for setting in 0..4 {
        let on = [setting & 1 != 0, setting & 2 != 0];
        (0..2).for_each(|host| lab.set(host, on[host], true));
        match lab.start(&[]) {
            Ok((child, told)) => {
                assert_eq!(on, [false, false], "{told}");
                assert!(told.contains("native mode"), "{told}");
                lab.tcp(0);
                lab.tcp(1);
                end(child, "-INT");
            }
            Err(told) => {
                let first = if on[0] { 0 } else { 1 };
                let hint = format!("ip netns exec {} ethtool -K h{first} tx off", lab.hosts[first].name());
                assert!(on[first] && told.contains(&hint), "{on:?}: {told}");
                assert!(lab.start(&["--trust-checksums"]).is_err(), "the program would send wrong checksums");
            }
        }
        assert!(!lab.has_program("s0") && !lab.has_program("s1"), "{on:?}");
    }
    // The settings of the switch's own ends do not matter.
    let own = || {
        features::set_tx_checksum("s0", false)?;
        features::set_tx_checksum("s1", true)
    };
    lab.switch.run(own).expect("a namespace").expect("veths have these offloads");
    (0..2).for_each(|host| lab.set(host, false, true));
    let (child, _) = lab.start(&[]).expect("it runs");
    lab.tcp(0);
    end(child, "-INT");
}

#[test]
fn without_polling_peers_the_stack_runs_the_program() {
    if !possible("modes") {
        return;
    }
    let lab = Lab::new("gro");
    (0..2).for_each(|host| lab.set(host, false, host == 0));
    let (child, told) = lab.start(&[]).expect("it runs");
    assert!(told.contains("generic mode") && told.contains("ethtool -K h1 gro on"), "{told}");
    lab.tcp(0);
    lab.tcp(1);
    end(child, "-INT");
    let told = lab.start(&["--xdp-mode", "native"]).expect_err("frames would be lost");
    assert!(told.contains("ethtool -K h1 gro on"), "{told}");
    lab.set(1, false, true);
    let (child, told) = lab.start(&["--xdp-mode", "generic"]).expect("it runs");
    assert!(told.contains("generic mode"), "{told}");
    lab.tcp(0);
    end(child, "-INT");
}

#[test]
fn other_programs_stay_and_a_killed_run_is_swept() {
    if !possible("sweep") {
        return;
    }
    let lab = Lab::new("sweep");
    (0..2).for_each(|host| lab.set(host, false, true));
    let (child, _) = lab.start(&[]).expect("it runs");
    let told = lab.start(&[]).expect_err("there is a program already");
    assert!(told.contains("s0 has an XDP program already"), "{told}");
    lab.tcp(0);
    end(child, "-KILL");
    assert!(lab.has_program("s0"), "what is pinned outlives the process");
    let (child, _) = lab.start(&[]).expect("the next run sweeps");
    lab.tcp(1);
    end(child, "-INT");
    assert!(!lab.has_program("s0") && !lab.has_program("s1"));
}
