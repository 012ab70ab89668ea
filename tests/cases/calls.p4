// Calls at every exit: exit out of a table's action and of a control in a control, return in the middle, loops over lists, default
// values, operands that a later call changes, and one control that is applied twice.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; }
struct H { h_t h; }
struct pair_t { bit<8> x; bit<8> y; }
struct M { bit<8> seen; }

const bit<8> ON = 1;
const bool YES = ON == 1;

bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> small(in bit<8> x) { if (x < 10) { return 1; } return 2; }

parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }

control Add(inout bit<8> x, in bit<8> by, inout standard_metadata_t sm) {
    bit<8> sum = x;
    action stop() { x = 0xee; exit; }
    action go() { }
    table t { key = { x : exact; } actions = { stop; go; } const default_action = go; const entries = { 7 : stop(); } }
    apply {
        t.apply();
        if (by == 9) { x = 0xdd; exit; }
        if (by == 8) { mark_to_drop(sm); return; }
        sum = sum + by;
        x = sum;
    }
}

control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    Add() add;
    pair_t pair = {...};
    apply {
        sm.egress_spec = 1;
        if (hdr.h.kind == 0) {
            // Operands from left to right: the first was read before the call.
            hdr.h.c = hdr.h.a + bump(hdr.h.a) + hdr.h.a;
        } else if (hdr.h.kind == 1) {
            add.apply(hdr.h.a, hdr.h.b, sm);
            add.apply(hdr.h.c, hdr.h.a, sm);
        } else if (hdr.h.kind == 2) {
            for (bit<8> x in (list<bit<8>>){ 1, 2, hdr.h.a }) {
                if (x == 2) { continue; }
                pair.x = pair.x + x;
            }
            hdr.h.b = pair.x;
            hdr.h.c = pair.y + small(hdr.h.a) + (bit<8>)hdr.h.minSizeInBytes();
        } else {
            bool both = hdr.h.a == 0 && bump(hdr.h.b) == 1;
            hdr.h.c = both ? bump(hdr.h.b) : hdr.h.b;
        }
        hdr.h.kind = 0xff;
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
