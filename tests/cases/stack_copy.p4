// A stack that is copied as a whole is written as a whole, though nothing else makes its headers.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> x; }
struct headers { h_t[2] first; h_t[2] second; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.first.next);
        packet.extract(hdr.first.next);
        hdr.second = hdr.first;
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action set(bit<8> x) { hdr.second[1].x = x; }
    // Large enough to be looked up before the program applies it.
    table t {
        key = { hdr.second[0].x: exact; hdr.second[1].x: exact; hdr.first[1].x: exact; }
        actions = { set; NoAction; }
        size = 4096;
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.first[0].x == 7) {
            hdr.first[0].setInvalid();
            hdr.second = hdr.first;
        }
        t.apply();
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
