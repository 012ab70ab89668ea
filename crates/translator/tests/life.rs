//! The life of a translator by the library alone: it comes up from a text, translates a packet, is read and goes.

use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use io::link::{Change, Handle, Prefix};
use translator::log::Priority;
use translator::status::{State, Status};
use translator::{Bundle, File, Log, Select, down, status, up};

const CONFIG: &str = r#"
    [nat64]
    mode = "stateless"
    prefix = "2001:db8:64::/96"
    attach = { device = "nat64" }
    [[map]]
    ipv4 = "198.51.100.0/24"
    ipv6 = "2001:db8:100::/120"
"#;

/// Why this machine cannot run the test.
fn obstacle() -> Option<&'static str> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    match (root, Bundle::all()[0].object.is_empty()) {
        (false, _) => Some("it needs root"),
        (true, true) => Some("this was built without clang"),
        (true, false) => None,
    }
}

/// Sends a packet to a host that is translated.
fn send() {
    let socket = UdpSocket::bind("192.0.2.1:0").expect("an address of this host");
    socket.send_to(b"hello", "198.51.100.5:9").expect("it is routed into the device");
}

fn read(select: &Select) -> Status {
    let mut all = status::status(select).expect("root may read it");
    all.next().expect("one is meant").expect("it can be read")
}

#[test]
fn a_translator_lives_without_the_command_line() {
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return;
    }
    io::netns::run_in_fresh(live).expect("root may make a network namespace");
}

fn live() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let into = said.clone();
    let log = Log::new(move |priority: Priority, text: &str| {
        into.lock().expect("nobody panicked").push(format!("{priority:?}: {text}"));
    });
    let links = Handle::open().expect("a socket");
    links.change("lo", &Change { up: Some(true), ..Change::default() }).expect("lo comes up");
    links.add_address("lo", Prefix::new([192, 0, 2, 1], 32)).expect("it is new");
    let file = File { path: PathBuf::from("/life/nat64.toml"), text: CONFIG.into() };

    let changes = up::check::diff(&file).expect("the text is good").changes;
    assert!(changes.iter().any(|change| change.kind == "interface"), "{changes:?}");
    let up = up::up(&file, false, &log).expect("the text is good");
    assert_eq!(
        (up.device.as_str(), up.described().as_str()),
        ("nat64", "1 mappings, prefix 2001:db8:64::/96")
    );
    assert_eq!(up::check::diff(&file).expect("the text is good").changes, []);

    let select = Select::Device(up.device);
    send();
    let status = read(&select);
    assert!(status.up && status.counters.iter().any(|(_, count)| count.packets == 1), "{status:?}");
    assert_eq!(status.json()["device"], "nat64");
    // A new namespace forwards nothing, and the operator was told.
    assert_eq!(status.state(), State::Degraded, "{:?}", status.problems);
    let said = said.lock().expect("nobody panicked").join("\n");
    assert!(said.contains("Warning: net.ipv4.ip_forward is 0"), "{said}");

    let mut gone = Vec::new();
    down::down(&select, &log, &mut |device| gone.push(device.to_string())).expect("it is ours");
    assert_eq!((gone, read(&select).state()), (vec!["nat64".to_string()], State::Down));
    assert_eq!(links.link("nat64").expect("a list"), None);
}
