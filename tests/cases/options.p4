// Varbit fields: options that arrive, leave, are copied, compared, summed and hashed.
#include <core.p4>
#include <v1model.p4>

header start_t {
    bit<8> kind;
}

// A varbit in the middle of a byte, with fields on both sides of it.
header odd_t {
    bit<4>      size;
    bit<3>      mark;
    varbit<72>  text;
    bit<1>      end;
    bit<16>     sum;
    bit<200>    wide;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<16>     id;
    bit<16>     sum;
    varbit<320> options;
}

header only_t {
    varbit<40> all;
}

header digest_t {
    bit<32> crc;
    bit<16> sum;
    bit<8>  flags;
}

struct headers {
    start_t  start;
    odd_t    odd;
    ipv4_t   outer;
    ipv4_t   inner;
    only_t   only;
    only_t[2] rest;
    digest_t digest;
}

struct metadata {
    bit<32> words;
}

parser P(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.start);
        transition select(hdr.start.kind) {
            1: odd;
            2: ip;
            3: only;
            4: tiles;
            default: accept;
        }
    }
    state odd {
        pkt.extract(hdr.odd, (bit<32>) pkt.lookahead<bit<4>>() * 8);
        transition accept;
    }
    state ip {
        // A header of less than one word has a length that no field can have.
        pkt.extract(hdr.outer, (bit<32>) (bit<8>) (pkt.lookahead<bit<8>>() & 15) * 32 - 32);
        transition select(hdr.outer.version) {
            4: inner;
            default: accept;
        }
    }
    state inner {
        pkt.extract(hdr.inner, (bit<32>) (bit<8>) (pkt.lookahead<bit<8>>() & 15) * 32);
        transition accept;
    }
    state only {
        pkt.extract(hdr.only, (bit<32>) pkt.lookahead<bit<8>>());
        transition accept;
    }
    state tiles {
        pkt.extract(hdr.rest.next, 16);
        pkt.extract(hdr.rest.next, 24);
        transition select(pkt.lookahead<bit<8>>()) {
            9: third;
            default: accept;
        }
    }
    state third {
        pkt.extract(hdr.rest.next, 8);
        transition accept;
    }
}

control V(inout headers hdr, inout metadata meta) {
    apply {}
}

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.parser_error != error.NoError) {
            hdr.digest.setValid();
            hdr.digest.flags = sm.parser_error == error.PacketTooShort ? 8w1 :
                (sm.parser_error == error.HeaderTooShort ? 8w4 :
                (sm.parser_error == error.ParserInvalidArgument ? 8w6 :
                (sm.parser_error == error.StackOutOfBounds ? 8w3 : 8w9)));
        } else if (hdr.odd.isValid()) {
            hdr.odd.mark = ~hdr.odd.mark;
        } else if (hdr.inner.isValid()) {
            hdr.digest.setValid();
            hdr.digest.flags[0:0] = (bit<1>) (hdr.inner.options == hdr.outer.options);
            hdr.digest.flags[1:1] = (bit<1>) (hdr.inner == hdr.outer);
            hash(hdr.digest.crc, HashAlgorithm.crc32, 32w0,
                { hdr.inner.version, hdr.inner.options, hdr.outer.options, hdr.outer.ihl }, 64w0x100000000);
            if (hdr.inner.id == 1) {
                hdr.inner.options = hdr.outer.options;
            } else if (hdr.inner.id == 2) {
                hdr.inner = hdr.outer;
            } else if (hdr.inner.id == 3) {
                hdr.outer.setInvalid();
            } else if (hdr.inner.id == 4) {
                ipv4_t other = hdr.outer;
                hdr.outer = hdr.inner;
                hdr.inner = other;
            } else if (hdr.inner.id == 5) {
                hdr.outer.setInvalid();
                hdr.outer.setValid();
                hdr.digest.flags[2:2] = (bit<1>) (hdr.outer.options == hdr.inner.options);
            }
        } else if (hdr.rest[0].isValid()) {
            hdr.rest.pop_front(1);
            hdr.only = hdr.rest[0];
            hdr.digest.setValid();
            hdr.digest.flags[0:0] = (bit<1>) (hdr.rest[(bit<32>) hdr.start.kind - 4].all == hdr.only.all);
        }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {}
}

control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.outer.isValid(), { hdr.outer.version, hdr.outer.ihl, hdr.outer.id, hdr.outer.options, 8w7 },
            hdr.outer.sum, HashAlgorithm.csum16);
        update_checksum(hdr.odd.isValid(), { hdr.odd.size, hdr.odd.text, hdr.odd.mark, hdr.odd.wide },
            hdr.odd.sum, HashAlgorithm.csum16);
        update_checksum(hdr.digest.isValid(), { hdr.digest.crc, hdr.digest.flags }, hdr.digest.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out pkt, in headers hdr) {
    apply {
        pkt.emit(hdr.digest);
        pkt.emit(hdr.start);
        pkt.emit(hdr.odd);
        pkt.emit(hdr.outer);
        pkt.emit(hdr.only);
        pkt.emit(hdr.inner);
        pkt.emit(hdr.rest);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
