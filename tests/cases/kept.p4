// What an action leaves in its variables is there when its table is applied again for the same packet.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    bit<8> sum;
    action add(bit<8> by) {
        sum = sum + by;
        hdr.h.c = sum;
    }
    table t {
        key = { hdr.h.a: exact; }
        actions = { add; }
        default_action = add(2);
    }
    apply {
        sm.egress_spec = 1;
        for (bit<8> i in 1..3) {
            t.apply();
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
