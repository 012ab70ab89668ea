// Everything that arrives leaves through port 1. The first 12 bytes after UDP's header (or after Ethernet, for other packets) say how it waited.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<72> before; bit<8> protocol; bit<80> after; }
header udp_t { bit<48> before; bit<16> checksum; }
header wait_t { bit<32> enq_timestamp; bit<32> deq_timedelta; bit<16> enq_qdepth; bit<16> deq_qdepth; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; wait_t wait; }
struct metadata { }

parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.type) { 0x800: ipv4; default: wait; }
    }
    state ipv4 {
        b.extract(h.ipv4);
        transition select(h.ipv4.protocol) { 17: udp; default: reject; }
    }
    state udp { b.extract(h.udp); transition wait; }
    state wait { b.extract(h.wait); transition accept; }
}
control V(inout headers h, inout metadata m) { apply { } }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) { apply { s.egress_spec = 1; } }
control E(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        h.udp.checksum = 0;
        h.wait.enq_timestamp = s.enq_timestamp;
        h.wait.deq_timedelta = s.deq_timedelta;
        h.wait.enq_qdepth = (bit<16>)s.enq_qdepth;
        h.wait.deq_qdepth = (bit<16>)s.deq_qdepth;
    }
}
control C(inout headers h, inout metadata m) { apply { } }
control D(packet_out b, in headers h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
