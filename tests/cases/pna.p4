// PNA: a stateful firewall. What comes from the host opens a way back for a time; packets from the network that nobody asked for
// are dropped. Learning, entries that age, both kinds of timers, flow numbers, mirrors, recirculation, the pre control.
#include <core.p4>
#include <pna.p4>

header flow_t {
    bit<16> src;
    bit<16> dst;
    bit<8>  kind;  // 0 data, 1 the last of its flow, 2 mirrored, 3 goes round twice, 4 its action sends it nowhere
    bit<8>  seen;  // written: the pass, and the direction in the upper half
    bit<32> flow;  // written: the flow's number
}

struct headers_t { flow_t f; }
struct meta_t { bit<8> from_pre; }

const ExpireTimeProfileId_t SHORT = (ExpireTimeProfileId_t) 1;
const ExpireTimeProfileId_t LONG = (ExpireTimeProfileId_t) 2;

parser MainParser(packet_in b, out headers_t h, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    state start {
        b.extract(h.f);
        transition accept;
    }
}

control Pre(in headers_t h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) {
    apply { m.from_pre = 8w7; }
}

control Main(inout headers_t h, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    bit<16> one;
    bit<16> other;
    bool learn_it;

    action known(bit<32> number) {
        h.f.flow = number;
        if (h.f.kind == 1) { set_entry_expire_time(SHORT); } else { restart_expire_timer(); }
    }
    action known_silently(bit<32> number) {
        h.f.flow = number;
    }
    action unknown() {
        if (learn_it) {
            bit<32> number = (bit<32>) (FlowIdUint_t) allocate_flow_id();
            h.f.flow = number;
            if (!add_entry("known", number, LONG)) { h.f.flow = 0xffffffff; }
        } else {
            drop_packet();
        }
    }
    table flows {
        key = { one : exact; other : exact; }
        actions = { known; known_silently; @defaultonly unknown; }
        default_action = unknown;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 2;
    }
    apply {
        learn_it = i.direction == PNA_Direction_t.HOST_TO_NET;
        one = SelectByDirection(i.direction, h.f.dst, h.f.src);
        other = SelectByDirection(i.direction, h.f.src, h.f.dst);
        if (learn_it) { send_to_port((PortId_t) 1); } else { send_to_port((PortId_t) 9); }
        h.f.seen = (bit<8>) (PassNumberUint_t) i.pass | (learn_it ? 8w0x10 : 0);
        if (h.f.kind != 4 && m.from_pre == 7) { flows.apply(); } else { drop_packet(); }
        if (h.f.kind == 2) {
            mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 5);
            mirror_packet((MirrorSlotId_t) 0, (MirrorSessionId_t) 6);
        }
        if (h.f.kind == 3 && (PassNumberUint_t) i.pass == 0) { recirculate(); }
    }
}

control Deparser(packet_out b, in headers_t h, in meta_t m, in pna_main_output_metadata_t o) {
    apply { b.emit(h); }
}

PNA_NIC(MainParser(), Pre(), Main(), Deparser()) main;
