// A parser that goes round for ever on some packets, before controls that do nothing.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; }
struct headers { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            1: one;
            default: start;
        }
    }
    state one {
        packet.extract(hdr.h);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
