// The match kinds of every target, const entries with priorities, default actions that change, counters of both kinds.
#include <core.p4>
#include <v1model.p4>

header front_t { bit<112> ethernet; }
header h_t {
    bit<8>  kind;
    bit<32> key;
    bit<8>  result;
}
struct headers { front_t front; h_t h; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.front); b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) per_entry;
    counter(4, CounterType.packets_and_bytes) per_kind;

    action set(bit<8> x) { hdr.h.result = x; }
    action refuse() { mark_to_drop(sm); }

    table exact_t {
        key = { hdr.h.key : exact; }
        actions = { set; refuse; }
        default_action = refuse();
        counters = per_entry;
        size = 2;
    }
    table lpm_t {
        key = { hdr.h.key : lpm; }
        actions = { set; refuse; }
        default_action = set(0xff);
    }
    table ternary_t {
        key = { hdr.h.key : ternary; }
        actions = { set; }
        default_action = set(0xff);
    }
    table const_t {
        key = { hdr.h.key : ternary; }
        actions = { set; }
        const default_action = set(0xee);
        const entries = {
            0x00000001 &&& 0x0000000f : set(1);
            0x00000011 : set(2);
            _ : set(3);
        }
    }
    apply {
        sm.egress_spec = 1;
        per_kind.count((bit<32>)hdr.h.kind);
        switch (hdr.h.kind) {
            0: { exact_t.apply(); }
            1: { lpm_t.apply(); }
            2: { ternary_t.apply(); }
            default: { const_t.apply(); }
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.front); b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
