// PNA: a packet whose entry somebody else has added meanwhile looks once more, and hits. `strait test --fuzz N --workers 2` plays two packets at once: one
// of them adds the entry, and the other finds it, as if it had come later.
#include <core.p4>
#include <pna.p4>

header h_t {
    bit<32> address;
    bit<8>  seen;   // written: 1 hit, 2 added, 3 refused
    bit<16> mark;   // written: the mark of the packet that added the entry
}

struct headers_t { h_t h; }
struct meta_t { bit<8> what; }

parser MainParser(packet_in b, out headers_t h, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    state start {
        b.extract(h.h);
        transition accept;
    }
}

control Pre(in headers_t h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) {
    apply { }
}

control Main(inout headers_t h, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    Counter<bit<32>, bit<8>>(4, PNA_CounterType_t.PACKETS) kinds;

    action known(bit<16> mark) { m.what = 1; h.h.mark = mark; }
    action learn() {
        bool added = add_entry("known", h.h.mark, (ExpireTimeProfileId_t) 0);
        m.what = added ? 8w2 : 3;
    }
    table flows {
        key = { h.h.address : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn;
        add_on_miss = true;
        size = 1024;
    }
    apply {
        flows.apply();
        if (m.what == 3) { flows.apply(); }
        kinds.count(m.what);
        h.h.seen = m.what;
        send_to_port((PortId_t) 1);
    }
}

control Deparser(packet_out b, in headers_t h, in meta_t m, in pna_main_output_metadata_t o) {
    apply { b.emit(h); }
}

PNA_NIC(MainParser(), Pre(), Main(), Deparser()) main;
