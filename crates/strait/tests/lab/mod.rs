//! Hosts around a switch that runs `strait run`, in network namespaces.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use io::link::features;
use io::netns::Namespace;
use io::workdir::WorkDir;

pub const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the file with what the last run has printed, in [`Lab::files`].
pub const OUTPUT: &str = "output";

/// Hosts, each connected to a switch by a veth pair: `h0` to `s0`, `h1` to `s1`, and so on.
pub struct Lab {
    pub hosts: Vec<Namespace>,
    pub switch: Namespace,
    pub files: WorkDir,
}

pub fn possible(name: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = if !status.lines().any(|line| line.starts_with("Uid:\t0\t0")) {
        "needs root"
    } else if Command::new("ip").arg("-V").output().is_err() {
        "needs iproute2"
    } else if Command::new("clang").arg("--version").output().is_err() {
        "needs clang"
    } else {
        // `ip netns exec` makes a mount namespace: a BPF file system that a switch mounts there ends with it. Without one, the targets in the
        // kernel say so.
        let _ = io::bpf::hold();
        return true;
    };
    println!("skipped: {name}: {missing}");
    false
}

pub fn ip(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Lab {
    /// Makes the hosts, and the program `text` for the switch.
    pub fn new(name: &str, hosts: usize, text: &str) -> Lab {
        let space = |role: &str| {
            Namespace::temporary(&format!("st-xdp-{}-{name}-{role}", std::process::id()))
                .expect("a namespace")
        };
        let files = WorkDir::named(&format!("st-xdp-{name}-")).expect("a directory");
        files.write("program.p4", text.as_bytes()).expect("a file");
        let hosts = (0..hosts).map(|i| space(&format!("h{i}"))).collect();
        let lab = Lab { hosts, switch: space("s"), files };
        let switch = lab.switch.name();
        for (i, host) in lab.hosts.iter().enumerate() {
            let host = host.name();
            ip(&format!("-n {switch} link add s{i} type veth peer name h{i} netns {host}"));
            ip(&format!("-n {switch} link set s{i} up"));
            ip(&format!("-n {host} link set h{i} up"));
            ip(&format!("-n {host} addr add 10.9.0.{}/24 dev h{i}", i + 1));
        }
        lab
    }

    /// Switches the completion of checksums and GRO of a host's interface.
    pub fn set(&self, host: usize, tx: bool, gro: bool) {
        let interface = format!("h{host}");
        let set =
            || features::set_tx_checksum(&interface, tx).and_then(|()| features::set_gro(&interface, gro));
        self.hosts[host].run(set).expect("a namespace").expect("veths have these offloads");
    }

    /// Starts the program on xdp. Returns the running process and its first lines, or the error of one that ended.
    pub fn start(&self, more: &[&str]) -> Result<(Child, String), String> {
        // Both forms of a port mean the same.
        self.start_on("xdp", |i| if i == 0 { "xdp:" } else { "" }, more)
    }

    /// Starts the program on a target. `driver` says what stands before the name of the interface of each port.
    pub fn start_on(
        &self,
        target: &str,
        driver: impl Fn(usize) -> &'static str,
        more: &[&str],
    ) -> Result<(Child, String), String> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.switch.name(), env!("CARGO_BIN_EXE_strait"), "run"]);
        command.arg(self.files.path().join("program.p4"));
        command.args(["--target", target]).args(more);
        for i in 0..self.hosts.len() {
            command.arg("--port").arg(format!("{i}={}s{i}", driver(i)));
        }
        let output = std::fs::File::create(self.files.path().join(OUTPUT)).expect("a file");
        let mut child = command.stderr(Stdio::piped()).stdout(output).spawn().expect("strait starts");
        let mut told = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        while lines.read_line(&mut told).expect("text") > 0 {
            if told.contains("Ctrl-C ends it") {
                return Ok((child, told));
            }
        }
        child.wait().expect("it ended");
        Err(told)
    }

    /// Sends data from one host to the other and back, by TCP.
    pub fn tcp(&self, from: usize) {
        let address = SocketAddr::from((Ipv4Addr::new(10, 9, 0, 2 - from as u8), 4711));
        self.tcp_to(from, address, address);
    }

    /// Sends data from a host to the address `to` and back, by TCP. The other host listens at `address`.
    pub fn tcp_to(&self, from: usize, to: SocketAddr, address: SocketAddr) {
        let (client, server) = (&self.hosts[from], &self.hosts[1 - from]);
        let listener = server.run(|| TcpListener::bind(address)).expect("a namespace").expect("a listener");
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 3) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
                let mut got = vec![0; data.len()];
                stream.read_exact(&mut got).expect("data arrives");
                assert!(got == data, "the server gets other bytes");
                stream.write_all(&got).expect("data leaves");
            });
            let connect = || TcpStream::connect_timeout(&to, PATIENCE);
            let connected = client.run(connect).expect("a namespace");
            let Ok(mut stream) = connected else {
                // The listener would wait for ever.
                let _ = server.run(|| TcpStream::connect_timeout(&address, PATIENCE));
                panic!("no connection: {connected:?}");
            };
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream.write_all(&data).expect("data leaves");
            let mut got = vec![0; data.len()];
            stream.read_exact(&mut got).expect("data comes back");
            assert!(got == data, "the client gets other bytes");
        });
    }

    /// Whether an XDP program is attached to an interface of the switch.
    pub fn has_program(&self, interface: &str) -> bool {
        let show = Command::new("ip").args(["-n", self.switch.name(), "link", "show", interface]).output();
        String::from_utf8_lossy(&show.expect("ip").stdout).contains("prog/xdp")
    }
}

/// Ends a run by a signal, and waits for it. The process is a child of `ip`, which becomes it.
pub fn end(mut child: Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
