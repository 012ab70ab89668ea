// A range key of signed numbers in a table that can be written.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { int<8> a; int<12> b; bit<4> pad; bit<8> wide; bit<8> x; }
struct headers { eth_t eth; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action set(bit<8> x) { hdr.h.x = x; }
    table written {
        key = { hdr.h.a: range; hdr.h.b: range; hdr.h.wide: range; }
        actions = { set; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply {
        sm.egress_spec = 1;
        written.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
