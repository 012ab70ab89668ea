// An exact table, a counter, a drop with its site.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.ethernet); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    counter(512, CounterType.packets_and_bytes) arrived;
    action unknown() { mark_to_drop(sm); }
    action forward(bit<9> port) { sm.egress_spec = port; }
    table hosts {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; unknown; }
        default_action = unknown();
        size = 4096;
    }
    apply {
        arrived.count((bit<32>)sm.ingress_port);
        hosts.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
