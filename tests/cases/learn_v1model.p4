// v1model with strait.p4: a table that learns and whose entries expire, in front of a packet that is resubmitted. A packet that adds an
// entry hits it in its next round.
#include <core.p4>
#include <v1model.p4>
#include <strait.p4>

header h_t {
    bit<32> flow;
    bit<8>  kind;   // 1: the packet is resubmitted if it added an entry
    bit<8>  seen;   // written: 1 hit, 2 added, 3 refused, and the round in the upper half
    bit<16> mark;
}

struct headers_t { h_t h; }
struct meta_t { @field_list(1) bit<8> round; bit<8> what; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}

control Before(inout headers_t h, inout meta_t m) { apply { } }
control After(inout headers_t h, inout meta_t m) { apply { } }

control In(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) hits;

    action known(bit<16> mark) { m.what = 1; h.h.mark = mark; restart_expire_timer(); hits.count(); }
    action learn() { m.what = add_entry("known", h.h.mark, 8w1) ? 8w2 : 3; }

    table flows {
        key = { h.h.flow : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn;
        counters = hits;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 2;
    }

    apply {
        flows.apply();
        if (m.what == 2 && h.h.kind == 1) {
            m.round = m.round + 1;
            resubmit_preserving_field_list(1);
        }
        h.h.seen = m.what | (m.round << 4);
        s.egress_spec = 1;
    }
}

control Out(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control Deparse(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Before(), In(), Out(), After(), Deparse()) main;
