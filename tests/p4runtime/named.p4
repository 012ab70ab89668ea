// A table whose keys controllers name by strings: its type has four numbers.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/slot", string)
type bit<2> slot_t;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers {
    ethernet_t ethernet;
}

struct metadata {
    slot_t slot;
}

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
    table slots {
        key = { meta.slot: exact @name("slot"); }
        actions = { forward; drop; }
        default_action = drop();
        size = 16;
    }
    apply {
        meta.slot = (slot_t) hdr.ethernet.dst[1:0];
        slots.apply();
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
