// Rounds of the only packet: recirculation and resubmission without copies, with truncation, new headers and sums over what is left.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<16> tci; bit<16> type; }
// What a second round puts in front of the packet.
header outer_t { bit<16> sum; bit<16> length; bit<16> port; bit<8> why; bit<8> zero; }
header op_t { bit<8> op; bit<8> round; bit<8> seen; bit<8> kept; }
struct headers { ethernet_t ethernet; vlan_t vlan; outer_t outer; op_t op; }
struct metadata {
    @field_list(1) bit<8> why;
    @field_list(1) bit<48> address;
    bit<8> lost;
}

const bit<16> PLAIN = 0x88b5;
const bit<16> OUTER = 0x88b6;
const bit<16> VLAN = 0x8100;

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { OUTER: outer; VLAN: vlan; default: op; }
    }
    state vlan { b.extract(hdr.vlan); transition op; }
    state outer { b.extract(hdr.outer); transition op; }
    state op { b.extract(hdr.op); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        m.lost = m.lost + 1;
        if (sm.instance_type == 0) { m.address = hdr.ethernet.src; }
        switch (hdr.op.op) {
            // As it came.
            2: { if (sm.instance_type == 0) { m.why = 0x22; hdr.op.round = 9; resubmit_preserving_field_list(1); } }
            // Nobody is at the port where this round would send the packet.
            6: { if (m.why == 0) { sm.egress_spec = 77; } }
            7: { if (hdr.op.round == 1) { mark_to_drop(sm); } }
            10: { resubmit_preserving_field_list(1); }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        hdr.op.round = hdr.op.round + 1;
        hdr.op.seen = (bit<8>) sm.instance_type;
        hdr.op.kept = m.why;
        if (m.why == 0) {
            m.why = hdr.op.op;
            switch (hdr.op.op) {
                1: { recirculate_preserving_field_list(1); }
                3: { truncate(24); recirculate_preserving_field_list(1); }
                4: { truncate(27); recirculate_preserving_field_list(1); }
                5: { truncate(20); }
                6: { recirculate_preserving_field_list(1); }
                7: { recirculate_preserving_field_list(1); }
                8: { recirculate_preserving_field_list(1); }
                // A second round that remembers nothing; so there is a third one, and so on.
                9: { recirculate_preserving_field_list(2); }
                11: { if (hdr.op.round < 90) { recirculate_preserving_field_list(2); } }
                // A tag that the first round takes off or puts on, and one that stays.
                12: { hdr.ethernet.type = hdr.vlan.type; hdr.vlan.setInvalid(); recirculate_preserving_field_list(1); }
                13: { hdr.vlan = { 100, hdr.ethernet.type }; hdr.ethernet.type = VLAN; recirculate_preserving_field_list(1); }
                14: { recirculate_preserving_field_list(1); }
            }
        } else if (m.why != 0x22) {
            if (!hdr.outer.isValid() && m.why < 12) {
                hdr.outer.setValid();
                hdr.outer.sum = 0;
                hdr.outer.port = (bit<16>) sm.ingress_port;
                hdr.outer.why = m.why;
                hdr.outer.zero = m.lost;
                hdr.outer.length = (bit<16>) sm.packet_length;
                hdr.ethernet.type = OUTER;
                hdr.ethernet.dst = m.address;
            }
            // Truncated after the sum is computed.
            if (m.why == 8) { truncate(40); }
        }
    }
}
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum_with_payload(hdr.outer.isValid(),
            { hdr.outer.length, hdr.outer.port, hdr.outer.why, hdr.outer.zero, hdr.op.op, hdr.op.round, hdr.op.seen, hdr.op.kept },
            hdr.outer.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.vlan); b.emit(hdr.outer); b.emit(hdr.op); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
