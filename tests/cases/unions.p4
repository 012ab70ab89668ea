// Header unions: at most one member is valid; stacks of them; copies, comparisons, and what leaves.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header short_t { bit<8> x; }
header long_t { bit<16> y; }
header_union either_t { short_t small; long_t large; }
struct headers { kind_t kind; either_t first; either_t[3] others; either_t last; kind_t result; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.kind);
        transition select(hdr.kind.kind) { 1: small; 2: large; 3: both; 4 .. 9: option; default: accept; }
    }
    state small { b.extract(hdr.first.small); transition accept; }
    state large { b.extract(hdr.first.large); transition accept; }
    // The second extraction takes the place of the first.
    state both { b.extract(hdr.first.small); b.extract(hdr.first.large); transition accept; }
    state option {
        transition select(b.lookahead<bit<8>>()) { 0: accept; 1: next_small; default: next_large; }
    }
    state next_small { b.extract(hdr.others.next.small); transition option; }
    state next_large { b.extract(hdr.others.next.large); transition option; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.result.setValid();
        hdr.result.kind = hdr.first.isValid() ? 8w1 : 0;
        switch (hdr.kind.kind) {
            1: { hdr.first.large.setValid(); hdr.first.large.y = 0xabcd; }
            2: { hdr.last = hdr.first; hdr.first.large.setInvalid(); }
            5: { hdr.others.pop_front(1); }
            6: { hdr.others.push_front(1); hdr.others[0].small = { 0x55 }; }
            7: { hdr.last = hdr.others[1]; if (hdr.last == hdr.others[1]) { hdr.result.kind = 0x77; } }
            8: { hdr.others[1].large = { 0x2222 }; }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) {
    apply { b.emit(hdr.kind); b.emit(hdr.first); b.emit(hdr.others); b.emit(hdr.last); b.emit(hdr.result); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
