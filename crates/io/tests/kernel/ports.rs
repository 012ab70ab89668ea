//! One suite for all packet drivers: what goes in comes out, whole and in order, at every size, both ways.

use std::time::{Duration, Instant};

use dataplane::port::{Inbox, Offload, Port};
use io::link::{Change, Handle};
use io::netns::Namespace;
use io::packet::PacketSocket;
use io::port::Driver;

/// Packets of a burst.
const BURST: usize = 200;

/// What was received.
#[derive(Default)]
struct Taken {
    room: Vec<u8>,
    packets: Vec<Vec<u8>>,
    most: usize,
}

impl Inbox for Taken {
    fn room(&mut self) -> Option<&mut [u8]> {
        self.room.resize(65_600, 0);
        (self.packets.len() < self.most).then_some(&mut self.room[..])
    }

    fn take(&mut self, length: usize, offload: Option<Offload>) {
        assert_eq!(offload, None, "nothing was to be segmented");
        self.packets.push(self.room[..length].to_vec());
    }
}

/// A frame that says which one it is, to a neighbour's address, of an EtherType for experiments (RFC 7042).
fn frame(number: u16, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..length).map(|i| (i as u16 ^ number) as u8));
    frame
}

/// The number of one of our frames; the kernel sends others.
fn number(frame: &[u8]) -> Option<u16> {
    (frame.get(12..14)? == [0x88, 0xb5]).then(|| u16::from_be_bytes([frame[14], frame[15]]))
}

fn frames() -> Vec<Vec<u8>> {
    (0..BURST).map(|n| frame(n as u16, 60 + n * 1454 / (BURST - 1))).collect()
}

/// Ours of what the port receives within a time, or until there are as many.
fn receive(port: &mut dyn Port, count: usize) -> Vec<Vec<u8>> {
    let until = Instant::now() + Duration::from_secs(5);
    let mut taken = Taken { most: 7, ..Taken::default() };
    let mut ours = Vec::new();
    while ours.len() < count && Instant::now() < until {
        port.receive(&mut taken).expect("receives");
        ours.extend(taken.packets.drain(..).filter(|f| number(f).is_some()));
    }
    ours
}

/// Both ways between a port and the other end of its cable, a raw socket.
fn conform(driver: &str, peer: &str) {
    let mut queues = driver.parse::<Driver>().expect("a driver").open(1).expect("opens");
    let mut port = queues.pop().expect("a queue");
    let socket = PacketSocket::open(peer).expect("the other end");
    // A link that was just made loses what is sent before it is ready (see targets/wires.rs).
    let until = Instant::now() + Duration::from_secs(5);
    while receive_now(&mut *port).is_empty() && Instant::now() < until {
        socket.send(&frame(0xffff, 60)).expect("sends");
        std::thread::sleep(Duration::from_millis(5));
    }
    while !receive_now(&mut *port).is_empty() {}

    for sent in frames() {
        socket.send(&sent).expect("sends");
    }
    assert_eq!(receive(&mut *port, BURST), frames(), "{driver}: what it received");

    // Few at a time: the raw socket's own buffer is small.
    let mut came = Vec::new();
    for chunk in frames().chunks(20) {
        for sent in chunk {
            port.send(sent, None).expect("there is room");
        }
        port.flush().expect("flushes");
        let wanted = came.len() + chunk.len();
        while came.len() < wanted {
            let Some(frame) = socket.receive(Duration::from_secs(2)).expect("receives") else { break };
            came.extend(number(&frame).filter(|n| *n != 0xffff).map(|_| frame));
        }
    }
    assert_eq!(came, frames(), "{driver}: what it sent");
    let counts = port.counts();
    assert_eq!((counts.sent.packets, counts.full, counts.unfit), (BURST as u64, 0, 0), "{driver}");
    assert!(counts.received.packets >= BURST as u64, "{driver}");
}

fn receive_now(port: &mut dyn Port) -> Vec<Vec<u8>> {
    std::thread::sleep(Duration::from_millis(10));
    let mut taken = Taken { most: 1000, ..Taken::default() };
    port.receive(&mut taken).expect("receives");
    taken.packets.retain(|f| number(f).is_some());
    taken.packets
}

fn in_namespace(name: &str, test: fn()) {
    if !crate::common::root(name) {
        return;
    }
    let space = Namespace::temporary(&format!("st-io-{name}")).expect("namespace");
    space.run(test).expect("enters");
    space.delete().expect("deletes");
}

fn cable() {
    let handle = Handle::open().expect("netlink");
    handle.add_veth("st0", "st1", None).expect("a cable");
    let up = Change { up: Some(true), no_link_local: true, ..Change::default() };
    ["st0", "st1"].iter().for_each(|end| handle.change(end, &up).expect("comes up"));
}

#[test]
fn af_packet() {
    in_namespace("af-packet", || {
        cable();
        conform("af_packet:st0", "st1");
    });
}

/// What does not fit a frame of the ring comes by another way, and the kernel keeps VLAN tags apart: packets of all kinds come whole and in
/// order.
#[test]
fn af_packet_long_and_tagged() {
    in_namespace("af-packet-long", || {
        cable();
        let handle = Handle::open().expect("netlink");
        let long = Change { mtu: Some(9000), ..Change::default() };
        ["st0", "st1"].iter().for_each(|end| handle.change(end, &long).expect("takes long packets"));
        let mut port = Driver::AfPacket("st0".to_string()).open(1).expect("opens").remove(0);
        let socket = PacketSocket::open("st1").expect("the other end");
        let until = Instant::now() + Duration::from_secs(5);
        while receive_now(&mut *port).is_empty() && Instant::now() < until {
            socket.send(&frame(0xffff, 60)).expect("sends");
        }
        while !receive_now(&mut *port).is_empty() {}
        let tagged = |mut frame: Vec<u8>| {
            frame.splice(12..12, [0x81, 0, 0x60, 5]);
            frame
        };
        let lengths = [60, 1990, 1960, 5000, 1972, 9014, 2048, 61];
        let plain = lengths.iter().enumerate().map(|(n, length)| frame(n as u16, *length));
        let sent: Vec<_> = plain.flat_map(|frame| [tagged(frame.clone()), frame]).collect();
        sent.iter().for_each(|frame| socket.send(frame).expect("sends"));
        std::thread::sleep(Duration::from_millis(20));
        // Room for fewer than came, so that the rest waits for the next turn.
        let mut came = Vec::new();
        for _ in 0..10 {
            let mut taken = Taken { most: 3, ..Taken::default() };
            port.receive(&mut taken).expect("receives");
            came.extend(
                taken.packets.into_iter().filter(|f| f[12..14] == [0x88, 0xb5] || f[12..14] == [0x81, 0]),
            );
        }
        assert_eq!(came, sent);
    });
}

/// DPDK's own driver for packet sockets: a device that every machine has.
#[test]
fn dpdk() {
    if cfg!(not(feature = "dpdk")) {
        println!("skipped: ports over DPDK: built without the feature dpdk");
        return;
    }
    in_namespace("dpdk", || {
        cable();
        conform("dpdk:net_af_packet7,iface=st0", "st1");
        let again = "dpdk:net_af_packet7,iface=st0".parse::<Driver>().expect("a driver").open(1);
        assert!(again.is_ok(), "a device that was closed opens again: {:?}", again.err());
        let none = "dpdk:net_af_packet8,iface=nosuch".parse::<Driver>().expect("a driver").open(1);
        assert!(none.is_err(), "there is no such interface");
    });
}

/// Several workers share an interface: each packet comes to one of them, and none hears what they send.
#[test]
fn af_packet_for_two_workers() {
    in_namespace("af-packet-2", || {
        cable();
        let mut queues = Driver::AfPacket("st0".to_string()).open(2).expect("opens");
        let socket = PacketSocket::open("st1").expect("the other end");
        let until = Instant::now() + Duration::from_secs(5);
        while receive_now(&mut *queues[0]).len() + receive_now(&mut *queues[1]).len() == 0
            && Instant::now() < until
        {
            socket.send(&frame(0xffff, 60)).expect("sends");
        }
        queues.iter_mut().for_each(|queue| while !receive_now(&mut **queue).is_empty() {});
        for sent in frames() {
            // As a packet with a call of its own, which other sockets of the machine hear.
            queues[1].send(&sent, Some(&Offload::default())).expect("there is room");
            socket.send(&sent).expect("sends");
        }
        queues[1].flush().expect("flushes");
        let mut came: Vec<_> = queues.iter_mut().flat_map(|queue| receive_now(&mut **queue)).collect();
        came.sort_by_key(|frame| number(frame));
        assert_eq!(came, frames(), "each once, and nothing of our own");
    });
}

#[test]
fn af_xdp() {
    in_namespace("af-xdp", || {
        cable();
        conform("af_xdp:st0", "st1");
        conform("af_xdp:st0:0", "st1");
        let error = "af_xdp:st0:7".parse::<Driver>().expect("a driver").open(1).err().expect("no such queue");
        assert!(error.to_string().contains("queue 7 of st0"), "{error}");
    });
}

#[test]
fn tap() {
    if std::fs::File::open("/dev/net/tun").is_err() {
        println!("skipped: tap ports: /dev/net/tun cannot be opened");
        return;
    }
    // The kernel's end is the peer: what it sends comes to us.
    in_namespace("tap", || conform("tap:st0", "st0"));
}

#[test]
fn capture_files() {
    let dir = io::workdir::WorkDir::new().expect("makes");
    let (first, second) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let stamped = |data| io::pcap::Frame { time: Duration::ZERO, data };
    let file = std::fs::File::create(&first).expect("creates");
    io::pcap::write(file, &frames().into_iter().map(stamped).collect::<Vec<_>>()).expect("writes");
    let text = format!("pcap:{},{}", first.display(), second.display());
    let mut queues = text.parse::<Driver>().expect("a driver").open(2).expect("opens");
    assert!(queues[1].ended(), "one worker reads");
    assert_eq!(receive(&mut *queues[0], BURST), frames());
    assert!(queues[0].ended());
    for sent in frames() {
        queues[1].send(&sent, None).expect("writes");
    }
    drop(queues);
    let written = io::pcap::read(std::fs::File::open(&second).expect("is there")).expect("reads");
    assert_eq!(written.into_iter().map(|f| f.data).collect::<Vec<_>>(), frames());
}

#[test]
fn drivers_are_named_and_errors_say_how() {
    let error = |text: &str| text.parse::<Driver>().expect_err("no driver");
    assert!(error("eth0").contains("names no driver"));
    assert!(error("netmap:eth0").contains("no driver `netmap`"));
    assert!(error("af_packet:").contains("names no interface"));
    assert!(error("af_xdp:eth0:x").contains("not the number of a queue"));
    let missing = Driver::AfPacket("st-none".into()).open(1).err().expect("there is none");
    assert!(missing.to_string().contains("st-none"), "{missing}");
}
