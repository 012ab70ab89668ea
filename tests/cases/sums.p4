// Checksums over the payload at their edges: nothing but zeros, and a field that reaches over 128 bits of words.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header zero_t { bit<16> data; bit<16> sum; }
header wide_t { bit<16> sum; bit<7> a; bit<126> b; bit<11> c; }
struct headers { kind_t kind; zero_t zero; wide_t wide; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            0: zero;
            1: wide;
            default: accept;
        }
    }
    state zero {
        packet.extract(hdr.zero);
        transition accept;
    }
    state wide {
        packet.extract(hdr.wide);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) {
    apply {
        verify_checksum_with_payload(hdr.zero.isValid(), { hdr.zero.data }, hdr.zero.sum, HashAlgorithm.csum16);
    }
}
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        // Data that becomes 0: the sum is over zeros alone only if the payload is, too.
        if (hdr.zero.isValid() && sm.ingress_port == 2) {
            hdr.zero.data = 0;
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) {
    apply {
        update_checksum_with_payload(hdr.zero.isValid(), { hdr.zero.data }, hdr.zero.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.wide.isValid(), { hdr.wide.a, hdr.wide.b, hdr.wide.c }, hdr.wide.sum,
            HashAlgorithm.csum16);
    }
}
control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.kind);
        packet.emit(hdr.zero);
        packet.emit(hdr.wide);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
