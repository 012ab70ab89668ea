// Packets without copies are truncated, also ones that passed ingress before.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header op_t { bit<8> op; bit<8> round; }
struct headers { ethernet_t ethernet; op_t op; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.ethernet); b.extract(hdr.op); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.op.round = hdr.op.round + 1;
        if (hdr.op.op == 1) { truncate(20); }
        if (hdr.op.op == 2) { truncate(2000); }
        if (hdr.op.op == 3) { truncate((bit<32>)(bit<8>)sm.packet_length - 4); }
        if (hdr.op.op == 4 && hdr.op.round == 2) { truncate(18); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (hdr.op.op == 4 && hdr.op.round == 1) { recirculate_preserving_field_list(0); }
    }
}
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.op); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
