//! Tests of the analysis of `InternetChecksum` for partial checksums: what each term of a sum adds to.

use ir::partial::{Term, Tracked};
use ir::{Call, StmtKind, visit};

/// `%` stands for statements of the main control.
const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>
header ipv4_t { bit<64> first; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
header data_t { bit<32> word; }
struct headers { ipv4_t ipv4; udp_t udp; data_t data; }
struct metadata { bit<16> state; bit<16> port; bit<32> address; bit<16> never; ipv4_t old; }
parser P(packet_in b, out headers hdr, inout metadata m, in pna_main_parser_input_metadata_t i) {
    state start { b.extract(hdr.ipv4); b.extract(hdr.udp); b.extract(hdr.data); m.old = hdr.ipv4; transition accept; }
}
control Pre(in headers h, inout metadata m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control I(inout headers hdr, inout metadata m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    InternetChecksum() sum;
    action to(bit<32> address, bit<16> port) { m.port = port; m.address = address; }
    table t { key = { hdr.ipv4.src : exact; } actions = { to; NoAction; } default_action = NoAction(); size = 16; }
    apply {
        t.apply();
        %
        hdr.udp.dst = m.port;
        hdr.ipv4.dst = m.address;
        send_to_port((PortId_t) 1);
    }
}
control D(packet_out b, in headers hdr, in metadata m, in pna_main_output_metadata_t o) { apply { b.emit(hdr); } }
PNA_NIC(P(), Pre(), I(), D()) main;
"#;

/// The terms of every list that is added to a tracked sum, in the order of the statements.
fn terms_of(main: &str) -> Vec<Vec<Term>> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let text = PROGRAM.replace('%', main);
    let program = p4::compile(&mut map, "partial.p4", &text, &[], &p4::Embedded, &mut diags);
    let program = program.unwrap_or_else(|| panic!("{:?}", diags.list()));
    let tracked = Tracked::new(&program);
    assert!(tracked.problems.is_empty(), "{:?}", tracked.problems);
    let mut found = Vec::new();
    visit::all_stmts(&program, &mut |stmt| {
        if let StmtKind::Call(Call::AddToSum { dst, data, .. }) = &stmt.kind
            && let Some(sum) = tracked.place(dst)
        {
            let terms = tracked.terms(&program, sum, data).expect("all are known");
            found.push(terms.into_iter().map(|(_, _, term)| term).collect());
        }
    });
    found
}

#[test]
fn headers_before_the_checksum_are_pseudo_header() {
    let found = terms_of(
        "sum.subtract({ hdr.udp.checksum, hdr.ipv4.dst, hdr.udp.dst, hdr.data.word });
         sum.add({ m.old.src, m.address, m.port, m.never });
         hdr.udp.checksum = sum.get();",
    );
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert!(matches!(first[..], [Term::Cell(_, true), Term::Pseudo, Term::Body, Term::Body]), "{first:?}");
    // A header that was saved is where it came from. An action's parameter is where it goes. What nothing writes is zero.
    assert_eq!(second, &[Term::Pseudo, Term::Pseudo, Term::Body, Term::Pseudo]);
}

#[test]
fn constants_are_where_their_neighbours_are_and_a_length_is_summed_twice() {
    let found = terms_of(
        "sum.subtract({ hdr.udp.checksum, hdr.ipv4.src, 8w0, 8w17, hdr.udp.length, hdr.udp.length });
         sum.add({ 16w80, hdr.udp.src });
         hdr.udp.checksum = sum.get();",
    );
    let [first, second] = &found[..] else { panic!("{found:?}") };
    use Term::{Body, Pseudo};
    assert!(matches!(first[..], [Term::Cell(..), Pseudo, Pseudo, Pseudo, Body]), "{first:?}");
    assert_eq!(second, &[Body, Body]);
}

#[test]
fn sums_of_a_header_alone_are_not_tracked() {
    let ipv4 = "sum.subtract({ hdr.ipv4.checksum, hdr.ipv4.ttl }); sum.add(hdr.ipv4.ttl); hdr.ipv4.checksum = sum.get();";
    assert!(terms_of(ipv4).is_empty());
    let full = "sum.add({ hdr.udp.src, 16w7 }); hdr.udp.checksum = sum.get();";
    assert!(terms_of(full).is_empty(), "the sum does not contain the checksum that arrived");
}
