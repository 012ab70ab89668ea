// Arguments that stand for their parameters, and others that look as if they could: the same argument twice, an exit between the
// copies, an action of two tables, one instance applied to two arguments, a call in a loop, a control in a control.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; }
struct H { h_t h; h_t g; }
struct M { bit<8> x; bit<8> y; bit<8> n; }

parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }

control Two(inout bit<8> p, inout bit<8> q) {
    apply { p = p + 1; q = q + 2; }
}
control Read(inout bit<8> p, in bit<8> old) {
    apply { p = p + 1; p = p + old; }
}
control Leaves(inout H hdr, inout M m) {
    apply {
        hdr.h.a = hdr.h.a + 1;
        m.x = hdr.h.a;
        if (hdr.h.b == 9) { exit; }
        if (hdr.h.b == 8) { hdr.h.c = 0xcc; return; }
        hdr.h.a = hdr.h.a + 0x10;
    }
}
control Deep(inout H hdr, inout M m) {
    action set(bit<8> v) { hdr.h.c = v + m.x; m.y = hdr.h.c; }
    action none() { }
    table t { key = { hdr.h.a : exact; } actions = { set; none; } default_action = none; const entries = { 5 : set(0x40); } }
    apply { m.x = m.x + 1; t.apply(); hdr.g = hdr.h; hdr.h.b = hdr.g.c + m.y; }
}
control Outer(inout H hdr, inout M m) {
    Deep() deep;
    apply { m.x = hdr.h.b; deep.apply(hdr, m); hdr.h.kind = m.y; }
}
control Swapped(inout h_t one, inout h_t two) {
    apply { h_t old = one; one = two; two = old; two.c = two.c + 1; }
}

control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    Two() two;
    Read() read;
    Leaves() leaves;
    Outer() outer;
    Swapped() swapped;
    apply {
        sm.egress_spec = 1;
        if (hdr.h.kind == 0) {
            two.apply(hdr.h.a, hdr.h.a);
            two.apply(hdr.h.b, hdr.h.c);
        } else if (hdr.h.kind == 1) {
            read.apply(hdr.h.a, hdr.h.a);
        } else if (hdr.h.kind == 2) {
            leaves.apply(hdr, m);
            hdr.h.c = m.x;
        } else if (hdr.h.kind == 3) {
            outer.apply(hdr, m);
        } else if (hdr.h.kind == 4) {
            for (bit<8> i in 0 .. 2) { two.apply(hdr.h.a, m.n); }
            hdr.h.b = m.n;
        } else {
            hdr.g = hdr.h;
            hdr.g.a = 0x77;
            swapped.apply(hdr.h, hdr.g);
            hdr.h.b = hdr.g.c;
        }
    }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
