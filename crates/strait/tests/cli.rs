//! Tests the command line as scripts depend on it: exit codes, output streams, JSON.

mod lab;
mod topology;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use io::workdir::WorkDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A directory with a correct program, a wrong program, and a wrong configuration.
struct Files(WorkDir);

impl Files {
    fn new(name: &str) -> Files {
        let files = Files(WorkDir::named(&format!("st-cli-{name}-")).expect("a directory"));
        files.put("wrong.p4", "header h { bit<8> a }\n");
        files.put("wrong.toml", "[nat64]\nmode = \"stateles\"\n");
        files.put("wrong.stf", "packet 0 zz\n");
        files
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("a file");
    }

    fn strait(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        let line = line.replace("ROOT", &root().display().to_string());
        command.current_dir(self.0.path()).args(line.split_whitespace()).output().expect("strait starts")
    }
}

#[test]
fn exit_codes_and_streams() {
    let files = Files::new("codes");
    // Each line has a command, the exit code, and parts of the standard output and the standard error.
    let cases: &[(&str, i32, &str, &str)] = &[
        ("--version", 0, "strait ", ""),
        ("bench sessions --workers 0", 2, "", "is not a number from 1 to"),
        ("bench lpm --workers 1000", 2, "", "the processors"),
        ("bench tables --kinds hashed", 2, "", "exact, lpm, ternary, range"),
        ("bench io --forwarders nosuch", 2, "", "there is no `nosuch`; there are strait-af_packet"),
        ("bench io --seconds=-1", 2, "", "is not a time in seconds"),
        ("bench floods --seconds nan", 2, "", "is not a time in seconds"),
        ("bench tables --entries 0", 2, "", "is not a number from 1 to"),
        ("bench lpm --routes 0", 2, "", "is not a number from 1 to"),
        ("gen --port af_packet:st-nosuch --rate 0", 2, "", "is not a rate"),
        ("bench io --sizes 60", 2, "", "60 is not in 64..=1518"),
        ("run ROOT/apps/l3/l3.p4 --target native --port 0=dpdk:", 1, "", "names no interface or file"),
        ("run ROOT/apps/l3/l3.p4 --port 1=eth0 --port-rate 1=1mbit", 1, "", "the target tc has no queues"),
        (
            "run ROOT/apps/l3/l3.p4 --target native --port 1=x --port-rate 1=5",
            1,
            "",
            "is no rate: write 100pps",
        ),
        ("run ROOT/apps/l3/l3.p4 --target native --port 1=x --port-queue 1=5", 1, "", "without a rate"),
        (
            "run ROOT/apps/l3/l3.p4 --target interp --port 1=x --port-rate 2=5pps",
            1,
            "",
            "there is no --port 2",
        ),
        (
            "run ROOT/apps/l3/l3.p4 --target native --workers 2 --port 1=x --port-rate 1=5pps",
            1,
            "",
            "belongs to one worker",
        ),
        ("check ROOT/apps/nat64/nat64.p4", 0, "", ""),
        ("check wrong.p4", 1, "", "wrong.p4:1:20"),
        ("check wrong.p4 --json", 1, "\"code\":", ""),
        ("check nosuch.p4", 1, "", "cannot read nosuch.p4"),
        ("check", 2, "", "Usage"),
        ("check ROOT/apps/nat64/nat64.p4 --allow nosuch", 2, "", "there is no such warning"),
        ("check ROOT/apps/nat64/nat64.p4 --arch psa", 1, "", "is written for v1model, not for psa"),
        ("check ROOT/tests/lints/unused.p4", 0, "", "W0601"),
        ("check ROOT/tests/lints/unused.p4 --allow all --json", 0, "[]", ""),
        ("check ROOT/tests/accept/library.p4", 0, "", ""),
        ("check ROOT/tests/accept/library.p4 --target interp", 1, "", "error[E05"),
        ("check ROOT/tests/cases/wide_products.p4", 0, "", "tc cannot run this program: "),
        ("check ROOT/tests/cases/wide_products.p4 --json", 0, "\"W0502\"", ""),
        ("check ROOT/tests/cases/wide_products.p4 --allow all --json", 0, "[]", ""),
        ("check ROOT/tests/cases/wide_products.p4 --target tc", 1, "", "error[E0551]"),
        ("check ROOT/tests/cases/wide_products.p4 --target interp --target native", 0, "", ""),
        ("check ROOT/tests/cases/pna.p4 --target tc", 0, "", ""),
        ("check ROOT/tests/cases/rounds.p4 --target tc", 1, "", "error[E0551]"),
        ("check ROOT/tests/cases/wide_products.p4 --target xdp", 1, "", "E0553"),
        ("build ROOT/tests/cases/wide_products.p4 --target ir -o -", 0, "program wide_products", ""),
        ("explain e0301", 0, "## Right", ""),
        ("explain", 0, "W0606: ", ""),
        ("explain E9999", 1, "", "there is no diagnostic"),
        ("build ROOT/apps/nat64/nat64.p4 --target p4info", 0, "match_type: LPM", ""),
        ("build ROOT/apps/nat64/nat64.p4 --target p4info -o out.bin", 0, "", ""),
        ("build ROOT/apps/nat64/nat64.p4 --target dot", 0, "digraph", ""),
        ("build ROOT/apps/nat64/nat64.p4 --target dot -o out.svg", 0, "", ""),
        ("check --nosuch wrong.p4", 2, "", "--nosuch"),
        ("nosuch", 2, "", "Usage"),
        ("build wrong.p4 --target tc", 1, "", "wrong.p4:1:20"),
        ("build ROOT/apps/nat64/nat64.p4 --target ir -o out.ir", 0, "", ""),
        ("build ROOT/apps/nat64/nat64.p4 --target c -o out.c", 0, "", ""),
        ("build ROOT/tests/cases/wide_products.p4 --target tc -o out.c", 1, "", "wide_products.p4:24"),
        ("build ROOT/tests/cases/wide_products.p4 --target tc -o nosuch/out.o", 1, "", "wide_products.p4:24"),
        ("build ROOT/tests/cases/rounds.p4 --target tc -o out.o", 1, "", "rounds.p4:33"),
        ("build ROOT/tests/cases/wide_products.p4 --target native -o products.c", 0, "", ""),
        ("test --program ROOT/apps/nat64/nat64.p4 wrong.stf", 1, "", "wrong.stf:1"),
        ("test --program ROOT/apps/nat64/nat64.p4 nosuch.stf", 1, "", "nosuch.stf"),
        ("test ROOT/tests/cases/registers.stf", 0, "1 passed, 0 failed", ""),
        ("trace ROOT/tests/cases/registers.p4 --in 0=nosuch.pcap", 1, "", "nosuch.pcap"),
        ("nat64 check --config ROOT/apps/nat64/nat64.toml", 0, "is good", ""),
        ("nat64 check --config wrong.toml", 1, "", "line 2"),
        ("nat64 check --config nosuch.toml", 1, "", "cannot read nosuch.toml"),
        ("nat64 sessions --state nosuch", 1, "", "the states are v6-init"),
        ("nat64 bindings --host 192.0.2.1", 1, "", "not an IPv6 address"),
        ("nat64 bindings --remote 192.0.2.1", 1, "", "a binding has many"),
        ("nat64 flush", 1, "", "--all"),
        ("nat64 who 203.0.113.7", 2, "", "ADDRESS:PORT"),
        ("nat64 who 203.0.113.7:1 --log nosuch.jsonl", 1, "", "cannot read nosuch.jsonl"),
        ("nat64 import nosuch.jsonl", 1, "", "cannot read nosuch.jsonl"),
        ("run ROOT/tests/cases/registers.p4 --target interp --port 0=x", 1, "", "port 0"),
        (
            "run ROOT/tests/cases/registers.p4 --target interp --port 0=mem:x --workers 2",
            1,
            "",
            "the interpreter has one",
        ),
        ("run --target interp --grpc :0", 1, "", "without TLS"),
        ("run --target interp", 2, "", "PROG.p4"),
        ("table dump --grpc 127.0.0.1:1", 1, "", "cannot connect to 127.0.0.1:1"),
        ("run ROOT/tests/cases/registers.p4 --port zero=x", 1, "", "not a port number"),
        ("run ROOT/tests/cases/registers.p4 --port 0=x --port 0=y", 1, "", "port 0 is given twice"),
        ("run ROOT/tests/cases/registers.p4 --port 0=x --packets", 2, "", "--cpu-port"),
        ("run ROOT/tests/cases/registers.p4 --target native --port 1=pcap:x --cpu-port 511", 1, "", "beyond"),
        ("run ROOT/tests/cases/registers.p4 --port 0=x --workers 2", 1, "", "for the native target"),
        ("run ROOT/tests/cases/registers.p4 --target native --port 0=x", 1, "", "port 0"),
        ("run ROOT/tests/cases/registers.p4 --target native --port 0=netmap:x", 1, "", "no driver `netmap`"),
        (
            "run ROOT/tests/cases/registers.p4 --target native --port 0=pcap:x --workers 0",
            1,
            "",
            "at least one",
        ),
        ("run ROOT/tests/cases/registers.p4 --target native --port 0=pcap:nosuch.pcap", 1, "", "nosuch.pcap"),
        ("nat64 up --workers 2 --config ROOT/apps/nat64/nat64.toml", 1, "", "for the native target"),
        ("nat64 up --target native --config wrong.toml", 1, "", "line 2"),
        ("bench nat64 --paths jool", 2, "", "native, plain and tayga"),
        ("completions bash", 0, "complete", ""),
        ("man .", 0, "", ""),
    ];
    for (line, code, stdout, stderr) in cases {
        let output = files.strait(line);
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        let told = format!("strait {line}\n--- stdout\n{out}\n--- stderr\n{err}");
        assert_eq!(output.status.code(), Some(*code), "{told}");
        assert!(out.contains(stdout), "{stdout:?} expected on stdout: {told}");
        assert!(err.contains(stderr), "{stderr:?} expected on stderr: {told}");
        assert!(!err.contains("panicked"), "{told}");
        assert!(*code == 0 || !err.is_empty() || line.contains("--json"), "silent: {told}");
    }
    let pages = std::fs::read_dir(files.0.path()).expect("readable").flatten();
    assert!(pages.filter(|f| f.path().extension().is_some_and(|e| e == "1")).count() > 5, "manual pages");
}

/// If the reader of the output closes the pipe, the command ends without a message, as other tools do.
#[test]
fn a_closed_pipe_ends_quietly() {
    use std::process::Stdio;
    for line in ["completions bash", "check ROOT/tests/lints/unused.p4 --json", "explain"] {
        let line = line.replace("ROOT", &root().display().to_string());
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = Command::new(env!("CARGO_BIN_EXE_strait"))
            .args(line.split_whitespace())
            .stdout(Stdio::from(writer))
            .stderr(Stdio::piped())
            .output()
            .expect("it runs");
        assert_eq!(ended.status.code(), Some(141), "{line}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{line}");
    }
}

#[test]
fn json_has_its_shape() {
    let files = Files::new("json");
    let json = |line: &str| -> serde_json::Value {
        let output = files.strait(line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("strait {line}: {e}: {text}"))
    };
    let problems = json("check wrong.p4 --json");
    for key in ["code", "file", "line", "column", "message", "severity"] {
        assert!(!problems[0][key].is_null(), "{key} in {problems}");
    }
    assert_eq!(json("check ROOT/apps/nat64/nat64.p4 --json"), serde_json::json!([]));
    for target in ["interp", "xdp"] {
        let reports = json(&format!("test ROOT/tests/cases/registers.stf --json --target {target}"));
        assert!(reports.is_array(), "{reports}");
    }
    assert_eq!(json("nat64 check --config ROOT/apps/nat64/nat64.toml --json")["good"], true);
    let bad = json("nat64 check --config wrong.toml --json");
    assert!(bad["good"] == false && bad["problem"].as_str().is_some_and(|p| p.contains("line 2")), "{bad}");
    assert!(json("doctor --json").as_array().is_some_and(|a| a.iter().all(|f| f["name"].is_string())));
}

/// A command that needs privileges reports this, with a remedy. A command that needs none works without them.
#[test]
fn without_root() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    let files = Files::new("nobody");
    // The binary is copied to a directory that everybody can read, because only root may be able to read the checkout.
    let (exe, config) = (files.0.path().join("strait"), files.0.path().join("nat64.toml"));
    harness::executable::copy(Path::new(env!("CARGO_BIN_EXE_strait")), &exe);
    std::fs::copy(root().join("apps/nat64/nat64.toml"), &config).expect("a copy");
    std::fs::set_permissions(files.0.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let cases = [
        ("nat64 up --config nat64.toml", 1, "needs root"),
        ("nat64 down --config nat64.toml", 1, "needs root"),
        ("nat64 check --config nat64.toml", 0, ""),
        ("bench nat64 --quick", 1, "root"),
        ("doctor", 0, ""),
    ];
    for (line, code, said) in cases {
        let mut command = Command::new(&exe);
        command.current_dir(files.0.path()).args(line.split_whitespace());
        if is_root {
            command.uid(65534).gid(65534);
        }
        let output = run_copy(&mut command);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "strait {line}: {err}");
        assert!(err.contains(said), "strait {line}: {err}");
    }
}

/// Runs a binary that was copied. A process that another test has just forked may still have the copy open for writing, until it executes its own
/// program.
fn run_copy(command: &mut Command) -> Output {
    let begun = std::time::Instant::now();
    loop {
        match command.output() {
            Err(error)
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy
                    && begun.elapsed().as_secs() < 10 =>
            {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            output => return output.expect("strait starts"),
        }
    }
}

/// A capture of frames (the classic format, in microseconds).
fn capture(frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_ne_bytes).concat();
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend([0, 0, length, length].map(u32::to_ne_bytes).concat());
        bytes.extend(*frame);
    }
    bytes
}

#[test]
fn a_run_prints_digests_and_what_the_program_logs() {
    if !io::native::has_compiler() {
        println!("skipped: machine code: no C compiler is installed");
        return;
    }
    let files = Files::new("events");
    let frame: Vec<u8> = [&[2, 0xab, 0xc5][..], &[0; 16], &[0xfe]].concat();
    std::fs::write(files.0.path().join("in.pcap"), capture(&[&frame])).expect("a file");
    let run = "run ROOT/tests/cases/logs.p4 --target native --port 0=pcap:in.pcap,out.pcap";
    let texts = |line: &str| {
        let output = files.strait(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, errors) = texts(&format!("{run} --log --digests"));
    assert!(out.contains(r#"{"digest":"told_t","fields":{"which":"2"}}"#), "{out}");
    assert!(errors.contains("logs.p4:13: parsed 2\n") && errors.contains(": to 1\n"), "{errors}");
    let (out, errors) = texts(run);
    assert!(!out.contains("digest") && !errors.contains("parsed"), "{out}{errors}");
}

/// A packet test's program with an `if` and a `select`, for the commands that show them.
const BRANCHES: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<64> before; bit<8> ttl; bit<24> between; bit<32> src; bit<32> dst; }
struct H { ethernet_t ethernet; ipv4_t ipv4; }
struct M { }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition select(h.ethernet.type) { 0x800: ipv4; default: accept; } }
    state ipv4 { b.extract(h.ipv4); transition accept; }
}
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    action send(bit<9> port) { s.egress_spec = port; }
    table routes { key = { h.ipv4.dst: lpm; } actions = { send; NoAction; } default_action = NoAction(); }
    apply {
        if (h.ipv4.isValid() &&
            h.ipv4.ttl <= 1) { mark_to_drop(s); }
        if (!routes.apply().hit) { mark_to_drop(s); }
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn traces_say_how_conditions_were_decided() {
    let files = Files::new("trace");
    files.put("branches.p4", BRANCHES);
    files.put("entries.stf", "add I.routes h.ipv4.dst:0xc0000200/24 I.send(port:1)\n");
    let gen_packets = "gen --program branches.p4 --headers ethernet/ipv4 --set ipv4.dst=192.0.2.9 --set ipv4.ttl=64 \
                       --set ethernet.src=02:00:00:00:00:01 --count 1 -w in.pcap";
    let made = files.strait(gen_packets);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // The entries come from the standard input.
    let place = files.0.path().join("branches.p4");
    let traced = Command::new(env!("CARGO_BIN_EXE_strait"))
        .current_dir(files.0.path())
        .args(["trace", &place.display().to_string(), "--in", "0=in.pcap", "--entries", "-"])
        .stdin(std::fs::File::open(files.0.path().join("entries.stf")).expect("a file"))
        .output()
        .expect("strait starts");
    let text = String::from_utf8_lossy(&traced.stdout).into_owned();
    for part in [
        "src = 02:00:00:00:00:01",
        "select h.ethernet.type = 0x800: ipv4",
        "if (h.ipv4.isValid() && h.ipv4.ttl <= 1): false (h.ipv4.ttl = 0x40)",
        "table I.routes (h.ipv4.dst = 192.0.2.9)",
        "hit 192.0.2.0/24: I.send(port = 1)",
        "if (!routes.apply().hit): false",
        "  branches.p4:17 ",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert_eq!(text.matches(&place.display().to_string()).count(), 1, "the path is said once\n{text}");
    assert!(!text.contains('$'), "{text}");
}

#[test]
fn pictures_have_the_conditions_of_the_program() {
    let files = Files::new("picture");
    files.put("branches.p4", BRANCHES);
    let drawn = files.strait("build branches.p4 --target dot");
    let text = String::from_utf8_lossy(&drawn.stdout).into_owned();
    assert!(text.contains("label=\"!routes.apply().hit\"") && !text.contains('$'), "{text}");
}
