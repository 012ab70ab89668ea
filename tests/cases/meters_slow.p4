// Meters whose buckets do not fill while a test runs.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<8> index; bit<8> colour; }
struct headers { h_t h; }
struct metadata { bit<8> colour; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    meter(4, MeterType.packets) packets;
    meter(4, MeterType.bytes) bytes;
    direct_meter<bit<8>>(MeterType.packets) each;
    action read() { each.read(m.colour); }
    table metered {
        key = { hdr.h.index: exact; }
        actions = { read; NoAction; }
        meters = each;
    }
    apply {
        sm.egress_spec = 1;
        m.colour = 0xff;
        switch (hdr.h.which) {
            0: { packets.execute_meter((bit<32>)hdr.h.index, m.colour); }
            1: { bytes.execute_meter((bit<32>)hdr.h.index, m.colour); }
            2: { metered.apply(); }
        }
        hdr.h.colour = m.colour;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
