// Fields, variables, keys and arguments of no bits.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> a; bit<0> z; bit<3> b; bit<0> y; bit<5> c; }
struct headers { eth_t eth; h_t h; }
struct metadata { bit<0> none; bit<8> x; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); m.none = b.lookahead<bit<0>>(); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action set(bit<0> nothing, bit<8> x) { m.none = nothing; m.x = x; }
    table keys { key = { hdr.h.z: exact; hdr.h.a: exact; } actions = { set; NoAction; } default_action = NoAction(); size = 8; }
    table no_bits { key = { m.none: exact; } actions = { set; NoAction; } default_action = NoAction(); size = 8; }
    apply {
        sm.egress_spec = 1;
        bit<0> local = hdr.h.z ++ hdr.h.y;
        if (hdr.h.z == 0 && local == 0) { hdr.h.a = hdr.h.a + 1; }
        hdr.h.z = m.none;
        hdr.h.y = hdr.h.z + 1;
        if (hdr.h.b == 0) { keys.apply(); } else { no_bits.apply(); }
        hdr.h.c = (m.x ++ hdr.h.y)[4:0];
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
