// Hashes over lists that are not whole bytes: zero bits fill the last byte, as in BMv2.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<4> k; bit<12> j; bit<16> o; bit<16> q; bit<16> r; bit<32> s; }
struct headers { eth_t eth; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hash(hdr.h.o, HashAlgorithm.identity, 16w0, { hdr.h.k }, 16w65535);
        hash(hdr.h.q, HashAlgorithm.identity, 16w0, { hdr.h.j }, 17w65536);
        hash(hdr.h.r, HashAlgorithm.csum16, 16w0, { hdr.h.j, hdr.h.k, 4w1 }, 17w65536);
        hash(hdr.h.s, HashAlgorithm.crc32, 32w0, { hdr.h.j, 1w1 }, 33w0x100000000);
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
