// A PSA program whose packets leave at most once: it runs on every target. Metadata and a header go from ingress to egress.
#include <core.p4>
#include <psa.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> kind; bit<8> value; bit<16> port; }
struct headers { ethernet_t ethernet; h_t h; }
struct meta_t { bit<8> seen; }
struct bridged_t { bit<8> kind; h_t saved; bit<12> odd; }
struct empty_t {}

parser IP(packet_in p, out headers hdr, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t r, in empty_t c) {
    state start { p.extract(hdr.ethernet); p.extract(hdr.h); transition accept; }
}
control I(inout headers hdr, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    action forward(bit<32> port) { send_to_port(o, (PortId_t) port); }
    action discard() { ingress_drop(o); }
    table ports {
        key = { hdr.h.port : exact; }
        actions = { forward; discard; }
        default_action = discard();
        size = 16;
    }
    apply {
        ports.apply();
        m.seen = hdr.h.kind;
        o.class_of_service = (ClassOfService_t) 3;
        hdr.ethernet.src = 0x020000000099;
    }
}
control ID(packet_out p, out empty_t c, out empty_t r, out bridged_t n, inout headers hdr, in meta_t m, in psa_ingress_output_metadata_t o) {
    apply {
        if (psa_normal(o)) {
            n.kind = m.seen;
            n.saved = hdr.h;
            n.odd = 12w0xabc;
        }
        p.emit(hdr.ethernet);
        p.emit(hdr.h);
    }
}
parser EP(packet_in p, out headers hdr, inout bridged_t m, in psa_egress_parser_input_metadata_t i, in bridged_t n, in empty_t a, in empty_t b) {
    state start {
        m = n;
        p.extract(hdr.ethernet);
        transition select(n.kind) {
            7: accept;
            default: more;
        }
    }
    state more { p.extract(hdr.h); transition accept; }
}
control E(inout headers hdr, inout bridged_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) {
    apply {
        if (m.kind == 9) { egress_drop(o); }
        if (hdr.h.isValid()) {
            hdr.h.value = m.saved.value + (bit<8>) (bit<32>) i.egress_port;
        }
        hdr.ethernet.dst = (bit<48>) (m.odd ++ (bit<8>) (ClassOfServiceUint_t) i.class_of_service ++ (bit<8>) m.kind);
    }
}
control ED(packet_out p, out empty_t c, out empty_t r, inout headers hdr, in bridged_t m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {
    apply { p.emit(hdr.ethernet); p.emit(hdr.h); }
}
IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
