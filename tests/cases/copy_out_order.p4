// Copies out go from left to right (P4-16 section 6.8, step 6): of two parameters with one argument the last one stays.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> op; bit<8> a; bit<8> b; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control Sub(inout bit<8> x, out bit<8> y) { apply { y = 0x55; x = x + 1; } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    Sub() s;
    apply { sm.egress_spec = 1; if (hdr.h.op == 0) { s.apply(hdr.h.a, hdr.h.b); } else { s.apply(hdr.h.b, hdr.h.b); } }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
