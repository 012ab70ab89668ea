// A varbit field that begins in the middle of a byte.
#include <core.p4>
#include <v1model.p4>


header odd_t { bit<4> n; varbit<32> data; bit<4> m; }
struct headers { odd_t odd; }
struct metadata { bit<8> a; bit<32> b; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.odd, 16); // unsupported: does not begin at a whole byte
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
