// PNA: two tables share the action that learns, and each learns its own entries. Data of several widths, keys of one bit and of 128 bits, a
// direct counter, entries of the program, and an action that changes the key's fields before it adds an entry for the old key.
#include <core.p4>
#include <pna.p4>

header h_t {
    bit<128> address;
    bit<1>   side;
    bit<7>   kind;  // 1: the miss changes the key first, 2: the miss asks twice
    bit<8>   seen;  // written: 1 hit, 2 added, 3 refused; the second table in the upper half
    bit<16>  mark;
}

struct headers_t { h_t h; }
struct meta_t { bit<8> what; }

struct data_t {
    bit<1>   flag;
    bit<16>  mark;
    bit<128> address;
}

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
    DirectCounter<bit<32>>(PNA_CounterType_t.PACKETS_AND_BYTES) hits;
    bit<128> address;

    action known(bit<1> flag, bit<16> mark, bit<128> address_then) {
        m.what = (address_then == address && flag == h.h.side) ? 8w1 : 15;
        h.h.mark = mark;
        hits.count();
    }
    action known_there(bit<16> mark) { m.what = 1; h.h.mark = mark; }
    action learn() {
        address = address + (bit<128>) (h.h.kind == 1 ? 8w1 : 0);
        bool added = add_entry("known", { h.h.side, h.h.mark, h.h.address }, (ExpireTimeProfileId_t) 0);
        if (h.h.kind == 2) { added = add_entry("known", { h.h.side, h.h.mark, h.h.address }, (ExpireTimeProfileId_t) 0); }
        m.what = added ? 8w2 : 3;
    }
    action learn_there() {
        bool added = add_entry("known_there", h.h.mark, (ExpireTimeProfileId_t) 0);
        m.what = added ? 8w2 : 3;
    }
    table here {
        key = { address : exact; h.h.side : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn;
        pna_direct_counter = hits;
        add_on_miss = true;
        size = 3;
    }
    table there {
        key = { h.h.kind : exact; }
        actions = { known_there; @defaultonly learn_there; @tableonly NoAction; }
        default_action = learn_there;
        entries = { 7w9 : known_there(16w0x9999); }
        add_on_miss = true;
    }
    apply {
        address = h.h.address;
        here.apply();
        h.h.seen = m.what;
        m.what = 0;
        there.apply();
        h.h.seen = h.h.seen | (m.what << 4);
        send_to_port((PortId_t) 1);
    }
}

control Deparser(packet_out b, in headers_t h, in meta_t m, in pna_main_output_metadata_t o) {
    apply { b.emit(h); }
}

PNA_NIC(MainParser(), Pre(), Main(), Deparser()) main;
