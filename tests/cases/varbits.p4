// Varbit fields that begin at whole bytes, which every target has: options that arrive, leave, are copied, compared and summed, in headers
// alone and in a stack, with and without fields behind them.
#include <core.p4>
#include <v1model.p4>

header front_t {
    bit<8>  kind;
    bit<8>  seen;
    bit<96> pad;
}
header text_t {
    bit<8>     size;
    varbit<72> text;
    bit<4>     half;
    bit<12>    behind;
    bit<96>    large;
}
header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      id;
    bit<16>     sum;
    varbit<320> options;
}
header option_t {
    varbit<40> all;
}
struct headers {
    front_t     front;
    text_t      text;
    ipv4_t      outer;
    ipv4_t      inner;
    option_t[2] options;
    option_t    copy;
}
struct metadata { bit<8> flags; }

parser P(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.front);
        transition select(hdr.front.kind) {
            1: text;
            2: ip;
            3: options;
            default: accept;
        }
    }
    state text {
        pkt.extract(hdr.text, (bit<32>) pkt.lookahead<bit<8>>());
        transition accept;
    }
    state ip {
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
    state options {
        pkt.extract(hdr.options.next, 16);
        pkt.extract(hdr.options.next, (bit<32>) pkt.lookahead<bit<8>>());
        transition select(pkt.lookahead<bit<8>>()) {
            9: third;
            default: accept;
        }
    }
    state third {
        pkt.extract(hdr.options.next, 8);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.outer.isValid(), { hdr.outer.version, hdr.outer.ihl, hdr.outer.id, hdr.outer.options }, hdr.outer.sum, HashAlgorithm.csum16);
    }
}
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        meta.flags = (bit<8>) sm.checksum_error;
        if (sm.parser_error != error.NoError) {
            hdr.front.seen = sm.parser_error == error.PacketTooShort ? 8w0x81 :
                (sm.parser_error == error.HeaderTooShort ? 8w0x84 :
                (sm.parser_error == error.ParserInvalidArgument ? 8w0x86 :
                (sm.parser_error == error.StackOutOfBounds ? 8w0x83 : 8w0x89)));
        } else if (hdr.text.isValid()) {
            hdr.text.half = ~hdr.text.half;
            if (hdr.text.behind == 1) { hdr.text.setInvalid(); }
        } else if (hdr.inner.isValid()) {
            meta.flags[1:1] = (bit<1>) (hdr.inner.options == hdr.outer.options);
            meta.flags[2:2] = (bit<1>) (hdr.inner == hdr.outer);
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
                // A header that becomes valid again has an empty field.
                hdr.outer.setInvalid();
                hdr.outer.setValid();
                meta.flags[3:3] = (bit<1>) (hdr.outer.options == hdr.inner.options);
            }
            hdr.front.seen = meta.flags;
        } else if (hdr.options[0].isValid()) {
            hdr.options.pop_front(1);
            hdr.copy = hdr.options[0];
            meta.flags[1:1] = (bit<1>) (hdr.options[0].all == hdr.copy.all);
            hdr.front.seen = meta.flags;
        } else {
            hdr.front.seen = meta.flags;
        }
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.inner.isValid(), { hdr.inner.version, hdr.inner.ihl, hdr.inner.id, hdr.inner.options }, hdr.inner.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.outer.isValid() && hdr.outer.id == 9,
            { hdr.outer.version, hdr.outer.ihl, hdr.outer.id, hdr.outer.options }, hdr.outer.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out pkt, in headers hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
