// Initialisers: what `...` and `{#}` stand for, and where a type must be said.
#include <core.p4>

header H { bit<8> a; }
struct S { bit<8> a; bit<8> b; }

control C(inout H h) {
    apply {
        H[2] stack;
        stack = { { 1 } }; // error: `H[2]` has 2 elements, 1 given
        stack = { { 1 }, ... };
        bool same = { a = 8w1, b = 8w2 } == { a = 8w1, b = 8w2 }; // error: the struct type of these initialisers cannot be inferred
        bool typed = (S) { a = 8w1, b = 8w2 } == { a = 8w1, b = 8w2 };
        bool bad = (...) && true; // error: `...` cannot be an operand
    }
}
