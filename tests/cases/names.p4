// Names of the control plane: keys with a name, keys that are expressions, controls and instances with names of their own.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<32> ip4; bit<128> ip6; bit<48> mac; }
struct headers { h_t h; h_t[2] s; }
struct meta_t { bit<8> x; }

parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t m) { apply {} }

@name("renamed")
control Inner(inout headers hdr, inout standard_metadata_t s) {
    action to(bit<9> port) { s.egress_spec = port; }
    @name("own.action") action other(bit<9> port) { s.egress_spec = port; }
    table t {
        key = { hdr.h.a : exact @name("first"); hdr.h.b & 0xf : exact; hdr.h.b[7:4] : exact; hdr.s[0].isValid() : exact; }
        actions = { to; other; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply { t.apply(); }
}
@name("mine")
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    Inner() inner;
    @name("second") Inner() inner2;
    action rewrite(bit<9> port, bit<32> ip4, bit<128> ip6, bit<48> mac) {
        s.egress_spec = port;
        hdr.h.ip4 = ip4;
        hdr.h.ip6 = ip6;
        hdr.h.mac = mac;
    }
    table addresses {
        key = {
            hdr.h.ip4 : ternary;
            hdr.h.ip6 : ternary;
            hdr.h.mac : ternary;
            hdr.h.b & 0xf : exact;
        }
        actions = { rewrite; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply {
        if (hdr.h.a == 0) {
            inner.apply(hdr, s);
        } else if (hdr.h.a == 1) {
            inner2.apply(hdr, s);
        } else {
            addresses.apply();
        }
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta_t m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
