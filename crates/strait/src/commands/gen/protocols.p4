// The headers of `strait gen` without a program of its own: what is on most wires, once inside a tunnel too.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<3> pcp; bit<1> dei; bit<12> id; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<6> dscp; bit<2> ecn; bit<16> length;
    bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
header ipv6_t {
    bit<4> version; bit<8> traffic_class; bit<20> flow_label;
    bit<16> length; bit<8> next_header; bit<8> hop_limit;
    bit<128> src; bit<128> dst;
}
header tcp_t {
    bit<16> src; bit<16> dst; bit<32> sequence; bit<32> acknowledgment;
    bit<4> offset; bit<4> reserved; bit<8> flags; bit<16> window; bit<16> checksum; bit<16> urgent;
}
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
header icmp_t { bit<8> type; bit<8> code; bit<16> checksum; bit<16> id; bit<16> sequence; }
header gre_t { bit<16> flags; bit<16> protocol; }
header vxlan_t { bit<8> flags; bit<24> reserved; bit<24> vni; bit<8> reserved2; }
header arp_t {
    bit<16> hardware; bit<16> protocol; bit<8> hardware_length; bit<8> protocol_length; bit<16> operation;
    bit<48> sender_mac; bit<32> sender_ip; bit<48> target_mac; bit<32> target_ip;
}

struct headers {
    ethernet_t ethernet;
    vlan_t[2] vlan;
    arp_t arp;
    ipv4_t ipv4;
    ipv6_t ipv6;
    icmp_t icmp;
    icmp_t icmpv6;
    tcp_t tcp;
    udp_t udp;
    gre_t gre;
    vxlan_t vxlan;
    ethernet_t inner_ethernet;
    ipv4_t inner_ipv4;
    ipv6_t inner_ipv6;
    icmp_t inner_icmp;
    icmp_t inner_icmpv6;
    tcp_t inner_tcp;
    udp_t inner_udp;
}
struct metadata { }

parser Layers(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x8100: vlan;
            0x88a8: vlan;
            0x0806: arp;
            0x0800: ipv4;
            0x86dd: ipv6;
            default: accept;
        }
    }
    state vlan {
        packet.extract(hdr.vlan.next);
        transition select(hdr.vlan.last.type) {
            0x8100: vlan;
            0x0806: arp;
            0x0800: ipv4;
            0x86dd: ipv6;
            default: accept;
        }
    }
    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            1: icmp;
            6: tcp;
            17: udp;
            47: gre;
            4: inner_ipv4;
            41: inner_ipv6;
            default: accept;
        }
    }
    state ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            58: icmpv6;
            6: tcp;
            17: udp;
            47: gre;
            4: inner_ipv4;
            41: inner_ipv6;
            default: accept;
        }
    }
    state icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }
    state icmpv6 {
        packet.extract(hdr.icmpv6);
        transition accept;
    }
    state tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            4789: vxlan;
            default: accept;
        }
    }
    state gre {
        packet.extract(hdr.gre);
        transition select(hdr.gre.flags, hdr.gre.protocol) {
            (0, 0x6558): inner_ethernet;
            (0, 0x0800): inner_ipv4;
            (0, 0x86dd): inner_ipv6;
            default: accept;
        }
    }
    state vxlan {
        packet.extract(hdr.vxlan);
        transition inner_ethernet;
    }
    state inner_ethernet {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.type) {
            0x0800: inner_ipv4;
            0x86dd: inner_ipv6;
            default: accept;
        }
    }
    state inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.protocol) {
            1: inner_icmp;
            6: inner_tcp;
            17: inner_udp;
            default: accept;
        }
    }
    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition select(hdr.inner_ipv6.next_header) {
            58: inner_icmpv6;
            6: inner_tcp;
            17: inner_udp;
            default: accept;
        }
    }
    state inner_icmp {
        packet.extract(hdr.inner_icmp);
        transition accept;
    }
    state inner_icmpv6 {
        packet.extract(hdr.inner_icmpv6);
        transition accept;
    }
    state inner_tcp {
        packet.extract(hdr.inner_tcp);
        transition accept;
    }
    state inner_udp {
        packet.extract(hdr.inner_udp);
        transition accept;
    }
}

control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control Whatever(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Write(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }
V1Switch(Layers(), Nothing(), Whatever(), Whatever(), Nothing(), Write()) main;
