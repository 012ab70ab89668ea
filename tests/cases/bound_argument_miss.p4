// An argument that a table's list of actions binds is evaluated when that action runs: not on a miss.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> x; bit<8> y; }
struct H { h_t h; }
struct M { }
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    action a(in bit<8> v) { hdr.h.y = v; }
    table t {
        key = { hdr.h.x: exact; }
        actions = { a(bump(hdr.h.x)); NoAction; }
        const default_action = NoAction;
    }
    apply { sm.egress_spec = 1; t.apply(); }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
