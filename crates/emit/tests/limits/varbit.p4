// A varbit field that is too long.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> n; varbit<4096> data; }
struct headers { h_t h; }
struct metadata { bit<8> a; bit<32> b; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.h, 16); // unsupported: varbit<4096>
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply { sm.egress_spec = 1; }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
