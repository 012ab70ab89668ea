//! Ways in which an operator or another program interferes, as a list. After each, what is the operator's is untouched, a message names cause
//! and cure, and the next `up` heals.

use crate::lab::{Lab, both, possible};

/// Something that goes wrong beside a translator, and what its commands say about it.
struct Fault {
    name: &'static str,
    /// What follows the name of the device in `attach`.
    express: &'static str,
    /// What is done in the router before the first `up`; empty for nothing.
    before: &'static str,
    /// What is done while the translator runs; empty for nothing. `PINS` is the directory of its pins.
    after: &'static str,
    /// The exit code of `status`, and words of its output.
    status: i32,
    tells: &'static [&'static str],
    /// Words with which `up` refuses; none if it succeeds.
    refused: &'static [&'static str],
    /// What the operator does before the `up` that heals.
    cure: &'static str,
}

/// What most rows have.
const USUAL: Fault =
    Fault { name: "", express: "", before: "", after: "", status: 0, tells: &[], refused: &[], cure: "" };
const LANES: &str = ", express = [\"r0\", \"r1\"]";

/// The loose filter on an interface without an IPv4 address, with lanes of any kind.
const LOOSE: Fault = Fault {
    after: "sysctl -qw net.ipv4.conf.r0.rp_filter=2",
    status: 4,
    tells: &["`r0` filters by reverse path and has no IPv4 address"],
    refused: &["sysctl -w net.ipv4.conf.r0.rp_filter=0"],
    cure: "sysctl -qw net.ipv4.conf.r0.rp_filter=0",
    ..USUAL
};

const XDP: &str = ", interfaces = [\"r0\", \"r1\"], hook = \"xdp\"";

const FAULTS: &[Fault] = &[
    Fault {
        name: "bridge",
        before: "ip link add nat64 type bridge",
        status: 3,
        tells: &["`nat64`, a bridge", "which Strait did not make"],
        refused: &["`nat64`, a bridge", "name another device"],
        cure: "ip link del nat64",
        ..USUAL
    },
    Fault {
        name: "tun",
        before: "ip tuntap add nat64 mode tun",
        status: 3,
        tells: &["TUN"],
        refused: &["`nat64`, a TUN", "name another device"],
        cure: "ip link del nat64",
        ..USUAL
    },
    Fault {
        name: "veth",
        before: "ip link add nat64 type veth peer name nat64-",
        status: 3,
        tells: &["a veth of somebody else"],
        refused: &["`nat64`, a veth of somebody else"],
        cure: "ip link del nat64",
        ..USUAL
    },
    Fault {
        name: "other-end",
        before: "ip link add nat64- type bridge",
        status: 3,
        tells: &["`nat64-`, a bridge"],
        refused: &["`nat64-`, a bridge"],
        cure: "ip link del nat64-",
        ..USUAL
    },
    Fault {
        name: "map-is-lan",
        before: "ip addr add 198.51.100.1/24 dev r1",
        status: 3,
        tells: &["not up"],
        refused: &["198.51.100.0/24 is the network of `r1`", "--force", "nothing was changed"],
        cure: "ip addr del 198.51.100.1/24 dev r1",
        ..USUAL
    },
    Fault {
        name: "static-route",
        before: "ip route add 198.51.100.0/24 via 192.0.2.2 metric 50",
        status: 3,
        tells: &["not up"],
        refused: &["`198.51.100.0/24 via 192.0.2.2 dev r1", "--force"],
        cure: "ip route del 198.51.100.0/24",
        ..USUAL
    },
    Fault {
        name: "blackhole",
        before: "ip route add blackhole 198.51.100.0/24 metric 9999",
        status: 3,
        tells: &["not up"],
        refused: &["`blackhole 198.51.100.0/24"],
        cure: "ip route del blackhole 198.51.100.0/24 metric 9999",
        ..USUAL
    },
    Fault {
        name: "next-hop",
        before: "ip addr add 198.51.100.1/30 dev r1; ip route add 203.0.113.0/24 via 198.51.100.2",
        status: 3,
        tells: &["not up"],
        refused: &["next hop 198.51.100.2", "inside 198.51.100.0/24"],
        cure: "ip route del 203.0.113.0/24; ip addr del 198.51.100.1/30 dev r1",
        ..USUAL
    },
    Fault {
        name: "prefix-in-lan",
        before: "ip addr add 2001:db8:64::1/64 dev r1 nodad",
        status: 3,
        tells: &["not up"],
        refused: &[
            "2001:db8:64::/96 is inside the network 2001:db8:64::/64 of `r1`",
            "outside of every link",
        ],
        cure: "ip addr del 2001:db8:64::1/64 dev r1",
        ..USUAL
    },
    Fault {
        name: "prefix-is-lan",
        before: "ip addr add 2001:db8:64::1/96 dev r1 nodad",
        status: 3,
        tells: &["not up"],
        refused: &["2001:db8:64::/96 is the network of `r1`"],
        cure: "ip addr del 2001:db8:64::1/96 dev r1",
        ..USUAL
    },
    Fault {
        name: "no-ipv6",
        before: "sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
        status: 3,
        tells: &["not up"],
        refused: &["IPv6 is switched off", "sysctl -w net.ipv6.conf.all.disable_ipv6=0"],
        cure: "sysctl -qw net.ipv6.conf.all.disable_ipv6=0; ip addr add 2001:db8:1::1/64 dev r0 nodad
               ip route add 2001:db8:100::/120 via 2001:db8:1::2",
        ..USUAL
    },
    Fault {
        name: "no-ipv6-for-new-interfaces",
        before: "sysctl -qw net.ipv6.conf.default.disable_ipv6=1",
        tells: &["nat64 is up"],
        ..USUAL
    },
    Fault {
        name: "missing-lane",
        express: ", express = [\"r0\", \"r7\"]",
        status: 4,
        tells: &["`r7` shall have a lane and does not exist", "when it is there"],
        cure: "ip link add r7 type bridge",
        ..USUAL
    },
    Fault {
        name: "link-down",
        after: "ip link set nat64 down",
        status: 4,
        tells: &["`nat64` is down", "cure: strait nat64 up"],
        ..USUAL
    },
    Fault {
        name: "other-end-down",
        after: "ip link set nat64- down",
        status: 4,
        tells: &["`nat64-` is down"],
        ..USUAL
    },
    Fault {
        name: "mtu",
        after: "ip link set nat64 mtu 1400",
        status: 4,
        tells: &["has MTU 1400 and needs"],
        ..USUAL
    },
    Fault {
        name: "mtu-below-ipv6",
        after: "ip link set nat64 mtu 1000",
        status: 4,
        tells: &["has MTU 1000 and needs"],
        ..USUAL
    },
    Fault {
        name: "other-settings",
        after: "ip link set nat64 arp on; ip link set nat64 multicast on; ip link set nat64 address 02:00:00:00:00:99
                ethtool -K nat64- tx on >/dev/null",
        status: 4,
        tells: &["has ARP on, has multicast on", "`nat64-` has checksum offload (`tx`) on"],
        ..USUAL
    },
    Fault {
        name: "disable-ipv6",
        after: "sysctl -qw net.ipv6.conf.nat64.disable_ipv6=1",
        status: 4,
        tells: &["net.ipv6.conf.nat64.disable_ipv6 is 1"],
        ..USUAL
    },
    Fault {
        name: "routes-flushed",
        after: "ip route flush dev nat64; ip -6 route flush dev nat64",
        status: 4,
        tells: &["`198.51.100.0/24 dev nat64", "is missing"],
        ..USUAL
    },
    Fault {
        name: "route-shadowed",
        after: "ip route prepend 198.51.100.0/24 via 192.0.2.2",
        status: 4,
        tells: &["another one takes its packets"],
        refused: &["198.51.100.0/24 via 192.0.2.2", "--force"],
        cure: "ip route del 198.51.100.0/24 via 192.0.2.2",
        ..USUAL
    },
    Fault {
        name: "device-deleted",
        after: "ip link del nat64",
        status: 3,
        tells: &["interface is gone"],
        ..USUAL
    },
    Fault {
        name: "device-deleted-under-lanes",
        express: LANES,
        after: "ip link del nat64",
        status: 3,
        tells: &["interface is gone"],
        ..USUAL
    },
    Fault {
        name: "device-renamed",
        after: "ip link set nat64 name nat64x",
        status: 4,
        tells: &["somebody called its interface `nat64x`", "ip link set nat64x name nat64"],
        refused: &["is called `nat64x` now"],
        cure: "if ip link show nat64x; then ip link set nat64x name nat64; fi 2>/dev/null",
        ..USUAL
    },
    Fault {
        name: "other-end-renamed",
        after: "ip link set nat64- name nat64x",
        tells: &["nat64 is up"],
        ..USUAL
    },
    Fault {
        name: "device-replaced",
        after: "ip link del nat64; ip link add nat64 type bridge",
        status: 3,
        tells: &["`nat64`, a bridge"],
        refused: &["`nat64`, a bridge"],
        cure: "ip link del nat64",
        ..USUAL
    },
    Fault {
        name: "forwarding-of-all",
        after: "sysctl -qw net.ipv4.ip_forward=0",
        status: 4,
        tells: &["net.ipv4.ip_forward is 0", "sysctl -w net.ipv4.ip_forward=1"],
        cure: "sysctl -qw net.ipv4.ip_forward=1",
        ..USUAL
    },
    Fault {
        name: "forwarding-of-the-device",
        after: "sysctl -qw net.ipv4.conf.nat64.forwarding=0",
        status: 4,
        tells: &["net.ipv4.conf.nat64.forwarding is 0"],
        cure: "sysctl -qw net.ipv4.conf.nat64.forwarding=1",
        ..USUAL
    },
    Fault {
        name: "forwarding-of-a-lane",
        express: LANES,
        after: "sysctl -qw net.ipv4.conf.r1.forwarding=0",
        status: 4,
        tells: &["net.ipv4.conf.r1.forwarding is 0"],
        cure: "sysctl -qw net.ipv4.conf.r1.forwarding=1",
        ..USUAL
    },
    Fault {
        name: "forwarding-of-another",
        after: "sysctl -qw net.ipv4.conf.r1.forwarding=0",
        tells: &["note: net.ipv4.conf.r1.forwarding is 0"],
        cure: "sysctl -qw net.ipv4.conf.r1.forwarding=1",
        ..USUAL
    },
    Fault {
        name: "strict-filter",
        express: LANES,
        after: "sysctl -qw net.ipv4.conf.r1.rp_filter=1",
        status: 4,
        tells: &["`r1` filters by reverse path strictly", "sysctl -w net.ipv4.conf.r1.rp_filter=2"],
        refused: &["rp_filter=2"],
        cure: "sysctl -qw net.ipv4.conf.r1.rp_filter=2",
        ..USUAL
    },
    Fault { name: "loose-filter-without-address", express: LANES, ..LOOSE },
    Fault {
        name: "loose-filter-past-netfilter",
        express: ", express = [\"r0\", \"r1\"], bypass-netfilter = true",
        ..LOOSE
    },
    Fault {
        name: "older-release",
        after: "ip link set nat64 alias ''; ip link set nat64 address 02:00:00:00:00:99
                ip route flush dev nat64; ip route add 198.51.100.0/24 dev nat64 mtu 1472 proto static
                ip route add 203.0.113.0/24 dev nat64 proto static",
        status: 4,
        tells: &["does not have the alias", "`203.0.113.0/24 dev nat64 proto static` is left over"],
        ..USUAL
    },
    Fault {
        name: "lane-lost",
        express: LANES,
        after: "rm PINS/links/*-ingress",
        status: 4,
        tells: &["no program is attached to `r0`"],
        ..USUAL
    },
    Fault {
        name: "xdp-lane-lost",
        express: XDP,
        after: "rm PINS/links/xdp-*",
        status: 4,
        tells: &["no program is attached to `r0`"],
        ..USUAL
    },
    Fault {
        name: "address-changed-under-xdp",
        express: XDP,
        after: "ip link set r0 address 02:00:00:00:00:77",
        status: 4,
        tells: &["the lane on `r0` is not what the file says"],
        ..USUAL
    },
    Fault {
        name: "program-lost",
        after: "rm PINS/links/*-egress",
        status: 3,
        tells: &["no program is attached to `nat64`"],
        ..USUAL
    },
    Fault {
        name: "pins-lost",
        express: LANES,
        after: "rm -r PINS",
        status: 3,
        tells: &["older release made it"],
        ..USUAL
    },
];

#[test]
fn whatever_interferes_is_untouched_and_the_next_up_heals() {
    if !possible("faults") {
        return;
    }
    // All failures are reported, not the first.
    let fails = |fault: &&Fault| std::panic::catch_unwind(|| suffer(fault)).is_err();
    let failed: Vec<_> = FAULTS.iter().filter(fails).map(|fault| fault.name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn suffer(fault: &Fault) {
    let name = fault.name;
    let lab = Lab::new("fault");
    lab.config(&format!("{{ device = \"nat64\"{} }}", fault.express), "");
    if fault.express == XDP {
        lab.complete_checksums();
    }
    let clean = lab.theirs();
    lab.sh(fault.before);
    let early = !fault.before.is_empty() && !fault.refused.is_empty();
    if !early {
        lab.must("up");
        lab.sh(&fault.after.replace("PINS", &lab.pins("nat64").display().to_string()));
    }
    let told = |text: &str| fault.tells.iter().all(|word| text.contains(word));
    let ask = || lab.strait("status").output().expect("strait starts");
    let mut status = ask();
    // The kernel detaches a program some time after its link has gone.
    for _ in 0..20 {
        if told(&both(&status)) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(250));
        status = ask();
    }
    let text = both(&status);
    assert!(told(&text), "{name}: status: {text}");
    assert_eq!(status.status.code(), Some(fault.status), "{name}: status: {text}");
    if !fault.refused.is_empty() {
        refuses(fault, &lab);
    }
    lab.sh(fault.cure);
    lab.must("up");
    lab.transfer(1, |_| ());
    let status = lab.must("status");
    assert!(
        status.contains("nat64 is up") && !status.contains("problem"),
        "{name}: after the cure: {status}"
    );
    lab.must("down");
    if early {
        assert_eq!(lab.theirs(), clean, "{name}: after `down`");
    }
}

/// `up` refuses and changes nothing, and `down` takes nothing that is not ours.
fn refuses(fault: &Fault, lab: &Lab) {
    let name = fault.name;
    let has_the_name = [fault.before, fault.after].iter().any(|script| script.contains("add nat64"));
    let theirs = || match has_the_name {
        true => lab.theirs() + &lab.sh("ip -o link | grep nat64"),
        false => lab.theirs(),
    };
    let before = theirs();
    let refused = lab.strait("up").output().expect("strait starts");
    let text = both(&refused);
    assert_eq!(refused.status.code(), Some(1), "{name}: {text}");
    assert!(fault.refused.iter().all(|word| text.contains(word)), "{name}: {text}");
    assert_eq!(text.matches("error:").count(), 1, "{name}: an error is said once: {text}");
    assert_eq!(theirs(), before, "{name}: after the refusal");
    let down = lab.strait("down").output().expect("strait starts");
    assert_eq!(down.status.success(), !has_the_name, "{name}: {}", both(&down));
    assert_eq!(theirs(), before, "{name}: after `down`");
}
