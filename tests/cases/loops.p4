// Loops whose number of iterations a packet decides: in a control, in an action, nested, left early, with a table in it,
// and one that never ends.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> from; bit<8> to; bit<8> kind; bit<8> count; bit<16> sum; }
struct headers { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action add_up() {
        for (bit<8> i = hdr.h.from; i < hdr.h.to; i = i + 1) {
            if (i == 7) { continue; }
            hdr.h.count = hdr.h.count + 1;
            hdr.h.sum = hdr.h.sum + (bit<16>)i;
        }
    }
    action for_ever() {
        for (bit<8> i = 0; i < 10; i = i - hdr.h.from + hdr.h.from) { hdr.h.count = hdr.h.count + 1; }
    }
    table chosen {
        key = { hdr.h.kind: exact; }
        actions = { add_up; for_ever; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = { 2: add_up(); 3: for_ever(); }
    }
    action step(bit<16> by) { hdr.h.sum = hdr.h.sum + by; }
    table stepped {
        key = { hdr.h.count: exact; }
        actions = { step; @defaultonly NoAction; }
        const default_action = NoAction();
        const entries = { 3: step(0x1000); 5: step(0x0034); 6: step(0x1045); }
    }
    apply {
        chosen.apply();
        if (hdr.h.kind == 1) {
            bit<8> outer = 0;
            for (bit<8> i = hdr.h.from; i != hdr.h.to; i = i + 1) {
                if (outer == 5) { break; }
                outer = outer + 1;
                for (bit<8> j = 0; j < i; j = j + 1) {
                    hdr.h.sum = hdr.h.sum + 1;
                }
            }
            hdr.h.count = outer;
        }
        sm.egress_spec = 1;
        if (hdr.h.kind == 4) {
            for (bit<8> i = hdr.h.from; i < hdr.h.to; i = i + 1) {
                for (bit<8> j = i; j < hdr.h.to; j = j + 1) {
                    hdr.h.count = hdr.h.count + 1;
                    stepped.apply();
                    if (hdr.h.sum == 0x1234) { return; }
                    if (hdr.h.sum == 0x2345) { exit; }
                    if (hdr.h.count == 20) { break; }
                }
                if (hdr.h.count == 20) { continue; }
                hdr.h.sum = hdr.h.sum + 0x100;
            }
            hdr.h.kind = 5;
        }
        sm.egress_spec = 2;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
