// A deparser with conditions, and with headers that it changes before it emits them.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header a_t { bit<8> kind; bit<8> value; }
header b_t { bit<16> value; }
struct headers { ethernet_t ethernet; a_t a; b_t b; b_t c; }
struct meta_t { bit<8> kind; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(hdr.ethernet);
        p.extract(hdr.a);
        p.extract(hdr.b);
        m.kind = hdr.a.kind;
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t m) { apply {} }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (hdr.a.kind > 2) { hdr.c.setValid(); hdr.c.value = 0xcccc; }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta_t m) { apply {} }
control D(packet_out p, in headers hdr) {
    bit<8> sum = hdr.a.kind + hdr.a.value;
    a_t extra;
    apply {
        p.emit(hdr.ethernet);
        if (hdr.a.kind == 1 || sum == 9) {
            p.emit(hdr.a);
        }
        switch (hdr.a.kind) {
            2: {}
            default: { p.emit(hdr.b); }
        }
        if (sum == 0x44) {
            extra.setValid();
            extra.kind = sum;
            extra.value = hdr.a.value;
            p.emit(extra);
        }
        p.emit(hdr.c);
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
