// Most of what P4-16 has, in one program that must be accepted without a word.
#include <core.p4>
#include <v1model.p4>

error { BadOption }

const bit<16> TYPE_IPV4 = 0x800;
const int TABLE_SIZE = 1 << 10;
const bit<(4 + 4)> PROTO_TCP = 6;
typedef bit<48> mac_t;
type bit<9> Port;

enum bit<8> Protocol { ICMP = 1, TCP = 6, UDP = 17 }
enum Direction { Up, Down }

header ethernet_t { mac_t dst; mac_t src; bit<16> type; }
header vlan_t { bit<3> pcp; bit<1> dei; bit<12> vid; bit<16> type; }
header ipv4_t { bit<4> version; bit<4> ihl; bit<8> ttl; Protocol protocol; bit<32> src; bit<32> dst; varbit<320> options; }
header tcp_t { bit<16> src; bit<16> dst; }
header udp_t { bit<16> src; bit<16> dst; }
header_union l4_t { tcp_t tcp; udp_t udp; }

struct headers_t { ethernet_t ethernet; vlan_t[2] vlan; ipv4_t ipv4; l4_t l4; }
struct pair_t<T> { T first; T second; }
struct metadata_t { bit<16> port; int<16> delta; Direction way; pair_t<bit<8>> pair; tuple<bit<8>, bool> both; }

T choose<T>(in bool first, in T a, in T b) {
    if (first) { return a; } else { return b; }
}

bit<16> sum(in bit<16> a, in bit<16> b = 1) { return a + b; }

parser Options(packet_in packet, in bit<4> ihl, inout ipv4_t ip) {
    state start {
        verify(ihl >= 5, error.BadOption);
        transition accept;
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Options() options;
    value_set<bit<16>>(4) tpids;
    bit<16> next;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            tpids: parse_vlan;
            0x8100 &&& 0xefff: parse_vlan;
            TYPE_IPV4: parse_ipv4;
            0 .. 1500: accept;
            _: accept;
        }
    }
    state parse_vlan {
        packet.extract(hdr.vlan.next);
        next = hdr.vlan.last.type;
        transition select(next, hdr.vlan.lastIndex) {
            (0x8100, 0): parse_vlan;
            (TYPE_IPV4, _): parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        bit<8> first = packet.lookahead<bit<8>>();
        packet.extract(hdr.ipv4, (bit<32>)(((bit<10>)first[3:0] - 5) << 5));
        options.apply(packet, hdr.ipv4.ihl, hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            Protocol.TCP: parse_tcp;
            Protocol.UDP: parse_udp;
            default: accept;
        }
    }
    state parse_tcp { packet.extract(hdr.l4.tcp); transition accept; }
    state parse_udp { packet.extract(hdr.l4.udp); packet.advance(32); transition accept; }
}

control Count(inout bit<16> value)(bit<16> step) {
    apply { value = value + step; }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Count(2) count;
    counter(32w16, CounterType.packets) packets;
    register<bit<32>>(16) cells;
    bit<32> cell = 0;
    const pair_t<bit<8>> START = { 1, 2 };

    action drop() { mark_to_drop(standard_metadata); }
    action forward(bit<9> port) { standard_metadata.egress_spec = port; packets.count((bit<32>)port); }
    action rewrite(inout mac_t mac, mac_t value) { mac = value; }
    action twice(in bit<16> by) { meta.port = meta.port + by; meta.port[7:0] = 8w1; }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("dst"); standard_metadata.ingress_port: ternary; hdr.ipv4.isValid(): exact; }
        actions = { forward; drop; rewrite(hdr.ethernet.dst); @defaultonly NoAction; }
        size = TABLE_SIZE;
        default_action = NoAction();
        const entries = {
            (0x0a000000 &&& 0xff000000, 1, true): forward(2);
            (_, 0 &&& 1, true): rewrite(hdr.ethernet.dst, 0x020000000001);
        }
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            switch (routes.apply().action_run) {
                forward: { hdr.ipv4.ttl = hdr.ipv4.ttl - 1; }
                drop:
                NoAction: { exit; }
                default: { }
            }
        } else if (!routes.apply().hit) {
            drop();
        }
        switch (hdr.ethernet.type) {
            0x800: { meta.port = 1; }
            default: { meta.port = 2; }
        }
        twice(meta.port);
        count.apply(meta.port);
        cells.read(cell, 3);
        cells.write(3, cell |+| 1);
        meta.pair = START;
        meta.pair = { second = 3, first = choose(true, 8w1, meta.pair.first) };
        meta.both = { 1, true };
        meta.way = Direction.Up;
        meta.delta = (int<16>)meta.port >> 2;
        meta.port = sum(a = meta.port) == 0 ? 16w1 : (bit<16>)(8w1 ++ meta.pair.first);
        hash(meta.port, HashAlgorithm.crc16, 16w0, { hdr.ipv4.src, hdr.ipv4.dst }, 32w1024);
        random(meta.port, 0, 7);
        hdr.vlan.push_front(1);
        hdr.vlan[0] = { 0, 0, 1, TYPE_IPV4 };
        hdr.vlan[0].setValid();
        hdr.l4.udp = (udp_t){#};
        meta.port += 1;
        for (bit<8> i = 0; i < 4; i = i + 1) {
            if (i == 2) { continue; }
            meta.port = meta.port + (bit<16>)i;
        }
        for (bit<16> i in 1 .. 3) { meta.port = meta.port ^ i; }
        if (standard_metadata.parser_error == error.PacketTooShort) { return; }
        log_msg("port {}", { meta.port });
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Count(1) count;
    apply { count.apply(meta.port); }
}
control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.ttl }, meta.port, HashAlgorithm.csum16);
    }
}
control MyDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
