// verify_checksum and update_checksum, over headers alone and with the payload.
#include <core.p4>
#include <v1model.p4>

header sums_t {
    bit<16> head;
    bit<16> body;
    bit<32> data;
    bit<8>  wrong;
}
struct headers { sums_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) {
    apply { verify_checksum(true, { hdr.h.data }, hdr.h.head, HashAlgorithm.csum16); }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        hdr.h.wrong = (bit<8>)sm.checksum_error;
        hdr.h.data = hdr.h.data + 1;
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum(true, { hdr.h.data }, hdr.h.head, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.h.data[31:31] == 0, { hdr.h.data }, hdr.h.body, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
