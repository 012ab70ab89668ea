// Two tables that learn, each with a direct register: a state machine of four states, and a sum that wraps. The registers of new entries are 0, also in rows
// that other entries had, and those of entries whose action the control plane has changed.
#include <core.p4>
#include <v1model.p4>
#include <strait.p4>

header h_t {
    bit<32> flow;
    bit<8>  event;  // what is added to the sum; 0 does not write
    bit<8>  state;  // written: the state before the packet; ff for a packet that added an entry, fe for one that was refused
    bit<40> sum;    // written: the sum with this packet
    bit<8>  data;   // written: the data of the entry
}

struct headers_t { h_t h; }
struct meta_t { bit<8> state; bit<40> sum; }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}

control Before(inout headers_t h, inout meta_t m) { apply { } }
control After(inout headers_t h, inout meta_t m) { apply { } }

control In(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    DirectRegister<bit<2>>() state;
    DirectRegister<bit<40>>() sum;
    direct_counter(CounterType.packets) hits;

    action known(bit<8> data) {
        bit<2> now = state.read();
        m.state = (bit<8>) now;
        h.h.data = data;
        if (h.h.event != 0) { state.write(now + 1); }
        hits.count();
    }
    action learn() {
        state.write(3);         // no entry was hit: this does nothing
        m.state = add_entry("known", h.h.data, 8w0) ? 8w0xff : 0xfe;
        m.state = m.state - (bit<8>) state.read();
    }
    action summed() {
        sum.write(sum.read() + 0xffffffff00 + (bit<40>) h.h.event);
        m.sum = sum.read();
    }
    action learn_sum() { bool added = add_entry("summed", {}, 8w0); }

    table flows {
        key = { h.h.flow : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn;
        counters = hits;
        strait_direct_register = state;
        add_on_miss = true;
        size = 2;
    }
    table sums {
        key = { h.h.flow[7:0] : exact; }
        actions = { summed; @defaultonly learn_sum; }
        default_action = learn_sum;
        strait_direct_register = sum;
        add_on_miss = true;
        size = 16;
    }

    apply {
        flows.apply();
        sums.apply();
        h.h.state = m.state;
        h.h.sum = m.sum;
        s.egress_spec = 1;
    }
}

control Out(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control Deparse(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Before(), In(), Out(), After(), Deparse()) main;
