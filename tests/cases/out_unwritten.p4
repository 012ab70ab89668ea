// An `out` parameter that nobody writes, and one that is written on one path only: each begins as zero, whatever its argument held.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> kind; bit<8> never; bit<8> once; bit<8> read; }
struct pair_t { bit<8> a; bit<8> b; }
struct headers { eth_t eth; h_t h; }
struct metadata { pair_t pair; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); m.pair = { hdr.h.kind, hdr.h.read }; transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control Sub(out bit<8> x, out pair_t p) {
    apply { x = x + 1; p = { p.b, x }; }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    Sub() sub;
    action never(out bit<8> x) { }
    action once(in bit<8> kind, out bit<8> x) { if (kind == 1) { x = 7; } }
    apply {
        sm.egress_spec = 1;
        never(hdr.h.never);
        once(hdr.h.kind, hdr.h.once);
        sub.apply(hdr.h.read, m.pair);
        hdr.h.kind = m.pair.a;
        hdr.eth.type[7:0] = m.pair.b;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
