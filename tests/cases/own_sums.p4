// Sums over the payload whose field does not hold what arrived: the program wrote it, or made its header, or the header is not there, or two updates meet.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header kind_t { bit<8> kind; bit<8> pad; }
header sum_t { bit<16> sum; bit<16> data; }
struct headers { eth_t eth; kind_t kind; sum_t first; sum_t second; sum_t made; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.kind); transition select(hdr.kind.kind) { 9: accept; default: first; } }
    state first { b.extract(hdr.first); b.extract(hdr.second); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { 
        verify_checksum_with_payload(true, { hdr.first.data }, hdr.first.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(true, { hdr.second.data }, hdr.second.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(true, { hdr.made.data }, hdr.made.sum, HashAlgorithm.csum16);
     } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.kind.kind == 1) { hdr.first.sum = 0; }
        if (hdr.kind.kind == 2) { hdr.second = hdr.first; }
        if (hdr.kind.kind == 3) { hdr.made.setValid(); hdr.made.data = 7; }
        if (hdr.kind.kind == 4) { hdr.second.setInvalid(); }
        if (hdr.kind.kind == 5) { hdr.second.data = hdr.second.data + 1; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply { 
        update_checksum_with_payload(true, { hdr.first.data }, hdr.first.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { hdr.second.data }, hdr.second.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.kind.kind == 5, { hdr.second.data, 16w5 }, hdr.second.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { hdr.made.data }, hdr.made.sum, HashAlgorithm.csum16);
     } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
