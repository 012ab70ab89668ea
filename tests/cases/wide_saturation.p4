// Saturating arithmetic of more than 64 bits.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header wide_t { bit<128> a; bit<128> b; }
header odd_t { bit<100> a; bit<100> b; int<100> c; int<100> d; }
struct headers { eth_t eth; wide_t wide; odd_t odd; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.eth);
        transition select(hdr.eth.type[7:7]) { 1: odd; default: wide; }
    }
    state wide { b.extract(hdr.wide); transition accept; }
    state odd { b.extract(hdr.odd); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        bit<4> what = hdr.eth.type[3:0];
        if (what == 3) { hdr.wide.a = hdr.wide.a |+| hdr.wide.b; hdr.odd.a = hdr.odd.a |+| hdr.odd.b; hdr.odd.c = hdr.odd.c |+| hdr.odd.d; }
        if (what == 4) { hdr.wide.a = hdr.wide.a |-| hdr.wide.b; hdr.odd.a = hdr.odd.a |-| hdr.odd.b; hdr.odd.c = hdr.odd.c |-| hdr.odd.d; }
        if (what == 5) { hdr.wide.a = (bit<128>)((int<128>)hdr.wide.a |+| (int<128>)hdr.wide.b); }
        if (what == 6) { hdr.wide.a = (bit<128>)((int<128>)hdr.wide.a |-| (int<128>)hdr.wide.b); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
