// Fields of headers that a packet does not have, read in every kind of place: they are not those of the packet before
// it. The names of headers and variables are also names in the C that the compiler writes.

#include <core.p4>
#include <v1model.p4>

header tag_t {
    bit<8> kind;
    bit<8> more;
}

header pair_t {
    bit<8> a;
    bit<8> b;
}

header result_t {
    bit<8> unguarded;
    bit<8> guarded;
    bit<8> chosen;
    bit<8> by_action;
    bit<8> by_table;
    bit<8> after;
}

struct headers_t {
    result_t result;
    tag_t    tag;
    pair_t   headers;
    pair_t   no_header;
    pair_t[3] stack;
}

struct metadata_t {
    bit<8> leaving;
    bit<8> steps_0;
}

parser Packet(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.tag);
        meta.steps_0 = hdr.tag.more;
        transition select(hdr.tag.kind) {
            1: with_headers;
            2: with_both;
            default: accept;
        }
    }
    state with_headers {
        packet.extract(hdr.headers);
        transition more;
    }
    state with_both {
        packet.extract(hdr.headers);
        packet.extract(hdr.no_header);
        transition more;
    }
    state more {
        transition select(meta.steps_0) {
            0: accept;
            default: one;
        }
    }
    state one {
        meta.steps_0 = meta.steps_0 - 1;
        packet.extract(hdr.stack.next);
        transition more;
    }
}

control Check(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Arrive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action take() { hdr.result.by_action = hdr.no_header.b; }
    action told(bit<8> value) { hdr.result.by_table = value; }
    table known {
        key = { hdr.headers.a: exact; hdr.no_header.a: exact; }
        actions = { told; }
        const default_action = told(0xff);
        const entries = {
            (0x11, 0x33): told(2);
            (0x11, 0): told(1);
            (0, 0): told(0);
        }
    }
    apply {
        standard.egress_spec = 1;
        hdr.result.setValid();
        hdr.result.unguarded = hdr.headers.a;
        meta.leaving = hdr.stack[1].b;
        hdr.result.guarded = hdr.headers.isValid() && hdr.headers.b == 0x22 ? 8w1 : 0;
        hdr.result.chosen = hdr.tag.kind == 2 ? hdr.no_header.a : meta.leaving;
        take();
        known.apply();
        hdr.headers.setInvalid();
        hdr.no_header.setInvalid();
        hdr.headers.setValid();
        hdr.result.after = hdr.no_header.isValid() ? 8w1 : 0;
        hdr.headers.a = 0xaa;
        hdr.headers.b = 0xbb;
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.result);
        packet.emit(hdr.tag);
        packet.emit(hdr.headers);
        packet.emit(hdr.no_header);
        packet.emit(hdr.stack);
    }
}

V1Switch(Packet(), Check(), Arrive(), Leave(), Compute(), Deparse()) main;
