// A stack of header unions as an argument: its members count their elements with one next index, also behind a call.
#include <core.p4>
#include <v1model.p4>

header short_t { bit<8> x; }
header long_t { bit<16> y; }
header_union either_t { short_t small; long_t large; }
struct headers { either_t[3] all; }
struct metadata { }

parser Two(packet_in b, inout either_t[3] all) {
    state start { b.extract(all.next.small); b.extract(all.next.large); transition accept; }
}
parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    Two() two;
    state start { two.apply(b, hdr.all); b.extract(hdr.all.next.small); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.all[0].small.x = 0xa0;
        hdr.all[1].large.y = 0xb1b2;
        hdr.all[2].small.x = 0xc3;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.all); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
