//! `strait nat64 up --target native`: the translator in a process, with a TUN interface.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::lab::{Lab, both, possible};
use crate::operator::fails;
use crate::{DEVICE, kernel};

/// A translator in a process of the router. It is killed when the value is dropped.
pub struct Native(Child);

impl Native {
    /// Starts it, and waits until packets are routed to it.
    pub fn start(lab: &Lab) -> Self {
        Self::start_with(lab, &[])
    }

    /// The same with further options.
    pub fn start_with(lab: &Lab, options: &[&str]) -> Self {
        let mut command = lab.strait("up");
        command.args(["--target", "native", "--json"]).args(options).process_group(0).stdout(Stdio::piped());
        let native = Self(command.spawn().expect("strait starts"));
        let ready = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            lab.sh("ip route show proto 64").contains("198.51.100.")
        });
        assert!(ready, "the native target does not start");
        native
    }

    /// Ends it, and returns what it has counted.
    pub fn end(mut self) -> serde_json::Value {
        let ended = Command::new("kill").arg(self.0.id().to_string()).status().expect("kill starts");
        assert!(ended.success());
        let mut said = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut said).expect("reads");
        assert!(self.0.wait().expect("it ends").success(), "{said}");
        serde_json::from_str(said.lines().last().expect("a line")).expect("JSON")
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lab(name: &str) -> Option<Lab> {
    if !possible(name) {
        return None;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("skipped: nat64 {name}: needs /dev/net/tun");
        return None;
    }
    let lab = Lab::new(name);
    lab.config(DEVICE, "");
    Some(lab)
}

#[test]
fn it_is_seen_and_not_disturbed() {
    let Some(lab) = lab("beside") else { return };
    let native = Native::start(&lab);
    let status = lab.strait("status").output().expect("strait starts");
    let up = lab.strait("up").output().expect("strait starts");
    let down = lab.strait("down").output().expect("strait starts");
    lab.transfer(1, |_| ());
    drop(native);
    assert!(status.status.success() && both(&status).contains("is up in process"), "{}", both(&status));
    assert!(!up.status.success() && both(&up).contains("`nat64`, a TUN"), "{}", both(&up));
    assert!(!down.status.success() && both(&down).contains("translates there"), "{}", both(&down));
    // The other way round.
    lab.must("up");
    let running = lab.state();
    let mut native = lab.strait("up");
    let said = fails(native.args(["--target", "native"]), 1);
    assert!(said.contains("a veth") && said.contains("strait nat64 down --device nat64"), "{said}");
    assert_eq!(lab.state(), running);
}

/// Datagrams that a sender passes to the kernel at once (UDP_SEGMENT) are one packet until they leave the router, with a checksum that is completed
/// then. It is longer than `lowest-ipv6-mtu` and has DF clear, so that a packet of this length would be fragmented.
#[test]
fn packets_of_segments_without_df_stay_whole() {
    let Some(lab) = lab("segments") else { return };
    // Sockets of the server that are opened from now on leave DF clear.
    let df_clear = || io::link::sysctl::set("net/ipv4/ip_no_pmtu_disc", "1");
    lab.server.run(df_clear).expect("the server").expect("a sysctl");
    let native = Native::start(&lab);
    const COUNT: usize = 40;
    lab.datagrams_at_once(1200, COUNT);
    let counted = native.end();
    // TUN interfaces take such packets whole from Linux 6.2 on.
    let sent = counted["sent"].as_u64().expect("a number");
    assert!(kernel() < (6, 2) || sent < COUNT as u64, "{counted}");
}
