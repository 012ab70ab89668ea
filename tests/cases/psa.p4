// The Portable Switch Architecture: every way from port to port, and what each pipeline hands to the next.
#include <core.p4>
#include <psa.p4>

header h_t {
    bit<8> op;
    bit<8> rounds;      // passes through ingress
    bit<8> path;        // packet_path, as egress sees it
    bit<8> instance;
    bit<8> handed;      // metadata that came along
}
struct headers { h_t h; }
struct metadata { bit<8> handed; }
struct mark_t { bit<8> mark; }

parser IP(packet_in b, out headers hdr, inout metadata m, in psa_ingress_parser_input_metadata_t istd,
          in mark_t resubmitted, in mark_t recirculated) {
    state start {
        m.handed = resubmitted.mark + recirculated.mark;
        b.extract(hdr.h);
        transition accept;
    }
}
control IC(inout headers hdr, inout metadata m, in psa_ingress_input_metadata_t istd,
           inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<32>, bit<8>>(8, PSA_CounterType_t.PACKETS) seen;
    Register<bit<8>, bit<8>>(4, 0x55) last;
    apply {
        seen.count(hdr.h.op);
        hdr.h.rounds = hdr.h.rounds + 1;
        hdr.h.handed = m.handed;
        send_to_port(ostd, (PortId_t)1);
        switch (hdr.h.op) {
            1: { ostd.drop = true; }
            2: { ostd.resubmit = istd.packet_path != PSA_PacketPath_t.RESUBMIT; }
            3: { multicast(ostd, (MulticastGroup_t)7); }
            4: { ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t)5; }
            5: {
                if (istd.packet_path != PSA_PacketPath_t.RECIRCULATE) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }
            }
            7: { hdr.h.handed = last.read(1); last.write(1, hdr.h.rounds + 0x40); }
        }
    }
}
control ID(packet_out b, out mark_t cloned, out mark_t resubmitted, out mark_t normal, inout headers hdr, in metadata m,
           in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_clone_i2e(istd)) { cloned.mark = 0x11; }
        if (psa_resubmit(istd)) { resubmitted.mark = 0x22; }
        if (psa_normal(istd)) { normal.mark = 0x33; }
        b.emit(hdr);
    }
}
parser EP(packet_in b, out headers hdr, inout metadata m, in psa_egress_parser_input_metadata_t istd, in mark_t normal,
          in mark_t from_ingress, in mark_t from_egress) {
    state start {
        m.handed = normal.mark + from_ingress.mark + from_egress.mark;
        b.extract(hdr.h);
        transition accept;
    }
}
control EC(inout headers hdr, inout metadata m, in psa_egress_input_metadata_t istd,
           inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.h.path = istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST ? 8w1
            : (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST ? 8w2
            : (istd.packet_path == PSA_PacketPath_t.CLONE_I2E ? 8w3 : 8w4));
        hdr.h.instance = (bit<8>)(EgressInstanceUint_t)istd.instance;
        if (hdr.h.handed == 0) { hdr.h.handed = m.handed; }
        if (hdr.h.op == 6 && istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t)5;
        }
    }
}
control ED(packet_out b, out mark_t cloned, out mark_t recirculated, inout headers hdr, in metadata m,
           in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) { cloned.mark = 0x44; }
        if (psa_recirculate(istd, edstd)) { recirculated.mark = 0x55; }
        b.emit(hdr);
    }
}
IngressPipeline(IP(), IC(), ID()) ingress;
EgressPipeline(EP(), EC(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
