// More than one way out: clones before and after egress, resubmission, recirculation, truncation; what each takes along.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> op;
    bit<8> round;   // counts passes through ingress
    bit<8> seen;    // instance_type, as egress sees it
    bit<8> kept;    // metadata that field list 1 keeps
    bit<8> lost;    // metadata that no list keeps
}
struct headers { h_t h; }
struct metadata {
    @field_list(1, 2) bit<8> kept;
    @field_list(2) bit<8> second;
    bit<8> lost;
}

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.instance_type == 0) { m.kept = 0x11; m.lost = 0x22; }
        hdr.h.round = hdr.h.round + 1;
        switch (hdr.h.op) {
            1: { clone_preserving_field_list(CloneType.I2E, 5, 1); }
            2: { mark_to_drop(sm); clone(CloneType.I2E, 5); }
            // As it came: what happened to the headers is forgotten.
            4: { if (sm.instance_type == 0) { resubmit_preserving_field_list(1); } }
            6: { truncate(4); }
            7: { clone_preserving_field_list(CloneType.I2E, 6, 1); }
            8: { clone(CloneType.I2E, 99); }
            9: { resubmit_preserving_field_list(1); }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        hdr.h.seen = (bit<8>)sm.instance_type;
        hdr.h.kept = m.kept;
        hdr.h.lost = m.lost;
        if (hdr.h.op == 3 && sm.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
        if (hdr.h.op == 5 && hdr.h.round == 1) { recirculate_preserving_field_list(1); }
        if (hdr.h.op == 7) { hdr.h.lost = (bit<8>)sm.egress_rid; }
    }
}
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
