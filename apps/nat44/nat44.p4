// NAPT for TCP, UDP and ping (RFC 3022) and the ICMP errors about them (RFC 5508), one-to-one translation, and the router around it: ARP, echo to its own addresses, longest-prefix
// routing. Sessions come from a control plane, which hears of each new one by a digest (`strait run --controller nat44`). README.md has
// the tables.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<8> ECHO_REPLY = 0;
const bit<8> ECHO_REQUEST = 8;
const bit<8> UNREACHABLE = 3;
const bit<8> TIME_EXCEEDED = 11;
const bit<8> PARAMETER_PROBLEM = 12;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<8>  hardware_length;
    bit<8>  protocol_length;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender_ip;
    bit<48> target_mac;
    bit<32> target_ip;
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

header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<16> id;
    bit<16> sequence;
}

// An error (RFC 792): what was meant, such as the next hop's MTU, then the beginning of the packet that it is about.
header icmp_error_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;
}

// Of TCP in an error only the ports are sure to be there.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

header tcp_t {
    bit<16> src;
    bit<16> dst;
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<16> flags; // with the data offset
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    @checksum_nonzero
    bit<16> checksum;
}

struct headers {
    ethernet_t ethernet;
    arp_t      arp;
    ipv4_t     ipv4;
    icmp_t     icmp;
    tcp_t      tcp;
    udp_t      udp;
    icmp_error_t icmp_error;
    ipv4_t     inner_ipv4;
    ports_t    inner_tcp;
    udp_t      inner_udp;
    icmp_t     inner_icmp;
}

error { BadHeader }

struct metadata {
    bit<16> l4_length;
    bool    whole;   // no fragment, and nothing behind the IP packet in its frame: the payload is what was sent
    bool    summed;  // its checksum is the declared one; otherwise the change is applied by hand
    bit<32> src;     // as the packet came, or the other way round as the packet came that an error is about, with …
    bit<32> dst;
    bit<8>  protocol;
    bit<16> src_id;  // … a port, or an echo's identifier
    bit<16> dst_id;
    bit<1>  outside; // where the packet came from
    bit<48> mac;     // the router's, where the packet came from
    bit<9>  port;    // where it goes, …
    bit<1>  to_outside;
    bit<48> from_mac; // … the router's addresses there, …
    bit<32> from_ip;
    bit<32> gateway; // … and the next hop
}

// Somebody's addresses, seen in ARP.
struct neighbour_t {
    bit<32> ip;
    bit<48> mac;
    bit<9>  port;
}

// A packet from inside without a session.
struct session_t {
    bit<32> ip;
    bit<8>  protocol;
    bit<16> id;
}

parser Nat44Parser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_ARP: arp;
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5 && hdr.ipv4.length >= 20, error.BadHeader);
        bit<32> frame_bytes = 14 + (bit<32>)hdr.ipv4.length;
        verify(standard.packet_length >= frame_bytes, error.PacketTooShort);
        meta.l4_length = hdr.ipv4.length - 20;
        meta.whole = standard.packet_length == frame_bytes && hdr.ipv4.flags & 1 == 0;
        meta.src = hdr.ipv4.src;
        meta.dst = hdr.ipv4.dst;
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.ihl, hdr.ipv4.offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_ICMP): icmp;
            (5, 0, PROTOCOL_TCP): tcp;
            (5, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }
    state icmp {
        verify(meta.l4_length >= 8, error.BadHeader);
        meta.summed = meta.whole;
        transition select(packet.lookahead<bit<8>>()) {
            UNREACHABLE: icmp_error;
            TIME_EXCEEDED: icmp_error;
            PARAMETER_PROBLEM: icmp_error;
            default: icmp_query;
        }
    }
    // What it is about stands behind eight bytes; with options it goes on untranslated, if it goes on.
    state icmp_error {
        verify(meta.l4_length >= 36, error.BadHeader);
        transition select(packet.lookahead<bit<72>>()) {
            72w0x45 &&& 72w0xff: error_about_ipv4;
            default: accept;
        }
    }
    // The session is that of the packet in the error, which went the other way.
    state error_about_ipv4 {
        packet.extract(hdr.icmp_error);
        packet.extract(hdr.inner_ipv4);
        meta.src = hdr.inner_ipv4.dst;
        meta.dst = hdr.inner_ipv4.src;
        meta.protocol = hdr.inner_ipv4.protocol;
        transition select(hdr.inner_ipv4.offset, hdr.inner_ipv4.protocol) {
            (0, PROTOCOL_ICMP): inner_icmp;
            (0, PROTOCOL_TCP): inner_tcp;
            (0, PROTOCOL_UDP): inner_udp;
            default: accept;
        }
    }
    state inner_icmp {
        packet.extract(hdr.inner_icmp);
        meta.src_id = hdr.inner_icmp.id;
        meta.dst_id = hdr.inner_icmp.id;
        transition accept;
    }
    state inner_tcp {
        packet.extract(hdr.inner_tcp);
        meta.src_id = hdr.inner_tcp.dst;
        meta.dst_id = hdr.inner_tcp.src;
        transition accept;
    }
    state inner_udp {
        packet.extract(hdr.inner_udp);
        meta.src_id = hdr.inner_udp.dst;
        meta.dst_id = hdr.inner_udp.src;
        transition accept;
    }
    state icmp_query {
        packet.extract(hdr.icmp);
        meta.src_id = hdr.icmp.id;
        meta.dst_id = hdr.icmp.id;
        transition accept;
    }
    state tcp {
        verify(meta.l4_length >= 20, error.BadHeader);
        packet.extract(hdr.tcp);
        meta.summed = meta.whole;
        meta.src_id = hdr.tcp.src;
        meta.dst_id = hdr.tcp.dst;
        transition accept;
    }
    // A length that differs from the IP packet's means a sum over other bytes than the payload; 0 means no sum (RFC 768).
    state udp {
        verify(meta.l4_length >= 8, error.BadHeader);
        packet.extract(hdr.udp);
        meta.summed = meta.whole && hdr.udp.length == meta.l4_length && hdr.udp.checksum != 0;
        meta.src_id = hdr.udp.src;
        meta.dst_id = hdr.udp.dst;
        transition accept;
    }
}

control Nat44Verify(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum_with_payload(meta.summed && hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length,
              hdr.tcp.src, hdr.tcp.dst, hdr.tcp.sequence, hdr.tcp.acknowledgment, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(meta.summed && hdr.udp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length, hdr.udp.src, hdr.udp.dst, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(meta.summed && hdr.icmp.isValid(),
            { hdr.icmp.type, hdr.icmp.code, hdr.icmp.id, hdr.icmp.sequence },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(meta.summed && hdr.inner_tcp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_tcp.src, hdr.inner_tcp.dst },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(meta.summed && hdr.inner_udp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_udp.src, hdr.inner_udp.dst, hdr.inner_udp.length, hdr.inner_udp.checksum },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(meta.summed && hdr.inner_icmp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_icmp.type, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.id, hdr.inner_icmp.sequence },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
    }
}

// The 16-bit words of an address, added.
bit<32> words(in bit<32> address) {
    return (bit<32>)address[31:16] + (bit<32>)address[15:0];
}

// A sum of words as one word. Two rounds: the first may carry once more.
bit<16> folded(in bit<32> sum) {
    bit<32> once = (bit<32>)sum[31:16] + (bit<32>)sum[15:0];
    return once[31:16] + once[15:0];
}

// A checksum after the words that it covers have changed (RFC 1624, equation 3).
bit<16> adjusted(in bit<16> checksum, in bit<32> removed, in bit<32> added) {
    return ~folded((bit<32>)~checksum + (bit<32>)~folded(removed) + (bit<32>)folded(added));
}

control Nat44Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    action unknown_port() {
        mark_to_drop(standard);
        exit;
    }

    action interface(bit<1> outside, bit<48> mac) {
        meta.outside = outside;
        meta.mac = mac;
    }

    table interfaces {
        key = { standard.ingress_port: exact; }
        actions = { interface; unknown_port; }
        const default_action = unknown_port();
        size = 512;
    }

    // ---- the router itself ----

    action learn_neighbour() {
        digest<neighbour_t>(1, { hdr.arp.sender_ip, hdr.arp.sender_mac, standard.ingress_port });
    }

    table known_neighbours {
        key = {
            hdr.arp.sender_ip: exact;
            hdr.arp.sender_mac: exact;
            standard.ingress_port: exact;
        }
        actions = { NoAction; learn_neighbour; }
        const default_action = learn_neighbour();
        size = 65536;
    }

    // The router's own addresses, the pool's among them; the key is an ARP target or a destination.
    bit<32> asked;
    table own_addresses {
        key = {
            standard.ingress_port: exact;
            asked: exact;
        }
        actions = { NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action answer_arp() {
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = meta.mac;
        hdr.arp.sender_ip = asked;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.mac;
        standard.egress_spec = standard.ingress_port;
    }

    action arp_ignored() {
        mark_to_drop(standard);
        exit;
    }

    action answer_echo() {
        hdr.icmp.type = ECHO_REPLY;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = asked;
        hdr.ipv4.ttl = 64;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = meta.mac;
        standard.egress_spec = standard.ingress_port;
    }

    // ---- translation ----

    action translate_src(bit<32> ip) {
        hdr.ipv4.src = ip;
        hdr.inner_ipv4.dst = ip;
    }

    action translate_dst(bit<32> ip) {
        hdr.ipv4.dst = ip;
        hdr.inner_ipv4.src = ip;
    }

    table static_up {
        key = { meta.src: exact; }
        actions = { translate_src; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    table static_down {
        key = { meta.dst: exact; }
        actions = { translate_dst; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action napt_src(bit<32> ip, bit<16> id) {
        hdr.ipv4.src = ip;
        hdr.inner_ipv4.dst = ip;
        hdr.inner_icmp.id = id;
        hdr.inner_tcp.dst = id;
        hdr.inner_udp.dst = id;
        hdr.icmp.id = id;
        hdr.tcp.src = id;
        hdr.udp.src = id;
    }

    // Where there is no session the control plane is told, and the packet is lost: whoever sent it sends it again.
    action new_session() {
        digest<session_t>(2, { meta.src, meta.protocol, meta.src_id });
        mark_to_drop(standard);
        exit;
    }

    // An error makes no session (RFC 5508 REQ-7).
    action error_without_session() {
        mark_to_drop(standard);
        exit;
    }

    table sessions_up {
        key = {
            meta.src: exact;
            meta.protocol: exact;
            meta.src_id: exact;
        }
        actions = { napt_src; NoAction; }
        const default_action = NoAction();
        size = 1048576;
        support_timeout = true;
    }

    action napt_dst(bit<32> ip, bit<16> id) {
        hdr.ipv4.dst = ip;
        hdr.inner_ipv4.src = ip;
        hdr.inner_icmp.id = id;
        hdr.inner_tcp.src = id;
        hdr.inner_udp.src = id;
        hdr.icmp.id = id;
        hdr.tcp.dst = id;
        hdr.udp.dst = id;
    }

    action unsolicited() {
        mark_to_drop(standard);
        exit;
    }

    table sessions_down {
        key = {
            meta.dst: exact;
            meta.protocol: exact;
            meta.dst_id: exact;
        }
        actions = { napt_dst; unsolicited; }
        const default_action = unsolicited();
        size = 1048576;
        support_timeout = true;
    }

    action not_translatable() {
        mark_to_drop(standard);
        exit;
    }

    // ---- routing ----

    action via(bit<9> port, bit<1> outside, bit<48> mac, bit<32> ip, bit<32> gateway) {
        meta.port = port;
        meta.to_outside = outside;
        meta.from_mac = mac;
        meta.from_ip = ip;
        meta.gateway = gateway;
    }

    action connected(bit<9> port, bit<1> outside, bit<48> mac, bit<32> ip) {
        via(port, outside, mac, ip, hdr.ipv4.dst);
    }

    action no_route() {
        mark_to_drop(standard);
        exit;
    }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { via; connected; no_route; }
        const default_action = no_route();
        size = 1048576;
    }

    action send(bit<48> mac) {
        standard.egress_spec = meta.port;
        hdr.ethernet.src = meta.from_mac;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // Nobody knows the next hop's address: the packet becomes the question (RFC 826).
    action ask() {
        standard.egress_spec = meta.port;
        hdr.ethernet.src = meta.from_mac;
        hdr.ethernet.dst = 0xffffffffffff;
        hdr.ethernet.type = TYPE_ARP;
        hdr.arp.setValid();
        hdr.arp.hardware = 1;
        hdr.arp.protocol = TYPE_IPV4;
        hdr.arp.hardware_length = 6;
        hdr.arp.protocol_length = 4;
        hdr.arp.operation = ARP_REQUEST;
        hdr.arp.sender_mac = meta.from_mac;
        hdr.arp.sender_ip = meta.from_ip;
        hdr.arp.target_mac = 0;
        hdr.arp.target_ip = meta.gateway;
        hdr.ipv4.setInvalid();
        hdr.icmp.setInvalid();
        hdr.tcp.setInvalid();
        hdr.udp.setInvalid();
        hdr.icmp_error.setInvalid();
        hdr.inner_ipv4.setInvalid();
        hdr.inner_tcp.setInvalid();
        hdr.inner_udp.setInvalid();
        hdr.inner_icmp.setInvalid();
        truncate(42);
    }

    table neighbours {
        key = {
            meta.port: exact;
            meta.gateway: exact;
        }
        actions = { send; ask; }
        const default_action = ask();
        size = 65536;
    }

    action malformed() {
        mark_to_drop(standard);
        exit;
    }

    // The translation of packets with IPv4 options is not in this release.
    action ipv4_options() {
        mark_to_drop(standard);
        exit;
    }

    // RFC 1812 section 5.2.2.
    action bad_checksum() {
        mark_to_drop(standard);
        exit;
    }

    action ttl_expired() {
        mark_to_drop(standard);
        exit;
    }

    action not_for_us() {
        mark_to_drop(standard);
        exit;
    }

    apply {
        interfaces.apply();
        asked = hdr.arp.isValid() ? hdr.arp.target_ip : hdr.ipv4.dst;
        bool ours = own_addresses.apply().hit;
        if (hdr.arp.isValid()) {
            known_neighbours.apply();
            if (!ours || hdr.arp.operation != ARP_REQUEST) {
                arp_ignored();
            }
            answer_arp();
            exit;
        }
        if (!hdr.ipv4.isValid() || hdr.ethernet.dst != meta.mac) {
            not_for_us();
        }
        if (standard.parser_error != error.NoError) {
            malformed();
        }
        if (hdr.ipv4.ihl != 5) {
            ipv4_options();
        }
        bit<16> header_sum = folded((bit<32>)(hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.tos) + (bit<32>)hdr.ipv4.length
            + (bit<32>)hdr.ipv4.id + (bit<32>)(hdr.ipv4.flags ++ hdr.ipv4.offset) + (bit<32>)(hdr.ipv4.ttl ++ hdr.ipv4.protocol)
            + (bit<32>)hdr.ipv4.checksum + words(hdr.ipv4.src) + words(hdr.ipv4.dst));
        if (header_sum != 0xffff) {
            bad_checksum();
        }
        bool first_fragment = hdr.ipv4.flags & 1 == 1;
        if (ours && hdr.icmp.isValid() && hdr.icmp.type == ECHO_REQUEST && hdr.icmp.code == 0 && !first_fragment) {
            answer_echo();
            if (!meta.summed) {
                hdr.icmp.checksum = adjusted(hdr.icmp.checksum, 0x0800, 0);
            }
            exit;
        }
        if (hdr.ipv4.ttl <= 1) {
            ttl_expired();
        }
        bool echo = hdr.icmp.isValid() && (hdr.icmp.type == ECHO_REQUEST || hdr.icmp.type == ECHO_REPLY);
        bool inner_echo = hdr.inner_icmp.isValid() && (hdr.inner_icmp.type == ECHO_REQUEST || hdr.inner_icmp.type == ECHO_REPLY);
        bool about_known = inner_echo || hdr.inner_tcp.isValid() || hdr.inner_udp.isValid();
        bool translatable = !first_fragment && (echo || hdr.tcp.isValid() || hdr.udp.isValid() || about_known);
        // One place for each table: the route decides where a packet from inside leaves, and needs the translated destination of one from outside.
        if (meta.outside == 1) {
            if (!static_down.apply().hit) {
                if (!translatable) {
                    not_translatable();
                }
                sessions_down.apply();
            }
        }
        routes.apply();
        if (meta.outside == 0 && meta.to_outside == 1) {
            if (!static_up.apply().hit) {
                if (!translatable) {
                    not_translatable();
                }
                if (!sessions_up.apply().hit) {
                    if (about_known) {
                        error_without_session();
                    }
                    new_session();
                }
            }
        }
        if (hdr.inner_ipv4.isValid()) {
            // The packet in an error gets its own checksums back; no target can sum what is not there of it.
            bit<32> removed = words(meta.src) + words(meta.dst);
            bit<32> added = words(hdr.inner_ipv4.src) + words(hdr.inner_ipv4.dst);
            bit<32> ids_removed = 0;
            bit<32> ids_added = 0;
            bit<32> sums_removed = (bit<32>)hdr.inner_ipv4.checksum;
            hdr.inner_ipv4.checksum = adjusted(hdr.inner_ipv4.checksum, removed, added);
            bit<32> sums_added = (bit<32>)hdr.inner_ipv4.checksum;
            if (hdr.inner_tcp.isValid()) {
                ids_removed = (bit<32>)meta.src_id + (bit<32>)meta.dst_id;
                ids_added = (bit<32>)hdr.inner_tcp.src + (bit<32>)hdr.inner_tcp.dst;
            } else if (hdr.inner_udp.isValid()) {
                ids_removed = (bit<32>)meta.src_id + (bit<32>)meta.dst_id;
                ids_added = (bit<32>)hdr.inner_udp.src + (bit<32>)hdr.inner_udp.dst;
                if (hdr.inner_udp.checksum != 0) {
                    sums_removed = sums_removed + (bit<32>)hdr.inner_udp.checksum;
                    hdr.inner_udp.checksum = adjusted(hdr.inner_udp.checksum, removed + ids_removed, added + ids_added);
                    if (hdr.inner_udp.checksum == 0) {
                        hdr.inner_udp.checksum = 0xffff;
                    }
                    sums_added = sums_added + (bit<32>)hdr.inner_udp.checksum;
                }
            } else if (hdr.inner_icmp.isValid()) {
                ids_removed = (bit<32>)meta.src_id;
                ids_added = (bit<32>)hdr.inner_icmp.id;
                sums_removed = sums_removed + (bit<32>)hdr.inner_icmp.checksum;
                hdr.inner_icmp.checksum = adjusted(hdr.inner_icmp.checksum, ids_removed, ids_added);
                sums_added = sums_added + (bit<32>)hdr.inner_icmp.checksum;
            }
            if (!meta.summed) {
                hdr.icmp_error.checksum =
                    adjusted(hdr.icmp_error.checksum, removed + ids_removed + sums_removed, added + ids_added + sums_added);
            }
        } else if (!meta.summed) {
            bit<32> removed = words(meta.src) + words(meta.dst) + (bit<32>)meta.src_id + (bit<32>)meta.dst_id;
            bit<32> added = words(hdr.ipv4.src) + words(hdr.ipv4.dst);
            if (hdr.tcp.isValid()) {
                hdr.tcp.checksum = adjusted(hdr.tcp.checksum, removed, added + (bit<32>)hdr.tcp.src + (bit<32>)hdr.tcp.dst);
            } else if (hdr.udp.isValid()) {
                if (hdr.udp.checksum != 0) {
                    hdr.udp.checksum = adjusted(hdr.udp.checksum, removed, added + (bit<32>)hdr.udp.src + (bit<32>)hdr.udp.dst);
                    if (hdr.udp.checksum == 0) {
                        hdr.udp.checksum = 0xffff;
                    }
                }
            } else if (hdr.icmp.isValid()) {
                hdr.icmp.checksum = adjusted(hdr.icmp.checksum, (bit<32>)meta.src_id, (bit<32>)hdr.icmp.id);
            }
        }
        neighbours.apply();
    }
}

control Nat44Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply { }
}

control Nat44Compute(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length,
              hdr.tcp.src, hdr.tcp.dst, hdr.tcp.sequence, hdr.tcp.acknowledgment, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.udp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.l4_length, hdr.udp.src, hdr.udp.dst, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.icmp.isValid(),
            { hdr.icmp.type, hdr.icmp.code, hdr.icmp.id, hdr.icmp.sequence },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.inner_tcp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_tcp.src, hdr.inner_tcp.dst },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.inner_udp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_udp.src, hdr.inner_udp.dst, hdr.inner_udp.length, hdr.inner_udp.checksum },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.summed && hdr.inner_icmp.isValid(),
            { hdr.icmp_error.type, hdr.icmp_error.code, hdr.icmp_error.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.length, hdr.inner_ipv4.id, hdr.inner_ipv4.flags,
              hdr.inner_ipv4.offset, hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_icmp.type, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.id, hdr.inner_icmp.sequence },
            hdr.icmp_error.checksum, HashAlgorithm.csum16);
    }
}

control Nat44Deparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.icmp);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.icmp_error);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_tcp);
        packet.emit(hdr.inner_udp);
        packet.emit(hdr.inner_icmp);
    }
}

V1Switch(Nat44Parser(), Nat44Verify(), Nat44Ingress(), Nat44Egress(), Nat44Compute(), Nat44Deparser()) main;
