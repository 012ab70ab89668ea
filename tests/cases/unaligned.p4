// Fields that begin and end within bytes, and the groups that share their bytes: up to 128 bits each, and together more.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header x_t { bit<4> a; bit<128> b; bit<4> c; }
header y_t { bit<1> a; bit<127> b; bit<3> c; bit<126> d; bit<7> e; }
header z_t { bit<3> a; bit<33> b; bit<64> c; bit<5> d; bit<31> e; }
struct headers { eth_t eth; x_t x; y_t y; z_t z; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.x); b.extract(hdr.y); b.extract(hdr.z); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.x.a == 1) { hdr.x.c = 7; }
        if (hdr.x.a == 2) { hdr.x.b = hdr.x.b ^ 1; hdr.y.b = hdr.y.b ^ (127w1 << 126); }
        if (hdr.x.a == 3) { hdr.y.c = 5; hdr.y.e = 0x2a; }
        if (hdr.x.a == 4) { hdr.y.d = hdr.y.d ^ 3; hdr.z.b = hdr.z.b ^ 33w0x100000001; hdr.z.c = hdr.z.c ^ 64w0x8000000000000001; }
        if (hdr.x.a == 5) { hdr.z.a = 2; hdr.z.d = 9; hdr.z.e = hdr.z.e ^ 31w0x40000001; }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
