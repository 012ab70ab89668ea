//! Programs at interfaces: the same file but for `attach`, and the same answers.

use serde_json::{Value, json};

use crate::lab::{Lab, both, possible};

use crate::{DEVICE, EXPRESS, carries_in};

pub const TC: &str = "{ interfaces = [\"r0\", \"r1\"], hook = \"tc\" }";
pub const XDP: &str = "{ interfaces = [\"r0\", \"r1\"], hook = \"xdp\" }";
const GENERIC: &str = "{ interfaces = [\"r0\", \"r1\"], hook = \"xdp\", xdp-mode = \"generic\" }";

fn lab(name: &str) -> Option<Lab> {
    if !possible(name) {
        return None;
    }
    let lab = Lab::new(name);
    lab.complete_checksums();
    Some(lab)
}

/// The state of the lanes, by `status`.
fn lanes(lab: &Lab) -> Value {
    let status = lab.strait("status").arg("--json").output().expect("strait starts");
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    status["interfaces"].clone()
}

#[test]
fn interfaces_carry_traffic_at_either_hook() {
    for (name, attach, hook, mode) in [("tc", TC, "tc", Value::Null), ("xdp", XDP, "xdp", json!("native"))] {
        let Some(lab) = lab(name) else { return };
        let status = carries_in(&lab, attach);
        let lanes = status["interfaces"].as_array().expect("a list").clone();
        assert_eq!(lanes.len(), 2, "{name}: {status}");
        for lane in lanes {
            let said = (&lane["hook"], &lane["mode"], &lane["direct"], &lane["link"]);
            assert_eq!(said, (&json!(hook), &mode, &json!(true), &json!("up")), "{name}: {lane}");
            // Most packets take the lane, and not the device.
            let packets = lane["packets"].as_u64().expect("a number");
            assert!(packets > 50, "{name}: {packets} packets");
        }
    }
}

/// At tc the packets of offloads stay whole: far fewer pass than there are segments.
#[test]
fn large_packets_stay_whole_at_tc() {
    if !possible("whole") {
        return;
    }
    let lab = Lab::new("whole");
    lab.config(TC, "");
    lab.must("up");
    // The kernel finds the neighbours.
    lab.ping(3);
    lab.transfer(8, |_| ());
    let lanes = lanes(&lab);
    let number = |key: &str| lanes[0][key].as_u64().expect("a number");
    let (packets, bytes) = (number("packets"), number("bytes"));
    assert!(bytes > 8_000_000 && bytes / packets > 3_000, "{packets} packets of {bytes} bytes");
}

#[test]
fn a_packet_costs_one_hop_whatever_way_it_takes() {
    for (name, attach) in [("hoptc", TC), ("hopxdp", XDP)] {
        let Some(lab) = lab(name) else { return };
        lab.config(attach, "");
        lab.must("up");
        let ttl = lab.ping(20);
        assert_eq!(ttl, [63; 20], "{name}");
    }
}

#[test]
fn nothing_is_lost_while_neighbours_are_unknown() {
    for (name, attach) in [("neightc", TC), ("neighxdp", XDP)] {
        let Some(lab) = lab(name) else { return };
        lab.config(attach, "");
        lab.must("up");
        let mut turns = 0;
        let (sent, arrived) = lab.count_datagrams(|| {
            turns += 1;
            if turns % 400 == 0 {
                lab.sh("ip neigh flush all");
            }
            turns > 2400
        });
        assert_eq!(sent, arrived, "{name}");
    }
}

#[test]
fn an_interface_that_was_made_again_gets_its_lane_again() {
    let Some(lab) = lab("again") else { return };
    lab.config(XDP, "");
    lab.must("up");
    lab.remake_client_link();
    let status = lab.strait("status").output().expect("strait starts");
    assert_eq!(status.status.code(), Some(4), "{}", both(&status));
    assert!(both(&status).contains("no program is attached to `r0`"), "{}", both(&status));
    lab.datagram(1200);
    lab.must("up");
    lab.transfer(1, |_| ());
    assert_eq!(lanes(&lab).as_array().expect("a list").len(), 2);
    // One that is missing for good is a warning.
    lab.sh("ip link del r0");
    let said = lab.must("up");
    assert!(said.contains("no such interface") && said.contains("`r0`"), "{said}");
    lab.must("down");
}

#[test]
fn the_attachment_changes_while_packets_flow() {
    let Some(lab) = lab("change") else { return };
    lab.config(DEVICE, "");
    let clean = lab.state();
    lab.must("up");
    let attachments = [XDP, TC, GENERIC, EXPRESS, XDP, DEVICE];
    lab.transfer(attachments.len(), |round| {
        lab.config(attachments[round], "");
        lab.must("reload");
        let diff = lab.strait("check").arg("--diff").output().expect("strait starts");
        assert!(both(&diff).contains("nothing would change"), "{}: {}", attachments[round], both(&diff));
        if attachments[round] == GENERIC {
            assert_eq!(lanes(&lab)[1]["mode"], "generic");
        }
    });
    assert_eq!(lanes(&lab), json!([]));
    lab.must("down");
    assert_eq!(lab.state(), clean);
}

#[test]
fn an_upgrade_at_the_xdp_hook_loses_no_packet() {
    let Some(lab) = lab("xdpup") else { return };
    lab.config(XDP, "");
    lab.must("up");
    let (sent, arrived) = std::thread::scope(|scope| {
        let upgrades = scope.spawn(|| {
            for _ in 0..2 {
                lab.outdate();
                lab.must("up");
            }
        });
        lab.count_datagrams(|| upgrades.is_finished())
    });
    assert!(sent > 100 && sent == arrived, "{sent} {arrived}");
    lab.must("status");
    let packets = lanes(&lab)[0]["packets"].as_u64().expect("a number");
    lab.ping(3);
    assert!(lanes(&lab)[0]["packets"].as_u64() > Some(packets), "the new program works");
}

#[test]
fn what_xdp_cannot_carry_is_refused_beforehand() {
    if !possible("unfit") {
        return;
    }
    let lab = Lab::new("unfit");
    lab.config(XDP, "");
    let clean = lab.state();
    // The other ends leave checksums incomplete.
    let up = lab.strait("up").output().expect("strait starts");
    assert!(!up.status.success() && both(&up).contains("ethtool -K c0 tx off"), "{}", both(&up));
    assert_eq!(lab.state(), clean);
    lab.complete_checksums();
    lab.must("up");
    // A program that is there is never replaced, and it is named.
    let other = lab.config("{ device = \"nat46\", interfaces = [\"r1\"], hook = \"xdp\" }", "");
    let text = std::fs::read_to_string(&other).expect("a file");
    let text = text.replace("2001:db8:64::", "2001:db8:65::").replace("198.51.100.0", "203.0.113.0");
    let text = text.replace("2001:db8:100::", "2001:db8:101::");
    let second = other.with_file_name("other.toml");
    std::fs::write(&second, text).expect("a file");
    let running = lab.state();
    let up = lab.strait_with("up", &second).output().expect("strait starts");
    let said = both(&up);
    assert!(
        !up.status.success()
            && said.contains("`r1` has an XDP program of somebody else")
            && said.contains("(id "),
        "{said}"
    );
    assert_eq!(lab.state(), running);
    // What was fit may become unfit, and `status` sees it.
    lab.incomplete_checksums();
    lab.config(XDP, "");
    let status = lab.strait("status").output().expect("strait starts");
    assert!(status.status.code() == Some(4) && both(&status).contains("tx off"), "{}", both(&status));
}

/// RFC 7757 section 4.2: two hosts with mappings, of which one knows the other's IPv4 address.
#[test]
fn mapped_hosts_reach_each_other_with_either_hairpinning() {
    for (name, attach) in [("hairdev", crate::DEVICE), ("hairtc", TC), ("hairxdp", XDP)] {
        let Some(lab) = lab(name) else { return };
        let client = lab.client();
        crate::ip(&format!("-n {client} addr add 2001:db8:100::3/128 dev lo nodad"));
        for hairpin in ["simple", "intrinsic"] {
            lab.config(attach, &format!("hairpin = \"{hairpin}\""));
            lab.must("up");
            // Lanes learn neighbours from the first packets.
            let ping = "ping -n -c 4 -i 0.1 -W 2 -I 2001:db8:100::2 2001:db8:64::c633:6403";
            let output = std::process::Command::new("ip")
                .args(["netns", "exec", client])
                .args(ping.split(' '))
                .output()
                .expect("ping starts");
            let said = both(&output);
            // In the device the kernel routes it between two translations, and each of these takes a hop of what has been translated.
            let twice = name == "hairdev" && hairpin == "simple";
            let ttl = if twice { "ttl=61" } else { "ttl=63" };
            assert_eq!(said.matches(ttl).count(), 4, "{name} {hairpin}: {said}");
        }
    }
}
