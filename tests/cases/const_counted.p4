// Const entries with direct counters and meters: each entry counts for itself, on every target, although const entries without them become code.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> mark; }
struct headers { h_t h; }
struct metadata { bit<32> colour; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) of_exacts;
    direct_counter(CounterType.packets_and_bytes) of_masks;
    direct_counter(CounterType.packets_and_bytes) of_ranges;
    direct_counter(CounterType.packets_and_bytes) of_prefixes;
    direct_meter<bit<32>>(MeterType.packets) rate;
    action mark(bit<8> a) { hdr.h.mark = a; }
    action metered(bit<8> a) { hdr.h.mark = hdr.h.mark + a; rate.read(m.colour); }
    table exacts {
        key = { hdr.h.key: exact; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        counters = of_exacts;
        const entries = { 1: mark(7); 2: mark(8); }
    }
    table masks {
        key = { hdr.h.key: ternary; }
        actions = { NoAction; }
        const default_action = NoAction();
        counters = of_masks;
        const entries = { 0x10 &&& 0xf0: NoAction(); 0x01 &&& 0x0f: NoAction(); _: NoAction(); }
    }
    table ranges {
        key = { hdr.h.key: range; }
        actions = { NoAction; }
        const default_action = NoAction();
        counters = of_ranges;
        const entries = { 1 .. 5: NoAction(); 2 .. 0x20: NoAction(); }
    }
    table prefixes {
        key = { hdr.h.key: lpm; }
        actions = { NoAction; }
        const default_action = NoAction();
        counters = of_prefixes;
        const entries = { 0x10 &&& 0xf0: NoAction(); 0x12: NoAction(); }
    }
    table metered_keys {
        key = { hdr.h.key: exact; }
        actions = { metered; NoAction; }
        const default_action = NoAction();
        meters = rate;
        const entries = { 1: metered(0x20); 3: metered(0x30); }
    }
    apply {
        exacts.apply();
        masks.apply();
        ranges.apply();
        prefixes.apply();
        metered_keys.apply();
        // Without rates every packet is green.
        hdr.h.mark = hdr.h.mark + (bit<8>)m.colour;
        sm.egress_spec = 1;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
