// Const entries with counters or meters that no table in the kernel can hold.
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
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<32>>(MeterType.packets) rate;
    action mark(bit<8> a) { hdr.h.mark = a; }
    action metered() { rate.read(m.colour); }
    table twice { // unsupported: a direct counter or meter of const entries that no table in the kernel can hold
        key = { hdr.h.key: ternary; }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        counters = hits;
        const entries = { 1 &&& 3: mark(7); 5 &&& 3: mark(8); }
    }
    table metered_twice { // unsupported: a direct counter or meter of const entries that no table in the kernel can hold
        key = { hdr.h.key: ternary; }
        actions = { metered; NoAction; }
        const default_action = NoAction();
        meters = rate;
        const entries = { 1 &&& 3: metered(); 5 &&& 3: metered(); }
    }
    apply { twice.apply(); metered_twice.apply(); hdr.h.mark = (bit<8>)m.colour; sm.egress_spec = 1; }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
