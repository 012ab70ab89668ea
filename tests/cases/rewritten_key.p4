// Large tables whose keys the program has rewritten, in part or in some packets only, before it looks them up.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<32> a; bit<32> b; bit<8> seen; }
struct headers { eth_t eth; h_t h; }
struct metadata { bit<32> copy; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action see(bit<8> x) { hdr.h.seen = x; }
    action rewrite(bit<32> x) { hdr.h.b = x; }
    table by_field { key = { hdr.h.a: exact; } actions = { see; NoAction; } default_action = NoAction(); size = 65536; }
    table by_prefix { key = { hdr.h.b: lpm; } actions = { see; NoAction; } default_action = NoAction(); size = 1048576; }
    table by_variable { key = { m.copy: exact; } actions = { see; NoAction; } default_action = NoAction(); size = 65536; }
    table rewrites { key = { hdr.h.a: exact; } actions = { rewrite; NoAction; } default_action = NoAction(); size = 4096; }
    table settled { key = { hdr.h.a: exact; } actions = { see; NoAction; } default_action = NoAction(); size = 65536; }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.isValid()) {
            m.copy = hdr.h.a;
            if (hdr.h.seen == 0) {
                settled.apply();
            } else if (hdr.h.seen == 1) {
                if (hdr.h.a == 1) { hdr.h.a = 2; }
                by_field.apply();
            } else if (hdr.h.seen == 2) {
                rewrites.apply();
                by_prefix.apply();
            } else {
                m.copy = m.copy + 1;
                by_variable.apply();
            }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
