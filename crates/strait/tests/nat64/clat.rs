//! Tests mode `clat`: the client of the lab has IPv6 only, and reaches the server by IPv4 through two translators, its own and the router's.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::lab::{Lab, both, ip, possible};

const DEVICE: &str = "{ device = \"nat64\" }";
const PREFIX: &str = "2001:db8:64::/96";
/// The CLAT's address, which the router translates to `OUTSIDE`.
const OWN: &str = "2001:db8:1::c1a7";
const OUTSIDE: &str = "203.0.113.1";
const SERVER: &str = "192.0.2.2";
const PATIENCE: Duration = Duration::from_secs(10);

/// The client as a host with a CLAT.
struct Host<'a> {
    lab: &'a Lab,
    file: PathBuf,
}

impl<'a> Host<'a> {
    fn new(lab: &'a Lab) -> Self {
        Self { lab, file: lab.files.path().join("clat.toml") }
    }

    /// Writes the file: lines of `[nat64]`, and lines of `[clat]`.
    fn config(&self, nat64: &str, clat: &str) {
        let text = format!("[nat64]\nmode = \"clat\"\n{nat64}\n[clat]\n{clat}\n");
        std::fs::write(&self.file, text).expect("a file");
    }

    /// A command in the host.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.lab.client.path().display())).arg(program);
        command
    }

    fn strait(&self, verb: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_strait"));
        command.args(["nat64", verb, "--config"]).arg(&self.file);
        command
    }

    fn must(&self, verb: &str) -> String {
        succeeds(&mut self.strait(verb))
    }

    fn sh(&self, script: &str) -> String {
        succeeds(self.command("sh").args(["-e", "-c", script]))
    }

    /// What of the host belongs to others, and to its kernel.
    fn state(&self) -> String {
        let all = self.sh(
            "ip -br link; ip -o addr; ip route; ip -6 route; ip -6 neigh show proxy; cd /proc/sys/net/ipv6/conf; \
             grep . all/forwarding c0/forwarding c0/accept_ra c0/proxy_ndp",
        );
        // Link-local addresses come with delay, times pass, and the names of the ends of a veth depend on the caller.
        let skip = ["fe80", "ff00", "valid_lft", "Peer netns"];
        let lines = all.lines().filter(|line| !skip.iter().any(|word| line.contains(word)));
        lines
            .map(|line| line.split_whitespace().next().map_or("", |_| line.trim_end()))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn ping(&self) -> Output {
        self.command("ping").args(["-c", "1", "-W", "5", SERVER]).output().expect("ping starts")
    }

    /// Sends and receives by TCP and UDP, by IPv4. Returns the address that the server sees.
    fn works(&self) -> String {
        let answer = self.ping();
        assert!(answer.status.success(), "{}", both(&answer));
        self.datagrams();
        self.transfer()
    }

    /// A megabyte each way.
    fn transfer(&self) -> String {
        let (client, server) = (&self.lab.client, &self.lab.server);
        let listener = server.run(|| TcpListener::bind((SERVER, 0)).expect("listens")).expect("server");
        let to = listener.local_addr().expect("bound");
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let expected = data.clone();
        let echo = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("accepts");
            let mut all = vec![0; 1_000_000];
            stream.read_exact(&mut all).expect("reads");
            stream.write_all(&all).expect("writes");
            from.ip().to_string()
        });
        let connected = client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).expect("client");
        let mut stream = connected.expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        assert_eq!(stream.local_addr().expect("bound").ip().to_string(), "192.0.0.1");
        stream.write_all(&data).expect("writes");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("reads");
        assert!(all == expected, "what comes back is what was sent");
        echo.join().expect("the server")
    }

    /// Datagrams there and back, of which the largest ones need fragments.
    fn datagrams(&self) {
        let (client, server) = (&self.lab.client, &self.lab.server);
        let server = server.run(|| UdpSocket::bind((SERVER, 0)).expect("binds")).expect("server");
        let client = client.run(|| UdpSocket::bind("0.0.0.0:0").expect("binds")).expect("client");
        let to = server.local_addr().expect("bound");
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        }
        let mut buffer = vec![0; 5000];
        for size in [1, 1200, 4000] {
            client.send_to(&vec![7; size], to).expect("sends");
            let (length, from) =
                server.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{size}, there: {e}"));
            assert_eq!(buffer[..length], vec![7; size]);
            server.send_to(&vec![8; size], from).expect("sends back");
            let (length, _) = client.recv_from(&mut buffer).unwrap_or_else(|e| panic!("{size}, back: {e}"));
            assert_eq!(buffer[..length], vec![8; size]);
        }
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        // A test that failed leaves its translator running, because pins outlive namespaces.
        let _ = self.strait("down").output();
    }
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", both(&output));
    both(&output)
}

/// A process that ends with the value.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lab whose router translates the CLAT's address by Strait.
fn lab(name: &str) -> Lab {
    let lab = Lab::new(name);
    // Only the CLAT gives the client addresses of its own.
    let client = lab.client.name();
    ip(&format!("-n {client} addr del 2001:db8:100::2/128 dev lo"));
    ip(&format!("-n {client} -6 route replace default via 2001:db8:1::1"));
    lab.config(DEVICE, &format!("[[map]]\nipv4 = \"{OUTSIDE}\"\nipv6 = \"{OWN}\""));
    lab.must("up");
    lab
}

#[test]
fn a_given_prefix_needs_no_process() {
    if !possible("clat") {
        return;
    }
    let lab = lab("clat");
    let host = Host::new(&lab);
    let before = host.state();
    host.config(&format!("prefix = \"{PREFIX}\""), &format!("ipv6 = \"{OWN}\""));
    let plan = succeeds(host.strait("check").arg("--diff"));
    for line in [
        "+ address   192.0.0.1/32",
        "~ sysctl    net.ipv6.conf.all.forwarding",
        "+ neighbour proxy",
        "+ route     default",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    assert_eq!(host.state(), before, "a plan changes nothing");
    host.must("up");
    assert_eq!(host.works(), OUTSIDE);
    let running = host.state();
    host.must("up");
    assert_eq!(host.state(), running);
    assert!(succeeds(host.strait("check").arg("--diff")).contains("nothing would change"));
    let status = host.must("status");
    assert!(
        status.contains("clat is up")
            && status.contains(&format!("192.0.0.1 is {OWN} behind c0; prefix from the file")),
        "{status}"
    );

    // Somebody takes away what it needs.
    host.sh(&format!("ip -6 neigh del proxy {OWN} dev c0; ip addr del 192.0.0.1/32 dev clat; sysctl -qw net.ipv6.conf.all.forwarding=0"));
    let said = both(&host.strait("status").output().expect("strait starts"));
    for problem in ["nobody answers", "lacks its address", "forwarding is 0", "`default dev clat"] {
        assert!(said.contains(problem), "{problem}: {said}");
    }
    host.must("up");
    assert_eq!(host.works(), OUTSIDE);
    host.must("down");
    assert_eq!(host.state(), before, "nothing is left");
}

/// The address is not of the uplink's network, but routed to the host. The host has native IPv4, which stays first.
#[test]
fn native_ipv4_comes_first() {
    if !possible("native first") {
        return;
    }
    let lab = lab("first");
    let host = Host::new(&lab);
    host.sh("ip addr add 198.18.0.2/24 dev c0; ip route add default via 198.18.0.1 metric 600");
    let before = host.state();
    host.config(&format!("prefix = \"{PREFIX}\""), "ipv6 = \"2001:db8:100::7\"\nipv4 = \"192.0.0.4\"");
    let said = host.must("up");
    assert!(said.contains("warning: packets take the route `default via 198.18.0.1"), "{said}");
    assert!(host.sh("ip route get 192.0.2.2").contains("via 198.18.0.1"));
    assert!(!host.sh("ip -6 neigh show proxy").contains("2001"), "nobody asks for a routed address");
    host.sh("ip route del default via 198.18.0.1");
    assert!(host.ping().status.success());
    host.sh("ip route add default via 198.18.0.1 metric 600");
    host.must("down");
    assert_eq!(host.state(), before, "nothing is left");
}

#[test]
fn what_cannot_work_is_refused() {
    if !possible("clat refused") {
        return;
    }
    let lab = lab("refused");
    let host = Host::new(&lab);
    let before = host.state();
    let prefix = format!("prefix = \"{PREFIX}\"");
    for (nat64, clat, words) in [
        ("", "", "hint: `strait nat64 run`"),
        (&*prefix, "uplink = \"c9\"", "the uplink `c9` does not exist"),
        (&prefix, "ipv6 = \"2001:db8:1::2\"", "is an address of `c0`"),
        ("prefix = \"2001:db8::/32\"", "", "is inside the prefix 2001:db8::/32"),
    ] {
        host.config(nat64, clat);
        let output = host.strait("up").output().expect("strait starts");
        let said = both(&output);
        assert!(output.status.code() == Some(1) && said.contains(words), "{words}: {said}");
        assert!(said.contains("nothing was changed"), "{said}");
        assert_eq!(host.state(), before);
    }
}

/// Another implementation translates back, and gives the CLAT an address of its pool: Debian's tayga. The CLAT makes its own IPv6 address.
#[test]
fn it_works_with_a_foreign_nat64() {
    if !possible("clat and tayga") {
        return;
    }
    if Command::new("tayga").arg("--help").output().is_err() {
        println!("skipped: nat64 clat and tayga: needs tayga");
        return;
    }
    let lab = Lab::new("tayga");
    let host = Host::new(&lab);
    let dir = lab.files.path().display();
    let config = format!(
        "tun-device t64\nipv4-addr 203.0.113.129\nipv6-addr 2001:db8:aaaa::1\nprefix {PREFIX}\ndynamic-pool 203.0.113.128/25\ndata-dir {dir}\n"
    );
    std::fs::write(lab.files.path().join("tayga.conf"), config).expect("a file");
    lab.sh(&format!("tayga --config {dir}/tayga.conf --mktun"));
    lab.sh(&format!(
        "ip link set t64 up; ip route add 203.0.113.128/25 dev t64; ip route add {PREFIX} dev t64"
    ));
    let mut tayga = Command::new("nsenter");
    tayga.arg(format!("--net={}", lab.router.path().display()));
    tayga.args(["tayga", "--nodetach", "--config"]).arg(lab.files.path().join("tayga.conf"));
    let _tayga = Running::start(tayga.stdout(Stdio::null()).stderr(Stdio::null()));
    host.config(&format!("prefix = \"{PREFIX}\""), "");
    host.must("up");
    let seen = host.works();
    assert!(seen.starts_with("203.0.113."), "{seen}");
    // The address is the same the next time.
    let routes = host.sh("ip -6 route show dev clat");
    host.must("down");
    host.must("up");
    assert_eq!(host.sh("ip -6 route show dev clat"), routes);
}
