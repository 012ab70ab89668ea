// Stacks, lookahead, advance, varbit, verify, select with masks and ranges; a rejected packet goes on all the same.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header label_t { bit<7> value; bit<1> last; }
header tail_t { bit<8> length; varbit<32> data; }
header error_t { bit<8> code; }
struct headers { error_t error_code; kind_t kind; label_t[2] labels; tail_t tail; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            1: labels;
            2 &&& 0xfe: tail;
            0x10 .. 0x1f: skip;
        }
    }
    state labels {
        b.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            1: accept;
            0: labels;
        }
    }
    state tail {
        bit<8> length = b.lookahead<bit<8>>();
        verify(length != 9, error.NoMatch);
        b.extract(hdr.tail, (bit<32>)length * 8);
        transition accept;
    }
    state skip {
        b.advance((bit<32>)hdr.kind.kind - 0xf);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.error_code.setValid();
        if (sm.parser_error == error.PacketTooShort) { hdr.error_code.code = 1; }
        else if (sm.parser_error == error.NoMatch) { hdr.error_code.code = 2; }
        else if (sm.parser_error == error.StackOutOfBounds) { hdr.error_code.code = 3; }
        else if (sm.parser_error == error.HeaderTooShort) { hdr.error_code.code = 4; }
        else if (sm.parser_error == error.ParserInvalidArgument) { hdr.error_code.code = 6; }
        if (hdr.kind.kind == 1) { hdr.labels.pop_front(1); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) {
    apply { b.emit(hdr.error_code); b.emit(hdr.kind); b.emit(hdr.labels); b.emit(hdr.tail); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
