// Packets that leave as IPv6 fragments. The EtherType says how: 0x9000 and above is the size of the fragments less
// 0x9000, with the source MAC address's last bytes as identification; then the frame gets its IPv6 EtherType.

#include <core.p4>
#include <v1model.p4>
#include <strait.p4>

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_h ethernet;
}

struct metadata_t {
}

parser Packet(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Check(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Arrive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.ethernet.ether_type >= 0x9000) {
            fragment_ipv6(hdr.ethernet.ether_type - 0x9000, hdr.ethernet.src[31:0]);
            hdr.ethernet.ether_type = 0x86dd;
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(Packet(), Check(), Arrive(), Leave(), Compute(), Deparse()) main;
