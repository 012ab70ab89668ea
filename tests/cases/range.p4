// Ranges: in a table that the control plane fills, and as const entries.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t {
    bit<8>  which;
    bit<32> key;
    bit<8>  result;
}
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action set(bit<8> x) { hdr.h.result = x; }
    table filled {
        key = { hdr.h.key : range; }
        actions = { set; NoAction; }
    }
    table constant {
        key = { hdr.h.key : range; hdr.h.result : ternary; }
        actions = { set; }
        const default_action = set(0xee);
        const entries = {
            (10..20, 0 &&& 1) : set(1);
            (15..0xffffffff, _) : set(2);
            (0, 7) : set(3);
        }
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.which == 0) { filled.apply(); } else { constant.apply(); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
