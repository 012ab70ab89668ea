// PNA: what adds entries, and what changes their life time.
#include <core.p4>
#include <pna.p4>

header H { bit<8> a; }
struct M { bit<32> x; }

control C(inout H h, inout M m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    action hit(bit<32> x) { m.x = x; }
    action refresh() { restart_expire_timer(); }
    action stale() { restart_expire_timer(); } // error: `restart_expire_timer` can only be called in an action of a table whose entries age
    action learn() { add_entry("hit", 32w1, (ExpireTimeProfileId_t) 1); }
    action wrong() { add_entry("hot", 32w1, (ExpireTimeProfileId_t) 1); } // error: table `b` has no action `hot`
    action again() { add_entry("hit", 32w1, (ExpireTimeProfileId_t) 1); } // error: `add_entry` can only be called in the default action
    action only(bit<32> x) { m.x = x; }
    action picky() { add_entry("only", 32w1, (ExpireTimeProfileId_t) 1); } // error: `only` is `@defaultonly` in table `d`
    action narrow() { add_entry("hit", 16w1, (ExpireTimeProfileId_t) 1); } // error: this is not the data of `hit`, which takes (bit<32> x)
    action many() { add_entry("hit", { 32w1, 32w2 }, (ExpireTimeProfileId_t) 1); } // error: this is not the data of `hit`
    table a {
        key = { h.a : exact; }
        actions = { hit; refresh; @defaultonly learn; }
        default_action = learn;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
    }
    table b {
        key = { h.a : exact; }
        actions = { hit; stale; @defaultonly wrong; }
        default_action = wrong;
        add_on_miss = true;
    }
    table c {
        key = { h.a : exact; }
        actions = { hit; again; }
        default_action = hit(0);
    }
    table d {
        key = { h.a : exact; }
        actions = { @defaultonly only; @defaultonly picky; }
        default_action = picky;
        add_on_miss = true;
    }
    table e {
        key = { h.a : exact; }
        actions = { hit; @defaultonly narrow; }
        default_action = narrow;
        add_on_miss = true;
        default_idle_timeout_for_data_plane_added_entries = 1; // warning: has no effect
    }
    table f {
        key = { h.a : exact; }
        actions = { hit; @defaultonly many; }
        default_action = many;
        add_on_miss = true;
    }
    apply { a.apply(); b.apply(); c.apply(); d.apply(); e.apply(); f.apply(); }
} // warning: the program has no `main`
