// Everything that P4Info has a message for.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", string)
type bit<9> Port;
@p4runtime_translation("example.org/vlan", bit<32>)
type bit<12> Vlan;
type bit<16> Plain;
enum bit<8> Kind { A = 1, B = 0x20 }
enum Way { IN, OUT }

struct Pair { bit<8> x; Kind y; }
@controller_header("packet_in")
header In { bit<9> port; @id(7) Vlan vlan; bit<7> pad; }
header H { bit<48> mac; Vlan vlan; bit<4> pad; Kind kind; bit<32> ip; }
struct Seen { bit<48> mac; Port port; Pair pair; }
struct Headers { In in_; H h; @name("other") H second; }
struct Meta { Port port; Way way; Plain plain; bit<2> colour; error e; }

parser P(packet_in b, out Headers h, inout Meta m, inout standard_metadata_t s) {
    @id(0x03000011) value_set<bit<16>>(4) types;
    state start { b.extract(h.h); transition accept; }
}
action shared() {}
control Child(inout Headers h)(bit<32> cells) {
    counter(cells, CounterType.packets) seen;
    action count(bit<32> i) { seen.count(i); }
    table t { key = { h.h.isValid() : exact; } actions = { count; } size = cells; }
    apply { t.apply(); }
}
control I(inout Headers h, inout Meta m, inout standard_metadata_t s) {
    Child(16) first;
    @name("renamed") Child(32 + 32) second;
    register<bit<48>>(8) last;
    meter(4, MeterType.bytes) rate;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) colour;
    @max_group_size(12) @selector_size_semantics("sum_of_members") @max_member_weight(3)
    action_selector(HashAlgorithm.crc16, 128, 16) sel;
    @brief("Sends it on.") @description("Where to, the controller says.")
    action forward(@id(9) Port port, Way way, bit<12> v) { m.port = port; hits.count(); colour.read(m.colour); }
    action never() {}
    action learn() { digest<Seen>(1, { h.h.mac, m.port, { 1, h.h.kind } }); }
    @hidden action silent() {}
    table full {
        key = {
            h.h.vlan : exact @name("vlan");
            h.second.ip[31:8] : lpm;
            h.h.mac & 0xff00 : ternary;
            m.port : optional;
            m.plain : range;
            h.h.ip : selector;
            m.e : exact;
        }
        actions = { forward; @tableonly @team("a", 1) learn; @defaultonly shared; silent; @kv[k = 1, s = "x"] NoAction; }
        const default_action = shared;
        implementation = sel;
        counters = hits;
        meters = colour;
        support_timeout = true;
    }
    @id(77) table constant {
        key = { h.h.kind : exact; }
        actions = { forward; NoAction; }
        const entries = { Kind.A : NoAction(); }
        default_action = forward((Port) 3, Way.IN, 0xabc);
    }
    apply { first.apply(h); second.apply(h); full.apply(); constant.apply(); }
}
control E(inout Headers h, inout Meta m, inout standard_metadata_t s) { apply {} }
control V(inout Headers h, inout Meta m) { apply {} }
control C(inout Headers h, inout Meta m) { apply {} }
control D(packet_out b, in Headers h) { apply { b.emit(h); } }
@pkginfo(name = "features", version = "1.2") @platform_property(multicast_group_table_size = 10)
V1Switch(P(), V(), I(), E(), C(), D()) main;
