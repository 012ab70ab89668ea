// A PSA program that translates addresses and ports, and updates the checksums of TCP and UDP incrementally: those of TCP in the ingress deparser,
// with a state that the parser leaves in metadata, and those of UDP in the egress deparser, with a state that ingress passes on. The checksum of
// IPv4 is computed in full.
#include <core.p4>
#include <psa.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header tcp_t {
    bit<16> src; bit<16> dst; bit<32> seq; bit<32> ack; bit<4> data; bit<4> zero; bit<8> flags; bit<16> window; bit<16> checksum; bit<16> urgent;
}
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; tcp_t tcp; udp_t udp; }
struct meta_t { bit<16> state; bit<16> old; }
struct passed_t { bit<16> state; }
struct empty_t {}

parser IP(packet_in p, out headers hdr, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t r, in empty_t c) {
    InternetChecksum() sum;
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        p.extract(hdr.ipv4);
        sum.subtract({ hdr.ipv4.src, hdr.ipv4.dst });
        transition select(hdr.ipv4.protocol) { 6: tcp; 17: udp; default: accept; }
    }
    state tcp {
        p.extract(hdr.tcp);
        sum.subtract({ hdr.tcp.src, hdr.tcp.dst });
        m.state = sum.get_state();
        m.old = hdr.tcp.checksum;
        transition accept;
    }
    state udp {
        p.extract(hdr.udp);
        sum.subtract({ hdr.udp.checksum, hdr.udp.src, hdr.udp.dst });
        m.state = sum.get_state();
        transition accept;
    }
}
control I(inout headers hdr, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    action to(bit<32> address, bit<16> port) {
        hdr.ipv4.dst = address;
        if (hdr.tcp.isValid()) { hdr.tcp.dst = port; }
        if (hdr.udp.isValid()) { hdr.udp.dst = port; }
    }
    action from(bit<32> address, bit<16> port) {
        hdr.ipv4.src = address;
        if (hdr.tcp.isValid()) { hdr.tcp.src = port; }
        if (hdr.udp.isValid()) { hdr.udp.src = port; }
    }
    table nat {
        key = { hdr.ipv4.src : ternary; hdr.ipv4.dst : ternary; }
        actions = { to; from; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply {
        send_to_port(o, (PortId_t) ((bit<32>) (PortIdUint_t) i.ingress_port ^ 1));
        if (hdr.ipv4.isValid()) {
            nat.apply();
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
    }
}
control ID(packet_out p, out empty_t c, out empty_t r, out passed_t n, inout headers hdr, in meta_t m, in psa_ingress_output_metadata_t o) {
    InternetChecksum() sum;
    apply {
        n.state = m.state;
        if (hdr.ipv4.isValid()) {
            sum.clear();
            sum.add({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
            hdr.ipv4.checksum = sum.get();
        }
        if (hdr.tcp.isValid()) {
            sum.set_state(m.state);
            sum.subtract(m.old);
            sum.add({ hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.src, hdr.tcp.dst });
            hdr.tcp.checksum = sum.get();
        }
        p.emit(hdr.ethernet);
        p.emit(hdr.ipv4);
        p.emit(hdr.tcp);
        p.emit(hdr.udp);
    }
}
parser EP(packet_in p, out headers hdr, inout passed_t m, in psa_egress_parser_input_metadata_t i, in passed_t n, in empty_t a, in empty_t b) {
    state start {
        m = n;
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        p.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 17: udp; default: accept; }
    }
    state udp { p.extract(hdr.udp); transition accept; }
}
control E(inout headers hdr, inout passed_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) { apply { } }
control ED(packet_out p, out empty_t c, out empty_t r, inout headers hdr, in passed_t m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {
    InternetChecksum() sum;
    apply {
        if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
            sum.set_state(m.state);
            sum.add({ hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.src, hdr.udp.dst });
            hdr.udp.checksum = sum.get();
            if (hdr.udp.checksum == 0) { hdr.udp.checksum = 0xffff; }
        }
        p.emit(hdr.ethernet);
        p.emit(hdr.ipv4);
        p.emit(hdr.udp);
    }
}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
