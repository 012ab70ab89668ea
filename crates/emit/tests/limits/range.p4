// A range key of more than 64 bits in a table that can be written.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<72> n; }
struct headers { h_t h; }
struct metadata { bit<8> a; bit<32> b; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.h);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    table t {
        key = { hdr.h.n: range; } // unsupported: a range key of more than 64 bits
        actions = { NoAction; }
    }
    apply { t.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
