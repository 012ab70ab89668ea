//! What a user of the machine without rights can do beside a translator: lock what he can open, make first what is not there yet, send signals; and
//! readers of reports that do not read. Each machine here has a BPF file system and a /run of its own, where others may make what they want.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use io::bpf;

use crate::lab::{Lab, SERVER6, both, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
/// A generous time for what takes less than a second, also on a machine that does much else. Other users hold their locks for longer.
const BOUND: Duration = Duration::from_secs(60);
/// How the kernel mounts a BPF file system if nobody says otherwise: everybody may make directories in it.
const OPEN: &str = "mount -t bpf -o mode=1777 bpf /sys/fs/bpf";
/// What makes a machine where nobody has mounted one.
const NONE: &str = "while umount -l /sys/fs/bpf 2>/dev/null; do :; done";
/// Runs a command as a user without rights.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/// Whether a test can run, which needs programs to be somebody else.
fn possible_here(name: &str) -> bool {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    for program in ["setpriv", "flock", "nsenter", "unshare"] {
        if !has(program) {
            println!("skipped: nat64 {name}: needs {program}");
            return false;
        }
    }
    possible(name)
}

/// Waits for something that must happen.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < BOUND, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Mount and process namespaces of a machine of its own, with the network of a lab's router. Its processes end with the value.
struct Machine<'l> {
    lab: &'l Lab,
    holder: Child,
    /// Its first process.
    first: String,
}

impl<'l> Machine<'l> {
    /// Begins with these commands.
    fn new(lab: &'l Lab, begin: &str) -> Self {
        let ready = lab.file("ready");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-e", "-c"]);
        command.arg(format!(
            "mount -t tmpfs -o mode=755 tmpfs /run; mkdir -m 1777 /run/lock; {begin}; : >{}; exec sleep 6000",
            ready.display()
        ));
        let holder = command.spawn().expect("unshare starts");
        eventually("the machine begins", || ready.exists());
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let first = std::fs::read_to_string(children).expect("it runs").trim().to_string();
        Self { lab, holder, first }
    }

    /// A command in it.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.lab.router.path().display()));
        command.args(["--mount", "--pid", "--target", &self.first, program]);
        command
    }

    /// What a shell command prints, which must succeed.
    fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-e", "-c", script]).output().expect("sh starts");
        assert!(output.status.success(), "{script}: {}", both(&output));
        both(&output)
    }

    /// A command `strait nat64 VERB`.
    fn strait(&self, verb: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_strait"));
        command.args(["nat64", verb, "--config"]).arg(self.lab.file("nat64.toml"));
        command
    }

    /// Runs a command that nobody may delay.
    fn output(&self, verb: &str) -> Output {
        let (out, begun) = (self.lab.file("output"), Instant::now());
        let file = File::create(&out).expect("a file");
        let mut command = self.strait(verb);
        command.stdout(file.try_clone().expect("a file")).stderr(file);
        let status = ended(command.spawn().expect("strait starts"), verb);
        println!("{verb}: {:?}", begun.elapsed());
        Output { status, stdout: std::fs::read(out).expect("a file"), stderr: Vec::new() }
    }

    /// Like [`Machine::output`], for one that must succeed.
    fn must(&self, verb: &str) -> String {
        let output = self.output(verb);
        assert!(output.status.success(), "{verb}: {}", both(&output));
        both(&output)
    }

    /// Starts `run`, and waits until it translates. Its standard output and error are what the command says.
    fn run(&self, command: &mut Command) -> Child {
        let run = command.spawn().expect("strait starts");
        eventually("it is up", || self.strait("status").output().expect("strait starts").status.success());
        run
    }

    /// Tells a `run` to end: the process in these namespaces, and not `nsenter`.
    fn terminate(&self, run: Child) -> std::process::ExitStatus {
        self.sh("kill -TERM $(pidof strait)");
        ended(run, "SIGTERM")
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.first]).status();
        let _ = self.holder.wait();
    }
}

/// Waits for the end of a process, which nobody may delay.
fn ended(mut process: Child, what: &str) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("it is ours") {
            return status;
        }
        if begun.elapsed() > BOUND {
            let _ = process.kill();
            panic!("{what} takes longer than {BOUND:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of sessions.
fn sessions(machine: &Machine<'_>) -> usize {
    let output = machine.strait("sessions").arg("--count").output().expect("strait starts");
    both(&output).trim().parse().unwrap_or_else(|_| panic!("{}", both(&output)))
}

/// All that a user without rights may try: he locks what he can open, makes directories and links where he may, and pipes that nobody reads; he
/// talks nonsense to sockets, holds them, and takes the abstract names of others; he signals, traces and watches processes; he asks the kernel for
/// interfaces, routes, programs and namespaces.
const EVERYTHING: &str = r#"
cd /
for path in $(find /sys/fs/bpf /run 2>/dev/null); do flock "$path" sleep 6000 & flock -s "$path" sleep 6000 & done
for name in a b strait-next strait-run; do
    mkdir /sys/fs/bpf/$name; ln -s /etc /sys/fs/bpf/link-$name; ln -s /etc /run/lock/$name; mkfifo /run/lock/pipe-$name
done
while sleep 0.1; do kill -TERM 1 $(pidof strait); kill -KILL $(pidof strait); kill -STOP $(pidof strait); done &
while sleep 0.3; do
    mkdir /sys/fs/bpf/strait /sys/fs/bpf/strait-lock /sys/fs/bpf/strait-run
    for path in $(find /sys/fs/bpf /run -writable 2>/dev/null); do ls -lR "$path"; timeout 1 flock -n "$path" true; done
    for pid in $(pidof strait); do cat /proc/$pid/environ /proc/$pid/mem /proc/$pid/maps; ls /proc/$pid/fd /proc/$pid/root; done
    for socket in $(find /run -type s 2>/dev/null); do echo nonsense | timeout 1 nc -U "$socket"; done
    ip link add user type dummy; ip link set nat64 down; ip link del nat64; ip route del default; ip route add blackhole 203.0.113.0/24
    tc filter del dev nat64 ingress; sysctl -w net.ipv4.ip_forward=0; bpftool prog list; nft flush ruleset
    unshare -Urnm sh -c 'ip link add nat64 type dummy; mount -t bpf bpf /sys/fs/bpf; mkdir /sys/fs/bpf/strait; ln -s /etc /run/strait'
    strait=$(readlink /proc/$(pidof -s strait)/exe); renice 19 $(pidof strait); prlimit --pid $(pidof -s strait) --nofile=3
done &
wait
"#;

/// For how long a user tries. `STRAIT_USER_SECONDS` makes it longer.
fn seconds_of_a_user() -> Duration {
    let seconds = std::env::var("STRAIT_USER_SECONDS").map(|s| s.parse().expect("a number"));
    Duration::from_secs(seconds.unwrap_or(1))
}

/// What an operator does in a day, with how long each took: `up`, `reload`, `status`, a session that expires, the end of `run`, and `down`.
fn a_day(lab: &Lab, machine: &Machine<'_>) -> Vec<(&'static str, Duration)> {
    let mut took = Vec::new();
    let mut timed = |what, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        took.push((what, begun.elapsed()));
    };
    let log = File::create(lab.file("run.log")).expect("a file");
    let mut run = None;
    timed("run", &mut || {
        let mut command = machine.strait("run");
        let log = log.try_clone().expect("a file");
        run = Some(machine.run(command.stdout(log.try_clone().expect("a file")).stderr(log)));
    });
    lab.datagram(100);
    assert!(sessions(machine) > 0, "the datagram has a session");
    timed("expiry", &mut || eventually("sessions expire", || sessions(machine) == 0));
    for verb in ["up", "reload", "status"] {
        timed(verb, &mut || drop(machine.must(verb)));
    }
    timed("SIGTERM", &mut || {
        let status = machine.terminate(run.take().expect("it runs"));
        let said = lab.sh(&format!("cat {}", lab.file("run.log").display()));
        assert_eq!(status.code(), Some(0), "{said}");
    });
    for verb in ["up", "down"] {
        timed(verb, &mut || drop(machine.must(verb)));
    }
    took
}

#[test]
fn a_user_who_tries_everything_delays_nobody() {
    if !possible_here("user") {
        return;
    }
    let lab = Lab::new("user");
    lab.stateful(DEVICE, "timeouts = { udp = 1 }");
    let machine = Machine::new(&lab, OPEN);
    let alone = a_day(&lab, &machine);

    let mut other = machine.command("setpriv");
    other.args(NOBODY.split(' ').skip(1)).args(["sh", "-c", EVERYTHING]);
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("setpriv starts");
    eventually("he locks", || machine.sh("pidof sleep || true").split(' ').count() > 2);
    let mut beside = Vec::new();
    let begun = Instant::now();
    while beside.is_empty() || begun.elapsed() < seconds_of_a_user() {
        beside.push(a_day(&lab, &machine));
    }
    for (step, (what, took)) in alone.iter().enumerate() {
        let mut times: Vec<_> = beside.iter().map(|day| day[step].1).collect();
        times.sort_unstable();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{what}: {took:?} without him; {median:?} beside him, at most {most:?}, of {}", times.len());
    }
    let _ = other.kill();
    let _ = other.wait();
}

#[test]
fn what_another_user_has_made_first_is_put_aside() {
    if !possible_here("first") {
        return;
    }
    let lab = Lab::new("first");
    lab.config(DEVICE, "");
    let machine = Machine::new(&lab, OPEN);
    for (made, begun) in [
        ("mkdir -m 755 /sys/fs/bpf/strait", false),
        ("ln -s /etc /sys/fs/bpf/strait", false),
        ("mkdir -m 777 /sys/fs/bpf/strait-lock", false),
        ("mkdir -m 755 /sys/fs/bpf/strait-run", true),
    ] {
        machine.sh(&format!("{NOBODY} {made}"));
        let place = made.split(' ').next_back().expect("a path");
        let log = lab.file("said");
        if begun {
            let file = File::create(&log).expect("a file");
            let run = machine.run(machine.strait("run").stdout(Stdio::null()).stderr(file));
            assert_eq!(machine.terminate(run).code(), Some(0));
        } else {
            std::fs::write(&log, machine.must("up")).expect("a file");
            machine.must("down");
        }
        let said = std::fs::read_to_string(log).expect("a file");
        assert!(said.contains(place) && said.contains("65534"), "{made}: {said}");
        // It is his as before, and beside it.
        let aside = machine.sh("find /sys/fs/bpf -name 'of-65534-*' -user 65534");
        assert_eq!(aside.lines().count(), 1, "{made}: {aside}");
        machine.sh(&format!("rm -r {aside}"));
    }
    machine.must("up");
    // What Strait makes is out of his reach, in a file system where he may make directories.
    for place in ["/sys/fs/bpf/strait", "/sys/fs/bpf/strait-lock"] {
        let refused = machine.sh(&format!("! {NOBODY} ls {place} 2>&1"));
        assert!(refused.contains("Permission denied"), "{place}: {refused}");
    }
    machine.must("down");
}

#[test]
fn a_file_system_that_anybody_may_rename_in_is_refused() {
    if !possible_here("renamed") {
        return;
    }
    let lab = Lab::new("renamed");
    lab.config(DEVICE, "");
    let machine = Machine::new(&lab, &format!("{OPEN}; chmod 0777 /sys/fs/bpf"));
    let output = machine.output("up");
    let said = both(&output);
    assert!(!output.status.success() && said.contains("can be written by other users"), "{said}");
}

#[test]
fn strait_mounts_the_bpf_file_system_for_root_alone() {
    if !possible_here("mount") {
        return;
    }
    let lab = Lab::new("mount");
    lab.config(DEVICE, "");
    let machine = Machine::new(&lab, NONE);
    // Whoever locks the place where it will be mounted delays nobody.
    let mut other = machine.command("setpriv");
    other.args(NOBODY.split(' ').skip(1)).args(["flock", "/sys/fs/bpf", "sleep", "600"]);
    let mut other = other.spawn().expect("setpriv starts");
    eventually("he locks", || machine.sh("grep -c FLOCK /proc/locks || true").trim() != "0");
    machine.must("up");
    // The kernel adds the sticky bit.
    assert_eq!(machine.sh("stat -c %a:%U /sys/fs/bpf /sys/fs/bpf/strait"), "1700:root\n700:root\n");
    machine.must("down");
    let _ = other.kill();
    let _ = other.wait();
}

#[test]
fn a_lock_that_is_held_names_its_holder_and_is_one_of_the_instance() {
    if !possible("held") {
        return;
    }
    let (lab, another) = (Lab::new("held"), Lab::new("free"));
    for lab in [&lab, &another] {
        lab.config(DEVICE, "");
    }
    lab.must("up");
    let name = lab.pins("nat64").file_name().expect("a name").to_string_lossy().into_owned();
    let lock = bpf::lock(&name).expect("nobody has it");
    // Whoever wants to change the same translator learns who keeps him from it, and does not wait for minutes.
    let down =
        lab.strait("down").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strait starts");
    // Others are changed meanwhile, and looking needs no lock.
    another.must("up");
    lab.must("status");
    another.must("down");
    let down = down.wait_with_output().expect("it ends");
    let (said, holder) = (both(&down), format!("process {} (", std::process::id()));
    assert!(
        !down.status.success() && said.contains(&holder) && said.contains("nothing was changed"),
        "{said}"
    );
    lab.must("status");
    drop(lock);
    lab.must("down");
}

#[test]
fn a_run_ends_at_once_although_another_process_has_the_lock() {
    if !possible("stop") {
        return;
    }
    let lab = Lab::new("stop");
    lab.stateful(DEVICE, "");
    let mut run = lab.strait("run").spawn().expect("strait starts");
    eventually("it is up", || lab.strait("status").output().expect("strait starts").status.success());
    let name = lab.pins("nat64").file_name().expect("a name").to_string_lossy().into_owned();
    let mut lock = None;
    eventually("expiry lets go of it", || {
        lock = bpf::try_lock(&name).expect("it can be asked for");
        lock.is_some()
    });
    // Both for a reload that cannot begin and for the end.
    for signal in ["-HUP", "-TERM"] {
        let sent = Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
    }
    let begun = Instant::now();
    eventually("it ends", || run.try_wait().expect("it is ours").is_some());
    println!("ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(8), "it waits for the lock");
    drop(lock);
    lab.must("down");
}

/// The flows that are opened, each with two reports, and the number of lines of a file that report so.
const FLOWS: usize = 1500;

fn reported(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| line.contains("-created\"")).count()
}

#[test]
fn a_log_that_nobody_reads_harms_itself_only() {
    if !possible_here("logs") {
        return;
    }
    let lab = Lab::new("logs");
    let (log, fifo) = (lab.file("flows.jsonl"), lab.file("fifo"));
    let more = format!(
        "timeouts = {{ udp = 5 }}\nlog = \"sessions\"\nlog-to = [\"stdout\", \"{}\", \"{}\"]",
        fifo.display(),
        log.display()
    );
    lab.stateful(DEVICE, &more);
    // Nobody opens the one end of the FIFO, and nobody reads the standard output, into which the errors go as well.
    lab.sh(&format!("mkfifo {}", fifo.display()));
    let (unread, into) = std::io::pipe().expect("a pipe");
    let mut command = lab.strait("run");
    command.stdout(into.try_clone().expect("a pipe")).stderr(into);
    let run = command.spawn().expect("strait starts");
    drop(command);
    eventually("it is up", || lab.strait("status").output().expect("strait starts").status.success());
    let flow = |port: u16| {
        std::thread::sleep(Duration::from_micros(200));
        std::net::UdpSocket::bind(("::", port))?.send_to(b"datagram", (SERVER6, 7))
    };
    let send = || (0..FLOWS).try_for_each(|at| flow(20_000 + at as u16).map(drop));
    lab.client.run(send).expect("a namespace").expect("they are sent");
    eventually("the file has all reports", || reported(&log) == 2 * FLOWS);
    let mode = std::fs::metadata(&log).expect("a file").permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}: it says who talked to whom");
    // A reload that takes the stalled places away blocks nothing either: sessions go on to expire, and the file has that.
    lab.stateful(DEVICE, &more.replace("\"stdout\", ", ""));
    lab.must("reload");
    eventually("sessions expire", || lab.flows("sessions", &[]).is_empty());
    let sent = Command::new("kill").args(["-TERM", &run.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
    assert_eq!(ended(run, "SIGTERM").code(), Some(0));
    drop(unread);
}
