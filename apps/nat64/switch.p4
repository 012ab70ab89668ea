// Switch mode: ARP, neighbour discovery and pings for the switch's own addresses.
//
// Answers what is meant for the switch itself and ends the packet's way there. What
// is left is for translation.

control Own(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<48> port_mac = 0;
    bit<32> asked4 = 0;
    bit<128> asked6 = 0;
    counter(1, CounterType.packets) answered;
    Ipv4HeaderRight() header_check;

    action unknown_port()       { mark_to_drop(standard_metadata); exit; }
    action not_my_mac()         { mark_to_drop(standard_metadata); exit; }
    action arp_ignored()        { mark_to_drop(standard_metadata); exit; }
    action nd_duplicate_check() { mark_to_drop(standard_metadata); exit; }
    action nd_ignored()         { mark_to_drop(standard_metadata); exit; }
    action not_answered()       { mark_to_drop(standard_metadata); exit; }
    action bad_checksum()       { mark_to_drop(standard_metadata); exit; }
    action link_multicast()     { mark_to_drop(standard_metadata); exit; }

    action port(bit<48> mac) { port_mac = mac; }

    // Which ports there are, and their MAC addresses.
    table ports {
        key = { INGRESS_PORT: exact @name("standard_metadata.ingress_port"); }
        actions = { port; NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    // The switch's own addresses.
    table local4 {
        key = { asked4: exact; }
        actions = { NoAction; }
        const default_action = NoAction();
        size = 512;
    }
    table local6 {
        key = { asked6: exact; }
        actions = { NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    // Back to where it came from.
    action reply(in bit<48> to) {
        hdr.ethernet.dst = to;
        hdr.ethernet.src = port_mac;
        standard_metadata.egress_spec = INGRESS_PORT;
        answered.count(0);
        exit;
    }

    // RFC 826.
    action answer_arp() {
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = port_mac;
        hdr.arp.sender_ip = asked4;
    }

    // RFC 4861 section 7.2.4: router, solicited, override.
    action answer_solicitation() {
        hdr.ipv6.dst = hdr.ipv6.src;
        hdr.ipv6.src = asked6;
        hdr.ipv6.payload_length = 32;
        hdr.ipv6.next_header = PROTO_ICMPV6;
        hdr.icmp.type_ = ICMPV6_ADVERTISEMENT;
        hdr.icmp.rest = 0xe0000000;
        hdr.link_option.setValid();
        hdr.link_option.kind = 2;
        hdr.link_option.octets = 1;
        hdr.link_option.mac = port_mac;
        meta.l4_bytes = 32;
        meta.summed = true;
    }

    action answer_echo4() {
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = asked4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.total_length = meta.l4_bytes + IPV4_BYTES;
        hdr.ipv4.ttl = 64;
        hdr.icmp.type_ = ICMP_ECHO_REPLY;
    }

    action answer_echo6() {
        hdr.ipv6.dst = hdr.ipv6.src;
        hdr.ipv6.src = asked6;
        hdr.ipv6.payload_length = meta.l4_bytes;
        hdr.ipv6.next_header = PROTO_ICMPV6;
        hdr.ipv6.hop_limit = 64;
        hdr.icmp.type_ = ICMPV6_ECHO_REPLY;
        hdr.fragment.setInvalid();
    }

    apply {
        if (!ports.apply().hit) { unknown_port(); }
        bool to_group = hdr.ethernet.dst[40:40] == 1;
        if (!to_group && hdr.ethernet.dst != port_mac) { not_my_mac(); }

        if (hdr.arp.isValid() || hdr.ipv4.isValid()) {
            asked4 = hdr.ipv4.dst;
            if (hdr.arp.isValid()) { asked4 = hdr.arp.target_ip; }
            bool mine = local4.apply().hit;
            if (hdr.arp.isValid()) {
                if (mine && hdr.arp.operation == 1 && hdr.arp.hardware == 1 && hdr.arp.protocol == TYPE_IPV4
                    && hdr.arp.hardware_bytes == 6 && hdr.arp.protocol_bytes == 4) {
                    answer_arp();
                    reply(hdr.arp.target_mac);
                }
                arp_ignored();
            }
            if (mine) {
                bool header_right;
                header_check.apply(hdr, header_right);
                if (!header_right) { bad_checksum(); }
                if (hdr.icmp.isValid() && hdr.icmp.type_ == ICMP_ECHO && hdr.ipv4.more_fragments == 0 && !to_group) {
                    answer_echo4();
                    if (!meta.summed) { hdr.icmp.checksum = adjusted(hdr.icmp.checksum, 0x0800, 0); }
                    reply(hdr.ethernet.src);
                }
                not_answered();
            }
        } else if (hdr.ipv6.isValid()) {
            asked6 = hdr.ipv6.dst;
            if (hdr.neighbour.isValid()) { asked6 = hdr.neighbour.target; }
            bool mine = local6.apply().hit;
            if (hdr.neighbour.isValid()) {
                // RFC 4861 section 7.1.1. One without a source asks whether the address
                // is free (RFC 4862), which is not answered.
                if (hdr.ipv6.src == 0) { nd_duplicate_check(); }
                if (mine && hdr.ipv6.hop_limit == 255 && hdr.icmp.code == 0 && meta.whole
                    && !hdr.fragment.isValid()) {
                    bit<48> to = hdr.ethernet.src;
                    if (hdr.link_option.isValid() && hdr.link_option.kind == 1) { to = hdr.link_option.mac; }
                    answer_solicitation();
                    reply(to);
                }
                nd_ignored();
            }
            if (mine) {
                bool fragmented = hdr.fragment.isValid() && hdr.fragment.more_fragments == 1;
                if (hdr.icmp.isValid() && hdr.icmp.type_ == ICMPV6_ECHO && !fragmented && !to_group) {
                    answer_echo6();
                    if (!meta.summed) { hdr.icmp.checksum = adjusted(hdr.icmp.checksum, 0x8000, 0x8100); }
                    reply(hdr.ethernet.src);
                }
                not_answered();
            }
        }

        // RFC 1812 section 5.3.4: what a group of the link gets is not forwarded.
        if (to_group) { link_multicast(); }
    }
}
