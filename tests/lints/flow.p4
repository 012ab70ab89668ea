// What a path knows: variables without a value, headers that are not valid, code that is never reached.
#include <core.p4>

header H { bit<8> a; bit<8> b; }
struct S { H h; H g; }

parser P(packet_in b, out S s, out bit<8> n) {
    state start {
        b.extract(s.h);
        transition select(s.h.a) {
            1: second;
            2: third;
            default: accept;
        }
    }
    state second {
        b.extract(s.g);
        transition third;
    }
    state third {
        n = s.h.b;
        transition select(s.g.a) { // s.g is valid where `second` leads here
            0: accept;
            default: fourth;
        }
    }
    state fourth {
        s.h.setInvalid();
        transition select(s.h.a) { // warning: `s.h` is not valid here
            default: accept;
        }
    }
    state nowhere { // warning: no way from `start` leads to state `nowhere`
        transition accept;
    }
}

control C(inout S s, out bit<8> n) {
    action set(bit<8> v) { n = v; }
    table t {
        key = { s.h.a : exact; }
        actions = { set; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    apply {
        bit<8> x;
        bit<8> y;
        bit<8> z;
        H local;
        if (s.h.a == 1) { x = 1; } else { y = 2; }
        n = x; // a path has given it a value
        n = z; // warning: `z` is read before it has a value
        n = local.a; // warning: `local` is not valid here
        local.setValid();
        n = local.a + y;
        local.setInvalid();
        n = local.b; // warning: `local` is not valid here
        if (local.isValid()) { n = local.b; }
        for (bit<8> i in 1 .. 3) { n = n + z; z = i; }
        t.apply();
        if (n == 0) { exit; } else { return; }
        n = 1; // warning: this is never reached
    }
}
