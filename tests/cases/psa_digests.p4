// PSA's digests are packed in the deparser of ingress, for packets that the program goes on with.
#include <core.p4>
#include <psa.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct learn_t { bit<48> mac; bit<32> port; }
struct meta_t { bool learn; learn_t told; }
struct empty_t {}

parser IP(packet_in p, out headers hdr, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t r, in empty_t c) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control I(inout headers hdr, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    action known() { m.learn = false; }
    action unknown() {
        m.learn = true;
        m.told.mac = hdr.ethernet.src;
        m.told.port = (bit<32>) (PortIdUint_t) i.ingress_port;
    }
    table stations {
        key = { hdr.ethernet.src: exact; }
        actions = { known; unknown; }
        default_action = unknown();
    }
    apply {
        stations.apply();
        send_to_port(o, (PortId_t) 1);
    }
}
control ID(packet_out p, out empty_t c, out empty_t r, out empty_t n, inout headers hdr, in meta_t m, in psa_ingress_output_metadata_t o) {
    Digest<learn_t>() learn;
    apply {
        if (m.learn) { learn.pack(m.told); }
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
