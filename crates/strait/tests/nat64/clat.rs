//! Tests mode `clat`: the client of the lab has IPv6 only, and reaches the server by IPv4 through two translators, its own and the router's.

use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt};

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
        // Link-local addresses come with delay, times pass, and iproute2 complains of the namespace of a peer now and then.
        let skip = ["fe80", "ff00", "Peer netns"];
        let lines = all.lines().filter(|line| !skip.iter().any(|word| line.contains(word)));
        let ends = ["\\", " expires ", "@"];
        let cut = |line: &str| {
            let at = ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
            line[..at].trim_end().to_owned()
        };
        lines.map(cut).collect::<Vec<_>>().join("\n")
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

/// A network whose router speaks for itself: addresses and a default route come from Debian's radvd.
impl Host<'_> {
    /// Starts radvd in the router. The host forgets its own addresses and routes.
    fn by_advertisements(&self) -> Running {
        self.sh("ip addr flush dev c0 scope global; ip -6 route flush default");
        let conf = self.lab.files.path().join("radvd.conf");
        let text = "interface r0 {\n AdvSendAdvert on;\n MinRtrAdvInterval 3;\n MaxRtrAdvInterval 4;\n AdvDefaultLifetime 1800;\n \
                    prefix 2001:db8:1::/64 {};\n};\n";
        std::fs::write(&conf, text).expect("a file");
        let mut radvd = in_router(self.lab, "radvd");
        radvd.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(&conf);
        radvd.arg("--pidfile").arg(self.lab.files.path().join("radvd.pid"));
        Running::start(radvd.stderr(Stdio::null()))
    }

    /// Sends an advertisement with this prefix from the router. Debian 12's radvd (2.19) does not know the option (RFC 8781), and a router may send it
    /// in an advertisement of its own (RFC 4861 section 6.2.3).
    fn advertise(&self, prefix: &str, lifetime: u16) {
        let link_local = self.sh("ip -6 -br addr show dev c0 scope link");
        let to = link_local.split_whitespace().find_map(|word| word.strip_suffix("/64")).expect("an address");
        let to: Ipv6Addr = to.parse().expect("an address");
        let address: Ipv6Addr = prefix.strip_suffix("/96").expect("a prefix").parse().expect("an address");
        let fixed = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        let message =
            [&fixed[..], &[38, 2], &lifetime.next_multiple_of(8).to_be_bytes(), &address.octets()[..12]]
                .concat();
        let sent = self.lab.router.run(|| {
            let (family, icmp) = (AddressFamily::Inet6, SockProtocol::IcmpV6);
            let raw = socket(family, SockType::Raw, SockFlag::empty(), icmp).expect("a raw socket");
            setsockopt(&raw, sockopt::Ipv6Ttl, &255).expect("a hop limit");
            let scope = io::link::index_of("r0").expect("an interface");
            UdpSocket::from(raw).send_to(&message, SocketAddrV6::new(to, 0, 0, scope))
        });
        sent.expect("the router").expect("is sent");
    }

    /// Starts `strait nat64 run` on the host.
    fn run(&self) -> Running {
        let log = std::fs::File::create(self.lab.files.path().join("run.log")).expect("a file");
        Running::start(self.strait("run").stderr(log.try_clone().expect("a file")).stdout(log))
    }

    /// What `status` says, for programs.
    fn status(&self) -> serde_json::Value {
        let output = self.strait("status").arg("--json").output().expect("strait starts");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Waits until the prefix is this one, from such a source, and nothing is wrong.
    fn wait_for(&self, prefix: Option<&str>, from: Option<&str>) -> serde_json::Value {
        let mut last = serde_json::Value::Null;
        for _ in 0..150 {
            last = self.status();
            if last["prefix"].as_str() == prefix
                && last["clat"]["prefix_from"].as_str() == from
                && last["state"] == "up"
            {
                return last;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.lab.files.path().join("run.log")).unwrap_or_default();
        panic!("{prefix:?} from {from:?} expected: {last:#}\n{log}\n{}", self.state());
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

fn in_router(lab: &Lab, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", lab.router.path().display())).arg(program);
    command
}

/// Whether a test can run that needs these programs.
fn has(name: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("-h").output().is_err());
    if let Some(program) = missing {
        println!("skipped: nat64 {name}: needs {program}");
    }
    missing.is_none() && possible(name)
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

    // Another translator has addresses of the same range (RFC 7335 section 4).
    host.sh("ip link add other type veth peer name other-peer; ip addr add 192.0.0.2/29 dev other");
    host.config(&prefix, "");
    let said = both(&host.strait("up").output().expect("strait starts"));
    assert!(said.contains("`other` has an address of 192.0.0.0/29"), "{said}");
    host.config(&prefix, &format!("ipv4 = \"192.0.2.77\"\nipv6 = \"{OWN}\""));
    host.must("up");
    host.must("down");
}

/// An address that somebody else on the link has is not used (RFC 6877 section 6.3): one of the file is refused, a made one gives way to another.
#[test]
fn an_address_that_a_neighbour_has_is_not_used() {
    if !possible("clat duplicate") {
        return;
    }
    let lab = lab("duplicate");
    let host = Host::new(&lab);
    let neighbour = |verb: &str, address: &str| {
        succeeds(in_router(&lab, "ip").args([
            "-6",
            "addr",
            verb,
            &format!("{address}/128"),
            "dev",
            "r0",
            "nodad",
        ]));
    };
    let prefix = format!("prefix = \"{PREFIX}\"");
    neighbour("add", OWN);
    host.config(&prefix, &format!("ipv6 = \"{OWN}\""));
    let said = both(&host.strait("up").output().expect("strait starts"));
    assert!(said.contains(&format!("a neighbour on `c0` has {OWN}; nothing was changed")), "{said}");
    neighbour("del", OWN);

    let own = || host.sh("ip -6 neigh show proxy").split_whitespace().next().expect("an address").to_string();
    host.config(&prefix, "");
    host.must("up");
    let first = own();
    host.must("down");
    neighbour("add", &first);
    host.must("up");
    let second = own();
    assert_ne!(second, first);
    // It stays when the other one is free again: connections depend on it.
    neighbour("del", &first);
    host.must("up");
    assert_eq!(own(), second);
    host.must("down");
}

/// Another implementation translates back, and gives the CLAT an address of its pool: Debian's tayga. The CLAT makes its own IPv6 address.
#[test]
fn it_works_with_a_foreign_nat64() {
    if !has("clat and tayga", &["tayga"]) {
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
    let mut tayga = in_router(&lab, "tayga");
    tayga.args(["--nodetach", "--config"]).arg(lab.files.path().join("tayga.conf"));
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

/// Routers announce prefixes, change and withdraw them, and let them expire; the link goes down and comes back.
#[test]
fn what_routers_advertise_is_followed() {
    if !has("clat and radvd", &["radvd"]) {
        return;
    }
    const OTHER: &str = "2001:db8:46::/96";
    let lab = lab("routers");
    let host = Host::new(&lab);
    let _radvd = host.by_advertisements();
    // Nobody answers there.
    host.config("", &format!("ipv6 = \"{OWN}\"\ndns = [\"2001:db8:1::1\"]"));
    for _ in 0..100 {
        if host.sh("ip -6 route show default").contains("proto ra") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = host.state();
    let mut run = host.run();
    host.wait_for(None, None);
    let text = both(&host.strait("status").output().expect("strait starts"));
    assert!(text.contains("no prefix is known"), "{text}");
    assert!(!host.sh("ip route").contains("default"), "without a prefix there is no IPv4");

    host.advertise(PREFIX, 600);
    let status = host.wait_for(Some(PREFIX), Some("router"));
    let left = status["clat"]["prefix_lifetime"].as_u64().expect("a number");
    assert!((590..=600).contains(&left), "{status}");
    assert!(status["clat"]["prefix_by"].as_str().expect("a router").starts_with("fe80:"), "{status}");
    assert_eq!(host.works(), OUTSIDE);
    // The kernel goes on to follow the router, too.
    assert!(host.sh("ip -6 route show default").contains("proto ra"));

    // A process that is killed leaves it working, and the next one goes on with the prefix.
    run.0.kill().expect("it runs");
    run.0.wait().expect("it ends");
    assert!(host.ping().status.success());
    let status = host.strait("status").output().expect("strait starts");
    assert!(
        status.status.code() == Some(4) && both(&status).contains("no process follows"),
        "{}",
        both(&status)
    );
    run = host.run();
    let log = lab.files.path().join("run.log");
    let is_up = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("clat is up"));
    assert!((0..100).any(|_| is_up() || {
        std::thread::sleep(Duration::from_millis(100));
        false
    }));
    let text = std::fs::read_to_string(&log).expect("a file");
    assert!(text.contains(&format!("clat is up: 1 mappings, prefix {PREFIX}")), "{text}");
    host.wait_for(Some(PREFIX), Some("router"));

    // The same prefix is valid for longer.
    host.advertise(PREFIX, 1200);
    let longer = || host.status()["clat"]["prefix_lifetime"].as_u64().is_some_and(|left| left > 1000);
    assert!((0..50).any(|_| longer() || {
        std::thread::sleep(Duration::from_millis(100));
        false
    }));

    // The network changes its prefix.
    lab.config(DEVICE, &format!("[[map]]\nipv4 = \"{OUTSIDE}\"\nipv6 = \"{OWN}\""));
    let file = lab.files.path().join("nat64.toml");
    let text = std::fs::read_to_string(&file).expect("a file").replace(PREFIX, OTHER);
    std::fs::write(&file, text).expect("a file");
    lab.must("reload");
    host.advertise(OTHER, 600);
    host.wait_for(Some(OTHER), Some("router"));
    host.advertise(PREFIX, 0);
    assert_eq!(host.works(), OUTSIDE);

    // It is withdrawn, comes back, and expires.
    host.advertise(OTHER, 0);
    host.wait_for(None, None);
    assert!(!host.sh("ip route").contains("default"), "without a prefix there is no IPv4");
    host.advertise(OTHER, 8);
    host.wait_for(Some(OTHER), Some("router"));
    host.wait_for(None, None);

    // The link goes down and comes back. A router repeats what it advertises.
    host.advertise(OTHER, 600);
    host.wait_for(Some(OTHER), Some("router"));
    host.sh("ip link set c0 down");
    host.wait_for(None, None);
    host.sh("ip link set c0 up");
    let back = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        if host.sh("ip -6 route show default").contains("proto ra") {
            host.advertise(OTHER, 600);
        }
        host.status()["prefix"] == OTHER
    });
    assert!(back, "{:#}", host.status());
    host.wait_for(Some(OTHER), Some("router"));
    assert_eq!(host.works(), OUTSIDE);

    io::signals::send(run.0.id(), io::signals::Signal::Terminate).expect("it runs");
    assert!(run.0.wait().expect("it ends").success());
    assert_eq!(host.state(), before, "nothing is left");
}

/// No router advertises a prefix, and a DNS64 tells it: unbound.
#[test]
fn a_dns64_tells_the_prefix() {
    if !has("clat and unbound", &["radvd", "unbound"]) {
        return;
    }
    let lab = lab("dns64");
    let host = Host::new(&lab);
    let _radvd = host.by_advertisements();
    let dir = lab.files.path().display();
    let zone = "$TTL 60\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n@ A 192.0.0.170\n@ A 192.0.0.171\n";
    std::fs::write(lab.files.path().join("zone"), zone).expect("a file");
    let conf = format!(
        "server:\n interface: 2001:db8:1::1\n access-control: ::/0 allow\n do-daemonize: no\n chroot: \"\"\n username: \"\"\n \
         directory: \"{dir}\"\n pidfile: \"{dir}/unbound.pid\"\n use-syslog: no\n module-config: \"dns64 iterator\"\n \
         dns64-prefix: {PREFIX}\nauth-zone:\n name: \"ipv4only.arpa\"\n zonefile: \"{dir}/zone\"\n for-upstream: yes\n \
         for-downstream: no\n fallback-enabled: no\nremote-control:\n control-enable: no\n"
    );
    std::fs::write(lab.files.path().join("unbound.conf"), conf).expect("a file");
    // Debian's AppArmor profile confines the installed file to /etc/unbound.
    let copy = lab.files.path().join("unbound");
    let installed = host.sh("command -v unbound");
    harness::executable::copy(Path::new(installed.trim()), &copy);
    let mut unbound = in_router(&lab, copy.to_str().expect("a path"));
    unbound.arg("-c").arg(lab.files.path().join("unbound.conf"));
    let _unbound = Running::start(unbound.stderr(Stdio::null()));
    host.config("", &format!("ipv6 = \"{OWN}\"\ndns = [\"2001:db8:1::1\"]"));
    let _run = host.run();
    let status = host.wait_for(Some(PREFIX), Some("dns"));
    assert_eq!(status["clat"]["prefix_by"], "2001:db8:1::1", "{status}");
    assert!(status["clat"]["prefix_lifetime"].as_u64().is_some_and(|left| left <= 60), "{status}");
    assert_eq!(host.works(), OUTSIDE);
    // The file is changed, and the MTU of the uplink.
    host.config("", &format!("ipv6 = \"{OWN}\"\ndns = [\"2001:db8:1::1\"]\nmetric = 77"));
    host.must("reload");
    let route = host.sh("ip route show default");
    assert!(
        route.contains("metric 77 mtu 1480"),
        "{route}: {}",
        std::fs::read_to_string(lab.files.path().join("run.log")).unwrap_or_default()
    );
    host.wait_for(Some(PREFIX), Some("dns"));
    host.sh("ip link set c0 mtu 1400");
    let narrow = || host.sh("ip route show default").contains("mtu 1380");
    assert!((0..50).any(|_| narrow() || {
        std::thread::sleep(Duration::from_millis(100));
        false
    }));
    // Routers come first.
    host.advertise(PREFIX, 600);
    host.wait_for(Some(PREFIX), Some("router"));
    host.must("down");
}
