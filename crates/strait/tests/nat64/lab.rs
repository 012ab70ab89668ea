//! Three namespaces in a row, as in the demo: an IPv6-only client, a router, and an IPv4-only server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use io::bpf::{Hook, Instance};
use io::netns::Namespace;
use io::workdir::WorkDir;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce, sockopt::UdpGsoSegment};

/// The address of the server for the client.
pub const SERVER6: &str = "2001:db8:64::c000:202";
/// The address of the client for the server.
pub const CLIENT4: &str = "198.51.100.2";
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of datagrams.
#[derive(Debug)]
pub struct Flood {
    pub sent: u32,
    pub lost: u32,
    pub repeated: u32,
}

/// A lab, which is removed when the value is dropped.
pub struct Lab {
    pub client: Namespace,
    pub router: Namespace,
    pub server: Namespace,
    pub files: WorkDir,
}

/// Whether a test can run. Prints the reason if it cannot.
pub fn possible(name: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = if !status.lines().any(|line| line.starts_with("Uid:\t0\t0")) {
        "needs root"
    } else if Command::new("ip").arg("-V").output().is_err() {
        "needs iproute2"
    } else if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        "needs IPv6"
    } else {
        return true;
    };
    println!("skipped: nat64 {name}: {missing}");
    false
}

impl Lab {
    pub fn new(name: &str) -> Lab {
        let space = |role: &str| {
            let name = format!("st-e2e-{}-{name}-{role}", std::process::id());
            Namespace::temporary(&name).expect("a namespace")
        };
        let files = WorkDir::named(&format!("st-e2e-{name}-")).expect("a directory");
        let lab = Lab { client: space("c"), router: space("r"), server: space("s"), files };
        // Duplicate address detection is off. It would delay link-local addresses, and thus neighbour discovery, by a second.
        for space in [&lab.client, &lab.router, &lab.server] {
            let off = || io::link::sysctl::set("net/ipv6/conf/default/accept_dad", "0");
            space.run(off).expect("a namespace").expect("a sysctl");
        }
        let router = lab.router.name().to_owned();
        for (end, mine, other) in [(&lab.client, "c0", "r0"), (&lab.server, "s0", "r1")] {
            let there = end.name();
            ip(&format!("-n {router} link add {other} type veth peer name {mine} netns {there}"));
            ip(&format!("-n {router} link set {other} up"));
            ip(&format!("-n {there} link set {mine} up"));
            ip(&format!("-n {there} link set lo up"));
        }
        let (client, server) = (lab.client.name(), lab.server.name());
        ip(&format!("-n {client} addr add 2001:db8:1::2/64 dev c0 nodad"));
        ip(&format!("-n {client} addr add 2001:db8:100::2/128 dev lo nodad"));
        ip(&format!("-n {client} route add default via 2001:db8:1::1 src 2001:db8:100::2"));
        ip(&format!("-n {server} addr add 192.0.2.2/24 dev s0"));
        ip(&format!("-n {server} route add default via 192.0.2.1"));
        ip(&format!("-n {router} addr add 2001:db8:1::1/64 dev r0 nodad"));
        ip(&format!("-n {router} addr add 192.0.2.1/24 dev r1"));
        ip(&format!("-n {router} route add 2001:db8:100::/120 via 2001:db8:1::2"));
        lab.router
            .run(|| {
                for key in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                    io::link::sysctl::set(key, "1").expect("forwarding");
                }
            })
            .expect("the router");
        lab
    }

    /// Makes the ends of client and server send complete checksums, and take frames of drivers, as XDP needs it.
    pub fn complete_checksums(&self) {
        self.offloads(false);
    }

    /// Makes the ends of client and server leave checksums incomplete.
    pub fn incomplete_checksums(&self) {
        self.offloads(true);
    }

    fn offloads(&self, checksums: bool) {
        for (space, link) in [(&self.client, "c0"), (&self.server, "s0")] {
            let set = || {
                io::link::features::set_tx_checksum(link, checksums)?;
                io::link::features::set_gro(link, true)
            };
            space.run(set).expect("a namespace").expect("offloads");
        }
    }

    /// Pings the server from the client, and returns the hop limits of the answers.
    pub fn ping(&self, count: usize) -> Vec<u32> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.client.name(), "ping", "-i", "0.05", "-W", "2", "-c"]);
        let output = command.arg(count.to_string()).arg(SERVER6).output().expect("ping starts");
        let text = both(&output);
        let ttl = |line: &str| line.split("ttl=").nth(1)?.split(' ').next()?.parse().ok();
        let found: Vec<u32> = text.lines().filter_map(ttl).collect();
        assert!(output.status.success(), "{text}");
        found
    }

    /// Removes the link between client and router, and makes it again.
    pub fn remake_client_link(&self) {
        let (client, router) = (self.client.name(), self.router.name());
        ip(&format!("-n {router} link del r0"));
        ip(&format!("-n {router} link add r0 type veth peer name c0 netns {client}"));
        ip(&format!("-n {router} link set r0 up"));
        ip(&format!("-n {client} link set c0 up"));
        ip(&format!("-n {client} addr add 2001:db8:1::2/64 dev c0 nodad"));
        ip(&format!("-n {client} route add default via 2001:db8:1::1 src 2001:db8:100::2"));
        ip(&format!("-n {router} addr add 2001:db8:1::1/64 dev r0 nodad"));
        ip(&format!("-n {router} route add 2001:db8:100::/120 via 2001:db8:1::2"));
        self.complete_checksums();
    }

    /// Writes `nat64.toml` with this `attach` line and further lines.
    pub fn config(&self, attach: &str, more: &str) -> PathBuf {
        let text = format!(
            "[nat64]\nmode = \"stateless\"\nprefix = \"2001:db8:64::/96\"\nattach = {attach}\n{more}\n\
             [[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:100::/120\"\n"
        );
        let file = self.files.path().join("nat64.toml");
        std::fs::write(&file, text).expect("a file");
        file
    }

    /// Writes `nat64.toml` for mode `stateful`: the client shares one address, and its UDP port 9 has a static binding.
    pub fn stateful(&self, attach: &str, more: &str) -> PathBuf {
        let text = format!(
            "[nat64]\nmode = \"stateful\"\nprefix = \"2001:db8:64::/96\"\npool = [\"{CLIENT4}\"]\nattach = {attach}\n{more}\n\
             [[binding]]\nprotocol = \"udp\"\nipv4 = \"{CLIENT4}:9\"\nipv6 = \"[2001:db8:100::2]:9\"\n"
        );
        let file = self.files.path().join("nat64.toml");
        std::fs::write(&file, text).expect("a file");
        file
    }

    /// The sessions or bindings of the translator, as `verb --json` with these options prints them.
    pub fn flows(&self, verb: &str, options: &[&str]) -> Vec<serde_json::Value> {
        let output = self.strait(verb).arg("--json").args(options).output().expect("strait starts");
        assert!(output.status.success(), "{verb}: {}", both(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// A path for a file of a test, which is removed with the lab.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// A command `strait nat64 VERB` in the router, which is not started yet.
    pub fn strait(&self, verb: &str) -> Command {
        self.strait_with(verb, &self.file("nat64.toml"))
    }

    /// Like [`Lab::strait`], with another file.
    pub fn strait_with(&self, verb: &str, file: &Path) -> Command {
        self.strait_from(Path::new(env!("CARGO_BIN_EXE_strait")), verb, file)
    }

    /// The same with a copy of the program.
    pub fn strait_from(&self, program: &Path, verb: &str, file: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.router.path().display())).arg(program);
        command.args(["nat64", verb, "--config"]).arg(file);
        command
    }

    /// Like [`Lab::strait`], in a shell of mount and process namespaces of its own, after these commands.
    pub fn strait_within(&self, before: &str, verb: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.router.path().display()));
        command.args(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-e", "-c"]);
        command.arg(format!("{before}\nexec \"$@\"")).arg("sh").arg(env!("CARGO_BIN_EXE_strait"));
        command.args(["nat64", verb, "--config"]).arg(self.files.path().join("nat64.toml"));
        command
    }

    /// The name of the client's namespace.
    pub fn client(&self) -> &str {
        self.client.name()
    }

    /// The name of the server's namespace.
    pub fn server(&self) -> &str {
        self.server.name()
    }

    /// Runs a shell command in the router, which must succeed.
    pub fn sh(&self, script: &str) -> String {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.router.path().display())).args(["sh", "-e", "-c", script]);
        let output = command.output().expect("sh starts");
        assert!(output.status.success(), "{script}: {}", both(&output));
        // iproute2 complains of the namespace of a peer now and then.
        let noise = |line: &&str| !line.contains("Peer netns reference is invalid");
        both(&output).split_inclusive('\n').filter(noise).collect()
    }

    /// The interfaces, addresses and routes of the router that are not the translator's.
    pub fn theirs(&self) -> String {
        let all = self.sh("ip -o link; ip -o addr; ip route; ip -6 route; ip -6 route show table local");
        // Link-local addresses come with delay. iproute2 complains of the namespace of a peer now and then.
        let skip = ["nat64", "proto 64", "fe80", "ff00", "tentative", "Peer netns reference"];
        let lines = all.lines().filter(|line| !skip.iter().any(|word| line.contains(word)));
        lines.map(|line| line.split(" qdisc ").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    /// The directory of the translator's pins.
    pub fn pins(&self, device: &str) -> PathBuf {
        let id = self.router.run(|| io::netns::id().expect("an id")).expect("the router");
        PathBuf::from(format!("/sys/fs/bpf/strait/{device}-{id}"))
    }

    /// Makes the running program look like another version's.
    pub fn outdate(&self) {
        let pins = self.pins("nat64").display().to_string();
        self.sh(&format!("rmdir {pins}/object-*; mkdir {pins}/object-00000000000000000000000000000000"));
    }

    /// Detaches the program from its device.
    pub fn detach(&self, device: &str) {
        let index = self.router.run(|| io::link::index_of(device).expect("a device")).expect("the router");
        let name = self.pins(device).file_name().expect("a name").to_string_lossy().into_owned();
        let instance = Instance::open(&name).expect("it is up");
        instance.detach_index(index, Hook::Egress).expect("it is attached");
    }

    /// Runs a command, which must succeed, and returns its output.
    pub fn must(&self, verb: &str) -> String {
        let output = self.strait(verb).output().expect("strait starts");
        assert!(output.status.success(), "{verb}: {}", both(&output));
        both(&output)
    }

    /// The state of the router: links, routes, filters and pins.
    pub fn state(&self) -> String {
        let router = self.router.name();
        let show = |words: &str| out(Command::new("ip").args(format!("-n {router} {words}").split(' ')));
        let id = self.router.run(|| io::netns::id().expect("an id")).expect("the router");
        let pins = std::fs::read_dir("/sys/fs/bpf/strait").into_iter().flatten().flatten();
        let pins = pins.map(|p| p.file_name().to_string_lossy().into_owned());
        let mut pins: Vec<_> = pins.filter(|p| p.ends_with(&format!("-{id}"))).collect();
        pins.sort();
        let filters =
            ["r0", "r1"].map(|i| out(Command::new("tc").args(["-n", router, "qdisc", "show", "dev", i])));
        // Interfaces come up and get link-local addresses after some time, so these are omitted.
        let links: Vec<_> =
            show("-br link").lines().filter_map(|l| Some(l.split(' ').next()?.to_owned())).collect();
        let routes = show("-6 route");
        let routes: Vec<_> = routes.lines().filter(|l| !l.contains("fe80") && !l.contains("ff00")).collect();
        format!("{links:?}{}{routes:?}{pins:?}{filters:?}", show("route"))
    }

    /// Sends datagrams to the server one after the other until `stop` says so, and returns how many were sent and how many arrived.
    pub fn count_datagrams(&self, mut stop: impl FnMut() -> bool + Send) -> (u32, u32) {
        let server = self.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        let client = self.client.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
        let port = server.local_addr().expect("bound").port();
        // The test is about the translator, and not about the socket's buffer.
        setsockopt(&server, RcvBufForce, &(64 << 20)).expect("root may");
        server.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        let receiver = std::thread::spawn(move || {
            let (mut buffer, mut arrived) = ([0; 64], 0);
            while server.recv(&mut buffer).is_ok() {
                arrived += 1;
            }
            arrived
        });
        let mut sent = 0;
        while !stop() {
            client.send_to(b"datagram", (SERVER6, port)).expect("sends");
            sent += 1;
            // The queue between two interfaces of a machine has room for a thousand packets (net.core.netdev_max_backlog).
            std::thread::sleep(Duration::from_micros(50));
        }
        (sent, receiver.join().expect("the receiver"))
    }

    /// Sends small numbered datagrams to the server as fast as it takes them, until `stop` says so, and says what arrived.
    pub fn flood(&self, mut stop: impl FnMut() -> bool + Send) -> Flood {
        let server = self.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        let client = self.client.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
        let port = server.local_addr().expect("bound").port();
        // The test is about the translator, and not about the socket's buffer.
        setsockopt(&server, RcvBufForce, &(64 << 20)).expect("root may");
        server.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        let receiver = std::thread::spawn(move || {
            let (mut buffer, mut times) = ([0; 64], Vec::<u8>::new());
            while let Ok(size) = server.recv(&mut buffer) {
                let number = u32::from_be_bytes(buffer[..size].try_into().expect("four bytes")) as usize;
                times.resize(times.len().max(number + 1), 0);
                times[number] += 1;
            }
            times
        });
        let mut sent = 0u32;
        while !stop() {
            for _ in 0..16 {
                client.send_to(&sent.to_be_bytes(), (SERVER6, port)).expect("sends");
                sent += 1;
            }
            // The queue between two interfaces of a machine has room for a thousand packets (net.core.netdev_max_backlog).
            std::thread::sleep(Duration::from_micros(100));
        }
        let times = receiver.join().expect("the receiver");
        let arrived = times.iter().filter(|times| **times > 0).count() as u32;
        Flood {
            sent,
            lost: sent - arrived,
            repeated: times.iter().filter(|times| **times > 1).count() as u32,
        }
    }

    /// Sends this number of megabytes from the client to the server, which must receive all of them correctly. Calls `between` after each.
    pub fn transfer(&self, megabytes: usize, mut between: impl FnMut(usize) + Send) {
        let listener =
            self.server.run(|| TcpListener::bind("192.0.2.2:0").expect("listens")).expect("server");
        let port = listener.local_addr().expect("bound").port();
        let to: SocketAddr = format!("[{SERVER6}]:{port}").parse().expect("an address");
        let counter = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("accepts");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("reads");
            (all, from)
        });

        let chunk: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let connected = self.client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).expect("client");
        let mut stream = connected.expect("connects");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        for round in 0..megabytes {
            stream.write_all(&chunk).expect("it keeps flowing");
            between(round);
        }
        drop(stream);
        let (all, from) = counter.join().expect("the server");
        assert_eq!(all.len(), megabytes * chunk.len());
        assert!(all.chunks(chunk.len()).all(|c| c == chunk), "what arrives is what was sent");
        assert_eq!(from.ip().to_string(), CLIENT4);
    }

    /// Sends a datagram of a size from each host to the other, which need not arrive: the first one may tell the sender the MTU of the path.
    pub fn learn(&self, size: usize) {
        for (space, local, to) in [(&self.client, "[::]:0", SERVER6), (&self.server, "0.0.0.0:0", CLIENT4)] {
            let socket = space.run(|| UdpSocket::bind(local).expect("binds")).expect("a namespace");
            let _ = socket.send_to(&vec![0x5a; size], (to, 9));
        }
        std::thread::sleep(Duration::from_millis(2));
    }

    /// Sends a datagram of a size to the server and back. Large ones need fragments.
    pub fn datagram(&self, size: usize) {
        let server = self.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        let client = self.client.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        }
        let sent = vec![0x5a; size];
        let mut buffer = vec![0; size + 1];
        let port = server.local_addr().expect("bound").port();
        client.send_to(&sent, (SERVER6, port)).expect("sends");
        let (n, from) =
            server.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{size} bytes do not arrive: {e}"));
        assert_eq!(buffer[..n], sent);
        server.send_to(&sent, from).expect("sends back");
        let (n, _) =
            client.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{size} bytes do not come back: {e}"));
        assert_eq!(buffer[..n], sent);
    }
}

impl Lab {
    /// Sends datagrams to ports that nobody listens on, both ways. Each sender learns it from an ICMP error.
    pub fn refused(&self) {
        for (space, local, to) in [(&self.client, "[::]:0", SERVER6), (&self.server, "0.0.0.0:0", CLIENT4)] {
            let socket = space.run(|| UdpSocket::bind(local).expect("binds")).expect("a namespace");
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            socket.connect((to, 9)).expect("connects");
            socket.send(b"is anybody there?").expect("sends");
            let error = socket.recv(&mut [0; 16]).expect_err("nobody is");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{to}: {error}");
        }
    }

    /// Sends datagrams to the server and back. The sender passes several to the kernel at once, as QUIC servers do (UDP_SEGMENT).
    pub fn datagrams_at_once(&self, size: u16, count: usize) {
        let server = self.server.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("server");
        let client = self.client.run(|| UdpSocket::bind("[::]:0").expect("binds")).expect("client");
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            setsockopt(socket, UdpGsoSegment, &size.into()).expect("UDP_SEGMENT");
        }
        let sent: Vec<u8> = (0..count).flat_map(|i| vec![i as u8; size.into()]).collect();
        let receive = |socket: &UdpSocket, who: &str| {
            let mut buffer = vec![0; sent.len()];
            let mut from = None;
            for i in 0..count {
                let (n, by) =
                    socket.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{who}, datagram {i}: {e}"));
                assert_eq!(buffer[..n], vec![i as u8; size.into()], "{who}, datagram {i}");
                from = Some(by);
            }
            from.expect("a datagram")
        };
        let port = server.local_addr().expect("bound").port();
        match client.send_to(&sent, (SERVER6, port)) {
            // Before Linux 6.11 the sender's kernel does this only where a card completes checksums.
            Err(error) if error.raw_os_error() == Some(nix::libc::EIO) => return,
            other => drop(other.expect("sends")),
        }
        let from = receive(&server, "server");
        server.send_to(&sent, from).expect("sends back");
        receive(&client, "client");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that failed leaves its translator running, because pins outlive namespaces.
        let _ = self.strait("down").output();
    }
}

/// Runs `ip`, which must succeed.
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split(' ')).output().expect("ip starts");
    assert!(output.status.success(), "ip {words}: {}", both(&output));
}

fn out(command: &mut Command) -> String {
    command.output().map(|o| both(&o)).unwrap_or_default()
}

/// The standard output and the standard error of a process.
pub fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
