// PSA's direct counters are counted in the actions of their table alone.
#include <core.p4>
#include <psa.p4>

control C(inout bit<8> x) {
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) seen;
    action foreign() { seen.count(); } // error: `seen` belongs to table `t`, and this is no action of it
    table t {
        key = { x : exact; }
        actions = { NoAction; }
        psa_direct_counter = seen;
        default_action = NoAction;
    }
    table u {
        key = { x : exact; }
        actions = { foreign; NoAction; }
        default_action = NoAction;
    }
    apply {
        t.apply();
        u.apply();
    }
} // warning: the program has no `main`
