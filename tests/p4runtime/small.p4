// A program with one table, for pushes of another pipeline.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers {
    ethernet_t ethernet;
}

struct metadata { }

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers hdr, inout metadata meta) { apply { } }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    table ports {
        key = { standard.ingress_port: exact @name("port"); }
        actions = { forward; drop; }
        default_action = drop();
        size = 16;
    }
    apply {
        ports.apply();
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }

control Update(inout headers hdr, inout metadata meta) { apply { } }

control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(P(), Verify(), I(), E(), Update(), D()) main;
