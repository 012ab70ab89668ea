// A packet for which an assertion does not hold is dropped at once: in the parser, in a control, in an action and in the deparser.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> value; }
struct headers { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        assert(hdr.h.kind != 1);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) seen;
    action small() {
        assert(hdr.h.value < 10);
        seen.count(2);
    }
    table checked {
        key = { hdr.h.kind: exact; }
        actions = { small; NoAction; }
        const default_action = NoAction();
        const entries = { 3: small(); }
    }
    apply {
        seen.count(0);
        assume(hdr.h.kind != 2);
        seen.count(1);
        checked.apply();
        seen.count(3);
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) {
    apply {
        assert(hdr.h.kind != 4);
        packet.emit(hdr.h);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
