// What nobody uses, and tables that say less than one thinks.
#include <core.p4>

const bit<8> USED = 1;
const bit<8> UNUSED = 2; // warning: constant `UNUSED` is never used
@noWarn("unused") const bit<8> QUIET = 3;
const bit<8> _ANONYMOUS = 4;
bit<8> helper(in bit<8> x) { return x; } // warning: function `helper` is never used

control Spare(inout bit<8> x) { apply { x = 1; } } // warning: control `Spare` is never used

control C(inout bit<8> x) {
    action listed() { x = USED; }
    action loose() {} // warning: action `loose` is never used
    table applied { // warning: table `applied` says nothing of a miss
        key = { x : exact; }
        actions = { listed; NoAction; }
        size = 8;
    }
    table sized { // warning: table `sized` does not say how many entries it has room for
        key = { x : exact; }
        actions = { listed; NoAction; }
        default_action = listed;
    }
    @noWarn("no_default_action") @noWarn("no_size")
    table quiet {
        key = { x : exact; }
        actions = { listed; NoAction; }
    }
    table never { // warning: table `never` is never applied
        key = { x : exact; }
        actions = { listed; NoAction; }
        const default_action = NoAction;
        const entries = { 1 : listed; }
    }
    apply {
        bit<8> y = 1; // warning: variable `y` is never used
        applied.apply();
        sized.apply();
        quiet.apply();
    }
}
control T(inout bit<8> x);
package Top(T t);
Top(C()) main;
