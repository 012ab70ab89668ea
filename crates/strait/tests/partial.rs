//! PSA and PNA programs that update the checksums of TCP and UDP incrementally, between hosts whose kernel leaves checksums partial and segments
//! packets late: every byte arrives, because every checksum is right.

mod lab;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};

use io::link::features;
use lab::{Lab, PATIENCE, end, ip, possible};

const PROGRAMS: [(&str, &str); 2] = [
    ("psa", include_str!("../../../tests/cases/psa_nat.p4")),
    ("pna", include_str!("../../../tests/cases/pna_nat.p4")),
];
/// h1 is 10.9.0.99 for h0, and its port 4711 is 5000.
const ENTRIES: &str = "add nat 1 hdr.ipv4.dst:0x0a090063&&&0xffffffff to(address:0x0a090002, port:4711)
add nat 1 hdr.ipv4.src:0x0a090002&&&0xffffffff from(address:0x0a090063, port:5000)
";

/// Sends datagrams there and back. The first one is segmented by the kernel after it has passed the switch, if the kernel can.
fn udp(lab: &Lab, to: SocketAddr, address: SocketAddr) {
    let bind = |host: usize, address: SocketAddr| {
        let socket =
            lab.hosts[host].run(|| UdpSocket::bind(address)).expect("a namespace").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket
    };
    let client = bind(0, SocketAddr::from(([10, 9, 0, 1], 0)));
    let server = bind(1, address);
    let data: Vec<u8> = (0..12_000u32).map(|i| (i * 7 / 3) as u8).collect();
    setsockopt(&client.as_fd(), UdpGsoSegment, &1000).expect("the kernel segments datagrams");
    let mut got = [0; 2000];
    for round in 0..20 {
        client.send_to(&data, to).expect("it leaves");
        for part in data.chunks(1000) {
            let (length, from) = server.recv_from(&mut got).expect("it arrives");
            assert!(got[..length] == *part, "round {round}: other bytes arrive");
            server.send_to(&part[..round * 40], from).expect("it leaves");
            let (length, from) = client.recv_from(&mut got).expect("it comes back");
            assert!(
                from == to && got[..length] == part[..round * 40],
                "round {round}: other bytes come back"
            );
        }
    }
}

fn translates(target: &str, driver: &'static str) {
    if !possible(&format!("partial checksums on {target}")) {
        return;
    }
    for (name, program) in PROGRAMS {
        let lab = Lab::new(&format!("{name}-{target}"), 2, program);
        lab.files.write("entries", ENTRIES.as_bytes()).expect("a file");
        let entries = lab.files.path().join("entries");
        let entries = ["--entries", entries.to_str().expect("a path")];
        // h1 does not answer for its other address.
        ip(&format!("-n {} link set h1 address 02:00:00:00:00:63", lab.hosts[1].name()));
        ip(&format!("-n {} neigh add 10.9.0.99 lladdr 02:00:00:00:00:63 dev h0", lab.hosts[0].name()));
        // A packet whose checksum is still partial is not verified where it arrives. So the switch's own ends complete checksums, and segment.
        let complete = || (0..2).try_for_each(|i| features::set_tx_checksum(&format!("s{i}"), false));
        lab.switch.run(complete).expect("a namespace").expect("veths have this offload");
        let (to, address) =
            (SocketAddr::from(([10, 9, 0, 99], 5000)), SocketAddr::from(([10, 9, 0, 2], 4711)));
        for setting in 0..4 {
            (0..2).for_each(|host| lab.set(host, setting >> host & 1 != 0, true));
            let (child, _) = lab.start_on(target, |_| driver, &entries).expect("it runs");
            lab.tcp_to(0, to, address);
            udp(&lab, to, address);
            end(child, "-INT");
        }
    }
}

/// A datagram comes back in an ICMP error that the program makes of it in a second round. The error's own checksum is over the datagram's, which is partial and
/// which the kernel completes when the error leaves.
fn refuses(target: &str, driver: &'static str) {
    if !possible(&format!("errors about partial checksums on {target}")) {
        return;
    }
    let lab = Lab::new(&format!("refuse-{target}"), 2, include_str!("../../../tests/cases/refuse_udp.p4"));
    let complete = || features::set_tx_checksum("s0", false);
    lab.switch.run(complete).expect("a namespace").expect("veths have this offload");
    for tx in [true, false] {
        lab.set(0, tx, true);
        let (child, _) = lab.start_on(target, |_| driver, &[]).expect("it runs");
        let refused = lab.hosts[0].run(|| {
            let socket = UdpSocket::bind("10.9.0.1:0").expect("a socket");
            socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
            socket.connect("10.9.0.2:9").expect("an address");
            let refused = |data: &[u8]| {
                socket.send(data).expect("it leaves");
                let error = socket.recv(&mut [0; 1]).expect_err("nobody answers");
                assert_eq!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionRefused,
                    "{} bytes, tx {tx}",
                    data.len()
                );
            };
            (1..90).for_each(|n| refused(&vec![(n * 37) as u8; n]));
            setsockopt(&socket.as_fd(), UdpGsoSegment, &1000).expect("the kernel segments datagrams");
            refused(&[0x5a; 12_000]);
        });
        refused.expect("a namespace");
        end(child, "-INT");
    }
}

#[test]
fn errors_about_partial_checksums_are_right() {
    refuses("tc", "tc:");
    refuses("native", "af_packet:");
}

#[test]
fn partial_checksums_are_right_on_tc() {
    translates("tc", "tc:");
}

#[test]
fn partial_checksums_are_right_on_native() {
    translates("native", "af_packet:");
}
