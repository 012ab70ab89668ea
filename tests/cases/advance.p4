// An advance that is no whole number of bytes is refused before the packet's length is looked at (P4-16, `advance` of packet_in).
#include <core.p4>
#include <v1model.p4>

header head_t { bit<112> ethernet; bit<32> bits; bit<8> seen; }
header item_t { bit<8> v; }
struct headers { head_t head; item_t item; }
struct meta_t { }

parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.head);
        p.advance(h.head.bits);
        p.extract(h.item);
        transition accept;
    }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.parser_error == error.NoError) { h.head.seen = h.item.v; }
        if (s.parser_error == error.PacketTooShort) { h.head.seen = 0x20; }
        if (s.parser_error == error.ParserInvalidArgument) { h.head.seen = 0x60; }
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.head); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
