// Wide values in the memory of tables and registers.
#include <core.p4>
#include <v1model.p4>

header w_t { bit<160> wide; }
struct headers { w_t w; }
struct metadata { bit<8> a; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.w);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    register<bit<160>>(4) kept; // unsupported: a register of more than 64 bits
    action set(bit<160> to) { hdr.w.wide = to; } // unsupported: an action parameter of more than 128 bits
    table t {
        key = { hdr.w.wide : exact; }
        actions = { set; NoAction; }
        default_action = NoAction;
        size = 4;
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        kept.read(hdr.w.wide, 1);
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
