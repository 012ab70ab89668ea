//! ICMP errors that the translator sends itself, to real sockets.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use io::netns::Namespace;
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use serde_json::Value;

use crate::attach::{TC, XDP};
use crate::lab::{CLIENT4, Lab, both, ip, possible};
use crate::native::Native;
use crate::{BYPASS, DEVICE, EXPRESS};

/// Writes a file. The well-known prefix must not carry the server's address, so nothing is translated.
fn refusing(lab: &Lab, attach: &str, more: &str) {
    let text = format!(
        "[nat64]\nmode = \"stateless\"\nprefix = \"64:ff9b::/96\"\nattach = {attach}\n{more}\n\
         [[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:100::/120\"\n"
    );
    std::fs::write(lab.file("nat64.toml"), text).expect("a file");
}

/// Client and server send a packet each that is refused, and must learn that.
fn both_learn(lab: &Lab, name: &str) {
    // RFC 7915 section 5.4: unreachable, administratively prohibited; EACCES.
    let error = answer(&lab.client, "[2001:db8:100::2]:0", "[64:ff9b::192.0.2.2]:7");
    let error = error.unwrap_or_else(|| panic!("{name}: no ICMPv6 error"));
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}: {error}");
    // Section 4.4: unreachable, administratively prohibited; EHOSTUNREACH.
    let error = answer(&lab.server, "192.0.2.2:0", &format!("{CLIENT4}:7"));
    let error = error.unwrap_or_else(|| panic!("{name}: no ICMP error"));
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{name}: {error}");
}

/// Sends a datagram, and returns the error that comes back for it.
fn answer(space: &Namespace, from: &str, to: &str) -> Option<std::io::Error> {
    answer_to(space, from, to, b"datagram", None)
}

/// The same for some bytes, which are one packet of segments of this size until they leave the sender's machine.
fn answer_to(
    space: &Namespace,
    from: &str,
    to: &str,
    data: &[u8],
    segment: Option<i32>,
) -> Option<std::io::Error> {
    let socket = space.run(|| UdpSocket::bind(from).expect("binds")).expect("a namespace");
    socket.connect(to).expect("a route");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
    if let Some(size) = segment {
        setsockopt(&socket, UdpGsoSegment, &size).expect("UDP_SEGMENT");
    }
    socket.send(data).expect("sends");
    socket.recv(&mut [0; 8]).err().filter(|e| e.kind() != ErrorKind::WouldBlock)
}

fn status(lab: &Lab) -> Value {
    let status = lab.strait("status").arg("--json").output().expect("strait starts");
    serde_json::from_slice(&status.stdout).unwrap_or_else(|_| panic!("{}", both(&status)))
}

fn counter(lab: &Lab, name: &str) -> u64 {
    let status = status(lab);
    let counters = status["counters"].as_array().expect("a list");
    let found = counters.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name}: {status}"));
    found["packets"].as_u64().expect("a number")
}

#[test]
fn senders_learn_that_a_packet_was_refused() {
    for (name, attach) in
        [("device", DEVICE), ("express", EXPRESS), ("bypass", BYPASS), ("tc", TC), ("xdp", XDP)]
    {
        if !possible(&format!("refused {name}")) {
            return;
        }
        let lab = Lab::new(&format!("no{name}"));
        lab.complete_checksums();
        refusing(&lab, attach, "error-source6 = \"2001:db8:1::1\"");
        lab.must("up");
        both_learn(&lab, name);
        for family in ["4", "6"] {
            assert_eq!(counter(&lab, &format!("sent.errors_sent{family}.prohibited")), 1, "{name}");
        }
    }
}

/// RFC 1812 section 4.3.2.4. The address is one that the router has when the file is applied.
#[test]
fn errors_come_from_an_address_of_the_router() {
    if !possible("error source") {
        return;
    }
    let lab = Lab::new("own");
    // A private one, such as that of a bridge for containers, is not preferred.
    ip(&format!("-n {} link set lo up", lab.router.name()));
    ip(&format!("-n {} addr add 10.0.0.1/32 dev lo", lab.router.name()));
    let source = |lab: &Lab| status(lab)["errors"]["error-source4"].clone();
    refusing(&lab, DEVICE, "error-source6 = \"2001:db8:1::1\"");
    lab.must("up");
    assert_eq!(source(&lab), "192.0.2.1");
    both_learn(&lab, "own");
    let router = lab.router.name();
    ip(&format!("-n {router} addr add 203.0.113.9/32 dev lo"));
    assert_eq!(source(&lab), "192.0.2.1", "nobody has applied the file again");
    lab.must("up");
    assert_eq!(source(&lab), "203.0.113.9");
    both_learn(&lab, "moved");
    ip(&format!("-n {router} addr del 203.0.113.9/32 dev lo"));
    ip(&format!("-n {router} addr del 192.0.2.1/24 dev r1"));
    lab.must("up");
    assert_eq!(source(&lab), "10.0.0.1", "the router has a private address only");
    ip(&format!("-n {router} addr del 10.0.0.1/32 dev lo"));
    lab.must("up");
    assert_eq!(source(&lab), "192.0.0.8", "the router has no address");
}

/// Packets of offloads, whose checksums are incomplete, are quoted as whole ones are: the kernel looks for the socket by what it finds.
#[test]
fn senders_of_segments_learn_it_too() {
    if !possible("refused segments") {
        return;
    }
    for (name, attach) in [("segdev", DEVICE), ("segtc", TC)] {
        let lab = Lab::new(name);
        lab.incomplete_checksums();
        refusing(&lab, attach, "error-source6 = \"2001:db8:1::1\"");
        lab.must("up");
        let data = vec![7; 20_000];
        let ends = [
            (&lab.client, "[2001:db8:100::2]:0", "[64:ff9b::192.0.2.2]:7".to_string()),
            (&lab.server, "192.0.2.2:0", format!("{CLIENT4}:7")),
        ];
        for (space, from, to) in ends {
            let error = answer_to(space, from, &to, &data, Some(1000));
            assert!(error.is_some(), "{name}: no error from {to}");
        }
    }
}

#[test]
fn senders_learn_it_from_the_native_target() {
    if !possible("refused native") || !std::path::Path::new("/dev/net/tun").exists() {
        return;
    }
    let lab = Lab::new("nonative");
    refusing(&lab, DEVICE, "error-source6 = \"2001:db8:1::1\"");
    let native = Native::start(&lab);
    both_learn(&lab, "native");
    native.end();
}

#[test]
fn a_sender_gets_as_many_errors_as_the_file_allows() {
    if !possible("error rate") {
        return;
    }
    let lab = Lab::new("rate");
    let source = "error-source6 = \"2001:db8:1::1\"\n";
    let send = |count: usize| {
        for _ in 0..count {
            answer(&lab.client, "[2001:db8:100::2]:0", "[64:ff9b::192.0.2.2]:7");
        }
        (counter(&lab, "sent.errors_sent6.prohibited"), counter(&lab, "sent.errors_limited"))
    };
    refusing(&lab, DEVICE, &format!("{source}error-rate = 0"));
    lab.must("up");
    assert_eq!(send(1), (0, 0), "none is wanted");
    refusing(&lab, DEVICE, &format!("{source}error-rate = 1"));
    lab.must("up");
    let (sent, limited) = send(4);
    assert_eq!(sent + limited, 4);
    assert!(sent >= 1 && limited >= 1, "{sent} of 4 errors in a burst");
}
