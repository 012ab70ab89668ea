// Every kind of object that a controller writes and reads over P4Runtime. A frame is Ethernet; its EtherType says what it asks for:
//   0x0800  forward by `route` (lpm on the last 32 bits of the destination), counted and metered
//   0x1001  `exact`, with an idle timeout      0x1002  `ternary`      0x1003  `range`      0x1004  `optional`
//   0x1005  `group`, by an action selector      0x1006  multicast group 1   0x1007  clone session 5   0x1008  digest
//   0x1009  to the controller                   0x100a  counter, meter and register of index 3
//   0xcccc and what the value set `others` has   the register `seen`
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU = 64;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> padding;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers {
    packet_in_t  to_controller;
    packet_out_t from_controller;
    ethernet_t   ethernet;
}

struct metadata {
    bit<2> colour;
    bit<1> other;
}

struct learnt_t {
    bit<48> src;
    bit<9>  port;
}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    value_set<bit<16>>(4) others;
    state start {
        transition select(standard.ingress_port) {
            CPU: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.from_controller);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            others: other;
            default: accept;
        }
    }
    state other {
        meta.other = 1;
        transition accept;
    }
}

control Verify(inout headers hdr, inout metadata meta) { apply { } }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) arrived;
    meter(8, MeterType.packets) rate;
    register<bit<32>>(8) seen;
    direct_counter(CounterType.packets_and_bytes) routed;
    direct_meter<bit<2>>(MeterType.packets) routed_rate;

    action drop() {
        mark_to_drop(standard);
    }
    action send(bit<9> port) {
        standard.egress_spec = port;
    }
    action send_routed(bit<9> port, bit<48> dst) {
        routed.count();
        routed_rate.read(meta.colour);
        standard.egress_spec = port;
        hdr.ethernet.dst = dst;
    }
    action drop_routed() {
        routed.count();
        mark_to_drop(standard);
    }

    table route {
        key = { hdr.ethernet.dst[31:0]: lpm @name("dst"); }
        actions = { send_routed; drop_routed; }
        counters = routed;
        meters = routed_rate;
        default_action = drop_routed();
        size = 1024;
    }
    table exact_ {
        key = { hdr.ethernet.dst: exact @name("dst"); standard.ingress_port: exact @name("port"); }
        actions = { send; drop; }
        default_action = drop();
        support_timeout = true;
        size = 1048576;
    }
    table ternary_ {
        key = { hdr.ethernet.dst: ternary @name("dst"); hdr.ethernet.src: ternary @name("src"); }
        actions = { send; drop; @defaultonly NoAction; }
        default_action = NoAction();
    }
    table range_ {
        key = { hdr.ethernet.dst[15:0]: range @name("dst"); }
        actions = { send; drop; }
        default_action = drop();
    }
    table optional_ {
        key = { hdr.ethernet.dst: optional @name("dst"); standard.ingress_port: optional @name("port"); }
        actions = { send; @tableonly drop; NoAction; }
        default_action = NoAction();
    }
    action_selector(HashAlgorithm.crc16, 64, 14) selector;
    table group {
        key = { hdr.ethernet.dst: exact @name("dst"); hdr.ethernet.src: selector; }
        actions = { send; drop; }
        implementation = selector;
    }
    table fixed {
        key = { hdr.ethernet.type: exact @name("type"); }
        actions = { NoAction; drop; }
        const entries = { 0x86dd: drop(); }
        const default_action = NoAction();
    }

    apply {
        if (hdr.from_controller.isValid()) {
            standard.egress_spec = hdr.from_controller.egress_port;
            hdr.from_controller.setInvalid();
        } else {
            fixed.apply();
            if (meta.other == 1) {
                seen.write(1, (bit<32>)hdr.ethernet.type);
            }
            if (hdr.ethernet.type == 0x0800) {
                route.apply();
                if (meta.colour == 2) { mark_to_drop(standard); }
            } else if (hdr.ethernet.type == 0x1001) {
                exact_.apply();
            } else if (hdr.ethernet.type == 0x1002) {
                ternary_.apply();
            } else if (hdr.ethernet.type == 0x1003) {
                range_.apply();
            } else if (hdr.ethernet.type == 0x1004) {
                optional_.apply();
            } else if (hdr.ethernet.type == 0x1005) {
                group.apply();
            } else if (hdr.ethernet.type == 0x1006) {
                standard.mcast_grp = 1;
            } else if (hdr.ethernet.type == 0x1007) {
                clone(CloneType.I2E, 5);
                mark_to_drop(standard);
            } else if (hdr.ethernet.type == 0x1008) {
                digest<learnt_t>(1, { hdr.ethernet.src, standard.ingress_port });
                mark_to_drop(standard);
            } else if (hdr.ethernet.type == 0x1009) {
                standard.egress_spec = CPU;
            } else if (hdr.ethernet.type == 0x100a) {
                bit<32> colour;
                arrived.count(3);
                rate.execute_meter(3, colour);
                seen.write(3, colour);
                mark_to_drop(standard);
            } else {
                mark_to_drop(standard);
            }
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU) {
            hdr.to_controller.setValid();
            hdr.to_controller.ingress_port = standard.ingress_port;
            hdr.to_controller.reason = 1;
        }
    }
}

control Update(inout headers hdr, inout metadata meta) { apply { } }

control D(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.to_controller);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(P(), Verify(), I(), E(), Update(), D()) main;
