control C(in bit<8> a, in bit<8> b, inout bit<8> c, out bool d) {
    apply {
        c = a ++ b; // error: expected `bit<8>`, found `bit<16>`
                    // help: `(bit<8>)(a ++ b)` keeps the low 8 bits; `(a ++ b)[7:0]` says so, too
        d = a & b; // error: expected `bool`, found `bit<8>`
                   // help: compare it: `(a & b) != 0`
    }
}
