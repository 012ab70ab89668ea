// Value sets: plain values and structs, with every kind of match, and fields of more than 64 bits.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>   which;
    bit<16>  a;
    int<8>   signed;
    bit<128> large;
    bit<8>   seen;
}
struct pair_t {
    @match(ternary) bit<16> a;
    @match(range) int<8> signed;
}
struct large_t {
    @match(lpm) bit<128> large;
    @match(exact) bit<16> a;
}
struct range_t {
    @match(range) bit<128> large;
    @match(optional) bit<16> a;
}
struct headers { h_t h; }
struct metadata { bit<8> seen; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) plain;
    value_set<pair_t>(4) pairs;
    value_set<large_t>(300) prefixes;
    value_set<range_t>(2) ranges;
    state start {
        b.extract(hdr.h);
        transition select(hdr.h.which) {
            0: by_plain;
            1: by_pair;
            2: by_prefix;
            3: by_range;
            default: accept;
        }
    }
    state by_plain {
        transition select(hdr.h.a) {
            0x1111: fixed;
            plain: found;
            0x2222: fixed;
        }
    }
    state by_pair {
        transition select(hdr.h.a, hdr.h.signed) {
            pairs: found;
            default: accept;
        }
    }
    state by_prefix {
        transition select(hdr.h.large, hdr.h.a) {
            prefixes: found;
            default: accept;
        }
    }
    state by_range {
        transition select(hdr.h.large, hdr.h.a) {
            ranges: found;
            default: accept;
        }
    }
    state found {
        m.seen = 1;
        transition accept;
    }
    state fixed {
        m.seen = 2;
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.h.seen = m.seen;
        if (sm.parser_error == error.NoMatch) { hdr.h.seen = 3; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
