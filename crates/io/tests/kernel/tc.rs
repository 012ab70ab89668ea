//! A program in the kernel: tables of every structure, ports, drops, attachment, survival.

use crate::common::{clear, delete, entries, insert, modify, set_default};
use crate::common::{manifest, object, root, set};
use abi::id::TableId;
use abi::{Bits, Entry, MatchValue};
use dataplane::device::{Device, DeviceError, Entity, EntryKey, Key};
use io::bpf::{Hook, Instance, SkBuff};
use io::ebpf::{EgressPort, KernelProgram};
use io::link::{Change, Handle};
use io::netns::Namespace;
use io::packet::PacketSocket;
use std::time::Duration;

const REDIRECT: u32 = 7;
const SHOT: u32 = 2;

/// Runs a test with a fresh instance of the fixture; cleans up after it, even if it panics.
fn with_program(name: &str, test: impl FnOnce(&mut KernelProgram)) {
    if !root(name) {
        return;
    }
    let Some(object) = object(name) else { return };
    struct Cleanup(String);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            let _ = Instance::remove_by_name(&self.0);
        }
    }
    let instance = Cleanup(format!("st-io-{name}"));
    Instance::remove_by_name(&instance.0).expect("no left-overs");
    let mut program = KernelProgram::load(&object, &manifest(), &instance.0).expect("loads");
    test(&mut program);
}

fn frame(destination: u64, ethertype: u16) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[..6].copy_from_slice(&destination.to_be_bytes()[2..]);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

fn entry(value: MatchValue, priority: i32, port: u32) -> Entry {
    Entry { matches: vec![value], priority, action: set(port) }
}

fn run(program: &KernelProgram, frame: &[u8]) -> u32 {
    program.test_run(frame, &SkBuff::default()).expect("runs").retval
}

#[test]
fn exact_entries_defaults_and_counters() {
    with_program("exact", |program| {
        program.set_egress_port(1, EgressPort { ifindex: 1, flags: 0 }).expect("port");
        let wanted = frame(0x0200_0000_0001, 0x0800);
        assert_eq!(run(program, &wanted), SHOT);
        let e = entry(MatchValue::Exact(Bits::new(48, 0x0200_0000_0001)), 0, 1);
        insert(program, "exact", &e).expect("inserts");
        assert!(insert(program, "exact", &e).is_err(), "twice");
        assert_eq!(run(program, &wanted), REDIRECT);
        let changed = Entry { action: set(9), ..e.clone() };
        modify(program, "exact", &changed).expect("modifies");
        assert_eq!(run(program, &wanted), SHOT, "no port 9");
        assert_eq!(entries(program, "exact"), [changed]);
        let count = program.count(&Key::DirectCounter(EntryKey::of(TableId(0), &e))).expect("counts");
        assert_eq!(count.packets, 2);
        delete(program, "exact", &e).expect("deletes");
        delete(program, "exact", &e).expect_err("it is gone");
        set_default(program, "exact", &set(1)).expect("default");
        assert_eq!(run(program, &wanted), REDIRECT);
        let default = Entity::Default { table: TableId(0), action: set(1) };
        assert_eq!(program.get(&Key::Default(TableId(0))), Ok(default));
        let drops = program.drops().expect("drops");
        assert_eq!((drops[0].packets, drops[1].packets), (2, 0));
    });
}

#[test]
fn the_longest_prefix_wins() {
    with_program("lpm", |program| {
        program.set_egress_port(1, EgressPort { ifindex: 1, flags: 0 }).expect("port");
        let prefix = |value: u128, len| MatchValue::Lpm(Bits::new(32, value), len);
        let added = [entry(prefix(0x0a00_0000, 8), 0, 1), entry(prefix(0x0a01_0000, 16), 0, 9)];
        for e in &added {
            insert(program, "lpm", e).expect("inserts");
        }
        assert!(insert(program, "lpm", &added[0]).is_err(), "twice");
        assert_eq!(run(program, &frame(0x0a02_0000_0000, 0x0800)), REDIRECT);
        assert_eq!(run(program, &frame(0x0a01_0000_0000, 0x0800)), SHOT);
        let mut listed = entries(program, "lpm");
        listed.sort_by_key(|e| format!("{e:?}"));
        assert_eq!(listed, added);
        clear(program, "lpm").expect("clears");
        assert!(entries(program, "lpm").is_empty());
    });
}

#[test]
fn ternary_entries_by_priority_through_every_reordering() {
    with_program("ternary", |program| {
        let tern = |v: u128, m: u128| MatchValue::Ternary(Bits::new(16, v), Bits::new(16, m));
        // Port 1 refuses, port 0 lets pass (and misses: reason 0).
        let any = entry(tern(0, 0), 10, 1);
        let ipv4 = entry(tern(0x0800, 0xffff), 20, 0);
        let high = entry(tern(0x0800, 0xff00), 30, 1);
        let refused = |program: &mut KernelProgram| {
            let before = program.drops().expect("drops")[1].packets;
            run(program, &frame(1, 0x0800));
            program.drops().expect("drops")[1].packets == before + 1
        };
        let manifest = program.manifest().clone();
        insert(program, "tern", &any).expect("inserts");
        assert!(refused(program));
        insert(program, "tern", &ipv4).expect("inserts");
        assert!(!refused(program));
        insert(program, "tern", &high).expect("inserts");
        assert!(refused(program));
        // Somebody else finds the same in the maps.
        let mut again = KernelProgram::open(&manifest, "st-io-ternary").expect("opens");
        assert_eq!(entries(&mut again, "tern"), [high.clone(), ipv4.clone(), any.clone()]);
        // The kernel holds one entry for a match, whatever the priority.
        let higher = Entry { priority: 40, ..ipv4.clone() };
        let error = insert(&mut again, "tern", &higher).expect_err("there is one");
        assert!(matches!(error, DeviceError::Unimplemented(_)), "{error}");
        delete(&mut again, "tern", &ipv4).expect("deletes");
        insert(&mut again, "tern", &higher).expect("inserts");
        assert!(!refused(program));
        delete(&mut again, "tern", &higher).expect("deletes");
        assert!(refused(program));
        delete(&mut again, "tern", &high).expect("deletes");
        delete(&mut again, "tern", &any).expect("deletes");
        assert!(!refused(program));
        assert!(again.map("t_tern").expect("opens").keys().expect("keys").is_empty());
        for n in 0..4 {
            insert(&mut again, "tern", &entry(tern(0, 1 << n), 1, 0)).expect("fits");
        }
        let error = insert(&mut again, "tern", &entry(tern(0, 1 << 5), 1, 0)).expect_err("five masks");
        assert!(error.to_string().contains("4 different masks"), "{error}");
    });
}

#[test]
fn attached_it_outlives_its_loader_and_leaves_nothing() {
    survives("attach", |program| program.attach("a0", Hook::Ingress));
}

#[test]
fn without_tcx_it_does_the_same_as_a_clsact_filter() {
    survives("clsact", |program| program.instance().attach_clsact("a0", Hook::Ingress));
}

#[test]
fn a_clsact_filter_whose_pins_are_gone_is_replaced_and_no_other() {
    with_program("lost", |lost| {
        with_program("next", |next| {
            let (lost, next) = (lost.instance().clone(), next.instance().clone());
            let in_space = || {
                Handle::open().expect("netlink").add_veth("a0", "a1", None).expect("veth");
                lost.attach_clsact("a0", Hook::Ingress).expect("attaches");
                next.attach_clsact("a0", Hook::Ingress).expect_err("the other one has the place");
                std::fs::remove_dir_all(lost.path()).expect("pins go");
                next.attach_clsact("a0", Hook::Ingress).expect("nobody remembers the filter");
                assert_eq!(next.attachments().expect("lists").len(), 1);
            };
            Namespace::temporary("st-io-lost").expect("namespace").run(in_space).expect("enters");
        });
    });
}

fn survives(name: &str, attach: fn(&KernelProgram) -> io::Result<()>) {
    with_program(name, |program| {
        let instance = format!("st-io-{name}");
        let space = Namespace::temporary(&instance).expect("namespace");
        let manifest = program.manifest().clone();
        space
            .run(|| {
                let links = Handle::open().expect("netlink");
                for (a, b) in [("a0", "a1"), ("b0", "b1")] {
                    links.add_veth(a, b, None).expect("veth");
                    for name in [a, b] {
                        let quiet = Change { up: Some(true), no_link_local: true, ..Change::default() };
                        links.change(name, &quiet).expect("up");
                    }
                }
                let mut mine = KernelProgram::open(&manifest, &instance).expect("opens");
                mine.set_port(1, "b0", 0).expect("port");
                set_default(&mut mine, "exact", &set(1)).expect("default");
                attach(&mine).expect("attaches");
                attach(&mine).expect("twice is fine");
                mine.attach("b0", Hook::Egress).expect("attaches");
                mine.detach("b0", Hook::Egress).expect("detaches");
                assert_eq!(mine.instance().attachments().expect("lists").len(), 1);
                drop(mine);
                let (into, out) =
                    (PacketSocket::open("a1").expect("raw"), PacketSocket::open("b1").expect("raw"));
                let sent = frame(0x0200_0000_0002, 0x88b5);
                into.send(&sent).expect("sends");
                assert_eq!(out.receive(Duration::from_secs(2)).expect("receives"), Some(sent.clone()));
                let mine = KernelProgram::open(&manifest, &instance).expect("opens");
                mine.remove().expect("removes");
                let qdiscs = std::process::Command::new("tc").args(["qdisc", "show", "dev", "a0"]).output();
                if let Ok(output) = qdiscs {
                    assert!(!String::from_utf8_lossy(&output.stdout).contains("clsact"), "a qdisc was left");
                }
                into.send(&sent).expect("sends");
                assert_eq!(out.receive(Duration::from_millis(100)).expect("receives"), None);
            })
            .expect("enters");
        assert!(Instance::open(&instance).is_err());
    });
}

#[test]
fn what_is_wrong_with_an_object_is_said() {
    if !root("bad object") {
        return;
    }
    let error = KernelProgram::load(b"not an object", &manifest(), "st-io-bad").expect_err("rubbish");
    assert!(error.to_string().contains("object"), "{error}");
    assert!(Instance::open("st-io-bad").is_err());
    let Some(object) = object("bad") else { return };
    let wrong = abi::Manifest { entry: "nothing".into(), ..manifest() };
    let error = KernelProgram::load(&object, &wrong, "st-io-bad").expect_err("no such program");
    assert!(error.to_string().contains("there is: entry"), "{error}");
}
