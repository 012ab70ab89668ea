// Errors may be declared in front of core.p4's: NoError is no error all the same, and the parser's own errors are core.p4's.
error { Mine, Other }
#include <core.p4>
#include <v1model.p4>

header head_t { bit<112> ethernet; bit<8> kind; bit<8> seen; }
header item_t { bit<8> v; }
struct headers { head_t head; item_t[1] s; }
struct meta_t { error kept; }
struct pair_t { bit<8> x; error e; }

parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.head);
        m.kept = error.Other;
        transition select(h.head.kind) {
            0: accept;
            1: short;
            2: stack;
            3: mine;
        }
    }
    state short { bit<128> x = p.lookahead<bit<128>>(); transition accept; }
    state stack { p.extract(h.s.next); p.extract(h.s.next); transition accept; }
    state mine { verify(h.head.kind == 0, error.Mine); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        pair_t none = { x = 1, ... };
        if (s.parser_error == error.NoError) { h.head.seen = 0x10; }
        if (s.parser_error == error.PacketTooShort) { h.head.seen = 0x20; }
        if (s.parser_error == error.NoMatch) { h.head.seen = 0x30; }
        if (s.parser_error == error.StackOutOfBounds) { h.head.seen = 0x40; }
        if (s.parser_error == error.Mine) { h.head.seen = 0x50; }
        if (m.kept == error.Other) { h.head.seen = h.head.seen + 1; }
        if (none.e == error.NoError) { h.head.seen = h.head.seen + 2; }
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
