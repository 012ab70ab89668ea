// As argument_order, and the function writes the parameter: the copy that goes out counts on from the old value.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct H { h_t h; } struct M { }
bit<8> f(inout bit<8> x, in bit<8> z) { x = x + z; return 8w4; }
bit<8> g(inout bit<8> z) { z = 8w3; return 8w1; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    
    apply { h.h.b = f(h.h.a, g(h.h.a)); }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
