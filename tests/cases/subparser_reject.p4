// Parsing is rejected inside a sub-parser: what another call of it gave back stays.
#include <core.p4>
#include <v1model.p4>
header kinds_t { bit<8> first; bit<8> second; }
header h_t { bit<8> x; }
struct H { kinds_t kinds; h_t first; h_t second; }
struct M { }
parser Sub(packet_in p, in bit<8> kind, out h_t h) {
    state start { transition select(kind) { 1: one; } }
    state one { p.extract(h); transition accept; }
}
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {
    Sub() sub;
    state start {
        p.extract(hdr.kinds);
        sub.apply(p, hdr.kinds.first, hdr.first);
        sub.apply(p, hdr.kinds.second, hdr.second);
        transition accept;
    }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { sm.egress_spec = 1; } }
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
