//! The programs by which people look at networks, and those that they use: each from the IPv6 host to the IPv4 host, and back. Every hop, code, size and
//! byte of what they report is what it would be without a translator between them.

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::sync::Mutex;
use std::time::Duration;

use io::link::features;

use crate::attach::TC;
use crate::lab::both;
use crate::network::{Network, has, http, names};

const PATIENCE: Duration = Duration::from_secs(20);

/// A host that calls the other one.
struct Side {
    host: &'static str,
    other: &'static str,
    /// Any address of this host.
    any: &'static str,
    /// The routers between the hosts, and the other host, as this host sees them. The second one is the translator.
    hops: [&'static str; 4],
    /// What this host is told of an address that the last router refuses, and of one without a route there.
    refused: [(&'static str, &'static str); 2],
    /// The MTU of the path, which is told by an error if it is not that of this host's link.
    mtu: usize,
    /// The router behind the translator with its interface to the other host, a smaller MTU there, and what this host is told of it.
    narrow: (&'static str, usize, usize),
    too_big: &'static str,
}

const SIX: Side = Side {
    host: "six",
    other: "four",
    any: "[::]:0",
    hops: ["2001:db8:1::1", "2001:db8:6::1", "2001:db8:64::cb00:7102", "2001:db8:64::c000:202"],
    refused: [
        ("2001:db8:64::192.0.2.77", "Destination unreachable: Administratively prohibited"),
        ("2001:db8:64::192.0.2.78", "Destination unreachable: No route"),
    ],
    mtu: 1500,
    narrow: ("hop4", 1400, 1420),
    too_big: "Packet too big: mtu=1420",
};

const FOUR: Side = Side {
    host: "four",
    other: "six",
    any: "0.0.0.0:0",
    // The router in front of the IPv6 host has no IPv4 address, and gets one of the pool (RFC 6791).
    hops: ["192.0.2.1", "203.0.113.1", "203.0.113.64", "198.51.100.2"],
    refused: [
        ("198.51.100.77", "Destination Host Prohibited"),
        ("198.51.100.78", "Destination Host Unreachable"),
    ],
    mtu: 1480,
    narrow: ("hop6", 1380, 1360),
    too_big: "Frag needed and DF set (mtu = 1360)",
};

/// From the router's mounts, the other ends of its veths cannot be seen.
const XDP: &str = "{ interfaces = [\"r0\", \"r1\"], hook = \"xdp\", trust-checksums = true }";

/// The programs.
const NEEDED: [&str; 8] = ["traceroute", "tracepath", "mtr", "ping", "curl", "dig", "unbound", "iperf3"];

/// What one client finds out, or what is wrong with it.
type Check = fn(&Network, &Side) -> Result<(), String>;

const CLIENTS: [(&str, Check); 12] = [
    ("traceroute -U", |net, side| same_hops(net, side, "traceroute -n -q 1 -w 5")),
    ("traceroute -I", |net, side| same_hops(net, side, "traceroute -n -q 1 -w 5 -I")),
    ("traceroute -T", |net, side| same_hops(net, side, "traceroute -n -q 1 -w 5 -T -p 80")),
    ("mtr", |net, side| same_hops(net, side, "mtr -n -r -c 1 -i 0.1 -G 0.5")),
    ("mtr --udp", |net, side| same_hops(net, side, "mtr -n -r -c 1 -i 0.1 -G 0.5 --udp")),
    ("mtr --tcp", |net, side| same_hops(net, side, "mtr -n -r -c 1 -i 0.1 -G 0.5 --tcp -P 80")),
    ("tracepath", tracepath),
    ("ping", ping),
    ("curl", curl),
    ("dig", dig),
    ("WireGuard's datagrams", wireguard),
    ("iperf3", iperf3),
];

/// The addresses in the lines of traceroute, mtr and tracepath, which begin with a number.
pub fn hops_of(said: &str) -> Vec<&str> {
    fn hop(line: &str) -> Option<&str> {
        let mut words = line.split_whitespace();
        let number = words.next()?.trim_end_matches(['.', '|', '-', ':']);
        number.parse::<u8>().ok().and_then(|_| words.next())
    }
    let mut hops: Vec<_> = said.lines().filter_map(hop).collect();
    hops.dedup();
    hops
}

/// Runs commands on the host, and returns what they print if the condition is met by it.
fn says(net: &Network, side: &Side, script: &str, right: impl Fn(&str) -> bool) -> Result<String, String> {
    let said = both(&net.host(side.host).try_sh(script));
    if right(&said) { Ok(said) } else { Err(format!("{script}: {said}")) }
}

fn same_hops(net: &Network, side: &Side, command: &str) -> Result<(), String> {
    says(net, side, &format!("{command} {}", side.hops[3]), |said| hops_of(said) == side.hops).map(drop)
}

fn tracepath(net: &Network, side: &Side) -> Result<(), String> {
    let found = format!("Resume: pmtu {} hops 4 back 4", side.mtu);
    let right = |said: &str| hops_of(said) == side.hops && said.contains(&found);
    says(net, side, &format!("tracepath -n {}", side.hops[3]), right).map(drop)
}

/// Answers, with the hops that they took and with IPv4 options, and the errors of each router.
fn ping(net: &Network, side: &Side) -> Result<(), String> {
    let to = side.hops[3];
    let ping = |more: &str, to: &str, words: &[&str]| {
        let script = format!("ping -n -c 1 -W 5 {more} {to}");
        says(net, side, &script, |said| words.iter().all(|word| said.contains(word))).map(drop)
    };
    for size in ["16", "56", "1200"] {
        let bytes =
            format!("{} bytes from {to}: icmp_seq=1 ttl=61", size.parse::<u16>().expect("a number") + 8);
        ping(&format!("-s {size}"), to, &[&bytes])?;
    }
    if side.host == "four" {
        // The options stay behind (RFC 7915, section 4.1).
        ping("-R", to, &["1 received"])?;
    }
    for (hop, ttl) in side.hops[..3].iter().zip(1..) {
        let words = if side.host == "six" { "Time exceeded: Hop limit" } else { "Time to live exceeded" };
        ping(&format!("-t {ttl}"), to, &[&format!("From {hop} icmp_seq=1 {words}")])?;
    }
    for (to, words) in side.refused {
        ping("", to, &[&format!("From {} icmp_seq=1 {words}", side.hops[2])])?;
    }
    Ok(())
}

/// A megabyte in both directions.
fn curl(net: &Network, side: &Side) -> Result<(), String> {
    let output = net.host(side.host).try_sh(&format!("curl -sS --max-time 20 'http://{}/'", url_host(side)));
    match output.stdout == page() {
        true => Ok(()),
        false => Err(format!("{} bytes: {}", output.stdout.len(), String::from_utf8_lossy(&output.stderr))),
    }
}

/// What the servers of HTTP give.
fn page() -> Vec<u8> {
    (0..1_000_000u32).map(|i| (i * 7 % 251) as u8).collect()
}

fn url_host(side: &Side) -> String {
    if side.host == "six" { format!("[{}]", side.hops[3]) } else { side.hops[3].to_owned() }
}

/// A short answer and one of 3000 bytes, which are fragments by UDP, and by TCP.
fn dig(net: &Network, side: &Side) -> Result<(), String> {
    let ask = |more: &str, right: &dyn Fn(&str) -> bool| {
        says(net, side, &format!("dig @{} +time=5 +tries=2 {more}", side.hops[3]), right).map(drop)
    };
    ask("+short A name.example", &|said| said == "192.0.2.99\n")?;
    ask("+short +tcp A name.example", &|said| said == "192.0.2.99\n")?;
    let whole = |said: &str| {
        said.contains("status: NOERROR")
            && !said.contains(" tc")
            && said.matches(&"x".repeat(250)).count() == 12
    };
    ask("+ignore +bufsize=4096 TXT big.example", &whole)?;
    ask("+tcp TXT big.example", &whole)?;
    // Nobody listens there.
    ask("-p 5300 A name.example", &|said| said.contains("connection refused"))
}

/// Datagrams as WireGuard sends them: packets of its interface, padded to 16 bytes and with 32 bytes around. They arrive whole, without fragments.
fn wireguard(net: &Network, side: &Side) -> Result<(), String> {
    let bind = |host: &str, any: &str| {
        let socket = net.host(host).space.run(|| UdpSocket::bind(any).expect("binds")).expect("a namespace");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket
    };
    let there = if side.host == "six" { FOUR.any } else { SIX.any };
    let (here, there) = (bind(side.host, side.any), bind(side.other, there));
    let to = (side.hops[3], there.local_addr().expect("bound").port());
    let mut buffer = [0; 2000];
    for inner in 1280..=1420usize {
        let datagram: Vec<u8> =
            (0..inner.next_multiple_of(16) + 32).map(|i| (i * inner % 253) as u8).collect();
        here.send_to(&datagram, to).map_err(|error| format!("{inner}: {error}"))?;
        let (length, from) =
            there.recv_from(&mut buffer).map_err(|error| format!("{inner}, there: {error}"))?;
        there.send_to(&buffer[..length], from).map_err(|error| format!("{inner}: {error}"))?;
        let (length, _) = here.recv_from(&mut buffer).map_err(|error| format!("{inner}, back: {error}"))?;
        if buffer[..length] != datagram {
            return Err(format!("{inner}: what comes back is not what was sent"));
        }
    }
    Ok(())
}

/// TCP and UDP, sent and received. No datagram is lost: all of them have room in the receiver's buffer.
fn iperf3(net: &Network, side: &Side) -> Result<(), String> {
    for (more, bytes) in [("-n 8M", 8 << 20), ("-n 8M -R", 8 << 20), ("-u -l 1200 -n 45K -b 10M", 45 << 10)] {
        let client = format!("iperf3 --json -c {} {more}", side.hops[3]);
        let mut said = says(net, side, &client, |_| true)?;
        // The server needs some time between two clients.
        for _ in 0..10 {
            if !said.contains("the server is busy") {
                break;
            }
            std::thread::sleep(Duration::from_millis(300));
            said = says(net, side, &client, |_| true)?;
        }
        let json: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))?;
        let end = &json["end"];
        let sum = if more.contains("-u") { &end["sum"] } else { &end["sum_sent"] };
        let lost = sum["lost_packets"].as_u64().unwrap_or(0);
        if sum["bytes"].as_u64().unwrap_or(0) < bytes || lost > 0 {
            return Err(format!("{more}: {end}"));
        }
    }
    Ok(())
}

/// An association of SCTP that sends messages and is shut down, which needs that all of them have arrived. Both hosts need the protocol for themselves: usrsctp
/// sees the packets of every association of its host, and ends those that it does not know. Its messages fit into one packet, because it does not learn MTUs
/// of paths from ICMP.
fn sctp(net: &Network, side: &Side) -> Result<(), String> {
    let (client, server) = ("/usr/lib/usrsctp/client", "/usr/lib/usrsctp/discard_server");
    net.host(side.other).sh(&format!("{server} </dev/null >/dev/null 2>&1 & echo $! >/run/sctp"));
    let messages = "sleep 0.3; yes 'a message' | head -n 20";
    let script = format!("({messages}) | timeout 20 {client} {} 9 0 0 0 | cat", side.hops[3]);
    let right = |said: &str| said.contains("SCTP_COMM_UP") && said.contains("SCTP_SHUTDOWN_COMP");
    let result = says(net, side, &script, right);
    net.host(side.other).sh("kill $(cat /run/sctp)");
    result.map(drop)
}

/// The path becomes narrow behind the translator. The host is told so, and what it sends by TCP arrives.
fn narrow(net: &Network, side: &Side) -> Result<(), String> {
    let (router, mtu, told) = side.narrow;
    net.host(router).sh(&format!("ip link set eth1 mtu {mtu}"));
    let to = side.hops[3];
    let too_big = format!("From {} icmp_seq=1 {}", side.hops[2], side.too_big);
    says(net, side, &format!("ping -n -c 1 -W 5 -M do -s 1420 {to}"), |said| said.contains(&too_big))?;
    says(net, side, &format!("tracepath -n {to}"), |said| {
        said.contains(&format!("Resume: pmtu {told} hops 4"))
    })?;
    let back = if side.host == "six" { &FOUR } else { &SIX };
    let result = curl(net, side).and_then(|()| curl(net, back));
    net.host(router).sh("ip link set eth1 mtu 1500");
    for host in [side.host, "router"] {
        net.host(host).sh("ip -4 route flush cache; ip -6 route flush cache");
    }
    result
}

/// Two hosts, and a translator between two routers.
fn network(name: &str, attach: &str) -> Network {
    let net = Network::new(name, &["six", "hop6", "router", "hop4", "four"]);
    net.link(("six", "eth0"), ("hop6", "eth1"));
    net.link(("hop6", "eth0"), ("router", "r0"));
    net.link(("router", "r1"), ("hop4", "eth0"));
    net.link(("hop4", "eth1"), ("four", "eth0"));
    for router in ["hop6", "router", "hop4"] {
        net.host(router).sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    }
    net.host("six").sh("ip addr add 2001:db8:1::102/64 dev eth0; ip route add default via 2001:db8:1::1");
    net.host("hop6").sh(
        "ip addr add 2001:db8:1::1/64 dev eth1; ip addr add 2001:db8:6::2/64 dev eth0; ip route add default via 2001:db8:6::1
         ip -6 route add prohibit 2001:db8:1::14d; ip -6 route add unreachable 2001:db8:1::14e",
    );
    net.host("router")
        .sh("ip addr add 2001:db8:6::1/64 dev r0; ip route add 2001:db8:1::/64 via 2001:db8:6::2
         ip addr add 203.0.113.1/24 dev r1; ip route add 192.0.2.0/24 via 203.0.113.2");
    net.host("hop4").sh(
        "ip addr add 203.0.113.2/24 dev eth0; ip addr add 192.0.2.1/24 dev eth1; ip route add default via 203.0.113.1
         ip route add prohibit 192.0.2.77; ip route add unreachable 192.0.2.78",
    );
    net.host("four").sh("ip addr add 192.0.2.2/24 dev eth0; ip route add default via 192.0.2.1");
    // As XDP needs it.
    for router in ["hop6", "hop4"] {
        let set = || features::set_tx_checksum("eth0", false).and_then(|()| features::set_gro("eth0", true));
        net.host(router).space.run(set).expect("a namespace").expect("offloads");
    }
    configure(&net, attach, "up");
    let big = format!("big.example. TXT {}", format!("\"{}\" ", "x".repeat(250)).repeat(12));
    for (host, address) in [("six", "2001:db8:1::102"), ("four", "192.0.2.2")] {
        names(&net, host, address, &["name.example. A 192.0.2.99", &big]);
        net.host(host).sh("iperf3 -s -D");
        let listen = if host == "six" { "[::]:80" } else { "0.0.0.0:80" };
        http(net.host(host), listen, page());
    }
    for side in [SIX, FOUR] {
        net.host(side.host).eventually(&format!("dig +short @{} A name.example", side.hops[3]), "192.0.2.99");
    }
    net
}

fn configure(net: &Network, attach: &str, verb: &str) {
    let text = format!(
        "[nat64]\nmode = \"stateless\"\nprefix = \"2001:db8:64::/96\"\nattach = {attach}\nerror-pool4 = \"203.0.113.64/32\"\n\
         [[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:1::100/120\"\n"
    );
    net.write("router", "/etc/strait/nat64.toml", &text);
    net.host("router").sh(&format!("strait nat64 {verb} --config /etc/strait/nat64.toml"));
}

/// What is wrong, with all clients from both sides.
fn wrong(net: &Network, attach: &str) -> String {
    let found = Mutex::new(String::new());
    let note = |side: &Side, client: &str, result: Result<(), String>| {
        if let Err(why) = result {
            let _ = writeln!(found.lock().expect("no panic"), "{attach}: {client} from {}: {why}", side.host);
        }
    };
    std::thread::scope(|scope| {
        for side in [&SIX, &FOUR] {
            scope.spawn(|| CLIENTS.iter().for_each(|(client, check)| note(side, client, check(net, side))));
        }
    });
    for side in [&SIX, &FOUR] {
        note(side, "SCTP", sctp(net, side));
        note(side, "a narrow path", narrow(net, side));
    }
    found.into_inner().expect("no panic")
}

#[test]
fn clients_see_one_hop_more_and_nothing_else() {
    let needed = NEEDED.iter().copied().chain(["/usr/lib/usrsctp/client"]).collect::<Vec<_>>();
    if !has("clients", &needed) {
        return;
    }
    let attachments = [crate::DEVICE, TC, XDP];
    let net = network("clients", attachments[0]);
    let mut all = String::new();
    for attach in attachments {
        configure(&net, attach, "reload");
        all += &wrong(&net, attach);
    }
    // The same translator as a process, with a TUN interface.
    configure(&net, attachments[0], "down");
    let router = net.host("router");
    router.sh(
        "strait nat64 up --target native --config /etc/strait/nat64.toml </dev/null >/run/native.log 2>&1 &",
    );
    router.eventually("ip -6 route show proto 64", "2001:db8:64::/96");
    all += &wrong(&net, "native");
    assert_eq!(all, "");
}

/// The same programs on a host that shares an address (RFC 6146).
#[test]
fn clients_of_a_shared_address_see_the_same() {
    if !has("clients of a shared address", &NEEDED) {
        return;
    }
    let net = network("shared", crate::DEVICE);
    // While it can, the IPv4 host learns the MTU of the path back: the first datagram that is too large would be lost.
    tracepath(&net, &FOUR).expect("without sessions, both can call");
    let mut all = String::new();
    for attach in [crate::DEVICE, XDP] {
        let text = format!(
            "[nat64]\nmode = \"stateful\"\nprefix = \"2001:db8:64::/96\"\npool = [\"198.51.100.2\"]\nattach = {attach}\n"
        );
        net.write("router", "/etc/strait/nat64.toml", &text);
        net.host("router").sh("strait nat64 reload --config /etc/strait/nat64.toml");
        for (client, check) in CLIENTS {
            if let Err(why) = check(&net, &SIX) {
                let _ = writeln!(all, "{attach}: {client}: {why}");
            }
        }
    }
    assert_eq!(all, "");
}
