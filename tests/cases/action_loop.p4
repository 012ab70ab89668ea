// An action with a loop, whose number of iterations packets decide, in two tables.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> first; bit<8> second; bit<16> sum; bit<8> count; }
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
    action add(bit<16> value) {
        for (bit<16> i = 0; i < 20 * (bit<16>) hdr.h.count; i = i + 1) {
            hdr.h.sum = hdr.h.sum + value;
        }
    }
    table first {
        key = { hdr.h.first: exact; }
        actions = { add; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    table second {
        key = { hdr.h.second: exact; }
        actions = { add; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    apply {
        first.apply();
        second.apply();
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
