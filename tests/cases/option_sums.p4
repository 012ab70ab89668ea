// Checksums over the payload whose lists have varbit fields and wide numbers, in headers that become longer and shorter.
#include <core.p4>
#include <v1model.p4>

header start_t {
    bit<8>  kind;
    bit<24> more;
}

header segment_t {
    bit<4>      words;
    bit<12>     id;
    varbit<320> options;
    bit<16>     sum;
    bit<160>    wide;
}

struct headers {
    start_t   start;
    segment_t first;
    segment_t second;
}

struct metadata {
    bit<8> a;
}

parser P(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.start);
        bit<32> words = (bit<32>) pkt.lookahead<bit<4>>();
        pkt.extract(hdr.first, words << 5);
        transition select(hdr.start.kind) {
            0 .. 7: accept;
            default: second;
        }
    }
    state second {
        pkt.extract(hdr.second, (bit<32>) (pkt.lookahead<bit<4>>() ++ 4w0) * 2);
        transition accept;
    }
}

control V(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum_with_payload(hdr.first.isValid(), { hdr.start.kind, hdr.start.more, hdr.first.words, hdr.first.id, hdr.first.options,
            hdr.first.wide }, hdr.first.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.start.kind == 1) {
            hdr.first.wide = hdr.first.wide + 0x1000000000000000000000000000000000000fff;
        } else if (hdr.start.kind == 2) {
            hdr.first.id = ~hdr.first.id;
            hdr.start.more = 0;
        } else if (hdr.start.kind == 3) {
            segment_t old = hdr.first;
            hdr.first.setInvalid();
            hdr.first.setValid();
            hdr.first.id = 12w7;
            hdr.first.wide = old.wide;
            hdr.first.sum = old.sum;
        } else if (hdr.start.kind == 8) {
            hdr.first.options = hdr.second.options;
            hdr.first.words = hdr.second.words;
            hdr.second.setInvalid();
        } else if (hdr.start.kind == 9) {
            segment_t old = hdr.first;
            hdr.first = hdr.second;
            hdr.second = old;
        } else if (hdr.start.kind == 10) {
            hdr.start.setInvalid();
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {}
}

control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum_with_payload(hdr.first.isValid(), { hdr.start.kind, hdr.start.more, hdr.first.words, hdr.first.id, hdr.first.options,
            hdr.first.wide }, hdr.first.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
