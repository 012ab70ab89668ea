#include <core.p4>
control C(inout bit<8> x) {
    action next() {
        lpm.apply(); // error: `lpm` is used before it is declared
                     // help: a table is applied in the control's `apply { }`, not in an action
    }
    table lpm {
        key = { x : lpm; }
        actions = { next; NoAction; }
        default_action = NoAction;
    }
    apply { lpm.apply(); }
}
