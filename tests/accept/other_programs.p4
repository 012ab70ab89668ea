// What programs of other people have, and p4c accepts.
#include <core.p4>
#include <v1model.p4>

// Section 7.1.2: the members of `error` are known everywhere.
control early(in error e, out bool b) {
    apply {
        b = e == error.DeclaredLater;
    }
}
error { DeclaredLater }

enum Colour { GREEN, YELLOW, RED }
header wide_t { varbit<8032> data; }
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct inner_t { eth_t eth; bit<8> x; }

// Sizes are known at compile time (section 8.18), of types and of values.
const bit<32> SIZE = eth_t.minSizeInBytes();
const int BITS = inner_t.maxSizeInBits();
typedef bit<(eth_t.minSizeInBits())> as_number_t;
enum bit<8> Length { ETH = eth_t.minSizeInBytes() }

struct headers_t { eth_t eth; wide_t wide; }
struct meta_t { Colour colour; bit<8> x; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.eth);
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_meter<Colour>(MeterType.bytes) rate;
    action metered() { rate.read(m.colour); }
    table t {
        key = { m.x : exact; }
        actions = { metered; NoAction; }
        default_action = NoAction;
        size = 16;
        meters = rate;
    }
    table u {
        key = { m.x : exact; }
        actions = { NoAction; }
        default_action = NoAction;
        size = 16;
        @name("u_hits") counters = direct_counter(CounterType.packets_and_bytes);
    }
    apply {
        const bit<32> again = SIZE + h.eth.minSizeInBytes();
        inner_t empty = {...};
        for (bit<8> each in (list<bit<8>>){1, 2, 3}) {
            m.x = m.x + each;
        }
        t.apply();
        u.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.eth); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
