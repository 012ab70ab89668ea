// A switch for tests of `strait lab`: a table says where the packets of a port go.
#include <core.p4>
#include <v1model.p4>

struct none_t {}

parser P(packet_in b, out none_t h, inout none_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}

control V(inout none_t h, inout none_t m) { apply {} }

control I(inout none_t h, inout none_t m, inout standard_metadata_t s) {
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table wires {
        key = { s.ingress_port: exact; }
        actions = { send; drop; }
        default_action = drop();
    }
    apply { wires.apply(); }
}

control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control U(inout none_t h, inout none_t m) { apply {} }
control D(packet_out b, in none_t h) { apply {} }

V1Switch(P(), V(), I(), E(), U(), D()) main;
