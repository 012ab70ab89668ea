// Fields of a constant struct are constants.
#include <core.p4>
#include <v1model.p4>
struct pair_t { bit<8> a; bit<8> b; }
header h_t { bit<8> x; }
struct H { h_t h; }
struct M { }
const pair_t TOP = { 1, 2 };
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    apply {
        const pair_t LOCAL = { 3, 4 };
        const h_t HEADER = { 5 };
        const pair_t NAMED = { a = 6, b = 7 };
        hdr.h.x = LOCAL.a + HEADER.x + NAMED.b + TOP.b;
        sm.egress_spec = 1;
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
