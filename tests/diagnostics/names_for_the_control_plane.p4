// What the control plane sees has a name of its own.
#include <core.p4>

action top() {}
control C(inout bit<8> x) {
    @name(".top") action a() {} // error: another action has the control-plane name `top` already
    @name(".b") action b1() {}
    @name(".b") action b2() {} // error: another action has the control-plane name `b` already
    @name(".b") table b { actions = { a; b1; b2; } default_action = a; }
    apply { b.apply(); }
}
