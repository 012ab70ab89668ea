//! Follows docs/recipes.md, and shows that what it promises is true.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, connect, socket};

use crate::clients::hops_of;
use crate::lab::both;
use crate::network::{BRIDGES, Host, Network, SESSIONS, has, http, kernel_has, names};
use crate::page::Recipe;
use harness::over::Over;

const PATIENCE: Duration = Duration::from_secs(20);
/// `www`, as IPv6 hosts call it.
const WWW: &str = "2001:db8:64::c000:202";

/// Gives a host the addresses of the servers.
fn servers(www: &Host) {
    www.sh("ip addr add 192.0.2.2/24 dev eth0; ip addr add 192.0.2.53/24 dev eth0; ip route add default via 192.0.2.1");
}

/// Two hosts behind a router, and servers behind another one.
fn network(name: &str) -> Network {
    let net = Network::new(name, &["host", "other", "lan", "router", "isp", "www"]);
    net.switch("lan", &[("host", "eth0"), ("other", "eth0"), ("router", "eth0")]);
    net.link(("router", "eth1"), ("isp", "eth0"));
    net.link(("isp", "eth1"), ("www", "eth0"));
    for (host, address) in [("host", "2001:db8:1::102"), ("other", "2001:db8:1:0:5054:ff:fe12:3456")] {
        let script = format!("ip addr add {address}/64 dev eth0; ip route add default via 2001:db8:1::1");
        net.host(host).sh(&script);
    }
    net.host("router").sh(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
         ip addr add 2001:db8:1::1/64 dev eth0; ip addr add 203.0.113.1/24 dev eth1; ip route add default via 203.0.113.2
         ip -6 route add default dev eth1",
    );
    net.host("isp").sh("sysctl -qw net.ipv4.ip_forward=1; ip addr add 203.0.113.2/24 dev eth0
         ip addr add 192.0.2.1/24 dev eth1; ip route add 198.51.100.0/24 via 203.0.113.1");
    servers(net.host("www"));
    net
}

#[test]
fn recipes_dns64() {
    if !(has("dns64", &["unbound", "dig", "curl", "ping"]) && kernel_has("dns64", &[BRIDGES])) {
        return;
    }
    let net = network("dns64");
    names(
        &net,
        "www",
        "192.0.2.53",
        &[
            "www.v4only.example. A 192.0.2.2",
            "www.both.example. A 192.0.2.2",
            "www.both.example. AAAA 2001:db8:2::80",
            "ipv4only.arpa. A 192.0.0.170",
            "ipv4only.arpa. A 192.0.0.171",
        ],
    );
    http(net.host("www"), "192.0.2.2:80", b"hello from IPv4\n".to_vec());
    // Nobody has signed the lab's names.
    let unsigned = "server:\n    domain-insecure: example\n    domain-insecure: arpa\n";
    net.write("router", "/etc/unbound/unbound.conf.d/lab.conf", unsigned);
    Recipe::read("DNS64 with unbound").follow(&net);
}

/// Asks `www` by UDP from one port, which it answers with the address that it sees.
fn port_seen(host: &Host, www: &UdpSocket, port: u16, size: usize) -> (IpAddr, u16) {
    let socket = host.space.run(|| UdpSocket::bind(("::", port)).expect("binds")).expect("a namespace");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let to = www.local_addr().expect("bound").port();
    socket.send_to(&vec![7; size], (WWW, to)).expect("sends");
    let mut buffer = [0; 5000];
    let (length, from) = www.recv_from(&mut buffer).expect("it arrives");
    assert_eq!(buffer[..length], vec![7; size]);
    www.send_to(&vec![8; size], from).expect("sends back");
    let (length, _) = socket.recv_from(&mut buffer).expect("it comes back");
    assert_eq!(buffer[..length], vec![8; size]);
    (from.ip(), from.port())
}

#[test]
fn recipes_sessions() {
    if !(has("sessions", &["nft", "conntrack", "curl", "ping", "traceroute", "tracepath"])
        && kernel_has("sessions", &[BRIDGES, SESSIONS]))
    {
        return;
    }
    let net = network("sessions");
    Recipe::read("Sessions by connection tracking").follow(&net);
    let (www, hosts) = (net.host("www"), [net.host("host"), net.host("other")]);
    let page: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    http(www, "192.0.2.2:80", page.clone());
    // Both hosts use the same port at the same time, and the server sees one address with two ports. Large datagrams need fragments.
    let socket = www.space.run(|| UdpSocket::bind("192.0.2.2:0").expect("binds")).expect("a namespace");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    for size in [1, 1200, 4000] {
        let [one, other] = hosts.map(|host| port_seen(host, &socket, 4000, size));
        assert_eq!([one.0, other.0].map(|ip| ip.to_string()), ["198.51.100.1", "198.51.100.1"]);
        assert_ne!(one.1, other.1);
    }
    for host in hosts {
        host.sh(&format!("ping -c 2 -i 0.1 -W 5 {WWW}"));
        let got = host.command(&format!("curl -s 'http://[{WWW}]/'")).output().expect("curl starts");
        assert!(got.stdout == page, "{} bytes", got.stdout.len());
        let hops = ["2001:db8:1::1", "2001:db8:64::cb00:7102", WWW];
        for how in ["", "-I", "-T -p 80"] {
            let said = host.sh(&format!("traceroute -n -q 1 {how} {WWW}"));
            assert_eq!(hops_of(&said), hops, "{how}: {said}");
        }
        // A closed port answers.
        let said = both(&host.try_sh(&format!("curl -s -S 'http://[{WWW}]:81/'")));
        assert!(said.contains("Couldn't connect") || said.contains("refused"), "{said}");
    }
    // The path is narrow behind the translator, and the sender learns it.
    net.host("isp").sh("ip link set eth1 mtu 1400");
    let said = hosts[0].sh(&format!("tracepath -n {WWW}"));
    assert!(said.contains("pmtu 1420"), "{said}");
    let sessions = net.host("router").sh("conntrack -L -f ipv6");
    assert!(sessions.contains("dst=2001:db8:46::1"), "{sessions}");
    // Nobody gets in unasked, except by the rule of the page.
    let refused = www.try_sh("ping -c 1 -W 2 198.51.100.1");
    assert!(both(&refused).contains("Destination Host Unreachable"), "{}", both(&refused));
    http(hosts[0], "[::]:80", b"a host behind NAT\n".to_vec());
    assert_eq!(www.sh("curl -s http://198.51.100.1:8080/"), "a host behind NAT\n");
    // Another host may use the public address as well.
    assert_eq!(hosts[1].sh("curl -s 'http://[2001:db8:64::c633:6401]:8080/'"), "a host behind NAT\n");
    // Only one side is tracked.
    assert_eq!(net.host("router").sh("conntrack -L -f ipv4 2>/dev/null"), "");
}

/// A TCP connection that sends small numbered pieces until it is told to end, and a server that counts them.
struct Stream {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    receiver: JoinHandle<u64>,
    received: Arc<AtomicU64>,
    /// Whom the server sees.
    from: SocketAddr,
}

impl Stream {
    /// Connects a port of a host, or any if it is 0, to a listener of `www`.
    fn start(host: &Host, port: u16, www: &TcpListener) -> Stream {
        let to = SocketAddrV6::new(
            WWW.parse().expect("an address"),
            www.local_addr().expect("bound").port(),
            0,
            0,
        );
        let connect = || {
            let socket =
                socket(AddressFamily::Inet6, SockType::Stream, SockFlag::empty(), None).expect("a socket");
            let from = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0);
            bind(socket.as_raw_fd(), &SockaddrIn6::from(from)).expect("binds");
            connect(socket.as_raw_fd(), &SockaddrIn6::from(to)).expect("connects");
            TcpStream::from(socket)
        };
        let mut stream = host.space.run(connect).expect("a namespace");
        let (mut accepted, from) = www.accept().expect("accepts");
        let received = Arc::new(AtomicU64::new(0));
        let (stop, counter) = (Arc::new(AtomicBool::new(false)), received.clone());
        let receiver = std::thread::spawn(move || {
            let (mut piece, mut count) = ([0; 800], 0u64);
            while accepted.read_exact(&mut piece).is_ok() {
                assert!(piece.chunks(8).all(|word| word == count.to_be_bytes()), "piece {count} is damaged");
                count += 1;
                counter.store(count, Relaxed);
            }
            count
        });
        let ended = stop.clone();
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        let sender = std::thread::spawn(move || {
            let mut count = 0u64;
            while !ended.load(Relaxed) {
                stream.write_all(&count.to_be_bytes().repeat(100)).expect("it flows");
                count += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            count
        });
        Stream { stop, sender, receiver, received, from }
    }

    /// Waits until so many more pieces have arrived.
    fn advance(&self, pieces: u64) {
        let (before, start) = (self.received.load(Relaxed), Instant::now());
        while self.received.load(Relaxed) < before + pieces {
            assert!(start.elapsed() < PATIENCE, "nothing arrives any more, after {before} pieces");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the connection. All pieces have arrived.
    fn end(self) {
        self.stop.store(true, Relaxed);
        let sent = self.sender.join().expect("the sender");
        assert_eq!(self.receiver.join().expect("the receiver"), sent);
    }
}

/// Which of the two routers has the gateway's addresses. It has both or none.
fn master(net: &Network, routers: &[&'static str]) -> Option<&'static str> {
    let has = |router: &str| {
        let all = net.host(router).sh("ip -o addr");
        (all.contains("fe80::64/64"), all.contains("203.0.113.4/24"))
    };
    let masters: Vec<_> = routers.iter().filter(|router| has(router) == (true, true)).collect();
    match masters[..] {
        [one] => Some(one),
        _ => None,
    }
}

#[test]
fn recipes_two_routers() {
    if !(has("two-routers", &["nft", "conntrack", "conntrackd", "keepalived"])
        && kernel_has("two-routers", &[BRIDGES, SESSIONS]))
    {
        return;
    }
    let mut net = Network::new("two", &["host", "other", "lan", "a", "b", "wan", "isp", "www"]);
    net.switch("lan", &[("host", "eth0"), ("other", "eth0"), ("a", "eth0"), ("b", "eth0")]);
    net.switch("wan", &[("isp", "eth0"), ("a", "eth1"), ("b", "eth1")]);
    net.link(("a", "eth2"), ("b", "eth2"));
    net.link(("isp", "eth1"), ("www", "eth0"));
    for (router, number) in [("a", 2), ("b", 3)] {
        net.host(router).sh(&format!(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
             ip addr add 2001:db8:1::{number}/64 dev eth0; ip addr add 203.0.113.{number}/24 dev eth1
             ip addr add 198.51.100.{}/30 dev eth2; ip route add default via 203.0.113.1",
            20 - number
        ));
    }
    for (host, address) in [("host", "2001:db8:1::102"), ("other", "2001:db8:1::103")] {
        net.host(host)
            .sh(&format!("ip addr add {address}/64 dev eth0; ip route add default via fe80::64 dev eth0"));
    }
    net.host("isp").sh(
        "sysctl -qw net.ipv4.ip_forward=1; ip addr add 203.0.113.1/24 dev eth0; ip addr add 192.0.2.1/24 dev eth1
         ip route add 198.51.100.1 via 203.0.113.4",
    );
    servers(net.host("www"));
    Recipe::read("Two routers with shared sessions").follow(&net);
    let first = wait_for(|| master(&net, &["a", "b"]), "one router has both addresses");
    let second = if first == "a" { "b" } else { "a" };
    // Both hosts use the same port, so one session has another port outside, which only its router knows.
    let listener = listener(&net);
    let streams = ["host", "other"].map(|host| Stream::start(net.host(host), 5000, &listener));
    let ports = streams.each_ref().map(|stream| stream.from.port());
    assert!(ports[0] == 5000 && ports[1] != 5000, "{ports:?}");
    for stream in &streams {
        assert_eq!(stream.from.ip().to_string(), "198.51.100.1");
        stream.advance(50);
    }
    net.host(second).eventually("conntrack -L -f ipv6 -p tcp --src 2001:db8:1::102", "ESTABLISHED");
    net.host(second).eventually("conntrack -L -f ipv6 -p tcp --src 2001:db8:1::103", "ESTABLISHED");
    net.lose(first);
    for stream in streams {
        stream.advance(200);
        stream.end();
    }
    assert_eq!(master(&net, &[second]), Some(second));
}

/// A socket of `www` that takes connections.
fn listener(net: &Network) -> TcpListener {
    net.host("www").space.run(|| TcpListener::bind("192.0.2.2:0").expect("listens")).expect("a namespace")
}

/// The number of packets that a translator has counted.
fn translated(host: &Host) -> u64 {
    let status = host.sh("strait nat64 status --json --config /etc/strait/nat64.toml");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let counters = status["counters"].as_array().expect("counters");
    let ours =
        counters.iter().filter(|c| c["name"].as_str().is_some_and(|name| name.starts_with("translated_")));
    ours.filter_map(|c| c["packets"].as_u64()).sum()
}

/// Sends datagrams from several ports to `www` while something happens. Returns how many were sent and how many arrived.
fn datagrams(net: &Network, act: impl FnOnce()) -> (u64, u64) {
    let bind = |host: &str, address: &str| {
        net.host(host).space.run(|| UdpSocket::bind(address).expect("binds")).expect("a namespace")
    };
    let www = bind("www", "192.0.2.2:0");
    let to = (WWW, www.local_addr().expect("bound").port());
    www.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
    let ports: Vec<_> = (0..16).map(|_| bind("host", "[::]:0")).collect();
    let over = Over::new();
    std::thread::scope(|scope| {
        let end = over.at_end();
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !over.is() {
                for port in &ports {
                    port.send_to(b"datagram", to).expect("sends");
                    sent += 1;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            sent
        });
        let receiver = scope.spawn(|| {
            let mut arrived = 0;
            while www.recv(&mut [0; 64]).is_ok() {
                arrived += 1;
            }
            arrived
        });
        act();
        drop(end);
        (sender.join().expect("the sender"), receiver.join().expect("the receiver"))
    })
}

#[test]
fn recipes_several_translators() {
    if !(has("several-translators", &["bird", "birdc"]) && kernel_has("several-translators", &[BRIDGES])) {
        return;
    }
    let translators = ["t1", "t2", "t3"];
    let mut net = Network::new("ecmp", &["host", "edge6", "lan6", "t1", "t2", "t3", "lan4", "edge4", "www"]);
    net.link(("host", "eth0"), ("edge6", "eth0"));
    net.switch("lan6", &[("edge6", "eth1"), ("t1", "eth0"), ("t2", "eth0"), ("t3", "eth0")]);
    net.switch("lan4", &[("edge4", "eth1"), ("t1", "eth1"), ("t2", "eth1"), ("t3", "eth1")]);
    net.link(("edge4", "eth0"), ("www", "eth0"));
    net.host("host").sh("ip addr add 2001:db8:1::102/64 dev eth0; ip route add default via 2001:db8:1::1");
    let forward = "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1";
    net.host("edge6").sh(&format!(
        "{forward}; ip addr add 2001:db8:1::1/64 dev eth0; ip addr add 2001:db8:6::4/64 dev eth1"
    ));
    net.host("edge4")
        .sh(&format!("{forward}; ip addr add 192.0.2.1/24 dev eth0; ip addr add 203.0.113.4/24 dev eth1"));
    for (host, number) in translators.iter().zip(1..) {
        net.host(host).sh(&format!(
            "{forward}; ip addr add 2001:db8:6::{number}/64 dev eth0; ip addr add 203.0.113.{number}/24 dev eth1"
        ));
    }
    servers(net.host("www"));
    let recipe = Recipe::read("Several translators with equal routes");
    // The last block is for maintenance.
    recipe.follow_first(&net);
    let routes = |net: &Network, count: usize| {
        for (edge, show) in
            [("edge6", "ip -6 route show 2001:db8:64::/96"), ("edge4", "ip route show 198.51.100.0/24")]
        {
            let hops = || net.host(edge).sh(show).matches("via").count() == count;
            wait_for(|| hops().then_some(()), "routes");
        }
    };
    routes(&net, 3);
    let listener = listener(&net);
    let streams: Vec<_> = (0..24).map(|_| Stream::start(net.host("host"), 0, &listener)).collect();
    let flow = |count: u64| streams.iter().for_each(|stream| stream.advance(count));
    flow(20);
    for translator in translators {
        assert!(translated(net.host(translator)) > 50, "{translator} has nothing to do");
    }
    // One dies, and its flows continue over the others.
    net.lose("t2");
    routes(&net, 2);
    flow(20);
    // Packets are led past another one, and none is lost.
    let (sent, arrived) = datagrams(&net, || {
        recipe.follow_last(&net);
        routes(&net, 1);
    });
    assert_eq!(arrived, sent);
    let before = translated(net.host("t1"));
    flow(20);
    assert_eq!(translated(net.host("t1")), before);
    // It comes back. If its translator is taken down, its routes disappear.
    net.host("t1").sh("birdc enable inside; birdc enable outside");
    routes(&net, 2);
    net.host("t1").sh("strait nat64 down --config /etc/strait/nat64.toml");
    routes(&net, 1);
    flow(20);
    streams.into_iter().for_each(Stream::end);
}

/// Repeats a question until it has an answer.
fn wait_for<T>(ask: impl Fn() -> Option<T>, what: &str) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
