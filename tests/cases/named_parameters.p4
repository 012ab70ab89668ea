// The control plane knows an action's data by the names that P4Info gives (P4-16 section 18.3).
#include <core.p4>
#include <v1model.p4>

header head_t { bit<112> ethernet; bit<8> kind; bit<8> seen; }
struct headers { head_t head; }
struct meta_t { }

parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.head); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    action see(@name("value") bit<8> x_1, @name("where.to") bit<9> x_2) { h.head.seen = x_1; s.egress_spec = x_2; }
    table t {
        key = { h.head.kind: exact; }
        actions = { see; NoAction; }
        default_action = NoAction();
    }
    apply { t.apply(); }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
