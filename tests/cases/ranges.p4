// Ranges that overlap, in a table with two of them, an exact and a ternary key.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t {
    bit<8>  which;
    bit<16> low;
    bit<64> wide;
    bit<8>  mask;
    bit<8>  result;
}
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) hits;
    action set(bit<8> x) { hdr.h.result = x; }
    table acl {
        key = { hdr.h.which: exact; hdr.h.low: range; hdr.h.wide: range; hdr.h.mask: ternary; }
        actions = { set; }
        default_action = set(0xee);
        counters = hits;
        size = 64;
    }
    apply {
        sm.egress_spec = 1;
        acl.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
