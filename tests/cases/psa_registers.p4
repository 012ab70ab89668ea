// Registers of PSA that begin with another value than zero.
#include <core.p4>
#include <psa.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct meta_t { bit<8> unused; }
struct empty_t {}

parser IP(packet_in p, out headers hdr, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t r, in empty_t c) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control I(inout headers hdr, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    Register<bit<16>, bit<8>>(4, 16w0x88b5) types;
    Register<bit<48>, bit<8>>(300, 48w0xfffffffffffe) last;
    apply {
        bit<8> at = hdr.ethernet.dst[7:0];
        hdr.ethernet.type = types.read(at);
        types.write(at, hdr.ethernet.type + 1);
        bit<48> before = last.read(at);
        last.write(at, hdr.ethernet.src);
        hdr.ethernet.src = before;
        send_to_port(o, (PortId_t) 1);
    }
}
control ID(packet_out p, out empty_t c, out empty_t r, out empty_t n, inout headers hdr, in meta_t m, in psa_ingress_output_metadata_t o) {
    apply {
        p.emit(hdr.ethernet);
    }
}
parser EP(packet_in p, out headers hdr, inout empty_t m, in psa_egress_parser_input_metadata_t i, in empty_t n, in empty_t a, in empty_t b) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control E(inout headers hdr, inout empty_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) { apply { } }
control ED(packet_out p, out empty_t c, out empty_t r, inout headers hdr, in empty_t m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {
    apply { p.emit(hdr.ethernet); }
}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
