//! The runner on a toy target: packets to an even port come back, all others are dropped.

use abi::Bits;
use abi::id::{DigestId, DropId};
use abi::manifest::DigestType;
use dataplane::device::{Model, Query};

use super::*;
use crate::stf::parse;

struct Toy {
    device: Model,
    late: bool,
    held: Outputs,
}

impl Toy {
    fn new(late: bool) -> Toy {
        let drop =
            |name: &str| abi::manifest::DropReason { name: name.into(), help: String::new(), location: None };
        let seen = DigestType { name: "In.seen".into(), fields: vec![("port".into(), 9)] };
        let drops = vec![drop("In.odd"), drop("egress_spec")];
        let manifest = Manifest { drops, digests: vec![seen], ..Manifest::default() };
        Toy { device: Model::new(manifest), late, held: Outputs::new() }
    }
}

impl Target for Toy {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.device
    }
    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        self.device
            .told
            .push(Event::Digest(Digest { digest: DigestId(0), values: vec![Bits::new(9, port.into())] }));
        if port % 2 == 1 {
            self.device.drops.entry(DropId(0)).or_default().add(packet.len() as u64);
            return Ok(vec![]);
        }
        let out = vec![(port, packet.to_vec()), (99, vec![])];
        if self.late {
            self.held.extend(out);
            return Ok(vec![]);
        }
        Ok(out)
    }
    fn drain(&mut self) -> Result<Outputs, TargetError> {
        Ok(std::mem::take(&mut self.held))
    }
}

fn play(text: &str, late: bool) -> Report {
    run(&parse("toy.stf", text).unwrap(), &mut Toy::new(late))
}

#[test]
fn what_fits_passes() {
    let text = "packet 2 0102ff\nexpect 2 01*2\npacket 2 aa\nexpect 2 aa $\npacket 1 0a0b\nno_packet\n\
                check_counter drop.odd(0) packets == 1\ncheck_counter drop.In.odd(0) bytes > 1\nexpect 2\npacket 2 00";
    for late in [false, true] {
        let report = play(text, late);
        assert!(report.passed, "{}", report.text());
        assert_eq!((report.sent, report.received, report.checks), (4, 3, 6));
    }
}

#[test]
fn what_does_not_fit_is_shown() {
    let report = play("packet 2 0102\nexpect 2 0103 $\nexpect 2\npacket 1 00\nexpect 1 00", false);
    let text = report.text();
    assert!(
        text.contains("toy.stf:2: port 2, after the packet of line 1: the packet differs from byte 1 on"),
        "{text}"
    );
    assert!(text.contains("expected  01 03\n        got       01 02\n                      ^"), "{text}");
    assert!(text.contains("toy.stf:3: port 2: no packet came"), "{text}");
    assert!(text.contains("toy.stf:5: port 1: no packet came"), "{text}");
    assert!(
        play("packet 2 01", false)
            .text()
            .contains("toy.stf:1: port 2: a packet that nothing expects\n  0000  01")
    );
    assert!(play("packet 2 01\nno_packet\nexpect 2", true).text().contains("gave 1 packets, not none"));
    assert!(play("expect 2 0102 $\npacket 2 010203", false).text().contains("(3 bytes, not 2)"));
    assert!(
        play("packet 1 01\ncheck_counter drop.odd(0) packets == 2", false)
            .text()
            .contains("has 1 packets; == 2 expected")
    );
}

#[test]
fn digests_are_compared_with_what_is_expected() {
    let good = "packet 1 00\npacket 3 00\ncheck_digest seen port:1\ncheck_digest In.seen\nno_digest";
    assert!(play(good, false).passed);
    let text = |text: &str| play(text, false).text();
    assert!(text("check_digest seen").contains("no digest was sent; `seen` was expected"));
    assert!(text("packet 1 00\ncheck_digest other").contains("digest `In.seen` was sent, not `other`"));
    assert!(text("packet 1 00\ncheck_digest seen port:2").contains("field `port` of digest `seen` is"));
    assert!(text("packet 1 00\ncheck_digest seen host:2").contains("no field `host`; it has port"));
    assert!(text("packet 1 00\nno_digest").contains("digest `In.seen` was sent; none was expected"));
    assert!(text("check_idle $a").contains("no `add … = a` precedes this line"));
    assert!(text("value_set v 1").contains("there is no value set `v`"));
}

#[test]
fn what_is_missing_is_named_and_stops_the_case() {
    let report = play("clock 1\nexpect 2 00", false);
    assert_eq!(report.text(), "toy.stf:1: not supported yet: clock\n");
    assert!(report.failures[0].unsupported);
    assert!(
        play("check_counter drop.even(0)", false)
            .text()
            .contains("there is no drop reason `even`; did you mean `")
    );
    let load_text = |text: &str, device: &mut Model| load(&parse("e", text).unwrap(), device);
    assert!(!load_text("packet 1 00", &mut Toy::new(false).device).passed);
}

#[test]
fn a_file_of_entries_is_loaded_whole_or_not_at_all() {
    let mut device = Toy::new(false).device;
    let load_text = |text: &str, device: &mut Model| load(&parse("e", text).unwrap(), device);
    let report = load_text("mirroring_add 1 2\nmirroring_add 2 2\ncounter_write c 0 1 1", &mut device);
    assert!(report.text().contains("e:3: there is no counter `c`"), "{}", report.text());
    device.refuses_after = Some(1);
    let report = load_text("mirroring_add 1 2\nmirroring_add 2 2", &mut device);
    assert!(report.text().contains("e:2: the model refuses"), "{}", report.text());
    assert_eq!(device.read(&Query::Sessions), Ok(vec![]));
    assert!(load_text("mirroring_add 1 2\nmirroring_add 2 2", &mut device).passed);
    assert_eq!(device.read(&Query::Sessions).map(|found| found.len()), Ok(2));
}
