// Ranges of signed numbers: in select, in const entries, in entries of a table.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { int<8> a; int<12> b; bit<4> pad; bit<8> near; bit<8> fixed; bit<8> written; }
struct headers { eth_t eth; h_t h; }
struct metadata { bit<8> near; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.eth);
        b.extract(hdr.h);
        transition select(hdr.h.a) {
            -8s2 .. 8s2: near;
            8s100 .. 8s127: far;
            default: accept;
        }
    }
    state near { m.near = 1; transition accept; }
    state far { m.near = 2; transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action fix(bit<8> x) { hdr.h.fixed = x; }
    action write(bit<8> x) { hdr.h.written = x; }
    table constant {
        key = { hdr.h.b: range; }
        actions = { fix; NoAction; }
        const entries = {
            -12s2048 .. -12s1000: fix(1);
            -12s5 .. 12s5: fix(2);
            12s6 .. 12s2047: fix(3);
        }
        const default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        hdr.h.near = m.near;
        constant.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
