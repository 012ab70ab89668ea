// The variable of a `for … in` is its own.
control C(inout bit<8> x) {
    apply {
        for (x in 1 .. 2) {} // error: the variable of a `for … in` is declared in it
    }
}
