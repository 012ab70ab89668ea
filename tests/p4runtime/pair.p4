// Two tables that a controller always changes together. A packet that sees one of them changed and the other one not is counted.
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

struct metadata {
    bit<32> first;
    bit<32> second;
}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers hdr, inout metadata meta) { apply { } }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(2, CounterType.packets) seen;
    action set_first(bit<32> value) {
        meta.first = value;
    }
    action set_second(bit<32> value) {
        meta.second = value;
    }
    table first {
        key = { hdr.ethernet.type: exact @name("type"); }
        actions = { set_first; }
        default_action = set_first(0);
        size = 4;
    }
    table second {
        key = { hdr.ethernet.type: exact @name("type"); }
        actions = { set_second; }
        default_action = set_second(0);
        size = 4;
    }
    apply {
        first.apply();
        second.apply();
        if (meta.first == meta.second) {
            seen.count(0);
        } else {
            seen.count(1);
        }
        mark_to_drop(standard);
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
