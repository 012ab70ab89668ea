// Frames that are not IP, and frames that only say so, change their length in front of headers that stay.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header n_t { bit<32> n; }
header w_t { bit<128> w; }
header k_t { bit<8> kind; }
struct headers { eth_t eth; k_t kind; n_t n; w_t w; n_t tail; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); transition select(hdr.eth.type) { 0x86dd: accept; default: more; } }
    state more { b.extract(hdr.kind); transition select(hdr.kind.kind) { 9: accept; default: all; } }
    state all { b.extract(hdr.w); b.extract(hdr.tail); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.eth.type == 0x86dd) { hdr.eth.type = 0x800; }
        if (hdr.kind.kind == 1) { hdr.n.setValid(); hdr.n.n = 0xaabbccdd; }
        if (hdr.kind.kind == 2) { hdr.w.setInvalid(); }
        if (hdr.kind.kind == 3) { hdr.w.setInvalid(); hdr.n.setValid(); hdr.n.n = 0x01020304; }
        if (hdr.kind.kind == 4) { hdr.eth.setInvalid(); }
        if (hdr.kind.kind == 9) { hdr.kind.setInvalid(); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
