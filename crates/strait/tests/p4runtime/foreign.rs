//! Clients of others, unmodified: p4runtime-shell, PTF, and the package `p4runtime` of PyPI, which `scripts/prepare test` installs into target/clients; and the
//! Go client of antoninbas, whose checkout `STRAIT_GO_CLIENT` names. They drive every kind of object of kinds.p4, and the apps, and frames prove it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use io::netns::Namespace;

use crate::client::file;
use crate::lab;

/// The Python that has the clients.
fn python(name: &str) -> Option<String> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients/bin/python");
    if !found.exists() {
        println!("skipped: {name}: needs p4runtime-shell (scripts/prepare test)");
        return None;
    }
    Some(found.to_str().expect("a path").to_string())
}

/// A switch with three ports in a namespace, and a client of others that drives it.
struct Foreign {
    space: Namespace,
    server: Child,
    dir: io::workdir::WorkDir,
}

/// The far ends of the ports.
const WIRES: [&str; 3] = ["q0", "q1", "q2"];

impl Foreign {
    /// Starts a switch; without a program one is pushed.
    fn start(name: &str, target: &str, program: Option<&Path>) -> Foreign {
        let space = format!("st-p4rt-{}-{name}-{target}", std::process::id());
        let space = Namespace::temporary(&space).expect("a namespace");
        let set = |line: &str| {
            let mut words = line.split(' ');
            let mut command = inside(&space, words.next().expect("a program"));
            let output = command.args(words).output().expect("it runs");
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        };
        set("ip link set lo up");
        set("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
        for port in 0..WIRES.len() {
            set(&format!("ip link add p{port} type veth peer name q{port}"));
            set(&format!("ip link set p{port} up"));
            set(&format!("ip link set q{port} up"));
            if target == "xdp" {
                set(&format!("ethtool -K q{port} tx off gro on"));
            }
        }
        let dir = io::workdir::WorkDir::named("st-p4rt-").expect("a directory");
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        let mut server = inside(&space, env!("CARGO_BIN_EXE_strait"));
        server.args(["run", "--target", target, "--grpc", "9559", "--cpu-port", "64"]).args(program);
        server.args(["--port", "0=p0", "--port", "1=p1", "--port", "2=p2"]);
        let server = server.stderr(log).stdout(Stdio::null()).spawn().expect("strait starts");
        let started = Foreign { space, server, dir };
        let begun = std::time::Instant::now();
        while !started.told().contains("P4Runtime on") {
            assert!(begun.elapsed() < lab::PATIENCE, "{}", started.told());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        started
    }

    fn told(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Runs a client, which must succeed. Returns what it has printed.
    fn run(&self, command: &str, args: &[&str]) -> String {
        let mut client = inside(&self.space, command);
        let output = client.current_dir(file("")).args(args).output().expect("it runs");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{}", self.told());
        text
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let ended = self.server.wait();
        if !std::thread::panicking() {
            assert!(ended.is_ok_and(|status| status.success()), "{}", self.told());
        }
    }
}

fn inside(space: &Namespace, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space.name(), program]);
    command
}

/// p4runtime-shell drives every kind of object.
fn shell(target: &str, pushed: bool) {
    let name = format!("p4runtime-shell on {target}");
    let Some(python) = python(&name).filter(|_| lab::possible(&name)) else { return };
    let kinds = file("kinds.p4");
    let net = Foreign::start("shell", target, (!pushed).then_some(kinds.as_path()));
    let described =
        net.dir.write("p4info.txt", proto::text(&*crate::client::KINDS).as_bytes()).expect("a file");
    let program = if pushed { "kinds.p4" } else { "-" };
    let described = described.to_str().expect("a path");
    let [a, b, c] = WIRES;
    net.run(&python, &["shell_client.py", "127.0.0.1:9559", described, program, a, b, c]);
}

/// The package of PyPI plays the cases of an app over P4Runtime.
fn cases(app: &str, target: &str, least: u32) {
    let name = format!("cases of {app} over P4Runtime on {target}");
    let Some(python) = python(&name).filter(|_| lab::possible(&name)) else { return };
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps").join(app);
    let dir = dir.canonicalize().expect("the app");
    let net = Foreign::start(app, target, Some(&dir.join(format!("{app}.p4"))));
    let mut all: Vec<String> = std::fs::read_dir(dir.join("cases"))
        .expect("cases")
        .map(|case| case.expect("a case").path().to_str().expect("a path").to_string())
        .filter(|path| path.ends_with(".stf"))
        .collect();
    all.sort();
    let mut args = vec!["stf_client.py", "127.0.0.1:9559", "0=q0,1=q1,2=q2"];
    args.extend(all.iter().map(String::as_str));
    let text = net.run(&python, &args);
    let last = text.lines().last().unwrap_or_default();
    println!("{name}: {last}");
    let played: u32 = last.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(played >= least, "{text}");
}

fn ptf(target: &str) {
    let name = format!("PTF on {target}");
    let Some(python) = python(&name).filter(|_| lab::possible(&name)) else { return };
    let ptf = python.replace("/python", "/ptf");
    let net = Foreign::start("ptf", target, Some(&file("kinds.p4")));
    let out = net.dir.path().to_str().expect("a path").to_string();
    let mut args = vec!["--test-dir", "ptf", "-i", "0@q0", "-i", "1@q1", "-i", "2@q2"];
    let (log, profile) = (format!("{out}/ptf.log"), format!("{out}/ptf.xml"));
    args.extend(["--log-file", &log, "--xunit-dir", &profile, "--test-params", "address='127.0.0.1:9559'"]);
    net.run(&ptf, &args);
}

/// The Go client drives every kind of object, on each target.
#[test]
fn the_go_client_on_every_target() {
    let name = "the Go client of antoninbas";
    let Some(checkout) = std::env::var_os("STRAIT_GO_CLIENT") else {
        println!("skipped: {name}: STRAIT_GO_CLIENT names no checkout of antoninbas/p4runtime-go-client");
        return;
    };
    if !lab::possible(name) {
        return;
    }
    let dir = io::workdir::WorkDir::named("st-p4rt-go-").expect("a directory");
    let program = dir.path().join("client");
    let mut build = Command::new("go");
    build.current_dir(checkout).args(["build", "-o"]).arg(&program).arg(file("go/main.go"));
    let built = build.output().expect("go runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // The client's messages are older than these fields.
    let mut info = crate::client::KINDS.clone();
    for table in &mut info.tables {
        table.initial_default_action = None;
        table.has_initial_entries = false;
    }
    let described = dir.write("p4info.txt", proto::text(&info).as_bytes()).expect("a file");
    let kinds = file("kinds.p4");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_string();
    let (program, described, pushed) = (path(&program), path(&described), path(&kinds));
    for target in ["interp", "native", "tc", "xdp"] {
        // Where the program runs already, it is read; elsewhere it is pushed.
        let push = target == "native" || target == "tc";
        let net = Foreign::start("go", target, (!push).then_some(kinds.as_path()));
        let mut args = vec!["127.0.0.1:9559", described.as_str(), if push { pushed.as_str() } else { "-" }];
        args.extend(WIRES);
        net.run(&program, &args);
    }
}

#[test]
fn p4runtime_shell_on_interp() {
    shell("interp", false);
}

#[test]
fn p4runtime_shell_on_native() {
    shell("native", true);
}

#[test]
fn p4runtime_shell_on_tc() {
    shell("tc", true);
}

#[test]
fn p4runtime_shell_on_xdp() {
    shell("xdp", false);
}

#[test]
fn ptf_on_every_target() {
    ["interp", "native", "tc", "xdp"].into_iter().for_each(ptf);
}

#[test]
fn the_apps_cases_over_p4runtime() {
    for target in ["interp", "native", "tc", "xdp"] {
        cases("l3", target, 3);
        cases("nat44", target, 5);
    }
    cases("nat64", "native", 100);
    cases("nat64", "tc", 100);
}
