//! `strait nat64 run`: a process that keeps the translator as its file says, and without which packets are still translated.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::lab::{Lab, both, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
const EXPRESS: &str = "{ device = \"nat64\", express = [\"r0\", \"r1\"] }";
const PATIENCE: Duration = Duration::from_secs(10);

/// A `run` in the router of a lab. It is killed when the value is dropped.
struct Service {
    process: Child,
    said: std::path::PathBuf,
}

impl Service {
    /// Starts `run` with these options, and waits until it says that the translator is up.
    fn start(lab: &Lab, options: &[&str]) -> Self {
        let said = lab.file("run.log");
        let log = File::create(&said).expect("a file");
        let mut command = lab.strait("run");
        command.args(options).stdout(log.try_clone().expect("a file")).stderr(log);
        let service = Self { process: command.spawn().expect("strait starts"), said };
        service.says(" is up: ");
        service
    }

    /// All that it has said.
    fn said(&self) -> String {
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
    fn end(mut self, name: &str) -> Option<i32> {
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
    let file = lab.config(DEVICE, "");
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
    service.says("the route `203.0.113.0/24 dev nat64 proto 64 mtu 1472` is missing");
    assert!(lab.must("status").contains("2 mappings"));

    // A hangup reads the file again; one that is not good changes nothing.
    let running = lab.state();
    std::fs::write(&file, "[nat64]\nmode = 7\n").expect("a file");
    service.signal("HUP");
    service.says("error: ");
    assert!(service.said().contains("nothing was changed"), "{}", service.said());
    assert_eq!(lab.state(), running);
    lab.config(DEVICE, "");
    service.signal("HUP");
    service.says("was read again and applied");
    assert!(lab.must("status").contains("1 mappings"));
    assert_eq!(service.end("TERM"), Some(0));
}
