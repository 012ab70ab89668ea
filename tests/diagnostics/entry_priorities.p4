// Priorities of entries: the first says where counting begins, and constant entries have their order alone.
match_kind { exact, ternary, lpm }
control c(in bit<8> x) {
    action a(bit<8> y) { }
    table later {
        key = { x: ternary; }
        actions = { a; }
        default_action = a(0);
        entries = {
            1: a(1); // error: the first entry has no priority
            priority = 5: 2: a(2);
        }
    }
    table constant {
        key = { x: ternary; }
        actions = { a; }
        default_action = a(0);
        const entries = {
            priority = 5: 2: a(2); // error: constant entries have no priorities
        }
    }
    table falling {
        key = { x: ternary; }
        actions = { a; }
        default_action = a(0);
        priority_delta = 10;
        entries = {
            priority = 12: 1: a(1);
            2: a(2);
            3: a(3); // error: is negative
        }
    }
    table properties {
        key = { x: ternary; }
        actions = { a; }
        default_action = a(0);
        largest_priority_wins = 1; // error: `true` or `false`
        priority_delta = 0; // error: a number above zero
    }
    apply { later.apply(); constant.apply(); falling.apply(); properties.apply(); }
}
