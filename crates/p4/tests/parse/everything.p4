// The whole grammar in one file, without a mistake.
#include <core.p4>
#define TWICE(x) ((x) + (x))
#define NAME(a, b) a ## _ ## b
#define TEXT(x) #x
#define WIDTH 8
#if defined(WIDTH) && WIDTH >> 1 == 4 && !defined NOTHING && FROM_OUTSIDE == 7
typedef bit<WIDTH> byte_t;
#elif WIDTH
#error not this
#else
#error nor this
#endif
#ifndef WIDTH
this is left out /* and
#endif does not end it in here */
#endif

const byte_t NAME(two, times) = TWICE(2);
const string words = TEXT(some words);
const bit<(WIDTH > 4 ? 16 : 8)> wide = 16w0xBE_EF;
const bit<WIDTH << 1> wider = 0b1010;
const int<8> negative = -8s1;
const bool yes = true && !false || (1 < 2 == true);
const int big = 0xffff_ffff_ffff_ffff_ffff;
error { Odd, Even }
match_kind { custom, other, }
enum Colour { Red, Green, }
enum bit<8> Code { A = 1, B = Code.A }
type bit<9> Port_t;
typedef tuple<bit<8>, tuple<bool, int<4>>> pair_t;
struct Generic<T> { T value; list<T> more; }
@annotated("text", 1 + 2) @structured[a = 1, b = {1, 2}] @listed[1, 2]
header H { bit<8> a; @field varbit<320> options; bit b; }
header_union U { H one; H two; }
struct S { H[4] stack; U u; Generic<Generic<bit<8>>> deep; error e; }
extern E<T> {
    E(bit<32> size);
    E();
    @pure T read<I>(in I index, @optional in bool flag);
    abstract void virtual(inout bit<8> x);
}
extern E2;
extern bit<8> compute<T, U>(in T a, out U b, bit<8> c = 4);
parser P<T>(packet_in p, out T headers);
control C<T>(inout T headers, in E<bit<8>> e);
package K<T>(P<T> p, C<T> c = _default());
bit<8> max(in bit<8> a, in bit<8> b) { if (a > b) return a; return b; }

parser MyParser(packet_in p, out S s)(bit<8> n) {
    value_set<tuple<bit<8>, bit<8>>>(4) set;
    bit<8> kind;
    const bit<8> limit = 3;
    state start {
        p.extract(s.stack.next);
        kind = p.lookahead<bit<8>>();
        if (kind == limit) { kind = 0; } else kind = 1;
        transition select(kind, s.stack.last.a) {
            (0, 1): accept;
            (0x10 &&& 0xf0, 1 .. 3): next;
            (_, default): reject;
            set: next;
            default: next;
        }
    }
    @name("second") state next {
        verify(kind != 3, error.Odd);
        transition accept;
    }
}

control MyControl(inout S s, in E<bit<8>> e)() {
    E<bit<8>>(32w4) object = {
        void virtual(inout bit<8> x) { x = this.read(x); }
    };
    Generic<bit<8>> g = { value = 1, ... };
    H[2] local = { { 1, {#}, ... }, {} };
    bit<8> x;
    action set(in bit<8> a, bit<8> b) { x = a ++ b[7:4] ++ 4w0; }
    @hidden action nothing() {}
    table t {
        key = { s.stack[0].a & 0xf : exact @name("key"); x : ternary; s.u.isValid() : custom; }
        actions = { set(x); @tableonly nothing; @defaultonly .NoAction(); }
        const default_action = nothing();
        size = 1 << 10;
        largest_priority_wins = false;
        const entries = {
            const priority = 10: (0x1, 1 &&& 3, true): set(7) @entry("one");
            (1, _, _) : nothing();
        }
        implementation = E<bit<8>>(32w1);
    }
    apply {
        {
            x = x |+| 1 |-| 2;
            x += 1; x -= 1; x *= 2; x /= 2; x %= 3; x &= 1; x |= 1; x ^= 1; x <<= 1; x >>= 1; x |+|= 1; x |-|= 1;
            x[3:0] = (bit<4>)(x >> 2);
            bit<1> b = (bit<1>) (x < 3);
        }
        switch (t.apply().action_run) { set: nothing: { x = 1; } default: { exit; } }
        switch (x) { 1: 2: { } 3 + 4: { x = 2; } }
        if (t.apply().hit) { return; } else if (!t.apply().miss) ; else { }
        for (bit<8> i = 0, bit<8> j = 1; i < 8; i += 1, j = j - 1) { if (i == 3) continue; break; }
        for (bit<8> k in 0 .. x) { x = x + k; }
        @unroll for (bit<8> k in (list<bit<8>>){ 1, 2, 3 }) x = k;
        MyOther.apply(s);
        .max(b = x, a = _);
        x = e.read<bit<8>>({ 1, 2 }) == 3 ? x << 2 : ~x;
        s.deep = (Generic<Generic<bit<8>>>) { value = g, more = {} };
        const bit<8> key = 1;
        bit<8> priority = key; bit<8> state = 1; bit<8> type = state; bit<8> apply = type; bit<8> list = 2;
    }
}
K(MyParser(1), MyControl()) main;
