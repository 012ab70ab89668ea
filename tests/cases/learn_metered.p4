// PNA: entries that packets add have meters of their own, with the rates of the table and full buckets.
#include <core.p4>
#include <pna.p4>

header h_t { bit<48> dst; bit<48> src; bit<16> type; bit<32> key; bit<8> what; bit<8> colour; }
struct headers_t { h_t h; }
struct meta_t { }

parser MainParser(packet_in b, out headers_t h, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    state start { b.extract(h.h); transition accept; }
}
control Pre(in headers_t h, inout meta_t m, in pna_pre_input_metadata_t i, inout pna_pre_output_metadata_t o) { apply { } }
control Main(inout headers_t h, inout meta_t m, in pna_main_input_metadata_t i, inout pna_main_output_metadata_t o) {
    DirectMeter(PNA_MeterType_t.PACKETS) rate;
    DirectCounter<bit<32>>(PNA_CounterType_t.PACKETS) hits;
    action known(bit<8> what) {
        h.h.what = what;
        PNA_MeterColor_t colour = rate.execute();
        h.h.colour = colour == PNA_MeterColor_t.GREEN ? 8w1 : (colour == PNA_MeterColor_t.YELLOW ? 8w2 : 3);
        hits.count();
    }
    action learn() {
        bool added = add_entry("known", h.h.what, (ExpireTimeProfileId_t) 0);
        h.h.colour = added ? 8w0xaa : 0xff;
    }
    table flows {
        key = { h.h.key : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn;
        pna_direct_meter = rate;
        pna_direct_counter = hits;
        add_on_miss = true;
        size = 4;
    }
    apply {
        flows.apply();
        send_to_port((PortId_t) 1);
    }
}
control Deparser(packet_out b, in headers_t h, in meta_t m, in pna_main_output_metadata_t o) { apply { b.emit(h); } }
PNA_NIC(MainParser(), Pre(), Main(), Deparser()) main;
