// One instance with an empty body is called twice: arguments are copied in and out, and nothing else changes.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> c; bit<8> d; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control Nothing(inout bit<8> x, inout bit<8> y) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    Nothing() s;
    apply { sm.egress_spec = 1; s.apply(hdr.h.c, hdr.h.a); s.apply(hdr.h.d, hdr.h.c); }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
