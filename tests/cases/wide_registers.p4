// Registers of more than 64 bits.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t {
    bit<8>  index;
    bit<128> value;
    bit<8>  rest;
}
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    register<bit<100>>(4) sums;
    register<bit<128>>(1) turns;
    bit<100> sum;
    bit<128> turn;
    apply {
        sums.read(sum, (bit<32>)hdr.h.index);
        sum = sum + (bit<100>) hdr.h.value;
        sums.write((bit<32>)hdr.h.index, sum);
        hdr.h.value = (bit<128>) sum;
        turns.read(turn, 0);
        turn = (turn << 1) | 1;
        turns.write(0, turn);
        hdr.h.rest = turn[71:64];
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
