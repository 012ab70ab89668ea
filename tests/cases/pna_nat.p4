// A PNA program that translates addresses and ports. It sums the whole header of TCP, with the checksum that arrives, and again with a checksum of
// zero. The checksum of UDP begins as a state, and that of IPv4 is updated incrementally, too.
#include <core.p4>
#include <pna.p4>

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
struct meta_t { bit<16> state; ipv4_t old; }

parser P(packet_in p, out headers hdr, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    InternetChecksum() sum;
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        p.extract(hdr.ipv4);
        m.old = hdr.ipv4;
        transition select(hdr.ipv4.protocol) { 6: tcp; 17: udp; default: accept; }
    }
    state tcp {
        p.extract(hdr.tcp);
        sum.subtract(hdr.tcp);
        m.state = sum.get_state();
        transition accept;
    }
    state udp {
        p.extract(hdr.udp);
        sum.set_state(~hdr.udp.checksum);
        sum.subtract({ hdr.udp.src, hdr.udp.dst });
        m.state = sum.get_state();
        transition accept;
    }
}
control Pre(in headers h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control I(inout headers hdr, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    InternetChecksum() sum;
    InternetChecksum() of_ipv4;
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
        if (hdr.ipv4.isValid()) {
            nat.apply();
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            of_ipv4.subtract({ m.old.checksum, m.old.ttl, m.old.protocol, m.old.src, m.old.dst });
            of_ipv4.add({ hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
            hdr.ipv4.checksum = of_ipv4.get();
            sum.set_state(m.state);
            sum.subtract({ m.old.src, m.old.dst });
            sum.add({ hdr.ipv4.src, hdr.ipv4.dst });
            if (hdr.tcp.isValid()) {
                hdr.tcp.checksum = 0;
                sum.add(hdr.tcp);
                hdr.tcp.checksum = sum.get();
            } else if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
                sum.add({ hdr.udp.src, hdr.udp.dst });
                hdr.udp.checksum = sum.get() == 0 ? 16w0xffff : sum.get();
            }
        }
        if (i.input_port == (PortId_t) 0) { send_to_port((PortId_t) 1); } else { send_to_port((PortId_t) 0); }
    }
}
control D(packet_out p, in headers hdr, in meta_t m, in pna_main_output_metadata_t o) { apply { p.emit(hdr); } }
PNA_NIC(P(), Pre(), I(), D()) main;
