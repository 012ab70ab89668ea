// A direct counter or meter belongs to one table, and is used in that table's actions.
#include <core.p4>
#include <v1model.p4>

header H { bit<8> a; }
struct M { bit<2> colour; }

control C(inout H h, inout M m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) seen;
    direct_counter(CounterType.packets) alone;
    direct_counter(CounterType.packets) mine;
    direct_meter<bool>(MeterType.bytes) colours; // error: `colours` gives a number, `bit<W>`
    action count() { seen.count(); }
    action orphan() { alone.count(); } // warning: `alone` is direct, and no table names it: this does nothing
    action foreign() { mine.count(); } // warning: `mine` belongs to table `t`, and this is no action of it
    direct_meter<bit<2>>(MeterType.bytes) rate;
    direct_meter<bit<2>>(MeterType.bytes) spare;
    action unmetered() { spare.read(m.colour); } // error: `spare` is direct, and no table names it
    table t {
        key = { h.a : exact; }
        actions = { count; orphan; NoAction; }
        counters = seen;
        default_action = NoAction;
        meters = mine;
    }
    table u {
        key = { h.a : exact; }
        actions = { foreign; unmetered; NoAction; }
        counters = seen; // error: `seen` belongs to table `t` already
    }
    apply {
        seen.count(); // warning: `seen` is direct: it can only be used in an action
        rate.read(m.colour); // error: `rate` is direct: it can only be used in an action
        t.apply();
        u.apply();
    }
} // warning: the program has no `main`
