// `last` of an empty stack and `next` of a full one reject, wherever they are evaluated (P4-16 section 8.18).
#include <core.p4>
#include <v1model.p4>

header head_t { bit<112> ethernet; bit<8> kind; bit<8> seen; bit<8> error_; }
header item_t { bit<8> v; }
header a_t { bit<8> v; }
header_union either_t { item_t item; a_t a; }
struct headers { head_t head; item_t[2] s; either_t[2] u; }
struct meta_t { bit<8> x; }

parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.head);
        transition select(h.head.kind) {
            0: read;
            1: operand;
            2: two;
            3: write;
            4: selected;
            5: either;
            6: popped;
        }
    }
    state read { h.head.seen = h.s.last.v; h.head.seen = 0xee; transition accept; }
    // The right operand is not evaluated, and then it is.
    state operand {
        h.head.seen = 1;
        if (h.head.kind == 2 && h.s.last.v == 1) { h.head.seen = 2; }
        h.head.seen = 3;
        if (h.head.kind == 1 && h.s.last.v == 1) { h.head.seen = 4; }
        h.head.seen = 5;
        transition accept;
    }
    state two {
        p.extract(h.s.next);
        h.head.seen = h.s.last.v;
        p.extract(h.s.next);
        h.head.seen = h.head.seen + h.s.last.v;
        transition accept;
    }
    state write {
        p.extract(h.s.next);
        h.s.next.v = 7;
        h.head.seen = 1;
        p.extract(h.s.next);
        h.head.seen = 2;
        h.s.next.v = 7;
        h.head.seen = 3;
        transition accept;
    }
    state selected { h.head.seen = 1; transition select(h.s.last.v) { 0: two; default: accept; } }
    state either { h.head.seen = 1; h.head.seen = h.u.last.a.v + 2; transition accept; }
    state popped {
        p.extract(h.s.next);
        h.head.seen = h.s.last.v;
        h.s.pop_front(1);
        h.head.seen = h.s.last.v + 1;
        transition accept;
    }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        h.head.error_ = s.parser_error == error.StackOutOfBounds ? 8w1 : 0;
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.head); p.emit(h.s); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
