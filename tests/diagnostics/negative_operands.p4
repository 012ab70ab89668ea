// What is not defined for negative numbers.
action a(inout bit<8> x) {
    x = x >> (-2); // error: a negative amount
}
match_kind { exact, lpm }
control c(in bool b) {
    action n() { }
    table t {
        key = { b: lpm; } // error: has no prefixes
        actions = { n; }
        default_action = n();
    }
    apply { t.apply(); }
}
