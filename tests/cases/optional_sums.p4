// One list for a checksum whose pseudo-header and option may be missing: the fields of headers that are not valid add nothing.

#include <core.p4>
#include <v1model.p4>

header first_t { bit<8> kind; bit<8> next; }
header near_t { bit<32> from; bit<32> to; }
header far_t { bit<64> from; bit<64> to; }
header body_t { bit<16> sum; bit<8> options; bit<8> rest; }
header option_t { bit<32> value; }

struct headers { first_t first; near_t near; far_t far; body_t body; option_t option; }
struct metadata { }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.kind) { 4: near; 6: far; default: accept; }
    }
    state near { packet.extract(hdr.near); transition body; }
    state far { packet.extract(hdr.far); transition body; }
    state body {
        packet.extract(hdr.body);
        transition select(hdr.body.options) { 0: accept; default: option; }
    }
    state option { packet.extract(hdr.option); transition accept; }
}

control V(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum_with_payload(hdr.body.isValid(),
            { hdr.near.from, hdr.near.to, hdr.far.from, hdr.far.to, 16w17, hdr.body.options, hdr.body.rest, hdr.option.value },
            hdr.body.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.first.next == 1 && hdr.near.isValid()) {
            // The near addresses become far ones.
            hdr.far.setValid();
            hdr.far.from = 0xa000000000000000 + (bit<64>) hdr.near.from;
            hdr.far.to = 0xb000000000000000 + (bit<64>) hdr.near.to;
            hdr.near.setInvalid();
            hdr.first.kind = 6;
        } else if (hdr.first.next == 2) {
            hdr.option.setInvalid();
            hdr.body.options = 0;
        } else if (hdr.first.next == 3) {
            hdr.option.setValid();
            hdr.option.value = 0x12345678;
            hdr.body.options = 1;
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum_with_payload(hdr.body.isValid(),
            { hdr.near.from, hdr.near.to, hdr.far.from, hdr.far.to, 16w17, hdr.body.options, hdr.body.rest, hdr.option.value },
            hdr.body.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.first);
        packet.emit(hdr.near);
        packet.emit(hdr.far);
        packet.emit(hdr.body);
        packet.emit(hdr.option);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
