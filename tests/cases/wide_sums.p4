// Sums and differences of more than 64 bits that a compiler could turn into products.
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
        bit<128> x = hdr.wide.a;
        bit<128> y = hdr.wide.b;
        if (what == 0) { hdr.wide.a = x + (x + x); hdr.wide.b = y + y + y + y + y; }
        if (what == 1) { hdr.wide.a = (x << 1) + x; hdr.wide.b = (y << 3) - y; }
        if (what == 2) { hdr.wide.a = x - y; hdr.wide.b = y - x - x; }
        if (what == 0) { hdr.odd.a = hdr.odd.a + hdr.odd.a + hdr.odd.a; hdr.odd.c = hdr.odd.c - hdr.odd.d - hdr.odd.d; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
