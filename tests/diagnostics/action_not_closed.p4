#include <core.p4>
control C(inout bit<8> x) {
    action double() {
        if (x == 1) {
            x = x + x; // error: expected `}`, found `table`, which cannot stand in a block
    table t {
        key = { x : exact; }
        actions = { double; NoAction; }
        default_action = NoAction;
    }
    apply { t.apply(); }
}
