// Sums over lists of an odd number of bytes, and of bytes that are not whole, with the payload behind them.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> a; bit<16> same; bit<16> other; bit<16> fresh; bit<16> plain; bit<8> b; bit<4> c; bit<4> d; }
struct headers { eth_t eth; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { 
        verify_checksum_with_payload(hdr.h.isValid(), { hdr.h.b }, hdr.h.same, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.h.isValid(), { hdr.h.a, hdr.h.b }, hdr.h.other, HashAlgorithm.csum16);
     } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.h.a == 6) { hdr.h.b = hdr.h.b + 1; hdr.h.d = hdr.h.d + 1; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply { 
        update_checksum_with_payload(hdr.h.isValid(), { hdr.h.b }, hdr.h.same, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.h.isValid(), { hdr.h.b }, hdr.h.other, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.h.isValid(), { hdr.h.b, hdr.h.a, hdr.h.d }, hdr.h.fresh, HashAlgorithm.csum16);
        update_checksum(hdr.h.isValid(), { hdr.h.d, hdr.h.b }, hdr.h.plain, HashAlgorithm.csum16);
     } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
