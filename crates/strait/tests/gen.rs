//! Tests `strait gen`: other software must understand the packets, flows must differ, packets must hit their entries, and packets must take
//! the intended paths through a program's parser.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use io::workdir::WorkDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A new directory for the files of a test.
struct Place(WorkDir);

impl Place {
    fn new(name: &str) -> Place {
        Place(WorkDir::named(&format!("st-gen-{name}-")).expect("a directory"))
    }

    /// Runs a command, and returns its standard output and standard error. Arguments are separated by blanks; `~` stands for a blank in an
    /// argument.
    fn strait(&self, line: &str) -> (bool, String, String) {
        let line = line.replace("ROOT", &root().display().to_string());
        let args = line.split_whitespace().map(|arg| arg.replace('~', " "));
        let out = Command::new(env!("CARGO_BIN_EXE_strait")).current_dir(self.0.path()).args(args).output();
        let out = out.expect("strait starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.success(), text(&out.stdout), text(&out.stderr))
    }

    fn done(&self, line: &str) -> String {
        let (done, _, said) = self.strait(line);
        assert!(done, "strait {line}: {said}");
        said
    }

    /// Runs a command, and returns the packets that it makes.
    fn packets(&self, line: &str) -> Vec<Vec<u8>> {
        self.done(&format!("gen {line} -w out.pcap"));
        let file = std::fs::File::open(self.0.path().join("out.pcap")).expect("a capture");
        io::pcap::read(file).expect("a capture").into_iter().map(|frame| frame.data).collect()
    }
}

/// Asserts that the lengths and checksums of a frame are correct, with another library. Returns the payload of UDP or GRE.
fn check(frame: &[u8], what: &str) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap_or_else(|e| panic!("{what}: {e}"));
    match packet.net.as_ref().expect("an IP packet") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "{what}: IPv4");
            let payload = ip.payload().payload;
            match packet.transport {
                Some(TransportSlice::Udp(udp)) => {
                    let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).expect("a sum");
                    assert_eq!((udp.checksum(), udp.length() as usize), (sum, payload.len()), "{what}: UDP");
                }
                Some(TransportSlice::Tcp(tcp)) => {
                    let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).expect("a sum");
                    assert_eq!(tcp.checksum(), sum, "{what}: TCP");
                }
                Some(TransportSlice::Icmpv4(icmp)) => {
                    assert_eq!(
                        icmp.checksum(),
                        icmp.icmp_type().calc_checksum(icmp.payload()),
                        "{what}: ICMP"
                    );
                }
                _ => {}
            }
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            match packet.transport {
                Some(TransportSlice::Udp(udp)) => {
                    let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).expect("a sum");
                    assert_eq!(udp.checksum(), sum, "{what}: UDP");
                }
                Some(TransportSlice::Tcp(tcp)) => {
                    let sum = tcp.to_header().calc_checksum_ipv6(&header, tcp.payload()).expect("a sum");
                    assert_eq!(tcp.checksum(), sum, "{what}: TCP");
                }
                Some(TransportSlice::Icmpv6(icmp)) => {
                    assert!(icmp.is_checksum_valid(header.source, header.destination), "{what}: ICMPv6")
                }
                _ => {}
            }
        }
        NetSlice::Arp(_) => {}
    }
}

#[test]
fn lengths_and_checksums_are_right() {
    let place = Place::new("sums");
    for headers in [
        "ethernet/ipv4/udp",
        "ethernet/ipv4/tcp",
        "ethernet/ipv4/icmp",
        "ethernet/ipv6/udp",
        "ethernet/vlan/vlan/ipv6/tcp",
        "ethernet/vlan/ipv6/icmpv6",
        "ethernet/ipv4/gre/ethernet/ipv6/udp",
    ] {
        let line = format!("--headers {headers} --size imix --count 24 --set ethernet.src=uniform:0..255");
        let packets = place.packets(&line.replace("ethernet.src", "hdr.ethernet.src"));
        let sizes: Vec<usize> = packets.iter().map(Vec::len).collect();
        assert!(sizes.contains(&1514) && sizes.contains(&590), "{headers}: {sizes:?}");
        packets.iter().for_each(|packet| check(packet, headers));
    }
    // The inner packets of tunnels: Ethernet, IPv4, UDP and VXLAN take 50 bytes; Ethernet, IPv6 and GRE take 58.
    for (headers, outer) in [
        ("ethernet/ipv4/udp/vxlan/ethernet/ipv4/tcp", 50),
        ("ethernet/ipv4/udp/vxlan/ethernet/ipv6/icmpv6", 50),
        ("ethernet/ipv6/gre/ethernet/ipv4/icmp", 58),
    ] {
        for packet in place.packets(&format!("--headers {headers} --size 64,300,1518 --count 6")) {
            check(&packet, headers);
            check(&packet[outer..], headers);
        }
    }
}

#[test]
fn flows_differ_and_are_repeatable() {
    let place = Place::new("flows");
    let line = "--set ipv4.src=10.0.0.0/24 --set udp.src=1024..1123 --flows 25000 --size 64";
    let packets = place.packets(line);
    assert_eq!(packets.len(), 25_000);
    assert_eq!(packets.iter().collect::<HashSet<_>>().len(), 25_000);
    let uniform = format!("{line} --pick uniform --seed 7");
    assert_eq!(place.packets(&uniform), place.packets(&uniform));
    // By Zipf's law, the first of 25600 flows has about one packet in eleven. With a uniform distribution, it would have none or one.
    let mut flows: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for packet in place.packets(&format!("{line} --pick zipf --count 20000")) {
        *flows.entry(packet).or_default() += 1;
    }
    let first = *flows.values().max().expect("a flow");
    assert!((1500..2300).contains(&first), "the first flow has {first} packets of 20000");
}

#[test]
fn fields_have_the_given_values() {
    let place = Place::new("set");
    let packets = place.packets("--set udp.checksum=0x1234 --set ipv4.length=9 --set ipv4.ttl=1,7 --count 2");
    let at = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert_eq!(
        packets.iter().map(|p| (at(p, 16), p[22], at(p, 40))).collect::<Vec<_>>(),
        [(9, 1, 0x1234), (9, 7, 0x1234)]
    );
}

/// Programs whose parsers select in different ways, and the bytes that accepted packets must have.
#[test]
fn packets_take_the_paths_through_a_parser() {
    let place = Place::new("ways");
    let program = |states: &str| {
        format!(
            "#include <core.p4>\n#include <v1model.p4>
            header a_t {{ bit<4> x; bit<4> y; bit<8> n; }} header b_t {{ bit<16> v; }}
            struct headers {{ a_t a; b_t b; }} struct metadata {{ bit<8> m; }}
            parser P(packet_in p, out headers hdr, inout metadata meta, inout standard_metadata_t s) {{ {states}
                state more {{ p.extract(hdr.b); transition accept; }} }}
            control V(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
            control I(inout headers hdr, inout metadata meta, inout standard_metadata_t s) {{ apply {{ }} }}
            control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr); }} }}
            V1Switch(P(), V(), I(), I(), V(), D()) main;"
        )
    };
    // The states, and the bytes of `a` and `b` that must have a value, with their masks; in the order of the paths.
    let cases: &[(&str, &str)] = &[
        ("state start { p.extract(hdr.a); transition select(hdr.a.n) { 7: more; default: accept; } }",
            "a n=0x0/0xff; a/b n=0x7/0xff"),
        ("state start { p.extract(hdr.a); transition select(hdr.a.n) { 0: accept; 8w0x80 &&& 0x80: more; } }",
            "a n=0x0/0xff; a/b n=0x80/0x80"),
        ("state start { p.extract(hdr.a); transition select(hdr.a.x ++ hdr.a.y, hdr.a.n[3:2]) { (0x12, 3): more; } }",
            "a/b x=0x1/0xf y=0x2/0xf n=0xc/0xc"),
        ("state start { transition select(p.lookahead<bit<4>>()) { 5: go; } }
          state go { p.extract(hdr.a); transition more; }", "a/b x=0x5/0xf"),
        ("state start { p.extract(hdr.a); meta.m = hdr.a.n & 0x0f; transition select(meta.m) { 9: more; } }",
            "a/b n=0x9/0xf"),
        ("state start { p.extract(hdr.a); verify(hdr.a.x == 4 && hdr.a.y >= 5, error.NoMatch);
            transition select(hdr.a.y) { 5: accept; default: more; } }",
            "a x=0x4/0xf y=0x5/0xf; a/b x=0x4/0xf y=0x6/0xf"),
        ("state start { p.extract(hdr.a); meta.m = ((bit<8>) hdr.a.y) << 2; transition select(hdr.a.y) { 3: go; } }
          state go { transition select(meta.m - 12) { 0: more; default: accept; } }", "a/b y=0x3/0xf"),
    ];
    for (states, wanted) in cases {
        std::fs::write(place.0.path().join("p.p4"), program(states)).expect("a file");
        let (done, listed, said) = place.strait("gen --program p.p4 --list");
        assert!(done, "{states}: {said}");
        let mut ways: Vec<String> = Vec::new();
        for line in listed.lines() {
            let Some((field, must)) = line.trim().split_once(" = ") else {
                if !line.starts_with(' ') {
                    ways.push(line.to_string());
                }
                continue;
            };
            let (name, width) = field.trim_end_matches(" bits").rsplit_once(' ').expect("a width");
            let all = format!("{:#x}", (1u64 << width.parse::<u32>().expect("a number")) - 1);
            let (value, mask) = must.split_once(" under ").unwrap_or((must, &all));
            let name = name.trim().rsplit('.').next().unwrap_or_default();
            ways.last_mut().expect("a way").push_str(&format!(" {name}={value}/{mask}"));
        }
        assert_eq!(ways.join("; "), *wanted, "{states}");
    }
}

#[test]
fn packets_of_the_translator_take_their_paths() {
    let place = Place::new("nat64");
    for headers in ["ethernet/ipv6/fragment/udp", "ethernet/ipv4/tcp", "ethernet/ipv6/icmp", "ethernet/arp"] {
        place.done(&format!("gen --program ROOT/apps/nat64/nat64.p4 --headers {headers} -w out.pcap"));
    }
    let (_, said, _) = place
        .strait("gen --program ROOT/apps/nat64/nat64.p4 --reach ipv6_next,udp_over_ipv6 -w out.pcap --json");
    assert!(said.contains("\"ethernet/ipv6/udp\""), "{said}");
}

#[test]
fn entries_that_packets_hit() {
    let place = Place::new("entries");
    std::fs::write(
        place.0.path().join("router.stf"),
        "add interfaces standard.ingress_port:0 interface(outside:0, mac:0x020000000001)\n\
         add neighbours meta.port:1 meta.gateway:0xc6336402 send(mac:0x02000000010b)\n\
         add routes hdr.ipv4.dst:0/0 via(port:1, outside:1, mac:0x020000000101, ip:0xc6336401, gateway:0xc6336402)\n",
    )
    .expect("a file");
    let flows = "--program ROOT/apps/nat44/nat44.p4 --headers ethernet/ipv4/udp --set ethernet.dst=02:00:00:00:00:01 \
        --set ipv4.src=192.0.2.0/24 --set udp.src=4000..4015 --set ipv4.dst=198.51.100.2";
    let made = place.done(&format!(
        "gen {flows} --entries router.stf --flows 300 --add sessions_up~napt_src(203.0.113.1,4000..5000) --write-entries up.stf"
    ));
    assert!(made.contains("300 entries"), "{made}");
    let read = |name: &str| std::fs::read_to_string(place.0.path().join(name)).expect("a file");
    std::fs::write(place.0.path().join("all.stf"), read("router.stf") + &read("up.stf")).expect("a file");
    let hit = place.done(
        "gen --program ROOT/apps/nat44/nat44.p4 --headers ethernet/ipv4/udp --set ethernet.dst=02:00:00:00:00:01 \
         --set ipv4.ttl=9 --entries all.stf --hit sessions_up -w hit.pcap",
    );
    assert!(hit.contains("300 of 300 packets that were tried hit an entry"), "{hit}");
}

#[test]
fn routes_have_the_requested_number_and_differ() {
    let place = Place::new("routes");
    for family in ["4", "6"] {
        place.done(&format!("gen routes --count 20000 --family {family} -o routes.txt"));
        let text = std::fs::read_to_string(place.0.path().join("routes.txt")).expect("a file");
        let prefixes: HashSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(prefixes.len(), 20_000);
    }
    place
        .done("gen routes --count 50 --program ROOT/apps/l3/l3.p4 --add ipv4_routes~via(1..9) -o routes.stf");
    place.done("gen --program ROOT/apps/l3/l3.p4 --headers ethernet/ipv4 --entries routes.stf -w out.pcap");
}

#[test]
fn impossible_requests_are_reported() {
    let place = Place::new("wrong");
    for (line, why) in [
        (
            "--headers ethernet/foo -w x",
            "no packet of this parser has the headers ethernet/foo; it knows ethernet, vlan[0]",
        ),
        (
            "--program ROOT/apps/l3/l3.p4 --reach nowhere -w x",
            "no packet comes through the states nowhere; there are start",
        ),
        ("--set ipv4.foo=1 -w x", "ethernet/ipv4/udp has no field `ipv4.foo`"),
        ("--set dst=1 -w x", "`dst` could be hdr.ethernet.dst or"),
        ("--set ipv4.ttl=256 -w x", "`256` does not fit 8 bits"),
        ("--set ethernet.type=1 -w x", "hdr.ethernet.type must be 0x800"),
        ("--set ipv4.ttl=zipf(x):1..2 -w x", "Zipf's exponent is a number above 0"),
        ("--size 9999 -w x", "frames have 9220 bytes at most"),
        ("--flows 5 -w x", "5 flows are wanted, and what fields hold by flow makes 1"),
        ("--pick often -w x", "flows are picked seq, uniform, zipf"),
        ("--port af_packet:st-nosuch", "there is no interface `st-nosuch`"),
        ("--seconds=-1 --port af_packet:st-nosuch", "is not a time in seconds"),
        (
            "--program ROOT/apps/l3/l3.p4 --add ipv4_routes~nothing() --write-entries x",
            "there is no action `nothing`",
        ),
        (
            "--program ROOT/apps/l3/l3.p4 --add ipv4_routes~via() --write-entries x",
            "takes 1 values (next_hop), not 0",
        ),
        (
            "--program ROOT/apps/l3/l3.p4 --add ipv4_routes~via(70000) --write-entries x",
            "`70000` does not fit 16 bits",
        ),
        ("routes --count 3000000", "is not a number from 1 to 2000000"),
        ("", "where to?"),
    ] {
        let (done, _, said) = place.strait(&format!("gen {line}"));
        assert!(!done && said.contains(why), "{line}: {said}");
    }
}
