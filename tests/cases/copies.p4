// Copies of Ethernet frames whose headers grow and shrink: clones before and after egress, multicast, resubmission, recirculation.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<8> round; bit<8> seen; bit<8> replica; bit<8> kept; }
header op_t { bit<8> op; bit<8> rest; }
struct headers { ethernet_t ethernet; tag_t tag; op_t op; }
struct metadata {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x88b5: tagged;
            default: plain;
        }
    }
    state tagged { b.extract(hdr.tag); transition plain; }
    state plain { b.extract(hdr.op); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.instance_type == 0) { m.kept = 0x11; m.lost = 0x22; }
        if (hdr.tag.isValid()) { hdr.tag.round = hdr.tag.round + 1; }
        switch (hdr.op.op) {
            1: { clone_preserving_field_list(CloneType.I2E, 5, 1); }
            2: { mark_to_drop(sm); clone(CloneType.I2E, 5); }
            4: { if (sm.instance_type == 0) { resubmit_preserving_field_list(1); } }
            6: { sm.mcast_grp = 7; }
            7: { mark_to_drop(sm); sm.mcast_grp = 8; }
            8: { sm.mcast_grp = 7; clone_preserving_field_list(CloneType.I2E, 6, 1); }
            9: { resubmit_preserving_field_list(1); }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        // Port 2 gets frames with a tag, port 3 frames without one, port 4 nothing.
        if (sm.egress_port == 2 && !hdr.tag.isValid()) {
            hdr.tag.setValid();
            hdr.tag.round = 0;
            hdr.ethernet.type = 0x88b5;
        }
        if (sm.egress_port == 3) {
            hdr.tag.setInvalid();
            hdr.ethernet.type = 0x8100;
        }
        if (sm.egress_port == 4) { mark_to_drop(sm); }
        if (hdr.tag.isValid()) {
            hdr.tag.seen = (bit<8>)sm.instance_type;
            hdr.tag.replica = (bit<8>)sm.egress_rid;
            hdr.tag.kept = m.kept;
        }
        if (hdr.op.op == 3 && sm.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
        if (hdr.op.op == 5 && hdr.tag.isValid() && hdr.tag.round == 1) { recirculate_preserving_field_list(1); }
        if (hdr.op.op == 10 && hdr.tag.isValid() && hdr.tag.round == 1) {
            hdr.tag.setInvalid();
            hdr.ethernet.type = 0x0800;
            recirculate_preserving_field_list(1);
        }
    }
}
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.tag); b.emit(hdr.op); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
