// What the control plane sees has a name of its own.
#include <core.p4>

action top() {}
control C(inout bit<8> x) {
    @name(".top") action a() {} // warning: another action has the control-plane name `top` already
    @name(".b") action b1() {}
    @name(".b") action b2() {} // warning: another action has the control-plane name `b` already
    @name(".b") table b { actions = { a; b1; b2; } default_action = a; }
    @name("twice") table t1 { key = { x : exact; } actions = { a; } default_action = a; }
    @name("twice") table t2 { // warning: another table has the control-plane name `C.twice` already
        key = { x : exact; } actions = { a; } default_action = a;
    }
    apply { b.apply(); t1.apply(); t2.apply(); }
}
// Elsewhere the same name is another one.
control D(inout bit<8> x) {
    @name("twice") table t1 { key = { x : exact; } actions = { top; } default_action = top; }
    apply { t1.apply(); }
}
