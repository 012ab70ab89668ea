control C(inout bit<8> x) {
    apply {
        if (x == 1) {
            x = 2;
        } elif (x == 2) { // error: P4 has no `elif`
            // help: write `else if (…) { … }`
            x = 3;
        } else {
            x = 4;
        }
    }
}
