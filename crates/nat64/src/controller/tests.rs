//! The control plane without a network: events in, entries of a device and packets out.

use dataplane::device::{Device as _, EntryQuery, Model, Query};

use super::*;
use crate::config;
use control::controller::tell;
use control::testing::{Shape, Told, digest, idle, model};

const HOST: u128 = 0x2001_0db8_0100 << 80 | 2;
const REMOTE: u32 = 0xc000_0202;
const POOL: u32 = 0xcb00_7101;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const SEGMENT: Told = (
    "segment_t",
    &[("address", 32), ("port", 16), ("remote", 32), ("remote_port", 16), ("from6", 8), ("flags", 8)],
);
const BIB4: &str = "Nat64.sessions.bib4";
const BIB6: &str = "Nat64.sessions.bib6";
const SESSIONS: &str = "Nat64.sessions.sessions";

/// A control plane and its device.
struct Rig {
    plane: Nat64,
    device: Model,
}

/// A configuration with one address, and what else is in the file.
fn file(more: &str) -> Config {
    let secret = "00112233445566778899aabbccddeeff";
    let text = format!(
        "[nat64]\nmode = \"stateful\"\nprefix = \"2001:db8:64::/96\"\npool = [\"203.0.113.1\"]\nsecret = \"{secret}\"\n{more}\n"
    );
    config::parse(&text).expect("a good file")
}

impl Rig {
    fn new(more: &str, sessions: u64) -> Rig {
        let tables: [Shape; 3] = [
            (BIB6, &[8, 128, 16], "Nat64.sessions.bound", &[32, 16], 1 << 17),
            (BIB4, &[8, 32, 16], "Nat64.sessions.taken", &[128, 16], 1 << 17),
            (SESSIONS, &[8, 32, 16, 32, 16], "Nat64.sessions.session", &[128, 16, 8], sessions),
        ];
        let device = model("nat64-controller", &tables, &[SEGMENT]);
        Rig { plane: Rig::plane(&device, more), device }
    }

    fn plane(device: &Model, more: &str) -> Nat64 {
        Nat64::with(device.manifest(), file(more).stateful.expect("it is stateful"), Desired::default())
            .expect("the tables are there")
    }

    /// Passes events, and returns the verdicts of the packets that come back, and the number of errors.
    fn tell(&mut self, events: &[device::Event]) -> (Vec<u8>, usize) {
        let events: Vec<Event<'_>> = events.iter().map(Event::Told).collect();
        let errors = tell(&mut self.plane, 0, &events, &mut self.device).len();
        (self.device.sent.drain(..).map(|frame| frame[2]).collect(), errors)
    }

    /// Another control plane takes the place of this one.
    fn replace(&mut self, more: &str) {
        let mut plane = Rig::plane(&self.device, more);
        let found = self.device.read(&Query::Entries(EntryQuery::default())).expect("it reads");
        let events = [Event::Found(&found), Event::Started(&[])];
        assert_eq!(tell(&mut plane, 0, &events, &mut self.device), []);
        self.plane = plane;
    }

    /// The keys and the arguments of the entries of a table, and their idle timeouts in seconds.
    fn entries(&mut self, table: &str) -> Vec<(Vec<u128>, Vec<u128>, Option<u64>)> {
        let table = self.device.manifest().table_id(table).expect("there is such a table");
        let found = self.device.read(&Query::Entries(EntryQuery::table(table))).expect("it reads");
        let mut all: Vec<_> = found.iter().map(parts).collect();
        all.sort();
        all
    }

    fn sizes(&mut self) -> [usize; 3] {
        [BIB6, BIB4, SESSIONS].map(|table| self.entries(table).len())
    }

    /// The port of the pool that a host's port has.
    fn port_of(&mut self, protocol: u8, port: u16) -> u16 {
        let bound = self.entries(BIB6);
        let of = |(key, ..): &&(Vec<u128>, _, _)| key[0] == protocol.into() && key[2] == port.into();
        bound.iter().find(of).expect("it is bound").1[1] as u16
    }

    fn segment(&mut self, port: u16, from6: bool, flags: u8) {
        let values = [POOL.into(), port.into(), REMOTE.into(), 80, from6.into(), flags.into()];
        let event = digest(&self.device, "segment_t", &values);
        assert_eq!(self.tell(&[event]), (vec![], 0));
    }

    fn ends(&mut self, protocol: u8, port: u16, remote_port: u16) {
        let key = session_key(&((protocol, POOL, port), REMOTE, remote_port));
        let event = idle(&self.device, SESSIONS, &key);
        assert_eq!(self.tell(&[event]), (vec![], 0));
    }
}

fn parts(entity: &Entity) -> (Vec<u128>, Vec<u128>, Option<u64>) {
    let Entity::Entry(entry) = entity else { panic!("an entry") };
    let device::Action::Call(call) = &entry.action else { panic!("a call") };
    let key = |value: &abi::MatchValue| match value {
        abi::MatchValue::Exact(value) => value.to_u128().expect("128 bits"),
        _ => panic!("the keys are exact"),
    };
    let args = call.args.iter().map(|arg| arg.to_u128().expect("128 bits")).collect();
    (entry.key.matches.iter().map(key).collect(), args, entry.idle.map(|micros| micros / 1_000_000))
}

/// A packet for the controller.
fn frame(from6: bool, protocol: u8, [own, remote]: [u16; 2], host: u128, pool: u32) -> device::Event {
    let (host_port, port) = if from6 { (own, remote) } else { (remote, own) };
    let mut frame = vec![0, 7, from6.into(), protocol];
    frame.extend(host.to_be_bytes());
    frame.extend(host_port.to_be_bytes());
    frame.extend(pool.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend(REMOTE.to_be_bytes());
    frame.extend(remote.to_be_bytes());
    frame.extend(b"frame");
    device::Event::Packet(frame)
}

fn from6(protocol: u8, port: u16, remote_port: u16) -> device::Event {
    frame(true, protocol, [port, remote_port], HOST, 0)
}

fn from4(protocol: u8, port: u16, remote_port: u16) -> device::Event {
    frame(false, protocol, [port, remote_port], 0, POOL)
}

#[test]
fn a_packet_opens_a_session_and_comes_back() {
    let mut rig = Rig::new("", 8);
    let opening = from6(UDP, 4001, 53);
    let errors = tell(&mut rig.plane, 0, &[Event::Told(&opening)], &mut rig.device);
    assert_eq!(
        (errors, rig.device.sent.drain(..).collect::<Vec<_>>()),
        (vec![], vec![b"\x00\x07\x00frame".to_vec()])
    );
    let port = rig.port_of(UDP, 4001);
    assert_eq!(port % 2, 1, "it has the parity of the host's port");
    let session = (vec![17, POOL.into(), port.into(), REMOTE.into(), 53], vec![HOST, 4001, 0], Some(300));
    assert_eq!(rig.entries(SESSIONS), [session]);
    assert_eq!(rig.entries(BIB4), [(vec![17, POOL.into(), port.into()], vec![HOST, 4001], None)]);
    // The same packet once more, and one to another port from the same binding.
    assert_eq!(rig.tell(&[from6(UDP, 4001, 53), from6(UDP, 4001, 54)]), (vec![0, 0], 0));
    assert_eq!(rig.sizes(), [1, 1, 2]);
    // The binding ends with its last session.
    rig.ends(UDP, port, 53);
    assert_eq!(rig.sizes(), [1, 1, 1]);
    rig.ends(UDP, port, 54);
    assert_eq!(rig.sizes(), [0, 0, 0]);
}

#[test]
fn ipv4_hosts_reach_bindings_and_nothing_else() {
    let mut rig = Rig::new("", 8);
    assert_eq!(rig.tell(&[from4(UDP, 5000, 53)]), (vec![], 0));
    rig.tell(&[from6(UDP, 4001, 53)]);
    let port = rig.port_of(UDP, 4001);
    assert_eq!(rig.tell(&[from4(UDP, port, 99)]), (vec![0], 0));
    assert_eq!(rig.sizes(), [1, 1, 2]);

    let mut rig = Rig::new("filtering = \"address-dependent\"", 8);
    rig.tell(&[from6(UDP, 4001, 53)]);
    let port = rig.port_of(UDP, 4001);
    // The remote host may send from another port, until the host's session with it has ended.
    assert_eq!(rig.tell(&[from4(UDP, port, 99)]), (vec![0], 0));
    rig.tell(&[frame(true, UDP, [4001, 53], HOST, 0)]);
    rig.ends(UDP, port, 53);
    rig.ends(UDP, port, 99);
    assert_eq!(rig.tell(&[from4(UDP, port, 99)]), (vec![], 0));
}

#[test]
fn what_has_no_room_is_sent_back_to_be_refused_and_takes_no_others_with_it() {
    let mut rig = Rig::new("", 2);
    let several = [from6(UDP, 1, 53), from6(UDP, 2, 53), from6(UDP, 3, 53)];
    assert_eq!(rig.tell(&several), (vec![0, 0, 1], 0));
    assert_eq!(rig.sizes(), [2, 2, 2]);
    // The device may have less room than it says.
    let mut rig = Rig::new("", 8);
    rig.device.refuses_after = Some(4);
    assert_eq!(rig.tell(&several), (vec![0, 0, 0], 0));
    rig.device.refuses_after = Some(1);
    assert_eq!(rig.tell(&[from6(UDP, 4, 53)]), (vec![1], 1));
    assert_eq!(rig.sizes(), [3, 3, 3]);
    assert_eq!((rig.plane.bindings.len(), rig.plane.owners.len(), rig.plane.sessions.len()), (3, 3, 3));
    assert_eq!(rig.tell(&[from6(UDP, 4, 53)]), (vec![0], 0));
}

#[test]
fn a_subscriber_has_as_many_sessions_as_he_may() {
    let mut rig = Rig::new("subscriber-sessions = 16", 64);
    let several: Vec<_> = (0..17).map(|remote_port| from6(UDP, 1, remote_port)).collect();
    assert_eq!(rig.tell(&several).0, [vec![0; 16], vec![1]].concat());
    let port = rig.port_of(UDP, 1);
    rig.ends(UDP, port, 5);
    assert_eq!(rig.tell(&[from6(UDP, 1, 16)]).0, [0]);
}

#[test]
fn another_controller_goes_on_with_what_the_device_has() {
    let mut rig = Rig::new("", 8);
    rig.tell(&[from6(TCP, 4001, 80), from6(ICMP, 7, 0)]);
    let (port, before) = (rig.port_of(TCP, 4001), rig.entries(SESSIONS));
    rig.replace("");
    assert_eq!(rig.entries(SESSIONS), before);
    assert_eq!(rig.tell(&[from6(TCP, 4001, 81)]), (vec![0], 0));
    assert_eq!((rig.port_of(TCP, 4001), rig.sizes()), (port, [2, 2, 3]));
    rig.segment(port, false, 0x12);
    let established = |(key, args, idle): &(Vec<u128>, Vec<u128>, Option<u64>)| {
        key[4] == 80 && args[2] == 3 && *idle == Some(7440)
    };
    assert!(rig.entries(SESSIONS).iter().any(established), "the state goes on: {:?}", rig.entries(SESSIONS));
    // A part of a batch that a killed controller has written.
    let half = rig.plane.binding_entries((UDP, HOST, 9), (UDP, POOL, 9));
    let updates = half.map(Entity::Entry).map(Update::Insert);
    rig.device.write(&updates[1..]).expect("there is room");
    rig.replace("");
    assert_eq!(rig.sizes(), [2, 2, 3]);
}

#[test]
fn tcp_sessions_have_the_timers_of_their_states() {
    let mut rig = Rig::new("", 8);
    rig.tell(&[from6(TCP, 4000, 80)]);
    let port = rig.port_of(TCP, 4000);
    let timer = |rig: &mut Rig| {
        let (_, args, idle) = rig.entries(SESSIONS).remove(0);
        (args[2], idle)
    };
    assert_eq!(timer(&mut rig), (1, Some(240)));
    for (from6, flags, state, seconds) in
        [(false, 0x12, 3, 7440), (true, 0x11, 5, 7440), (true, 0x11, 5, 7440), (false, 0x11, 6, 240)]
    {
        rig.segment(port, from6, flags);
        assert_eq!(timer(&mut rig), (state, Some(seconds)));
    }
}

#[test]
fn static_bindings_take_their_ports_and_stay() {
    let binding = |port: u16| {
        format!(
            "[[binding]]\nprotocol = \"udp\"\nipv4 = \"203.0.113.1:{port}\"\nipv6 = \"[2001:db8:100::9]:53\""
        )
    };
    let mut rig = Rig::new("", 8);
    rig.tell(&[from6(UDP, 4001, 53)]);
    let port = rig.port_of(UDP, 4001);
    rig.replace(&binding(port));
    assert_eq!(rig.sizes(), [0, 0, 0], "the host that had the port has it no more");
    assert_eq!(rig.tell(&[from4(UDP, port, 99)]), (vec![0], 0));
    rig.ends(UDP, port, 99);
    assert_eq!(rig.tell(&[from4(UDP, port, 99)]), (vec![0], 0));
    assert_eq!(rig.tell(&[from6(UDP, 4001, 53)]), (vec![0], 0));
    assert_ne!(rig.port_of(UDP, 4001), port);
}

#[test]
fn all_ports_of_a_pool_are_used_and_those_below_1024_apart() {
    let ports = |first: u16| (0..3u16).map(move |n| from6(UDP, first + 2 * n, 53)).collect::<Vec<_>>();
    let mut rig = Rig::new("ports = \"40000-40003\"", 64);
    assert_eq!(rig.tell(&ports(5000)).0, [0, 0, 1], "two ports are even");
    assert_eq!(rig.tell(&ports(5001)).0, [0, 0, 1], "and two are odd");
    let mut used: Vec<u128> = rig.entries(BIB4).iter().map(|(key, ..)| key[2]).collect();
    used.sort_unstable();
    assert_eq!(used, [40000, 40001, 40002, 40003]);
    let mut rig = Rig::new("", 64);
    rig.tell(&[from6(UDP, 123, 53), from6(UDP, 1123, 53)]);
    assert!(rig.port_of(UDP, 123) < 1024 && rig.port_of(UDP, 1123) >= 1024);
}

#[test]
fn what_it_does_not_do_is_refused_by_its_name() {
    let rig = Rig::new("", 8);
    for (more, name) in [
        ("log = \"bindings\"", "`log`"),
        ("adopt-connections = true", "`adopt-connections`"),
        ("new-sessions = 100", "`new-sessions`"),
        ("timeouts = { fragments = 4 }", "fragments"),
        ("attach = { device = \"other\" }", "`attach`"),
        ("routes = [\"192.0.2.0/24\"]", "`routes`"),
        ("hairpin = \"intrinsic\"", "`hairpin`"),
    ] {
        let why = Nat64::new(rig.device.manifest(), &file(more)).err().expect(more);
        assert!(why.contains(name) && why.contains("strait nat64 run"), "{why}");
    }
}
