//! Clients of others, unmodified: p4runtime-shell and the package `p4runtime` of PyPI. `scripts/prepare test` installs them into target/clients.
//! They drive every kind of object of kinds.p4, and frames prove it.

use std::path::{Path, PathBuf};
use std::process::Command;

use io::netns::Namespace;

use crate::client::file;
use crate::lab;

/// The Python that has the clients.
fn python(name: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients/bin/python");
    if !found.exists() {
        println!("skipped: {name}: needs p4runtime-shell (scripts/prepare test)");
        return None;
    }
    Some(found)
}

/// Runs a script of tests/p4runtime against a target, in a namespace with three ports.
fn run(target: &str, script: &str, pushed: bool) {
    let name = format!("{script} on {target}");
    if !lab::possible(&name) {
        return;
    }
    let Some(python) = python(&name) else { return };
    let space =
        Namespace::temporary(&format!("st-p4rt-{}-{target}", std::process::id())).expect("a namespace");
    let inside = |program: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space.name(), program]);
        command
    };
    let set = |line: &str| {
        let mut words = line.split(' ');
        let output = inside(words.next().expect("a program")).args(words).output().expect("it runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    set("ip link set lo up");
    set("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    for port in 0..3 {
        set(&format!("ip link add p{port} type veth peer name q{port}"));
        set(&format!("ip link set p{port} up"));
        set(&format!("ip link set q{port} up"));
        if target == "xdp" {
            set(&format!("ethtool -K q{port} tx off gro on"));
        }
    }
    let info = space.run(|| crate::client::KINDS.clone()).expect("a namespace");
    let dir = io::workdir::WorkDir::named("st-p4rt-").expect("a directory");
    let described = dir.write("p4info.txt", proto::text(&info).as_bytes()).expect("a file");
    let mut server = inside(env!("CARGO_BIN_EXE_strait"));
    server.args(["run", "--target", target, "--grpc", "9559", "--cpu-port", "64"]);
    server.args(["--port", "0=p0", "--port", "1=p1", "--port", "2=p2"]);
    if !pushed {
        server.arg(file("kinds.p4"));
    }
    let log = std::fs::File::create(dir.path().join("log")).expect("a file");
    let mut server = server.stderr(log).stdout(std::process::Stdio::null()).spawn().expect("strait starts");
    let begun = std::time::Instant::now();
    let told = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    while !told().contains("P4Runtime on") {
        assert!(begun.elapsed() < lab::PATIENCE, "{}", told());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let program = if pushed { file("kinds.p4") } else { PathBuf::from("-") };
    let output = inside(python.to_str().expect("a path"))
        .current_dir(file(""))
        .arg(script)
        .arg("127.0.0.1:9559")
        .arg(described)
        .arg(program)
        .args(["q0", "q1", "q2"])
        .output()
        .expect("it runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let ended = Command::new("kill").args(["-INT", &server.id().to_string()]).status().expect("kill");
    assert!(ended.success());
    let status = server.wait().expect("it ends");
    assert!(output.status.success(), "{text}\n{}", told());
    assert!(status.success(), "{}", told());
}

#[test]
fn p4runtime_shell_on_interp() {
    run("interp", "shell_client.py", false);
}

#[test]
fn p4runtime_shell_on_native() {
    run("native", "shell_client.py", true);
}

#[test]
fn p4runtime_shell_on_tc() {
    run("tc", "shell_client.py", true);
}

#[test]
fn p4runtime_shell_on_xdp() {
    run("xdp", "shell_client.py", false);
}
