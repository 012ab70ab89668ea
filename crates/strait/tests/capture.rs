//! Looks at the packets of a running switch: what is captured before and after the program, the verdicts, the paths, and who may look.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod lab;

use lab::{Lab, PATIENCE, end, ip, possible};

/// Routes IPv4 by a table, and drops what has no route. Everything else goes to the other port.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
const bit<8> UDP = 17;
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<64> start; bit<8> ttl; bit<8> protocol; bit<16> csum; bit<32> src; bit<32> dst; }
header udp_t { bit<16> sport; bit<16> dport; bit<32> rest; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.ethernet); transition select(hdr.ethernet.type) { 0x800: ipv4; default: accept; } }
    state ipv4 { b.extract(hdr.ipv4); transition select(hdr.ipv4.protocol) { UDP: udp; default: accept; } }
    state udp { b.extract(hdr.udp); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t standard_metadata) {
    action blocked() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = 0x020000000001;
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; blocked; }
        default_action = blocked();
        size = 64;
    }
    apply {
        if (hdr.ipv4.isValid()) { routes.apply(); }
        else { standard_metadata.egress_spec = standard_metadata.ingress_port ^ 1; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const ENTRIES: &str = "\
add I.routes hdr.ipv4.dst:0x0a090001/32 I.forward(port:0)
add I.routes hdr.ipv4.dst:0x0a090002/32 I.forward(port:1)
";

/// A command that looks at a switch, after it has begun to.
struct Watch(Child, BufReader<std::process::ChildStderr>);

impl Watch {
    fn start(run: &Child, args: &[&str]) -> Watch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.args(args).args(["--pid", &run.id().to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strait starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("text");
        assert!(line.starts_with("watching"), "{args:?}: {line}");
        Watch(child, lines)
    }

    /// Waits for its end, and returns what it has printed: to the standard output, and as notes.
    fn wait(mut self) -> (String, String) {
        let mut notes = String::new();
        self.1.read_to_string(&mut notes).expect("text");
        let output = self.0.wait_with_output().expect("it ended");
        assert!(output.status.success(), "{notes}");
        (String::from_utf8(output.stdout).expect("text"), notes)
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(self) -> (String, String) {
        let sent = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        self.wait()
    }
}

/// Sends a datagram from the first host to an address. It arrives at the second host if there is a route.
fn send(lab: &Lab, to: &str, port: u16, arrives: bool) {
    let listener = lab.hosts[1].run(|| listen(port)).expect("a namespace");
    let socket = lab.hosts[0].run(|| UdpSocket::bind("0.0.0.0:0")).expect("a namespace").expect("a socket");
    listener.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.send_to(b"a datagram", (to, port)).expect("it leaves");
    if arrives {
        let mut got = [0; 64];
        assert_eq!(listener.recv(&mut got).expect("it arrives"), 10);
    }
}

/// A socket for a port that an earlier one may still have: a process that another test is starting keeps a copy of it until it executes its program.
fn listen(port: u16) -> UdpSocket {
    let begun = Instant::now();
    loop {
        match UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], port))) {
            Err(why) if why.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound.expect("a socket"),
        }
    }
}

fn refused(run: &Child, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    let output = command.args(args).args(["--pid", &run.id().to_string()]).output().expect("strait starts");
    assert_eq!(output.status.code(), Some(1));
    output
}

fn is_watched_on(target: &str) {
    if !possible(&format!("capture on {target}")) {
        return;
    }
    let lab = Lab::new(&format!("capt-{target}"), 2, PROGRAM);
    lab.files.write("entries.stf", ENTRIES.as_bytes()).expect("a file");
    let entries = lab.files.path().join("entries.stf").display().to_string();
    // 10.9.0.77 has no route.
    ip(&format!("-n {} neigh add 10.9.0.77 lladdr 02:00:00:00:00:77 dev h0", lab.hosts[0].name()));
    let (run, _) = lab.start_on(target, |_| "", &["--entries", &entries]).expect("it runs");

    captures(&lab, &run);
    explains(&lab, &run);
    refuses(&lab, &run);
    // The switch still works.
    send(&lab, "10.9.0.2", 4711, true);
    let place = format!("/run/strait/{}", run.id());
    assert!(std::fs::exists(&place).expect("root sees it"));
    end(run, "-INT");
    assert!(!std::fs::exists(&place).expect("root sees it"), "the socket stays");
}

/// A capture has the packets of the filter, before and after the program, and no others. Ctrl-C ends it with a whole file.
fn captures(lab: &Lab, run: &Child) {
    let file = lab.files.path().join("out.pcapng");
    let filter = "hdr.udp.isValid() && hdr.udp.dport == 4711 && hdr.ipv4.src == 10.9.0.1";
    let args = ["capture", "--filter", filter, "--port", "0", "--write", &file.display().to_string()];
    let watch = Watch::start(run, &args);
    send(lab, "10.9.0.77", 4711, false);
    send(lab, "10.9.0.77", 4712, false);
    send(lab, "10.9.0.2", 4712, true);
    send(lab, "10.9.0.2", 4711, true);
    let (printed, notes) = watch.interrupt();
    assert_eq!(printed, "");
    assert!(notes.starts_with("2 packets of "), "{notes}");
    let bytes = std::fs::read(&file).expect("a capture");
    let frames = io::pcap::read(&bytes[..]).expect("it is whole");
    let addresses: Vec<_> = frames.iter().map(|f| (&f.data[6..12], &f.data[30..34])).collect();
    let [dropped, before, after] = addresses[..] else { panic!("{} frames", frames.len()) };
    assert_eq!((dropped.1, before.1, after.1), (&[10, 9, 0, 77][..], &[10, 9, 0, 2][..], &[10, 9, 0, 2][..]));
    assert_eq!((before.0, after.0), (dropped.0, &[2, 0, 0, 0, 0, 1][..]));
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    for comment in [
        "packet 1: dropped: I.blocked at ",
        "program.p4:17",
        "packet 2: sent on port 1",
        "of packet 2",
        "port 0 (s0)",
        "port 1 (s1)",
    ] {
        assert!(has(comment), "{comment}");
    }
}

/// A trace has the path of each packet: the entry that it hit, the action, what it became.
fn explains(lab: &Lab, run: &Child) {
    let trace = ["trace", "--live", "--filter", "hdr.udp.dport == 4711", "--json", "--count", "2"];
    let watch = Watch::start(run, &trace);
    send(lab, "10.9.0.2", 4711, true);
    send(lab, "10.9.0.77", 4711, false);
    let (printed, notes) = watch.wait();
    let packets: Vec<Value> = printed.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(packets.len(), 2, "{printed}{notes}");
    let applied = |packet: &Value| {
        let events = packet["events"].as_array().expect("its path").clone();
        events.into_iter().find(|event| event["event"] == "applied").expect("a table")
    };
    let (sent, dropped) = (&packets[0], &packets[1]);
    assert_eq!((&sent["doubt"], &dropped["doubt"]), (&Value::Null, &Value::Null), "{printed}");
    assert_eq!((&sent["sent"][0]["port"], sent["dropped"].as_array()), (&1.into(), Some(&vec![])));
    let event = applied(sent);
    assert_eq!((&event["table"], &event["action"]), (&"I.routes".into(), &"I.forward".into()));
    assert_eq!((&event["hit"], &event["args"]["port"]), (&"10.9.0.2/32".into(), &"1".into()), "{event}");
    assert_eq!(dropped["dropped"][0]["reason"], "I.blocked");
    assert_eq!(applied(dropped)["hit"], Value::Null);
    let watch = Watch::start(run, &["trace", "--live", "-f", "hdr.udp.dport == 4711", "-c", "1"]);
    send(lab, "10.9.0.2", 4711, true);
    let (text, _) = watch.wait();
    assert!(text.contains("packet 1 on port 0, 52 bytes: sent on port 1\n"), "{text}");
    assert!(text.contains("hit 10.9.0.2/32: I.forward(port = 1)"), "{text}");
}

/// Mistakes are said with their place, and nothing is written then. Two commands at the same time are one too many.
fn refuses(lab: &Lab, run: &Child) {
    let file = lab.files.path().join("none.pcapng").display().to_string();
    for (filter, wanted) in [
        ("hdr.udp.dsport == 4711", "filter:1:9"),
        ("hdr.udp.dport", "expected `bool`, found `bit<16>`"),
        ("hdr.tcp.isValid()", "filter:1:5"),
    ] {
        let output = refused(run, &["capture", "--filter", filter, "--write", &file]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(wanted), "{filter}: {text}");
    }
    assert!(!std::fs::exists(&file).expect("a directory"));
    let output = refused(run, &["capture", "--port", "7"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no port 7; its ports are 0, 1"));
    let first = Watch::start(run, &["capture", "--json"]);
    let output = refused(run, &["capture"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("another command watches"));
    first.interrupt();
    // No other user can reach the socket.
    let enter = Command::new("test").args(["-x", "/run/strait"]).uid(65_534).gid(65_534).status();
    assert!(!enter.expect("test runs").success(), "other users can enter /run/strait");
}

#[test]
fn the_interpreter_is_watched() {
    is_watched_on("interp");
}

#[test]
fn machine_code_is_watched() {
    is_watched_on("native");
}

#[test]
fn a_program_in_the_kernel_is_watched() {
    is_watched_on("tc");
}

#[test]
fn a_live_trace_reads_no_captures() {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_strait")).args(args).output().expect("strait");
    let both = run(&["trace", "prog.p4", "--live"]);
    assert_eq!(both.status.code(), Some(2));
    let other = run(&["trace", "prog.p4", "--in", "0=x.pcap", "--filter", "true"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("--filter is for --live"));
}
