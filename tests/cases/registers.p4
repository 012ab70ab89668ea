// Registers keep values from packet to packet, in cells of odd widths too; out of range, reads give 0 and writes do nothing.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t {
    bit<8>  index;
    bit<16> value;
    bit<8>  rest;
}
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    register<bit<16>>(4) sums;
    register<bit<5>>(1) turns;
    bit<16> sum;
    bit<5> turn;
    apply {
        sums.read(sum, (bit<32>)hdr.h.index);
        sum = sum + hdr.h.value;
        sums.write((bit<32>)hdr.h.index, sum);
        hdr.h.value = sum;
        turns.read(turn, 0);
        turn = turn + 1;
        turns.write(0, turn);
        hdr.h.rest = (bit<8>)turn;
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
