//! `strait lab`: hosts reach each other, exit statuses are passed on, mistakes have places, and nothing remains, however a lab ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use io::netns::{self, Namespace};
use io::workdir::WorkDir;

use super::lab::{PATIENCE, possible};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topology").join(name)
}

/// The name of a test's lab.
fn name(test: &str) -> String {
    format!("t{}_{test}", std::process::id())
}

/// A lab of a topology, with a name of the test's own.
fn strait_lab(name: &str, topology: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.arg("lab").arg(topology).args(["--name", name]).args(more).stdin(Stdio::null());
    command
}

/// Runs a lab to its end. Returns the exit status, the standard output and the standard error.
fn run(name: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let output = strait_lab(name, &here("wire.toml"), more).output().expect("strait starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What is left of a lab: namespaces, and its directory.
fn remains(name: &str) -> Vec<String> {
    let prefix = format!("strait-{name}-");
    let spaces = netns::names().into_iter().filter(|space| space.starts_with(&prefix));
    let files = std::fs::read_dir("/run/strait-lab").into_iter().flatten().flatten();
    let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
    spaces.chain(files.filter(|file| file.split('.').next() == Some(name))).collect()
}

/// Starts a lab that waits, and reads what it prints until it is built.
fn start(name: &str) -> Child {
    let mut command = strait_lab(
        name,
        &here("wire.toml"),
        &["--target", "interp", "--", "sh", "-c", "echo ready; exec sleep 60"],
    );
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("strait starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    child
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn hosts_reach_each_other() {
    if !possible("hosts_reach_each_other") {
        return;
    }
    for target in ["interp", "native"] {
        let name = name(target);
        let (status, stdout, stderr) = run(&name, &["--target", target, "--json", "--run", "pingall"]);
        assert_eq!(status, Some(0), "{stdout}{stderr}");
        let result: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!((&result["sent"], &result["answered"]), (&4.into(), &4.into()), "{stdout}");
        assert_eq!(remains(&name), Vec::<String>::new());
    }
}

#[test]
fn the_lab_of_the_learning_switch() {
    if !possible("the_lab_of_the_learning_switch") {
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/l2/lab.toml");
    let mut command = strait_lab(&name("l2"), &file, &["--run", "pingall"]);
    let output = command.output().expect("strait starts");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && stdout.contains("12 of 12 answered"), "{stdout}{output:?}");
}

#[test]
fn lines_and_their_exit_status() {
    if !possible("lines_and_their_exit_status") {
        return;
    }
    let name = name("lines");
    let files = WorkDir::named("st-lab-").expect("a directory");
    let capture = files.path().join("wire.pcap");
    let capture = format!("capture s1:1 {}", capture.display());
    // Names become addresses, a host has its interface, its command has run, and the first failure ends the lines.
    let lines = [
        "h1 cat /sys/class/net/eth0/address",
        "h2 cat /sys/class/net/eth0/tx_queue_len",
        "h1 echo h2 and h9",
        capture.as_str(),
        "pingall",
        "table s1 remove wires 1",
        "pingall",
        "sh echo never",
    ];
    let mut more = vec!["--target", "interp"];
    lines.iter().for_each(|line| more.extend(["--run", line]));
    let (status, stdout, stderr) = run(&name, &more);
    assert_eq!(status, Some(1), "{stdout}{stderr}");
    assert!(stdout.starts_with("02:00:00:00:00:01\n77\n192.0.2.2 and h9\n"), "{stdout}");
    assert!(stdout.contains("4 of 4 answered") && stdout.contains("0 of 4 answered"), "{stdout}");
    assert!(!stdout.contains("never"), "{stdout}");
    let frames = io::pcap::read(std::fs::File::open(files.path().join("wire.pcap")).expect("a file"))
        .expect("a capture");
    let echoes = |kind: u8| frames.iter().filter(|f| f.data[12..14] == [8, 0] && f.data[34] == kind).count();
    assert!(echoes(8) >= 2 && echoes(0) >= 2, "requests and replies of both hosts: {}", frames.len());

    let (status, ..) = run(&name, &["--target", "interp", "--run", "h1 sh -c 'exit 7'", "--run", "pingall"]);
    assert_eq!(status, Some(7));
    let exec = format!("{} lab exec h2 ip -4 addr show to h2; exit 3", env!("CARGO_BIN_EXE_strait"));
    let (status, stdout, _) = run(&name, &["--target", "interp", "--", "sh", "-c", &exec]);
    assert_eq!(status, Some(3));
    assert!(stdout.contains("inet 192.0.2.2/24"), "{stdout}");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn a_script_at_the_prompt() {
    if !possible("a_script_at_the_prompt") {
        return;
    }
    let name = name("prompt");
    let mut command = strait_lab(&name, &here("wire.toml"), &["--target", "interp"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strait starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"h1 echo one\nnonsense\nh2 echo two\nexit\nh1 echo three\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\ntwo\n");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("`nonsense` is no node and no command") && stderr.contains("device 1; 1=h1 2=h2"),
        "{stderr}"
    );
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn nothing_remains_of_a_lab() {
    if !possible("nothing_remains_of_a_lab") {
        return;
    }
    // A lab that is asked to end takes everything down.
    let name = name("ends");
    let mut asked = start(&name);
    let (status, _, stderr) = run(&name, &["--run", "pingall"]);
    assert_eq!((status, stderr.contains("runs already")), (Some(1), true), "{stderr}");
    signal(&asked, "-TERM");
    assert_eq!(asked.wait().expect("it ends").code(), Some(130));
    assert_eq!(remains(&name), Vec::<String>::new());

    // One that is killed cannot. The next one removes what is left, and nothing of others.
    let mut killed = start(&name);
    let other = Namespace::temporary(&format!("strait-{name}-other")).expect("a namespace");
    let pids =
        Command::new("ip").args(["netns", "pids", &format!("strait-{name}-s1")]).output().expect("ip").stdout;
    let switch = String::from_utf8(pids).expect("text").trim().to_string();
    signal(&killed, "-KILL");
    killed.wait().expect("it ends");
    assert_eq!(remains(&name).len(), 6, "three nodes, another namespace, a directory and a lock");
    let (status, stdout, stderr) = run(&name, &["--target", "interp", "--run", "pingall"]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert_eq!(remains(&name), [other.name()]);
    let begun = Instant::now();
    while Path::new("/proc").join(&switch).exists() {
        assert!(begun.elapsed() < PATIENCE, "the switch of the killed lab still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn mistakes_have_places() {
    if !possible("mistakes_have_places") {
        return;
    }
    let name = name("wrong");
    let files = WorkDir::named("st-lab-").expect("a directory");
    let said = |text: &str, more: &[&str]| {
        let file = files.path().join("t.toml");
        std::fs::write(&file, text).expect("a file");
        let mut child = strait_lab(&name, &file, more).stderr(Stdio::piped()).spawn().expect("strait starts");
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{stderr}");
        stderr
    };
    let wire = std::fs::read_to_string(here("wire.toml")).expect("a file");
    let stderr = said(&wire.replace("\"s1:2\"", "\"s1:1\"").replace("\"h2\",", "\"h3\","), &[]);
    assert!(
        stderr.contains("line 19: there is no node `h3`") && stderr.contains("port 1 of s1 is used twice"),
        "{stderr}"
    );
    // What files say that the topology names.
    let stderr = said(&wire, &[]);
    assert!(
        stderr.contains("there is no file wire.p4") && stderr.contains("there is no file wire.txt"),
        "{stderr}"
    );
    let p4 = here("wire.p4").display().to_string();
    let wrong = wire.replace("program = \"wire.p4\"", "").replace("[\"wire.txt\"]", "[\"t.txt\"]");
    std::fs::write(files.path().join("t.txt"), "wires 1 => send 2\nwire 2 => send 1\n").expect("a file");
    let stderr = said(&wrong, &["--target", "interp", "--program", &p4]);
    assert!(stderr.contains("switch s1: ") && stderr.contains("t.txt:2: "), "{stderr}");
    // A host's command.
    let wrong = wrong.replace("[\"t.txt\"]", "[]").replace("txqueuelen 77", "nonsense");
    let stderr = said(&wrong, &["--target", "interp", "--program", &p4]);
    assert!(stderr.contains("the host h2: `ip link set eth0 nonsense` has failed"), "{stderr}");
    assert_eq!(remains(&name), Vec::<String>::new());
}
