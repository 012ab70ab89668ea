// What newcomers write between blocks: each mistake is told once, and the next one is found.
heder h_t { bit<8> a; } // error: expected a declaration, found `heder`
                        // help: did you mean `header`?
struct s { a; } // error: a field without a type
struct table { bit<8> a; } // error: `table` is a keyword
                           // help: call it `table_`
control no_apply() { } // error: control `no_apply` has no `apply` block
const bit<8> x = 8q3; // error: `8q3` is not a number
control keys() {
    action a() { }
    table t {
        key = { x; } // error: a key without its match kind
                     // help: exact
        actions = { a, b; } // error: actions are separated by `;`
    }
    apply { }
}
parser p() {
    state start {
        transition accept;
        x = 1; // error: a statement after `transition`
    }
}
const bit<8> fine = 1;
const string open = "no end; // error: a string without an end
