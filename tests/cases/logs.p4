// log_msg in every stage of v1model, with values of all kinds, in order with digests.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<12> odd; bit<4> half; bit<128> large; int<8> signed; }
struct headers { h_t h; }
struct metadata { bool yes; }
struct told_t { bit<8> which; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.h);
        log_msg("parsed {}", { hdr.h.which });
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    action act(bit<9> port) {
        log_msg("to {}", { port });
        sm.egress_spec = port;
    }
    table t {
        key = { hdr.h.which: exact; }
        actions = { act; }
        default_action = act(1);
    }
    apply {
        log_msg("plain text, with a comma; from port {}", { sm.ingress_port });
        digest<told_t>(0, { hdr.h.which });
        t.apply();
        m.yes = hdr.h.half > 3;
        if (hdr.h.which == 2) {
            log_msg("{}{} {}", { hdr.h.odd, hdr.h.half, hdr.h.large });
            log_msg("{} and {}: {}", { m.yes, hdr.h.signed, hdr.h.odd ++ hdr.h.half });
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.which == 3) { log_msg("no value"); }
    }
}
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
