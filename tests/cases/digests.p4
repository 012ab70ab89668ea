// Digests: of several types, with fields of odd and large widths, in actions and under conditions. They keep the order of sending.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<4> half; bit<12> odd; bit<40> five; bit<128> large; }
struct headers { h_t h; }
struct metadata { bit<7> seen; }
struct small_t { bit<1> flag; bit<9> port; }
struct large_t { bit<12> odd; bit<40> five; bit<128> large; bit<7> seen; bool yes; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action tell(bit<7> seen) {
        m.seen = seen;
        digest<large_t>(1, { hdr.h.odd, hdr.h.five, hdr.h.large, m.seen, hdr.h.half == 3 });
    }
    table told {
        key = { hdr.h.half: exact; }
        actions = { tell; NoAction; }
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.which != 0) {
            digest<small_t>(0, { (bit<1>)hdr.h.which, sm.ingress_port });
        }
        told.apply();
        // A dropped packet tells, too.
        if (hdr.h.which == 2) {
            mark_to_drop(sm);
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
