// Calls: which declaration is meant, and what an argument may be.
#include <core.p4>

extern Abstract {
    Abstract();
    abstract bit<8> f(in bit<8> x);
}
extern void two(in bit<8> a);
extern void two(in bit<16> b);
extern void give(in bit<8> x);
extern void fixed(bit<8> x);
T same<T>(T x) { return x; }
const bool ok = static_assert(1 + 1 == 2, "arithmetic");
const bool no = static_assert(1 + 1 == 3, "arithmetic"); // error: this assertion does not hold: arithmetic
package P(Abstract a);
P(Abstract()) p; // error: `Abstract` has the abstract method `f`, which is not defined here

header H { bit<8> a; }
parser Q(packet_in b, out H h) {
    state start {
        b.extract(_); // error: the type arguments of `extract` cannot be inferred
        b.extract<H>(_);
        b.lookahead<void>(); // error: `void` has no values
        transition accept;
    }
}
parser Endless(packet_in b) { // error: parser `Endless` never ends
    state start { transition again; }
    state again { transition start; }
}
control C(inout bit<8> x) {
    Abstract() other = {
        bit<8> f(inout bit<8> x) { return x; } // error: `f` differs from the abstract method of `Abstract`
    };
    apply {
        two(1); // error: more than one `two` takes these arguments
        two(a = 1);
        fixed(1);
        fixed(x); // error: `x` has no direction: its argument must be known at compile time
        give(_); // error: `_` can only be the argument of an `out` parameter
        x = same(1); // error: `1` needs a width
    }
} // warning: the program has no `main`
