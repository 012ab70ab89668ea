// An lpm table with a direct counter, const entries as code, ternary keys, a header's checksum.
#include <core.p4>
#include <v1model.p4>

header ipv4_t {
    bit<8> version_ihl; bit<8> tos; bit<16> length; bit<16> id; bit<16> fragment;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { bit<8> class; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ip; default: accept; }
    }
    state ip {
        b.extract(hdr.ipv4);
        verify(hdr.ipv4.version_ihl == 0x45, error.NoMatch);
        transition accept;
    }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) used;
    action drop() { mark_to_drop(sm); }
    action via(bit<48> mac, bit<9> port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        sm.egress_spec = port;
    }
    action class(bit<8> number) { m.class = number; }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { via; drop; }
        default_action = drop();
        counters = used;
    }
    table classes {
        key = { hdr.ipv4.tos: ternary; }
        actions = { class; }
        const entries = { 0x28 &&& 0xfc: class(1); 0xb8 &&& 0xfc: class(2); }
        const default_action = class(0);
    }
    table filter {
        key = { hdr.ipv4.src: ternary; hdr.ipv4.protocol: ternary; m.class: exact; }
        actions = { drop; NoAction; }
        size = 1024;
    }
    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1) { drop(); return; }
        classes.apply();
        if (!filter.apply().hit) { routes.apply(); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.ipv4); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
