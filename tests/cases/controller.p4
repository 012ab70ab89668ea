// What goes between a program and its controller besides entries: value sets, digests, entries that no packet hits. And a register
// that two controls share, one by an argument.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  kind;
    bit<16> port;
    bit<8>  host;
    bit<8>  seen;
}
struct pair_t {
    @match(ternary) bit<16> port;
    bit<8> host;
}
struct learn_t {
    bit<8> host;
    bit<9> port;
}
struct headers { h_t h; }
struct metadata { bit<8> way; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) kinds;
    value_set<pair_t>(2) pairs;
    state start {
        b.extract(hdr.h);
        transition select(hdr.h.kind) {
            kinds: known;
            default: by_pair;
        }
    }
    state known {
        m.way = 1;
        transition accept;
    }
    state by_pair {
        transition select(hdr.h.port, hdr.h.host) {
            pairs: paired;
            default: accept;
        }
    }
    state paired {
        m.way = 2;
        transition accept;
    }
}
control Count(inout bit<8> seen, in bit<32> at, register<bit<8>> cells) {
    apply {
        cells.read(seen, at);
        seen = seen + 1;
        cells.write(at, seen);
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    register<bit<8>>(8) cells;
    Count() count;
    action send(bit<9> port) { sm.egress_spec = port; }
    action learn() {
        digest<learn_t>(1, { hdr.h.host, sm.ingress_port });
        sm.egress_spec = 1;
    }
    table hosts {
        key = { hdr.h.host: exact; }
        actions = { send; learn; }
        default_action = learn();
        support_timeout = true;
        size = 8;
    }
    apply {
        hosts.apply();
        count.apply(hdr.h.seen, (bit<32>)m.way, cells);
        hdr.h.kind = m.way;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
