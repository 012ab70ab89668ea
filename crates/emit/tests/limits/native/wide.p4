// Wide values and varbit fields where machine code has no room for them.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> n; varbit<32> data; bit<16> sum; }
header w_t { bit<160> wide; }
struct headers { h_t h; w_t w; }
struct metadata { bit<8> a; bit<32> b; bit<200> wide; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    value_set<bit<160>>(4) known;
    state start {
        b.extract(hdr.h, (bit<32>) b.lookahead<bit<8>>() * 8);
        b.extract(hdr.w);
        transition select(hdr.w.wide) {
            known: accept; // unsupported: a value set with a field of more than 128 bits
            default: other;
        }
    }
    state other {
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) {
    apply {
        verify_checksum_with_payload(true, { hdr.h.n, hdr.h.data }, hdr.h.sum, HashAlgorithm.csum16); // unsupported: a varbit field that may be odd
    }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    counter(4, CounterType.packets) counts;
    table t {
        key = { hdr.h.n : exact; }
        actions = { NoAction; }
        default_action = NoAction;
        size = 4;
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        bit<160> low = 0;
        random(low, 160w0, hdr.w.wide); // unsupported: a random number of more than 64 bits
        hash(m.b, HashAlgorithm.crc32, 160w0, { hdr.h.data }, hdr.w.wide); // unsupported: a hash with a limit of more than 128 bits
        hdr.w.wide = hdr.w.wide + low;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum_with_payload(true, { hdr.h.n, hdr.h.data }, hdr.h.sum, HashAlgorithm.csum16); // unsupported: a varbit field that may be odd
    }
}
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
