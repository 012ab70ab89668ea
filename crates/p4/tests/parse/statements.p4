// What newcomers write inside blocks.
control c() {
    bit<8> x;
    action a() {
        x = 1 // error: expected `;`
              // help: `;` is missing here
        x == 2; // error: expected `;`, found `==`
                // help: an assignment is written `=`
        x++; // error: expected an expression, found `;`
             // help: x = x + 1
        x; // error: this statement does nothing
        x = hdr->y; // error: P4 has no `->`
        x = 'a'; // error: the character `\'` has no meaning here
    }
    apply {
        while (x < 3) { x = x + 1; } // error: P4 has no `while`
                                     // help: for (
        if (x = 3) { x = 1; } // error: expected `)`, found `=`
                              // help: a comparison is written `==`
        switch (x) { case 1: { } } // error: P4 has no `case`
        x = ; // error: expected an expression, found `;`
        x = 5;
        else { } // error: `else` without an `if`
    }
}
