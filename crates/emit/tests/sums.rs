//! Tests of the plan of incremental checksum updates: which terms must be summed, and which cancel.

use ir::checksum::{Declared, Part, plan};

/// A program with a checksum over the payload. `%` stands for the body of the ingress control.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header outer_t { bit<112> ethernet; bit<32> label; }
header flow_t { bit<32> from; bit<32> to; bit<16> sum; bit<16> port; bit<8> flags; bit<8> rest; }
header other_t { bit<16> sum; bit<16> kind; }
struct headers { outer_t outer; flow_t flow; other_t other; }
struct metadata { }
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.outer);
        transition select(hdr.outer.label) { 0: other; default: flow; }
    }
    state flow { b.extract(hdr.flow); transition accept; }
    state other { b.extract(hdr.other); transition accept; }
}
control V(inout headers hdr, inout metadata m) {
    apply {
        verify_checksum_with_payload(hdr.flow.isValid(), { hdr.outer.label, hdr.flow.from, hdr.flow.to, hdr.flow.port,
            hdr.flow.flags, hdr.flow.rest }, hdr.flow.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.other.isValid(), { hdr.other.kind }, hdr.other.sum, HashAlgorithm.csum16);
    }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; % } }
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum_with_payload(hdr.flow.isValid(), { hdr.outer.label, hdr.flow.from, hdr.flow.to, hdr.flow.port,
            hdr.flow.flags, hdr.flow.rest }, hdr.flow.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn plan_of(ingress: &str) -> ir::checksum::Plan {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let text = PROGRAM.replace('%', ingress);
    let program = p4::compile(&mut map, "sums.p4", &text, &[], &p4::Embedded, &mut diags);
    plan(&program.unwrap_or_else(|| panic!("{:?}", diags.list())))
}

/// The widths and parts of the terms that are summed.
fn summed(declared: &Declared) -> Vec<(u32, Part)> {
    declared.terms.iter().map(|t| (t.value.ty.width(), t.part)).collect()
}

#[test]
fn unwritten_fields_cancel() {
    let plan = plan_of("hdr.flow.to = 7;");
    let [sum] = &plan.sums[..] else { panic!("a checksum that is never updated needs no sum: {plan:?}") };
    assert_eq!(summed(&sum.updates[0]), [(32, Part::Body)], "only the field that changes is summed");
    assert_eq!(summed(&sum.verifies[0]), [(32, Part::Body)]);
    assert_eq!(sum.stable.len(), 5);
}

#[test]
fn without_writes_all_terms_cancel() {
    assert!(plan_of("").sums[0].updates[0].terms.is_empty());
}

#[test]
fn headers_before_the_checksum_are_pseudo_header() {
    let plan = plan_of("hdr.outer.label = 7; hdr.flow.port = 9;");
    let mut parts = summed(&plan.sums[0].updates[0]);
    parts.sort_by_key(|p| p.0);
    assert_eq!(parts, [(16, Part::Body), (32, Part::Pseudo)]);
}

/// Each value is shifted to its position in its 16-bit word. The first of two bytes is the high one.
#[test]
fn values_are_shifted_to_their_position_in_a_word() {
    let shift =
        |ingress: &str| plan_of(ingress).sums[0].updates[0].terms.iter().map(|t| t.shift).collect::<Vec<_>>();
    assert_eq!(shift("hdr.flow.flags = 1;"), [8]);
    assert_eq!(shift("hdr.flow.rest = 1;"), [0]);
}

#[test]
fn a_checksum_that_the_program_overwrites_is_remembered_on_arrival() {
    let remembered = |ingress: &str| {
        let plan = plan_of(ingress);
        assert_eq!(plan.sums[0].verifies.len(), 1);
        plan.sums[0].rewritten
    };
    assert!(!remembered(""), "the packet still holds what arrived");
    assert!(remembered("hdr.flow.sum = 0;"));
    assert!(remembered("hdr.flow.setInvalid(); hdr.flow.setValid();"));
}

/// A header that is made valid or invalid counts as written, with all its fields.
#[test]
fn a_change_of_validity_counts_as_a_write() {
    let plan = plan_of("hdr.flow.setInvalid(); hdr.flow.setValid();");
    assert_eq!(plan.sums[0].updates[0].terms.len(), 5, "all but the label: {:#?}", plan.sums[0]);
}
