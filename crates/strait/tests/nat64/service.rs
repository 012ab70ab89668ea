//! `strait nat64 run`: a process that keeps the translator as its file says, and without which packets are still translated.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::lab::{Lab, both, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
const EXPRESS: &str = "{ device = \"nat64\", express = [\"r0\", \"r1\"] }";
const PATIENCE: Duration = Duration::from_secs(30);

/// A `run` in the router of a lab. It is killed when the value is dropped.
pub struct Service {
    process: Child,
    said: std::path::PathBuf,
}

impl Service {
    /// Starts `run` with these options, and waits until it says that the translator is up.
    pub fn start(lab: &Lab, options: &[&str]) -> Self {
        let mut command = lab.strait("run");
        command.args(options);
        Self::wait(lab, command)
    }

    /// Starts a command that is a `run`.
    fn wait(lab: &Lab, mut command: Command) -> Self {
        let said = lab.file("run.log");
        let log = File::create(&said).expect("a file");
        let inode = log.metadata().expect("a file");
        command.env("JOURNAL_STREAM", format!("{}:{}", inode.dev(), inode.ino()));
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let service = Self { process: command.spawn().expect("strait starts"), said };
        service.says(" is up: ");
        service
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).expect("a file")
    }

    /// Waits until it says this, and returns how long it took.
    fn says(&self, words: &str) -> Duration {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "{words}: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
    }

    /// Sends a signal and waits for the end.
    pub fn end(mut self, name: &str) -> Option<i32> {
        self.signal(name);
        self.process.wait().expect("it ends").code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn it_ends_as_a_service_manager_expects_and_a_kill_changes_nothing() {
    if !possible("run") {
        return;
    }
    let lab = Lab::new("run");
    lab.config(EXPRESS, "");
    let clean = lab.state();
    let service = Service::start(&lab, &[]);
    lab.transfer(1, |_| ());
    let up = lab.state();
    assert_eq!(service.end("KILL"), None);
    lab.transfer(1, |_| ());
    assert_eq!(lab.state(), up);
    // The next one finds everything in place.
    let service = Service::start(&lab, &[]);
    assert_eq!(lab.state(), up);
    assert_eq!(service.end("TERM"), Some(0));
    assert_eq!(lab.state(), clean);
    let service = Service::start(&lab, &["--keep"]);
    assert_eq!(service.end("INT"), Some(0));
    assert_eq!(lab.state(), up);
    // `down` ends the process that would make everything again.
    let mut service = Service::start(&lab, &["--keep"]);
    lab.must("down");
    assert_eq!(service.process.wait().expect("it ends").code(), Some(0));
    assert_eq!(lab.state(), clean);
}

#[test]
fn a_second_one_is_refused_and_what_is_applied_beside_it_is_kept() {
    if !possible("two at once") {
        return;
    }
    let lab = Lab::new("second");
    let (file, clean) = (lab.config(DEVICE, ""), lab.state());
    let service = Service::start(&lab, &[]);
    let second = lab.strait("run").stdin(Stdio::null()).output().expect("strait starts");
    assert_eq!(second.status.code(), Some(1));
    let keeps = format!("process {} keeps `nat64` up already", service.process.id());
    assert!(both(&second).contains(&keeps), "{}", both(&second));

    let more = "[[map]]\nipv4 = \"203.0.113.0/24\"\nipv6 = \"2001:db8:200::/120\"";
    lab.config(DEVICE, more);
    lab.must("reload");
    service.says("was applied by another process, and is kept now");
    lab.sh("ip route del 203.0.113.0/24");
    service.says("the route `203.0.113.0/24 dev nat64 proto 64` is missing");
    assert!(lab.must("status").contains("2 mappings"));

    // A hangup reads the file again; one that is not good changes nothing.
    let running = lab.state();
    std::fs::write(&file, "[nat64]\nmode = 7\n").expect("a file");
    service.signal("HUP");
    service.says("<3>");
    assert!(service.said().contains("nothing was changed"), "{}", service.said());
    assert_eq!(lab.state(), running);
    lab.config(DEVICE, "");
    service.signal("HUP");
    service.says("was read again and applied");
    assert!(lab.must("status").contains("1 mappings"));

    // So is a device of another name, which takes the old one's place.
    lab.config(&DEVICE.replace("nat64", "nat46"), "");
    lab.must("reload");
    lab.sh("ip link set nat46 down");
    service.says("repaired nat46: `nat46` is down");
    lab.transfer(1, |_| ());
    assert_eq!(service.end("TERM"), Some(0));
    assert_eq!(lab.state(), clean);
}

/// Somebody detaches the program from the device, as `bpftool link detach` does.
const DETACH: &str = "detach";

/// Each row has: what somebody does, and what `run` says about it. The state is the same afterwards.
#[test]
fn what_others_change_is_repaired_and_said_once() {
    if !possible("repair") {
        return;
    }
    let lab = Lab::new("repair");
    lab.config(EXPRESS, "");
    let pins = lab.pins("nat64").display().to_string();
    let service = Service::start(&lab, &[]);
    let up = lab.state();
    let pin = |hook| format!("{pins}/links/tcx-$(ip -o link show {hook} | cut -d: -f1)");
    let remove = format!("rm {}-ingress", pin("r1"));
    let rows = [
        ("ip route del 198.51.100.0/24", "the route `198.51.100.0/24 dev nat64 proto 64` is missing"),
        ("ip -6 route del 2001:db8:64::/96", "the route `2001:db8:64::/96 dev nat64"),
        ("ip link set nat64 down", "`nat64` is down"),
        ("ip link set nat64 mtu 1300", "MTU 1300"),
        ("ip link set nat64- mtu 1000", "MTU 1000"),
        ("ip link del nat64", "the interface `nat64` is gone"),
        (&remove, "pins of its program were gone"),
        (DETACH, "no program is attached to `nat64`"),
        ("echo 1 > /proc/sys/net/ipv6/conf/nat64/disable_ipv6", "net.ipv6.conf.nat64.disable_ipv6 is 1"),
    ];
    for (done, said) in rows {
        let before = service.said().len();
        match done {
            DETACH => lab.detach("nat64"),
            script => drop(lab.sh(script)),
        }
        let begun = Instant::now();
        while !service.said()[before..].contains(said) {
            assert!(begun.elapsed() < PATIENCE, "{done}: {}", service.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("{done}: repaired after {:?}", begun.elapsed());
        lab.transfer(1, |_| ());
        assert_eq!(lab.state(), up, "{done}");
    }
    let said = service.said();
    assert_eq!(said.lines().filter(|line| line.contains("repaired")).count(), rows.len(), "{said}");
    lab.must("status");
}

#[test]
fn pins_that_somebody_removes_are_made_again_and_no_packet_is_lost() {
    if !possible("pins") {
        return;
    }
    let lab = Lab::new("pins");
    lab.config(EXPRESS, "");
    let service = Service::start(&lab, &[]);
    let up = lab.state();
    lab.transfer(1, |_| ());
    let (sent, arrived) = std::thread::scope(|scope| {
        let removed = scope.spawn(|| {
            lab.sh(&format!("rm -r {}", lab.pins("nat64").display()));
            service.says("pins of its program were gone");
        });
        lab.count_datagrams(|| removed.is_finished())
    });
    assert_eq!(arrived, sent);
    assert_eq!(lab.state(), up);
    lab.must("status");
    lab.must("down");
}

#[test]
fn it_gives_up_all_privileges_but_three() {
    if !possible("privileges") {
        return;
    }
    let lab = Lab::new("privileges");
    lab.config(DEVICE, "");
    let service = Service::start(&lab, &[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.process.id())).expect("it runs");
    // linux/capability.h: CAP_NET_ADMIN is 12, CAP_NET_RAW 13, CAP_BPF 39.
    let three = format!("{:016x}", 1u64 << 12 | 1 << 13 | 1 << 39);
    for (set, value) in [("Eff", &*three), ("Prm", &three), ("Bnd", &three), ("Inh", NONE), ("Amb", NONE)] {
        let line = format!("Cap{set}:\t{value}");
        assert!(status.contains(&line), "{line}: {status}");
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    // They are enough for a reload that changes everything.
    let more = "tos = 7\nipv6-mtu = 1400\n[[map]]\nipv4 = \"203.0.113.0/24\"\nipv6 = \"2001:db8:200::/120\"";
    lab.config(EXPRESS, more);
    service.signal("HUP");
    service.says("was read again and applied");
    lab.transfer(1, |_| ());
    assert_eq!(service.end("TERM"), Some(0));
}

/// No capability, as /proc shows it.
const NONE: &str = "0000000000000000";

#[test]
fn interfaces_that_come_later_get_their_lanes() {
    if !possible("later") {
        return;
    }
    for attach in [
        "express = [\"r0\", \"r1\", \"r9\"]",
        "interfaces = [\"r0\", \"r1\", \"r9\"], hook = \"xdp\", trust-checksums = true",
    ] {
        let lab = Lab::new("later");
        lab.complete_checksums();
        lab.config(&format!("{{ device = \"nat64\", {attach} }}"), "");
        let service = Service::start(&lab, &[]);
        service.says("`r9` does not exist");
        for _ in 0..2 {
            lab.sh("ip link add r9 type veth peer name r9-; ethtool -K r9- tx off >/dev/null");
            has_lanes(&lab, &service, &["r0", "r1", "r9"]);
            lab.sh("ip link del r9");
        }
        lab.transfer(1, |_| ());
    }
}

/// Waits until these interfaces have lanes, and no others.
fn has_lanes(lab: &Lab, service: &Service, names: &[&str]) {
    let lanes = || -> Vec<String> {
        let status = lab.strait("status").arg("--json").output().expect("strait starts");
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        let all = status["interfaces"].as_array().expect("a list").iter();
        all.map(|lane| lane["name"].as_str().expect("a name").to_owned()).collect()
    };
    let begun = Instant::now();
    while lanes() != names {
        assert!(begun.elapsed() < PATIENCE, "{:?} {}", lanes(), service.said());
    }
}

/// A line `attach` for programs at the XDP hook.
fn xdp(interfaces: &str, more: &str) -> String {
    format!("{{ interfaces = [{interfaces}], hook = \"xdp\", trust-checksums = true{more} }}")
}

/// One interface receives checksums that XDP cannot complete. It alone has no lane.
#[test]
fn an_interface_that_becomes_unfit_takes_no_lane_from_others() {
    if !possible("unfit") {
        return;
    }
    let lab = Lab::new("unfit");
    lab.complete_checksums();
    lab.config(&xdp("\"r0\", \"r1\", \"r9\"", ""), "");
    let service = Service::start(&lab, &[]);
    lab.sh("ip link add r9 type veth peer name r9-");
    service.says("`r9` receives incomplete TCP and UDP checksums from its other end, r9-");
    has_lanes(&lab, &service, &["r0", "r1"]);
    lab.transfer(1, |_| ());
    let status = lab.strait("status").output().expect("strait starts");
    let text = both(&status);
    assert_eq!(status.status.code(), Some(4), "{text}");
    assert!(
        text.contains("it has no lane meanwhile") && text.contains("cure: `ethtool -K r9- tx off`"),
        "{text}"
    );
    lab.sh("ethtool -K r9- tx off >/dev/null");
    has_lanes(&lab, &service, &["r0", "r1", "r9"]);
    lab.must("status");
}

/// The driver of one interface has no XDP, and the file demands it. It alone has no lane.
#[test]
fn a_driver_without_xdp_takes_no_lane_from_others() {
    if !possible("no driver") {
        return;
    }
    let lab = Lab::new("driver");
    lab.config(&xdp("\"r7\", \"r9\"", ", xdp-mode = \"native\""), "");
    lab.sh("ip link add r7 type veth peer name r7-; ethtool -K r7- tx off gro on >/dev/null");
    let service = Service::start(&lab, &[]);
    lab.sh("ip link add r9 type bridge");
    service.says("`r9` has no lane, and its packets take the device: cannot attach");
    has_lanes(&lab, &service, &["r7"]);
    let status = lab.strait("status").output().expect("strait starts");
    assert!(both(&status).contains("no program is attached to `r9`"), "{}", both(&status));
    // What is repaired meanwhile is repaired, and the driver is complained of once.
    lab.sh("ip link set nat64 mtu 1300");
    service.says("repaired nat64: `nat64` has MTU 1300");
    std::thread::sleep(Duration::from_millis(2500));
    let said = service.said();
    assert_eq!(said.matches("take the device: cannot attach").count(), 1, "it is said once: {said}");
    assert!(!said.contains("no program is attached"), "nothing is called repaired that is not: {said}");
}

#[test]
fn what_is_in_the_way_is_reported_and_left_and_the_rest_is_repaired() {
    if !possible("in the way") {
        return;
    }
    let lab = Lab::new("way");
    lab.config(DEVICE, "");
    let service = Service::start(&lab, &[]);
    lab.sh("ip -6 route add 2001:db8:64::/96 via 2001:db8:1::2 metric 100; ip link set nat64 mtu 1300");
    service.says(
        "the route `2001:db8:64::/96 via 2001:db8:1::2 dev r0 proto boot metric 100` has the same prefix",
    );
    service.says("MTU 1300");
    std::thread::sleep(Duration::from_millis(700));
    let said = service.said();
    assert_eq!(said.matches("has the same prefix").count(), 1, "it is said once: {said}");
    assert!(lab.sh("ip -6 route").contains("2001:db8:64::/96 via 2001:db8:1::2"));
    lab.sh("ip -6 route del 2001:db8:64::/96 via 2001:db8:1::2 metric 100");
    service.says("is as its file says again");
    lab.transfer(1, |_| ());
}

#[test]
fn it_does_not_fight_for_ever() {
    if !possible("fight") {
        return;
    }
    let lab = Lab::new("fight");
    lab.config(DEVICE, "");
    let service = Service::start(&lab, &[]);
    let spoil = |most: Duration, enough: &str| {
        let begun = Instant::now();
        while begun.elapsed() < most && !service.said().contains(enough) {
            lab.sh("ip link set nat64 mtu 1400");
            std::thread::sleep(Duration::from_millis(20));
        }
        service.said().matches("repaired nat64").count()
    };
    let (first, said) = (spoil(PATIENCE, "another program changes this"), service.said());
    assert!(said.contains("repaired nat64 5 times: `nat64` has MTU 1400 and needs 65535"), "{said}");
    let later = spoil(Duration::from_secs(2), "nothing of this kind");
    assert!(later <= first + 2, "{first} and {later} repairs: {}", service.said());
}

/// The translator is reloaded with other mappings, TOS, MTU and lanes, replaced by another version, killed and started again, while small
/// datagrams and a TCP stream pass. Every datagram arrives, and once.
#[test]
fn no_packet_of_a_flood_is_lost_whatever_an_operator_does() {
    if !possible("flood") {
        return;
    }
    const MAP: &str = "[[map]]\nipv4 = \"203.0.113.0/24\"\nipv6 = \"2001:db8:200::/120\"";
    for attach in [DEVICE, EXPRESS] {
        let lab = Lab::new("flood");
        lab.config(attach, "");
        let mut service = Service::start(&lab, &[]);
        lab.transfer(1, |_| ());
        let flood = std::thread::scope(|scope| {
            let operator = scope.spawn(|| {
                for more in [
                    MAP,
                    "tos = 7",
                    "ipv6-mtu = 1400",
                    "routes = [\"192.0.2.128/25\"]",
                    "clamp-mss = false",
                    "",
                ] {
                    lab.config(attach, more);
                    let before = service.said().matches("was read again").count();
                    service.signal("HUP");
                    while service.said().matches("was read again").count() == before {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                lab.config(if attach == DEVICE { EXPRESS } else { DEVICE }, MAP);
                lab.must("reload");
                lab.config(attach, "");
                lab.must("reload");
                lab.outdate();
                lab.must("reload");
                service.signal("KILL");
                let _ = service.process.wait();
                service = Service::start(&lab, &[]);
            });
            scope.spawn(|| lab.transfer(20, |_| std::thread::sleep(Duration::from_millis(20))));
            lab.flood(|| operator.is_finished())
        });
        println!("{attach}: {flood:?}");
        assert!(flood.sent > 5000, "{flood:?}");
        assert_eq!((flood.lost, flood.repeated), (0, 0), "{attach}: {flood:?}; {}", service.said());
    }
}

/// What a service manager is told, in order.
#[test]
fn a_service_manager_hears_what_happens() {
    if !possible("notify") {
        return;
    }
    let lab = Lab::new("notify");
    lab.config(DEVICE, "");
    let manager = UnixDatagram::bind(lab.file("notify")).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let hears = |words: &str| {
        let mut buffer = [0; 1024];
        loop {
            let size = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("{words}: {error}"));
            let told = String::from_utf8_lossy(&buffer[..size]).into_owned();
            if told.contains(words) {
                return told;
            }
        }
    };
    let mut command = lab.strait("run");
    command.env("NOTIFY_SOCKET", lab.file("notify")).env("WATCHDOG_USEC", "2000000");
    let service = Service::wait(&lab, command);
    assert!(hears("READY=1").contains("STATUS=nat64 is up: 1 mappings, prefix 2001:db8:64::/96"));
    hears("WATCHDOG=1");
    service.signal("HUP");
    assert!(hears("RELOADING=1").contains("MONOTONIC_USEC="));
    hears("READY=1");
    lab.sh("ip -6 route add 2001:db8:64::/96 via 2001:db8:1::2 metric 100");
    hears("has the same prefix");
    service.says(
        "<4>the route `2001:db8:64::/96 via 2001:db8:1::2 dev r0 proto boot metric 100` has the same prefix",
    );
    service.signal("TERM");
    hears("STOPPING=1");
}

/// A package manager replaces the file of the program. What applies the new version's configuration makes the process go on as that version.
#[test]
fn it_continues_as_a_version_that_is_installed_meanwhile() {
    if !possible("new version") {
        return;
    }
    let lab = Lab::new("version");
    lab.config(DEVICE, "");
    let (installed, next) = (lab.file("strait"), lab.file("strait.new"));
    let copy = |to: &Path| harness::executable::copy(Path::new(env!("CARGO_BIN_EXE_strait")), to);
    copy(&installed);
    let service = Service::wait(&lab, lab.strait_from(&installed, "run", &lab.file("nat64.toml")));
    let runs =
        || std::fs::metadata(format!("/proc/{}/exe", service.process.id())).map(|file| file.ino()).ok();
    copy(&next);
    std::fs::rename(&next, &installed).expect("it is replaced");
    lab.config(DEVICE, "tos = 7");
    lab.must("reload");
    service.says("is a new version, which goes on here");
    let new = std::fs::metadata(&installed).expect("a file").ino();
    let begun = Instant::now();
    while runs() != Some(new) || service.said().matches(" is up: ").count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{new}: {}", service.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    lab.sh("ip link set nat64 mtu 1300");
    service.says("repaired nat64: `nat64` has MTU 1300");
    lab.transfer(1, |_| ());
    assert_eq!(service.end("TERM"), Some(0));
}

/// Somebody switches on a filter that drops what a lane translates. The packets take the device, until it is off again.
#[test]
fn lanes_that_would_lose_packets_are_taken_away_for_the_time_being() {
    if !possible("filter") {
        return;
    }
    let lab = Lab::new("filter");
    lab.config(EXPRESS, "");
    let service = Service::start(&lab, &[]);
    lab.sh("sysctl -qw net.ipv4.conf.r0.rp_filter=1");
    service.says("`r0` filters by reverse path strictly");
    service.says("repaired nat64: a lane on r0 is left over");
    lab.transfer(1, |_| ());
    lab.sh("sysctl -qw net.ipv4.conf.r0.rp_filter=0");
    service.says("no program is attached to `r0`, which shall have a lane");
    lab.transfer(1, |_| ());
    lab.must("status");
}

/// The process that replaces the program is killed at any moment. `run` completes what it has begun.
#[test]
fn an_upgrade_that_is_killed_beside_it_is_completed() {
    if !possible("killed upgrade") {
        return;
    }
    let lab = Lab::new("killed");
    lab.config(EXPRESS, "");
    let service = Service::start(&lab, &[]);
    let up = lab.state();
    lab.transfer(10, |round| {
        lab.outdate();
        let mut again = lab.strait("up").spawn().expect("strait starts");
        std::thread::sleep(Duration::from_millis(50 + 25 * round as u64));
        again.kill().expect("it is ours");
        again.wait().expect("it ends");
        std::thread::sleep(Duration::from_millis(100));
    });
    lab.must("up");
    lab.sh("ip link set nat64 mtu 1300");
    service.says("repaired nat64: `nat64` has MTU 1300");
    lab.transfer(1, |_| ());
    assert_eq!(lab.state(), up);
    assert_eq!(service.end("TERM"), Some(0));
    assert!(!lab.pins("nat64").exists());
}
