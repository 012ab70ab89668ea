// Everything here comes from one include, and that is said once.
struct headers_t {}
struct meta_t {}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) { // error: cannot find type `packet_in`
    // help: `packet_in` is declared in v1model.p4: add `#include <v1model.p4>`
    state start { transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    table t {
        key = { s.ingress_port : exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    apply { t.apply(); }
}
control D(packet_out p, in headers_t h) { apply {} }
V1Switch(P(), V(), I(), I(), V(), D()) main;
