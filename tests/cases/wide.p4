// Numbers of more than 128 bits: all operators, at widths with and without spare bits in the last word, at any offset in the packet.
#include <core.p4>
#include <v1model.p4>

typedef bit<192> whole;
typedef bit<131> odd;
typedef int<333> signed_t;

header start_t {
    bit<8> op;
    bit<8> by;
}

header pair_t {
    whole a;
    whole b;
}

header odds_t {
    bit<3> before;
    odd    a;
    odd    b;
    bit<7> after;
}

header signs_t {
    signed_t a;
    signed_t b;
    bit<6>   after;
}

header result_t {
    bit<1>    yes;
    bit<6>    no;
    bit<1>    end;
    bit<64>   narrow;
    bit<100>  middle;
    bit<4>    rest;
    bit<16>   sum;
    bit<32>   crc;
}

struct headers {
    start_t  start;
    result_t result;
    pair_t   pair;
    odds_t   odds;
    signs_t  signs;
    odds_t[2] stack;
}

struct metadata {
    bit<400> kept;
    bit<8>   found;
}

parser P(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.start);
        transition select(hdr.start.op >> 5) {
            0: pair;
            1: odds;
            2: signs;
            3: stack;
            4: ahead;
            default: accept;
        }
    }
    state pair {
        pkt.extract(hdr.pair);
        transition select(hdr.pair.a, hdr.pair.b) {
            (0, _): accept;
            (0xffffffffffffffffffffffffffffffff &&& 0xffffffffffffffffffffffffffffffff, 5 .. 0x100000000000000000000000000000000): found;
            (_, 0x10000000000000000000000000000000000000000 .. 0x10000000000000000000000000000000000000fff): found;
            default: accept;
        }
    }
    state odds {
        pkt.extract(hdr.odds);
        transition accept;
    }
    state signs {
        pkt.extract(hdr.signs);
        transition select(hdr.signs.a) {
            -5 .. 70: found;
            default: accept;
        }
    }
    state stack {
        pkt.extract(hdr.stack.next);
        pkt.extract(hdr.stack.next);
        transition accept;
    }
    state ahead {
        meta.kept = (bit<400>) pkt.lookahead<bit<299>>();
        transition accept;
    }
    state found {
        meta.found = 1;
        transition accept;
    }
}

control V(inout headers hdr, inout metadata meta) {
    apply {}
}

control Whole(inout whole a, in whole b, inout headers hdr) {
    apply {
        bit<8> op = hdr.start.op & 31;
        if (op == 0) { a = a + b; }
        else if (op == 1) { a = a - b; }
        else if (op == 2) { a = a * b; }
        else if (op == 3) { a = a |+| b; }
        else if (op == 4) { a = a |-| b; }
        else if (op == 5) { a = a & b; }
        else if (op == 6) { a = a | b; }
        else if (op == 7) { a = a ^ ~b; }
        else if (op == 8) { a = a << hdr.start.by; }
        else if (op == 9) { a = a >> hdr.start.by; }
        else if (op == 10) { a = a << b; }
        else if (op == 11) { a = a >> (bit<99>) b; }
        else if (op == 12) { a = -a; }
        else if (op == 13) { a = a < b ? a : b; }
        else if (op == 14) { a[150:11] = b[139:0]; }
        else if (op == 15) { a = b[63:0] ++ a[191:64]; }
        else if (op == 16) { hdr.result.middle = a[140:41]; hdr.result.narrow = (bit<64>) (b >> 50); }
        else if (op == 17) { hdr.result.middle = (bit<100>) a >> b; hdr.result.narrow = b[64:1]; }
        else if (op == 18) { a = (whole) (bit<300>) (int<300>) (int<192>) a + (whole) hdr.start.by; }
        else if (op == 19) { a = (whole) (bit<300>) ((bit<300>) a ++ b)[299:0]; }
        else { a = 0x123456789abcdef0123456789abcdef0123456789abcdef; }
        hdr.result.yes = (bit<1>) (a == b);
        hdr.result.no[0:0] = (bit<1>) (a != b);
        hdr.result.no[1:1] = (bit<1>) (a < b);
        hdr.result.no[2:2] = (bit<1>) (a <= b);
        hdr.result.no[3:3] = (bit<1>) (a > b);
        hdr.result.no[4:4] = (bit<1>) (a >= b);
        hdr.result.no[5:5] = (bit<1>) (a == 0x123456789abcdef0123456789abcdef0123456789abcdef);
    }
}

control Odd(inout odd a, in odd b, inout headers hdr) {
    apply {
        bit<8> op = hdr.start.op & 31;
        if (op == 0) { a = a + b; }
        else if (op == 1) { a = a - b; }
        else if (op == 2) { a = a * b; }
        else if (op == 3) { a = a |+| b; }
        else if (op == 4) { a = a |-| b; }
        else if (op == 5) { a = a << hdr.start.by; }
        else if (op == 6) { a = a >> hdr.start.by; }
        else if (op == 7) { a = ~a; }
        else if (op == 8) { a = -b; }
        else if (op == 9) { a = 19w5 ++ b[111:0]; }
        else if (op == 10) { a = (odd) ((bit<500>) a ++ (bit<129>) b >> 77); }
        else { a[64:64] = b[130:130]; }
        hdr.result.no[1:1] = (bit<1>) (a < b);
        hdr.result.no[2:2] = (bit<1>) (a >= b);
        hash(hdr.result.crc, HashAlgorithm.crc32, 32w0, { hdr.result.no, a, b, hdr.odds.after }, 64w0x100000000);
    }
}

control Signed(inout signed_t a, in signed_t b, inout headers hdr) {
    apply {
        bit<8> op = hdr.start.op & 31;
        if (op == 0) { a = a + b; }
        else if (op == 1) { a = a - b; }
        else if (op == 2) { a = a * b; }
        else if (op == 3) { a = a |+| b; }
        else if (op == 4) { a = a |-| b; }
        else if (op == 5) { a = a << hdr.start.by; }
        else if (op == 6) { a = a >> hdr.start.by; }
        else if (op == 7) { a = a >> (bit<333>) b; }
        else if (op == 8) { a = -b; }
        else if (op == 9) { a = (signed_t) (int<130>) b; }
        else if (op == 10) { a = (signed_t) (int<8>) (bit<8>) hdr.start.by; }
        else if (op == 11) { a = (signed_t) (int<40>) b + (signed_t) (int<600>) a; }
        else if (op == 12) { hdr.result.narrow = (bit<64>) (int<64>) (a >> 3); }
        hdr.result.no[1:1] = (bit<1>) (a < b);
        hdr.result.no[2:2] = (bit<1>) (a >= b);
        hdr.result.no[3:3] = (bit<1>) (a > -4);
    }
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action mark(bit<8> by) {
        hdr.result.narrow = hdr.result.narrow + (bit<64>) by;
    }
    table exactly {
        key = { hdr.pair.a : exact; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    table masked {
        key = { hdr.odds.a : ternary; hdr.start.by : exact; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    table between {
        key = { hdr.signs.a : range; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    table prefix {
        key = { hdr.pair.b : lpm; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        size = 10000;
    }
    table listed {
        key = { hdr.odds.b : ternary; }
        actions = { mark; NoAction; }
        default_action = NoAction;
        const entries = {
            0x40000000000000000000000000000000a : mark(7);
            0x400000000000000000000000000000000 &&& 0x600000000000000000000000000000000 : mark(9);
        }
    }
    apply {
        sm.egress_spec = 1;
        hdr.result.setValid();
        hdr.result.end = (bit<1>) meta.found;
        if (hdr.pair.isValid()) {
            exactly.apply();
            prefix.apply();
            Whole.apply(hdr.pair.a, hdr.pair.b, hdr);
        } else if (hdr.odds.isValid()) {
            masked.apply();
            listed.apply();
            Odd.apply(hdr.odds.a, hdr.odds.b, hdr);
        } else if (hdr.signs.isValid()) {
            between.apply();
            Signed.apply(hdr.signs.a, hdr.signs.b, hdr);
        } else if (hdr.stack[0].isValid()) {
            bit<32> at = (bit<32>) hdr.start.by;
            hdr.stack[at].a = hdr.stack[at ^ 1].b;
            hdr.result.middle = (bit<100>) hdr.stack[at + 1].a;
            hdr.result.yes = (bit<1>) (hdr.stack[0] == hdr.stack[1]);
        } else {
            switch (meta.kept) {
                0: { hdr.result.narrow = 100; }
                0x2000000000000000000000000000000000000000000000000000000000000000000000000: { hdr.result.narrow = 101; }
                default: { hdr.result.middle = meta.kept[298:199]; hdr.result.narrow = meta.kept[63:0]; }
            }
            random(hdr.result.rest, 3, 3);
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {}
}

control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.pair.isValid(), { hdr.pair.a, hdr.start.by, hdr.pair.b, 8w0 }, hdr.result.sum, HashAlgorithm.csum16);
        update_checksum(hdr.odds.isValid(), { hdr.odds.a, hdr.start.by, hdr.odds.b, 8w0 }, hdr.result.sum, HashAlgorithm.csum16);
        update_checksum(hdr.signs.isValid(), { hdr.signs.a, hdr.start.by, hdr.signs.b }, hdr.result.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
