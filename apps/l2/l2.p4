// A learning switch: where a station's frames come from is where frames for it go; until that is known they go everywhere. README.md has
// the tables; the control plane is `strait run --controller l2`.
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

// A station was seen at a port where the switch does not know it.
struct learn_t {
    bit<48> mac;
    bit<9>  port;
}

parser L2Parser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control L2Verify(inout headers hdr, inout metadata meta) {
    apply { }
}

control L2Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action learn() {
        digest<learn_t>(1, { hdr.ethernet.src, standard.ingress_port });
    }

    // Stations and where they are; one that says nothing for its timeout is told of, and forgotten.
    table stations {
        key = {
            hdr.ethernet.src: exact;
            standard.ingress_port: exact;
        }
        actions = { NoAction; learn; }
        const default_action = learn();
        size = 131072;
        support_timeout = true;
    }

    action forward(bit<9> port) {
        standard.egress_spec = port;
    }

    // Group 1 has all ports.
    action flood() {
        standard.mcast_grp = 1;
    }

    table destinations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; flood; }
        const default_action = flood();
        size = 131072;
    }

    action not_a_station() {
        mark_to_drop(standard);
    }

    // IEEE 802.1D table 7-10: frames to 01:80:c2:00:00:00 to 0f are for one link, and no bridge passes them on.
    action link_local() {
        mark_to_drop(standard);
    }

    apply {
        if (hdr.ethernet.src & 0x010000000000 != 0 || hdr.ethernet.src == 0) {
            not_a_station();
        } else if (hdr.ethernet.dst & 0xfffffffffff0 == 0x0180c2000000) {
            link_local();
        } else {
            stations.apply();
            destinations.apply();
        }
    }
}

control L2Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action back_where_it_came_from() {
        mark_to_drop(standard);
    }

    apply {
        if (standard.egress_port == standard.ingress_port) {
            back_where_it_came_from();
        }
    }
}

control L2Compute(inout headers hdr, inout metadata meta) {
    apply { }
}

control L2Deparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(L2Parser(), L2Verify(), L2Ingress(), L2Egress(), L2Compute(), L2Deparser()) main;
