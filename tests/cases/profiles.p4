// Action profiles and selectors: entries lead to members, and to groups whose members share the flows.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> dst; bit<8> flow; bit<8> tag; }
struct headers_t { h_t h; }
struct meta_t {}

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action_profile(2) nexthops;
    action_selector(HashAlgorithm.identity, 16, 8) ecmp;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port, bit<8> tag) { s.egress_spec = port; h.h.tag = tag; }
    table simple {
        key = { h.h.dst : exact; }
        actions = { forward; drop; NoAction; }
        implementation = nexthops;
        default_action = NoAction;
        size = 16;
    }
    table shared {
        key = { h.h.dst : lpm; h.h.flow : selector; }
        actions = { forward; drop; }
        implementation = ecmp;
        default_action = drop;
        size = 16;
    }
    action_selector(HashAlgorithm.crc16, 16, 8) hashed;
    table spread {
        key = { h.h.dst : exact; h.h.flow : selector; }
        actions = { forward; NoAction; }
        implementation = hashed;
        default_action = NoAction;
        size = 16;
    }
    apply {
        if (!simple.apply().hit) {
            if (!shared.apply().hit) { spread.apply(); }
        }
    }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
