// Refuses UDP datagrams to port 9 with ICMP errors that it makes of them: the first round truncates, the second one puts headers in front.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<16> begin; bit<16> length; bit<32> fragment; bit<8> ttl; bit<8> protocol; bit<16> sum;
    bit<32> source; bit<32> destination;
}
header icmp_t { bit<16> code; bit<16> sum; bit<32> zero; }
header udp_t { bit<16> source; bit<16> destination; bit<16> length; bit<16> sum; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; icmp_t icmp; ipv4_t quoted; udp_t udp; }
struct metadata { @field_list(1) bit<1> refused; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        b.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 17: udp; default: accept; }
    }
    state udp { b.extract(hdr.udp); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (m.refused == 0) {
            sm.egress_spec = sm.ingress_port ^ 1;
        } else {
            sm.egress_spec = sm.ingress_port;
            hdr.quoted = hdr.ipv4;
            hdr.icmp = { 0x0303, 0, 0 };
            hdr.ipv4.begin = 0x4500;
            hdr.ipv4.length = (bit<16>) sm.packet_length + 14;
            hdr.ipv4.fragment = 0;
            hdr.ipv4.ttl = 64;
            hdr.ipv4.protocol = 1;
            hdr.ipv4.source = hdr.quoted.destination;
            hdr.ipv4.destination = hdr.quoted.source;
            bit<48> to = hdr.ethernet.src;
            hdr.ethernet.src = hdr.ethernet.dst;
            hdr.ethernet.dst = to;
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (m.refused == 0 && hdr.udp.isValid() && hdr.udp.destination == 9) {
            m.refused = 1;
            truncate(70);
            recirculate_preserving_field_list(1);
        }
    }
}
control C(inout headers hdr, inout metadata m) {
    apply {
        update_checksum(hdr.icmp.isValid(),
            { hdr.ipv4.begin, hdr.ipv4.length, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.icmp.isValid(),
            { hdr.icmp.code, hdr.icmp.zero,
              hdr.quoted.begin, hdr.quoted.length, hdr.quoted.fragment, hdr.quoted.ttl, hdr.quoted.protocol, hdr.quoted.sum,
              hdr.quoted.source, hdr.quoted.destination, hdr.udp.source, hdr.udp.destination, hdr.udp.length, hdr.udp.sum },
            hdr.icmp.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers hdr) {
    apply { b.emit(hdr.ethernet); b.emit(hdr.ipv4); b.emit(hdr.icmp); b.emit(hdr.quoted); b.emit(hdr.udp); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
