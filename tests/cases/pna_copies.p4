// PNA: mirrored packets beside the packet itself, and further passes, with headers and VLAN tags that are added and removed on the way.
#include <core.p4>
#include <pna.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<16> tci; bit<16> type; }
header extra_t { bit<32> mark; }
header op_t {
    bit<8> op;    // the bits: 1, 2, 4 mirror by session 1, 2, 3; 8 again; 16 is dropped; 32 adds or removes a tag; 64 adds a header; 128 again for ever
    bit<8> pass;  // written: the pass, and the direction in the upper half
}
struct headers_t { ethernet_t ethernet; vlan_t vlan; op_t op; extra_t extra; }
struct meta_t { }

parser MainParser(packet_in b, out headers_t h, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.type) {
            0x8100: tagged;
            default: last;
        }
    }
    state tagged {
        b.extract(h.vlan);
        transition last;
    }
    state last {
        b.extract(h.op);
        transition accept;
    }
}

control Pre(in headers_t h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) {
    apply { }
}

control Main(inout headers_t h, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    apply {
        bit<8> pass = (bit<8>) (PassNumberUint_t) i.pass;
        h.op.pass = pass | (i.direction == PNA_Direction_t.HOST_TO_NET ? 8w0x10 : 0);
        send_to_port((PortId_t) 1);
        if (h.op.op[0:0] == 1) { mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 1); }
        if (h.op.op[1:1] == 1) { mirror_packet((MirrorSlotId_t) 1, (MirrorSessionId_t) 2); }
        if (h.op.op[2:2] == 1) { mirror_packet((MirrorSlotId_t) 2, (MirrorSessionId_t) 3); }
        if (h.op.op[4:4] == 1) { drop_packet(); }
        if (h.op.op[5:5] == 1) {
            if (h.vlan.isValid()) {
                h.ethernet.type = h.vlan.type;
                h.vlan.setInvalid();
            } else {
                h.vlan.setValid();
                h.vlan.tci = 7;
                h.vlan.type = h.ethernet.type;
                h.ethernet.type = 0x8100;
            }
        }
        if (h.op.op[6:6] == 1) {
            h.extra.setValid();
            h.extra.mark = 0xaabbcc00 | (bit<32>) pass;
        }
        if (h.op.op[7:7] == 1 || (h.op.op[3:3] == 1 && pass == 0)) { recirculate(); }
    }
}

control Deparser(packet_out b, in headers_t h, in meta_t m, in pna_main_output_metadata_t o) {
    apply { b.emit(h.ethernet); b.emit(h.vlan); b.emit(h.op); b.emit(h.extra); }
}

PNA_NIC(MainParser(), Pre(), Main(), Deparser()) main;
