//! Interfaces, addresses, routes and sysctls in a namespace.

use std::time::Duration;

use io::link::{Beside, Change, Handle, Prefix, Route, sysctl};
use io::netns::{self, Namespace};
use io::packet::PacketSocket;
use io::tun::Tun;

#[test]
fn a_device_as_nat64_wants_it() {
    if !crate::common::root("a_device_as_nat64_wants_it") {
        return;
    }
    let space = Namespace::temporary("st-io-link").expect("namespace");
    space.run(device).expect("enters");
    space.delete().expect("deletes");
    assert!(Namespace::open("st-io-link").is_err());
}

fn device() {
    let handle = Handle::open().expect("netlink");
    for _ in 0..2 {
        handle.add_veth("nat64", "nat64p", None).expect("a pair, and again");
    }
    assert!(
        handle.add_veth("nat64", "other", None).is_ok() == handle.link("other").expect("reads").is_none()
    );
    let mac = [2, 0, 0, 0, 0, 64];
    let change = Change {
        up: Some(true),
        noarp: Some(true),
        multicast: Some(false),
        mtu: Some(1400),
        queue: Some(77),
        mac: Some(mac),
        no_link_local: true,
        alias: Some("made by a test".into()),
    };
    handle.change("nat64", &change).expect("configures");
    handle.change("nat64p", &Change { mac: None, ..change }).expect("configures");
    let link = handle.link("nat64").expect("reads").expect("is there");
    assert_eq!(
        (link.up, link.noarp, link.mtu, &link.mac[..], &link.kind[..]),
        (true, true, 1400, &mac[..], "veth")
    );
    assert!(link.ethernet && !link.multicast);
    assert_eq!(link.alias, "made by a test");
    assert_eq!(handle.addresses("nat64").expect("lists"), []);

    let address: Prefix = "192.0.2.1/24".parse().expect("parses");
    let address6: Prefix = "2001:db8::1/64".parse().expect("parses");
    for a in [address, address, address6, address6] {
        handle.add_address("nat64", a).expect("adds, and again");
    }
    assert_eq!(handle.addresses("nat64").expect("lists"), [address, address6]);
    assert!(handle.remove_address("nat64", address).expect("removes"));
    assert!(!handle.remove_address("nat64", address).expect("is gone"));

    for (to, mtu) in [("198.51.100.0/24", 1472), ("2001:db8:64::/96", 1500)] {
        let route = Route::dev(to.parse().expect("parses"), "nat64").mtu(1300);
        handle.set_route(&route).expect("sets");
        let route = route.mtu(mtu);
        handle.set_route(&route).expect("sets anew");
        let find = || handle.routes().expect("lists").into_iter().find(|r| r.to == route.to);
        assert_eq!(find().and_then(|r| r.mtu), Some(mtu));
        assert!(handle.remove_route(&route).expect("removes"));
        assert!(!handle.remove_route(&route).expect("is gone"));
        assert!(find().is_none());
    }
    sysctl::set("net/ipv4/ip_forward", "1").expect("sets");
    assert_eq!(sysctl::get("net/ipv4/ip_forward").expect("reads"), "1");
    assert!(handle.delete_link("nat64").expect("deletes"));
    assert!(!handle.delete_link("nat64").expect("is gone"));
    assert!(handle.change("nat64", &Change::default()).is_err());
}

#[test]
fn a_route_beside_others_leaves_them() {
    if crate::common::root("a_route_beside_others_leaves_them") {
        netns::run_in_fresh(beside_others).expect("a namespace");
    }
}

fn beside_others() {
    let handle = Handle::open().expect("netlink");
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    handle.add_new_veth([("a", macs[0]), ("b", macs[1])], 1500).expect("a pair");
    assert_eq!(handle.link("b").expect("reads").expect("is there").mac, macs[1]);
    assert!(handle.add_new_veth([("a", macs[0]), ("c", macs[1])], 1500).is_err(), "`a` is taken");
    for end in ["a", "b"] {
        handle.change(end, &Change { up: Some(true), ..Change::default() }).expect("is up");
    }
    for to in ["198.51.100.0/24", "2001:db8:64::/96"] {
        let to: Prefix = to.parse().expect("parses");
        let held = || {
            let all = handle.routes().expect("lists").into_iter().filter(|r| r.to == to);
            all.map(|r| (r.interface.expect("has one"), r.protocol)).collect::<Vec<_>>()
        };
        let (theirs, ours) = (Route::dev(to, "b"), Route::dev(to, "a").by(64));
        handle.add_route(&theirs, Beside::Nothing).expect("adds");
        handle.add_route(&ours, Beside::Nothing).expect_err("is refused");
        assert!(handle.add_route(&ours, Beside::Others).expect("adds"));
        assert!(!handle.add_route(&ours, Beside::Others).expect("is there"));
        assert_eq!(held().len(), 2);
        if to.address.is_ipv4() {
            assert_eq!(held()[0], ("a".to_string(), 64), "ours is first");
        }
        // Not the other one, also if only the protocol differs.
        assert!(!handle.remove_route(&Route::dev(to, "b").by(64)).expect("is none"));
        assert!(handle.remove_route(&ours).expect("removes"));
        assert_eq!(held(), [("b".to_string(), 4)]);
    }
}

#[test]
fn a_tun_interface_carries_frames_of_any_length() {
    if !crate::common::root("a_tun_interface_carries_frames_of_any_length") {
        return;
    }
    netns::run_in_fresh(frames_of_any_length).expect("a namespace");
}

fn frames_of_any_length() {
    const SOON: Duration = Duration::from_secs(5);
    sysctl::set("net/ipv6/conf/default/disable_ipv6", "1").expect("sets");
    let handle = Handle::open().expect("netlink");
    let tun = Tun::create("short").expect("a TUN interface");
    handle
        .change("short", &Change { up: Some(true), mtu: Some(65_535), ..Change::default() })
        .expect("is up");
    assert!(!handle.link("short").expect("reads").expect("is there").ethernet);
    let socket = PacketSocket::open("short").expect("raw");
    for length in [1, 13, 14, 15, 1500, 65_000] {
        let frame: Vec<u8> = (0..length).map(|i: usize| i as u8).collect();
        tun.send(&frame).expect("sends");
        assert_eq!(socket.receive(SOON).expect("receives"), Some(frame.clone()));
        socket.send(&frame).expect("sends");
        assert_eq!(tun.receive(SOON).expect("receives"), Some(frame));
    }
    assert_eq!(tun.receive(Duration::ZERO).expect("waits"), None);
    drop(tun);
    assert_eq!(handle.link("short").expect("reads"), None);
}
