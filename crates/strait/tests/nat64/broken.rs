//! A machine on which something fails: full file systems, and system calls that return errors. What fails is reported, and leaves everything as it
//! was. The next command of the same kind heals.

use std::process::{Command, Output};

use crate::lab::{Lab, both, possible};
use crate::operator::fails;
use crate::{DEVICE, EXPRESS};

/// All state of a translator is in the kernel, so it needs no room on a disk. Only the native target compiles, and says where there is no room.
#[test]
fn full_disks_stop_nothing_that_is_in_the_kernel() {
    if !possible("full disks") {
        return;
    }
    let lab = Lab::new("full");
    let clean = lab.state();
    let files = lab.files.path().display().to_string();
    let full = format!(
        "mount --bind {files} /mnt
         for dir in /tmp /run /var /dev/shm; do mount -t tmpfs -o size=4k tmpfs $dir; done
         mkdir -p {files}; mount --bind /mnt {files}
         for dir in /tmp /run /var /dev/shm; do head -c 8192 /dev/zero >$dir/full 2>/dev/null || true; done
         export HOME=/tmp XDG_CACHE_HOME=/tmp TMPDIR=/tmp STRAIT_CACHE=/tmp"
    );
    let must = |verb: &str| {
        let done = lab.strait_within(&full, verb).output().expect("strait starts");
        assert!(done.status.success(), "{verb}: {}", both(&done));
    };
    lab.config(DEVICE, "");
    must("up");
    lab.transfer(1, |_| ());
    lab.config(EXPRESS, "ipv6-mtu = 1400");
    must("reload");
    lab.transfer(1, |_| ());
    must("status");
    must("down");
    assert_eq!(lab.state(), clean);
    if io::native::has_compiler() {
        let mut native = lab.strait_within(&full, "up");
        let said = fails(native.args(["--target", "native"]), 1);
        assert!(said.contains("No space left on device") && said.contains("TMPDIR"), "{said}");
        assert_eq!(said.matches("error:").count(), 1, "{said}");
        assert_eq!(lab.state(), clean);
    }
}

/// System calls, the error that they return, and the distance between those that do. One `up` makes some 250 calls of bpf(2), as many for
/// pins as for other things, and 50 messages to the kernel.
const ERRORS: [(&str, &str, usize); 4] = [
    ("bpf", "ENOSPC", 61),
    ("mkdir", "ENOSPC", 2),
    ("rename", "ENOSPC", 1),
    ("sendto,sendmsg", "ENOMEM", 13),
];
/// How many calls of a kind fail, one in each run.
const RUNS: usize = 3;

/// Runs a command in the router whose call of this number fails.
fn broken(lab: &Lab, verb: &str, calls: &str, error: &str, number: usize) -> Output {
    let file = lab.file("nat64.toml");
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", lab.router.path().display()));
    command.args(["strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}"), "-e"]);
    command.arg(format!("inject={calls}:error={error}:when={number}"));
    command.arg(env!("CARGO_BIN_EXE_strait")).args(["nat64", verb, "--config"]).arg(file);
    command.output().expect("strace starts")
}

#[test]
fn an_error_of_any_system_call_is_reported_and_undone() {
    if !possible("errors") {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: nat64 errors: needs strace");
        return;
    }
    let lab = Lab::new("errors");
    let (clean, theirs) = (lab.state(), lab.theirs());
    let mut failed = 0;
    for (calls, error, stride) in ERRORS {
        for number in (1..).step_by(stride).take(RUNS) {
            let what = format!("{calls} {number}");
            lab.config(DEVICE, "");
            failed +=
                usize::from(is_undone(&lab, "up", &broken(&lab, "up", calls, error, number), &clean, &what));
            lab.must("up");
            let running = lab.state();
            lab.config(EXPRESS, "ipv6-mtu = 1400");
            let reload = broken(&lab, "reload", calls, error, number);
            failed += usize::from(is_undone(&lab, "reload", &reload, &running, &what));
            lab.ping(1);
            lab.must("reload");
            lab.must("status");
            let down = broken(&lab, "down", calls, error, number);
            failed += usize::from(!down.status.success());
            assert_eq!(lab.theirs(), theirs, "down, {what}");
            lab.must("down");
            assert_eq!(lab.state(), clean, "down, {what}: {}", both(&down));
        }
    }
    println!("{failed} runs failed");
    assert!(failed > 9, "{failed} runs failed");
}

/// Whether a command failed. Then it has said so once, and everything is as before. Some calls may fail, and nothing is lost.
fn is_undone(lab: &Lab, verb: &str, done: &Output, before: &str, what: &str) -> bool {
    let said = both(done);
    if done.status.success() {
        return false;
    }
    let errors = said.lines().filter(|line| line.starts_with("error:")).count();
    assert_eq!(errors, 1, "{verb}, {what}: {said}");
    assert_eq!(lab.state(), before, "{verb}, {what}: {said}");
    true
}
