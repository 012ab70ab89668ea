//! What an operator does to a running translator, beside mere traffic: upgrades, other files, other names, no file at all.

use std::process::Command;

use crate::attach::XDP;
use crate::lab::{Lab, both, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
const EXPRESS: &str = "{ device = \"nat64\", express = [\"r0\", \"r1\"] }";

/// Runs a command that must fail, and returns what it says.
pub fn fails(command: &mut Command, code: i32) -> String {
    let output = command.output().expect("strait starts");
    assert_eq!(output.status.code(), Some(code), "{}", both(&output));
    both(&output)
}

#[test]
fn an_upgrade_loses_no_packet() {
    if !possible("upgrade") {
        return;
    }
    for attach in [DEVICE, EXPRESS] {
        let lab = Lab::new("upgrade");
        lab.config(attach, "");
        lab.must("up");
        lab.transfer(1, |_| ());
        let mut round = 0;
        let (sent, arrived) = std::thread::scope(|scope| {
            let upgrades = scope.spawn(|| {
                for _ in 0..5 {
                    lab.outdate();
                    let status = lab.strait("status").output().expect("strait starts");
                    assert!(
                        both(&status).contains("the program that runs is of version"),
                        "{}",
                        both(&status)
                    );
                    lab.must("up");
                    round += 1;
                }
            });
            lab.count_datagrams(|| upgrades.is_finished())
        });
        assert_eq!(round, 5);
        assert!(sent > 1000, "{sent}");
        assert_eq!(arrived, sent, "{attach}");
        lab.must("status");
    }
}

#[test]
fn an_interrupted_upgrade_is_completed() {
    if !possible("interrupted") {
        return;
    }
    let lab = Lab::new("interrupt");
    lab.config(EXPRESS, "");
    let clean = lab.state();
    lab.must("up");
    let up = lab.state();
    lab.transfer(20, |round| {
        lab.outdate();
        let mut again = lab.strait("up").spawn().expect("strait starts");
        std::thread::sleep(std::time::Duration::from_millis(60 + 5 * round as u64));
        again.kill().expect("it is ours");
        again.wait().expect("it ends");
    });
    lab.must("up");
    assert_eq!(lab.state(), up);
    lab.must("status");
    lab.must("down");
    assert_eq!(lab.state(), clean);
    assert!(!lab.pins("nat64").with_extension("").exists());
}

/// The new file changes a mapping, the MTU, routes and a lane; the last step, another lane, fails.
#[test]
fn a_late_failure_leaves_everything_as_it_was() {
    if !possible("late") {
        return;
    }
    let lab = Lab::new("late");
    lab.config("{ device = \"nat64\", express = [\"r1\"] }", "");
    lab.must("up");
    let all = || {
        let links = lab.sh("ip -o link show dev nat64; ip -o link show dev nat64-; cat /proc/sys/net/ipv6/conf/nat64*/disable_ipv6");
        let status = lab.strait("status").arg("--json").output().expect("strait starts");
        let mut status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        // The file is different, and the counters go on.
        for part in ["file_state", "counters", "drops", "interfaces"] {
            status[part] = serde_json::Value::Null;
        }
        format!("{}\n{links}\n{status}", lab.state())
    };
    let before = all();
    // Lanes come last. Where nothing can be pinned, the new one on r0 fails, after that on r1 was changed.
    let more = "ipv6-mtu = 1400\n[[map]]\nipv4 = \"203.0.113.0/24\"\nipv6 = \"2001:db8:200::/120\"";
    lab.config("{ device = \"nat64\", express = [\"r1\", \"r0\"] }", more);
    let links = lab.pins("nat64").join("links");
    let script = format!("mount --bind {0} {0}; mount -o remount,ro,bind {0}", links.display());
    let said = fails(&mut lab.strait_within(&script, "reload"), 1);
    assert!(said.contains("pin the link to r0") && said.contains("Read-only"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert_eq!(all(), before);
    lab.transfer(1, |_| ());
    lab.must("reload");
    lab.transfer(1, |_| ());
    let status = lab.must("status");
    let lanes = ["lane on r0: tc", "lane on r1: tc"].iter().all(|lane| status.contains(lane));
    assert!(status.contains("2 mappings") && lanes, "{status}");
}

#[test]
fn a_new_device_name_moves_the_translator() {
    if !possible("moved") {
        return;
    }
    let lab = Lab::new("moved");
    let clean = lab.state();
    for attach in [DEVICE, EXPRESS] {
        lab.config(attach, "");
        lab.must("up");
        let file = lab.config(&attach.replace("nat64", "nat46"), "");
        let diff = lab.sh(&format!(
            "{} nat64 check --diff --config {}",
            env!("CARGO_BIN_EXE_strait"),
            file.display()
        ));
        assert!(
            diff.contains("+ interface nat46") && diff.contains("- interface nat64, which nat46"),
            "{diff}"
        );
        let (sent, arrived) = std::thread::scope(|scope| {
            let move_it = scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                lab.must("up");
                std::thread::sleep(std::time::Duration::from_millis(100));
            });
            lab.count_datagrams(|| move_it.is_finished())
        });
        assert_eq!(arrived, sent, "{attach}");
        lab.transfer(1, |_| ());
        let links = lab.sh("ip -br link");
        assert!(links.contains("nat46") && !links.contains("nat64"), "{links}");
        lab.must("down");
        assert_eq!(lab.state(), clean);
    }
}

#[test]
fn two_devices_with_one_prefix_are_refused() {
    if !possible("same prefix") {
        return;
    }
    let lab = Lab::new("same");
    let file = lab.config(DEVICE, "");
    lab.must("up");
    let running = lab.state();
    let other = file.with_file_name("other.toml");
    let text = std::fs::read_to_string(&file).expect("a file").replace("\"nat64\"", "\"nat46\"");
    std::fs::write(&other, text).expect("a file");
    let strait = format!("{} nat64 up --config {}", env!("CARGO_BIN_EXE_strait"), other.display());
    let said = lab.sh(&format!("{strait} 2>&1 && exit 1 || true"));
    assert!(said.contains("translated by the device `nat64` already"), "{said}");
    assert_eq!(lab.state(), running);
}

#[test]
fn a_forced_route_leaves_that_of_the_operator() {
    if !possible("force") {
        return;
    }
    let lab = Lab::new("force");
    lab.config(DEVICE, "");
    lab.sh("ip route add 198.51.100.0/24 via 192.0.2.2; ip route add 2001:db8:64::/96 via 2001:db8:1::2 metric 100");
    let theirs = lab.theirs();
    fails(&mut lab.strait("up"), 1);
    let forced = lab.strait("up").arg("--force").output().expect("strait starts");
    assert!(forced.status.success(), "{}", both(&forced));
    lab.transfer(1, |_| ());
    assert_eq!(lab.theirs(), theirs);
    // What was forced once is in place, and needs no force again.
    lab.must("reload");
    lab.must("status");
    lab.must("down");
    assert_eq!(lab.theirs(), theirs);
}

/// Each row has: what the file says next, and the lines of the plan.
#[test]
fn the_plan_is_what_up_does() {
    if !possible("plan") {
        return;
    }
    let lab = Lab::new("plan");
    let more = "[[map]]\nipv4 = \"203.0.113.0/24\"\nipv6 = \"2001:db8:200::/120\"";
    let rows: [(&str, &str, &[&str]); 6] = [
        (
            DEVICE,
            "",
            &[
                "+ program",
                "+ prefix    2001:db8:64::/96",
                "+ interface nat64 (a veth",
                "+ route     198.51.100.0/24 dev nat64",
            ],
        ),
        (
            DEVICE,
            more,
            &["+ mapping   203.0.113.0/24 to 2001:db8:200::/120", "+ route     203.0.113.0/24 dev nat64"],
        ),
        (EXPRESS, more, &["+ lane      on r0", "+ lane      on r1"]),
        (
            EXPRESS,
            "ipv6-mtu = 1400",
            &["~ setting   ", "- mapping   203.0.113.0/24", "- route     203.0.113.0/24"],
        ),
        (DEVICE, "tos = 7", &["~ setting   ", "- lane      on r0"]),
        (DEVICE, "tos = 7", &["nothing would change"]),
    ];
    for (attach, more, lines) in rows {
        let file = lab.config(attach, more);
        let before = lab.state();
        let check =
            format!("{} nat64 check --diff --config {}", env!("CARGO_BIN_EXE_strait"), file.display());
        let said = lab.sh(&check);
        assert!(lines.iter().all(|line| said.contains(line)), "{more}: {said}");
        let json: serde_json::Value =
            serde_json::from_str(&lab.sh(&format!("{check} --json"))).expect("JSON");
        let changes = json["changes"].as_array().expect("a list").len();
        assert_eq!(changes, said.lines().filter(|line| line.starts_with(['+', '~', '-'])).count(), "{json}");
        assert_eq!(lab.state(), before, "a plan changes nothing");
        lab.must("up");
        let said = lab.sh(&check);
        assert!(said.contains("nothing would change"), "{more}: {said}");
    }
    lab.sh("ip route add 203.0.113.0/24 via 192.0.2.2");
    let file = lab.config(DEVICE, more);
    let said =
        lab.sh(&format!("{} nat64 check --diff --config {}", env!("CARGO_BIN_EXE_strait"), file.display()));
    assert!(said.contains("in the way: the route `203.0.113.0/24 via 192.0.2.2"), "{said}");
}

/// `up` is killed at its system calls, one after the other: when it has made a map, an interface, a route, a pin.
#[test]
fn a_kill_at_any_system_call_heals() {
    if !possible("strace") {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: nat64 strace: needs strace");
        return;
    }
    let lab = Lab::new("strace");
    let clean = lab.state();
    let theirs = lab.theirs();
    // The numbers of calls are spread over those of one `up`: some 250 of bpf(2), and 50 messages to the kernel.
    let steps = [("bpf", 37), ("sendto,sendmsg,write", 5), ("rename,renameat,mkdir,rmdir,unlink", 3)];
    for (calls, stride) in steps {
        for number in (1..).step_by(stride).take(12) {
            let file = lab.config(EXPRESS, "");
            let killed = lab.sh(&format!(
                "strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:signal=SIGKILL:when={number} {} nat64 up --config {} 2>&1 || echo killed",
                env!("CARGO_BIN_EXE_strait"),
                file.display()
            ));
            assert_eq!(lab.theirs(), theirs, "{calls} {number}");
            match number % 2 {
                0 => {
                    lab.must("up");
                    lab.must("status");
                }
                _ => drop(lab.must("down")),
            }
            lab.must("down");
            assert_eq!(lab.state(), clean, "{calls} {number}: {killed}");
            if !killed.contains("killed") {
                break;
            }
        }
    }
}

/// `down` is killed; a second one completes it, or an `up` heals.
#[test]
fn a_killed_down_is_completed() {
    if !possible("killed down") {
        return;
    }
    let lab = Lab::new("kdown");
    let file = lab.config(EXPRESS, "");
    let clean = lab.state();
    for number in 0..8 {
        lab.must("up");
        let mut down = lab.strait("down").spawn().expect("strait starts");
        std::thread::sleep(std::time::Duration::from_millis(4 * number));
        down.kill().expect("it is ours");
        down.wait().expect("it ends");
        if number % 2 == 0 {
            lab.must("up");
            lab.transfer(1, |_| ());
        }
        lab.must("down");
        assert_eq!(lab.state(), clean, "after {} ms, {}", 4 * number, file.display());
    }
}

#[test]
fn down_and_status_need_no_valid_file() {
    if !possible("no file") {
        return;
    }
    let lab = Lab::new("nofile");
    let file = lab.config(DEVICE, "");
    let clean = lab.state();
    let strait = format!("{} nat64", env!("CARGO_BIN_EXE_strait"));
    for way in ["broken", "missing", "device"] {
        lab.config(DEVICE, "");
        lab.must("up");
        match way {
            "broken" => std::fs::write(&file, "[nat64").expect("a file"),
            _ => std::fs::remove_file(&file).expect("a file"),
        }
        match way {
            "device" => {
                let said = lab.sh(&format!("{strait} status --device nat64"));
                assert!(said.contains("nat64 is up, prefix 2001:db8:64::/96, 1 mappings"), "{said}");
                lab.sh(&format!("{strait} down --device nat64"));
            }
            _ => {
                let said = lab.must("status");
                assert!(said.contains("nat64 is up") && said.contains("the file "), "{said}");
                lab.must("down");
            }
        }
        assert_eq!(lab.state(), clean, "{way}");
    }
    // Nothing runs that was made from the file.
    let said = fails(&mut lab.strait("down"), 1);
    assert!(said.contains("cannot read") && said.contains("--device NAME"), "{said}");
}

#[test]
fn what_another_mount_namespace_made_is_seen() {
    if !possible("mounts") {
        return;
    }
    let lab = Lab::new("mounts");
    lab.complete_checksums();
    // One may have been mounted over another.
    let hidden = "while umount -l /sys/fs/bpf 2>/dev/null; do :; done";
    for (attach, lane) in [(XDP, "xdp (native)"), (EXPRESS, "tc")] {
        lab.config(attach, "");
        lab.must("up");
        lab.transfer(1, |_| ());
        let status = lab.strait_within(hidden, "status").output().expect("strait starts");
        let text = both(&status);
        assert!(status.status.success(), "{text}");
        assert!(text.contains("nat64 is up") && text.contains("another BPF file system"), "{text}");
        assert!(text.contains("since 20") && text.contains("nat64.toml"), "{text}");
        // All but that note is what whoever sees the pins is told: the file, the tables, lanes and counters. The kernel tells routers of its
        // multicast groups at any time, from no address.
        let without_note = |text: &str| -> Vec<String> {
            let differs = ["another BPF file system", "where `up` ran", "source.unspecified_ipv6"];
            let note = |line: &&str| differs.iter().any(|words| line.contains(words));
            text.lines().filter(|line| !note(line)).map(str::to_owned).collect()
        };
        assert_eq!(without_note(&text), without_note(&lab.must("status")));
        for words in [format!("lane on r0: {lane}"), format!("lane on r1: {lane}"), "translated_6to4".into()]
        {
            assert!(text.contains(&words), "{words}: {text}");
        }
        lab.must("down");
    }

    lab.config(EXPRESS, "");
    let clean = lab.state();
    lab.must("up");
    let running = lab.state();
    let said = fails(&mut lab.strait_within(hidden, "up"), 1);
    assert!(
        said.contains("another BPF file system is mounted") && said.contains("down --device nat64"),
        "{said}"
    );
    assert_eq!(lab.state(), running);
    lab.transfer(1, |_| ());
    lab.must("down");
    assert_eq!(lab.state(), clean);

    // Read-only: the message names it, and nothing is left.
    let read_only = "mount --bind /sys/fs/bpf /sys/fs/bpf; mount -o remount,ro,bind /sys/fs/bpf";
    let said = fails(&mut lab.strait_within(read_only, "up"), 1);
    assert!(said.contains("Read-only") && said.contains("remount,rw"), "{said}");
    assert_eq!(lab.state(), clean);

    // None at all: one is mounted, which ends with its mount namespace. The next `up` heals.
    let up = lab.strait_within(hidden, "up").output().expect("strait starts");
    assert!(up.status.success(), "{}", both(&up));
    let said = fails(&mut lab.strait("status"), 3);
    assert!(said.contains("cure: strait nat64 up"), "{said}");
    lab.must("up");
    lab.transfer(1, |_| ());
}
