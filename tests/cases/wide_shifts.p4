// Shifts of numbers of more than 64 bits by constants that differ between two branches, which a compiler makes one shift by a variable.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t { bit<8> which; bit<128> value; int<128> number; bit<128> left; }
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        bit<128> v = hdr.h.value;
        int<128> n = hdr.h.number;
        if (hdr.h.which == 0) {
            hdr.h.value = v >> 49;
            hdr.h.number = n >> 50;
            hdr.h.left = v << 3;
        } else {
            hdr.h.value = v >> 58;
            hdr.h.number = n >> 70;
            hdr.h.left = v << 66;
        }
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
