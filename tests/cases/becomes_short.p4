// A frame that becomes shorter than an Ethernet header. An interface with such headers does not send it; others do.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header next_t { bit<8> value; }
struct headers { front_t front; next_t next; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.next); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.front.setInvalid();
        if (hdr.next.value == 9) { hdr.next.setInvalid(); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
