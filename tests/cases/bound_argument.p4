// An argument that a table's list of actions binds is copied out when the action ends: its body sees the old value.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> op; bit<8> a; bit<8> f; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) { state start { p.extract(hdr.h); transition accept; } }
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    action act(out bit<8> q) {
        q = 0x4b;
        hdr.h.a = hdr.h.f;
    }
    table t { key = { hdr.h.op: exact; } actions = { act(hdr.h.f); NoAction; } const default_action = NoAction; const entries = { 1: act(hdr.h.f); } }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.op == 1) { t.apply(); } else { act(hdr.h.f); }
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
