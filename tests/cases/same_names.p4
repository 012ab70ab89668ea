// Controls that are applied twice and by two names, tables with one control-plane name, names that differ by what C cannot say, and words of C.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header h_t { bit<8> long; bit<8> long_; bit<8> register; bit<8> rd8; }
struct headers { eth_t eth; h_t double; h_t double_valid; }
struct metadata { bit<8> x; bit<8> next_0; }

parser P(packet_in b, out headers hdr, inout metadata m, inout standard_metadata_t sm) {
    state start { b.extract(hdr.eth); b.extract(hdr.double); b.extract(hdr.double_valid); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {  } }
control Counted(inout metadata m)() {
    action add() { m.x = m.x + 1; }
    table t { key = { m.x: exact; } actions = { add; } default_action = add(); }
    apply { t.apply(); }
}
control Direct(inout metadata m) {
    action add() { m.x = m.x + 16; }
    table t { key = { m.x: exact; } actions = { add; } default_action = add(); }
    apply { t.apply(); }
}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t sm) {
    Counted() first;
    @name("first") Counted() second;
    @name("t") table t1 { key = { hdr.double.long: exact; } actions = { NoAction; } }
    @name("t") table t2 { key = { hdr.double.long_: exact; } actions = { NoAction; } }
    @name("a.b") counter(4, CounterType.packets) dotted;
    @name("a_b") counter(4, CounterType.packets) plain;
    apply {
        bit<8> parse = hdr.double.long;
        bit<8> apply_t = parse + hdr.double.long_;
        sm.egress_spec = 1;
        first.apply(m);
        second.apply(m);
        Direct.apply(m);
        Direct.apply(m);
        t1.apply();
        if (t2.apply().hit) { m.x = 99; }
        dotted.count(1);
        plain.count(2);
        m.next_0 = m.x;
        hdr.double.register = apply_t;
        hdr.double_valid.rd8 = m.next_0 + hdr.double.rd8;
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t sm) { apply {  } }
control C(inout headers hdr, inout metadata m) { apply {  } }
control D(packet_out b, in headers hdr) { apply { b.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
