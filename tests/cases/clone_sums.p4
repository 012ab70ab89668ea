// Copies of a packet with a sum over its payload: a clone of the packet as it arrived, one of the packet as it leaves egress, and one of each group.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> kind; bit<8> copy; bit<16> sum; bit<16> data; }
struct headers { eth_t eth; h_t h; }
struct metadata { @field_list(1) bit<8> unused; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { 
        verify_checksum_with_payload(hdr.h.isValid(), { hdr.h.kind, hdr.h.copy, hdr.h.data }, hdr.h.sum, HashAlgorithm.csum16);
     } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.h.kind[0:0] == 1) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        if (hdr.h.kind[2:2] == 1) { sm.mcast_grp = 3; }
        hdr.h.data = hdr.h.data + 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.kind[1:1] == 1 && sm.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
        hdr.h.copy = (bit<8>)sm.instance_type;
    }
}
control C(inout headers hdr, inout metadata m) { apply { 
        update_checksum_with_payload(hdr.h.isValid(), { hdr.h.kind, hdr.h.copy, hdr.h.data }, hdr.h.sum, HashAlgorithm.csum16);
     } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
