// What comes in at port 0 goes out at port 1, and the other way round: what is left is the cost of ports.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata { }

parser WireParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}
control WireVerify(inout headers hdr, inout metadata meta) { apply { } }
control WireIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = standard.ingress_port ^ 1; }
}
control WireEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control WireCompute(inout headers hdr, inout metadata meta) { apply { } }
control WireDeparser(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); } }
V1Switch(WireParser(), WireVerify(), WireIngress(), WireEgress(), WireCompute(), WireDeparser()) main;
