// Headers of which a part is changed, and that stay, or move because another one is put behind them; a sum that only its verification reads.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header hop_t {
    bit<4>  kind;
    bit<4>  left;
    bit<8>  color;
    bit<16> sum;
    bit<32> label;
}
header note_t {
    bit<8>  wrong;
    bit<24> label;
}
struct headers { front_t front; hop_t hop; note_t note; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.hop); transition accept; }
}
control V(inout headers hdr, inout metadata m) {
    apply { verify_checksum(true, { hdr.hop.label }, hdr.hop.sum, HashAlgorithm.csum16); }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (hdr.hop.kind != 0) {
            hdr.hop.left = hdr.hop.left - 1;
        }
        if (hdr.hop.color == 7) {
            hdr.note.setValid();
            hdr.note.wrong = (bit<8>)sm.checksum_error;
            hdr.note.label = hdr.hop.label[23:0];
        }
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
