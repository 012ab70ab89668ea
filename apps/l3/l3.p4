// An IPv4 and IPv6 router. What is for the router itself, or is beyond it (ARP, neighbour discovery, a TTL that runs out, no route),
// goes to the host, whose kernel has an interface for each port and answers. README.md has the tables.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_IPV6 = 0x86dd;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   traffic_class;
    bit<20>  flow_label;
    bit<16>  length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
}

struct metadata {
    bit<9>  host_port; // where the host is, for packets of this port
    bit<16> next_hop;
}

parser L3Parser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            TYPE_IPV6: ipv6;
            default: accept;
        }
    }
    // A header with options stays a header: they are behind it, and the sum says that something is missing.
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
    state ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
}

control L3Verify(inout headers hdr, inout metadata meta) {
    apply {
        // RFC 1812 section 5.2.2: a router verifies it. Options are summed by the host, to which such packets go.
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control L3Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action unknown_port() {
        mark_to_drop(standard);
        exit;
    }

    // A port to the network; the host hears of it through `host_port`.
    action network(bit<9> host_port) {
        meta.host_port = host_port;
    }

    // The host's side of a port: what comes from it leaves there.
    action host(bit<9> port) {
        standard.egress_spec = port;
        exit;
    }

    table ports {
        key = { standard.ingress_port: exact; }
        actions = { network; host; unknown_port; }
        default_action = unknown_port();
        size = 512;
    }

    action not_for_us() {
        mark_to_drop(standard);
    }

    // The router's own addresses on its ports; what is not sent to one of them is not routed.
    table router_macs {
        key = {
            standard.ingress_port: exact;
            hdr.ethernet.dst: exact;
        }
        actions = { NoAction; not_for_us; }
        default_action = not_for_us();
        size = 1024;
    }

    action bad_checksum() {
        mark_to_drop(standard);
    }

    // RFC 1812 section 5.3.7 and RFC 4291 section 2.7: not to be forwarded by a router without multicast routing.
    action multicast() {
        mark_to_drop(standard);
    }

    action to_host() {
        standard.egress_spec = meta.host_port;
        exit;
    }

    action via(bit<16> next_hop) {
        meta.next_hop = next_hop;
    }

    action discard() {
        mark_to_drop(standard);
        exit;
    }

    table ipv4_routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { via; to_host; discard; }
        default_action = to_host();
        size = 2097152;
    }

    table ipv6_routes {
        key = { hdr.ipv6.dst: lpm; }
        actions = { via; to_host; discard; }
        default_action = to_host();
        size = 2097152;
    }

    action send(bit<9> port, bit<48> src, bit<48> dst) {
        standard.egress_spec = port;
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
    }

    table next_hops {
        key = { meta.next_hop: exact; }
        actions = { send; to_host; }
        default_action = to_host();
        size = 65536;
    }

    apply {
        ports.apply();
        if (hdr.ethernet.dst & 0x010000000000 != 0) {
            // ARP requests, neighbour solicitations, routing protocols: the host's.
            to_host();
        }
        if (!router_macs.apply().hit) {
            exit;
        }
        if (hdr.ipv4.isValid()) {
            if (standard.checksum_error == 1) {
                bad_checksum();
                exit;
            }
            if (hdr.ipv4.ihl != 5 || hdr.ipv4.ttl <= 1) {
                to_host();
            }
            if (hdr.ipv4.dst[31:28] == 0xe) {
                multicast();
                exit;
            }
            ipv4_routes.apply();
        } else if (hdr.ipv6.isValid()) {
            if (hdr.ipv6.hop_limit <= 1) {
                to_host();
            }
            if (hdr.ipv6.dst[127:120] == 0xff) {
                multicast();
                exit;
            }
            ipv6_routes.apply();
        } else {
            to_host();
        }
        next_hops.apply();
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        } else {
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
        }
    }
}

control L3Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(512, CounterType.packets_and_bytes) sent;
    apply {
        sent.count((bit<32>)standard.egress_port);
    }
}

control L3Compute(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control L3Deparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
    }
}

V1Switch(L3Parser(), L3Verify(), L3Ingress(), L3Egress(), L3Compute(), L3Deparser()) main;
