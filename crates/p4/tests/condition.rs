//! Conditions about packets in the scope of a program: what is accepted, and where mistakes are reported.

use p4::condition::{Question, compile};
use p4::{Diagnostics, Embedded, SourceMap};

const V1MODEL: &str = r#"
#include <core.p4>
#include <v1model.p4>
#define LIMIT 7
const bit<8> CONSTANT = 3;
typedef bit<16> port_t;
header h_t { bit<8> a; port_t b; }
struct headers { h_t h; }
struct meta_t { bool seen; }
parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t m) { apply {} }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    table t { key = { hdr.h.a: exact; } actions = { drop; } }
    apply { if (hdr.h.isValid()) { t.apply(); } }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// The diagnostics of a condition, each with its place.
fn mistakes(condition: &str) -> Vec<String> {
    let (mut map, mut diags) = (SourceMap::default(), Diagnostics::default());
    let question = Question { name: "program.p4", text: V1MODEL, defines: &[], control: "I", condition };
    let made = compile(&mut map, &question, &Embedded, &mut diags);
    let line = |d: &p4::Diagnostic| {
        let at = map.position(d.primary.span);
        format!("{} {}:{}:{}", d.code, at.file, at.line, at.column)
    };
    let found: Vec<String> = diags.list().iter().map(line).collect();
    assert_eq!(made.is_some(), found.is_empty());
    found
}

#[test]
fn what_the_program_knows_is_known() {
    for condition in [
        "true",
        "hdr.h.isValid() && hdr.h.a == 3 || sm.ingress_port == 1",
        "hdr.h.a != CONSTANT && hdr.h.a < LIMIT",
        "hdr.h.b == (port_t) hdr.h.a && !m.seen",
        "hdr.h.b[15:8] == 0x0a // with a comment",
    ] {
        assert_eq!(mistakes(condition), [""; 0], "{condition}");
    }
}

#[test]
fn mistakes_are_located_in_the_condition() {
    for (condition, wanted) in [
        ("hdr.h.c == 1", "E0206 filter:1:7"),
        ("hdr.h.a", "E0301 filter:1:1"),
        ("hdr.h.a ==", "E0116 filter:1:1"),
        ("", "E0116 filter:1:1"),
        ("hdr.x.a == 1", "E0206 filter:1:5"),
        ("header.h.a == 1", "E0111 filter:1:1"),
    ] {
        let found = mistakes(condition);
        assert_eq!(found.first().map(String::as_str), Some(wanted), "{condition}: {found:?}");
    }
}
