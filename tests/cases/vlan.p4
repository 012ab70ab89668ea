// VLAN tags where the wire has them, whatever a kernel does with them on the way: shown, changed, taken off, put on.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<3> priority; bit<1> drop_eligible; bit<12> id; bit<16> type; }
struct headers { ethernet_t ethernet; vlan_t outer; vlan_t inner; }
struct metadata { }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x8100: outer; 0x88a8: outer; default: accept; }
    }
    state outer {
        b.extract(hdr.outer);
        transition select(hdr.outer.type) { 0x8100: inner; default: accept; }
    }
    state inner { b.extract(hdr.inner); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    counter(4096, CounterType.packets_and_bytes) tagged;
    action push(bit<12> id) {
        hdr.outer = { 0, 0, id, hdr.ethernet.type };
        hdr.ethernet.type = 0x8100;
    }
    action pop() {
        hdr.ethernet.type = hdr.outer.type;
        hdr.outer.setInvalid();
    }
    action pop_both() {
        hdr.ethernet.type = hdr.inner.type;
        hdr.outer.setInvalid();
        hdr.inner.setInvalid();
    }
    action rename(bit<12> id) { hdr.outer.id = id; }
    action service(bit<12> id) {
        hdr.inner = hdr.outer;
        hdr.outer = { 1, 0, id, 0x8100 };
        hdr.ethernet.type = 0x88a8;
    }
    table tags {
        key = { hdr.outer.isValid(): exact; hdr.outer.id: exact; }
        actions = { push; pop; pop_both; rename; service; NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.outer.isValid()) { tagged.count((bit<32>)hdr.outer.id); }
        else { hdr.outer.id = 0; }
        tags.apply();
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) {
    apply { b.emit(hdr.ethernet); b.emit(hdr.outer); b.emit(hdr.inner); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
