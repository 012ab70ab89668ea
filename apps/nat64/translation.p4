// RFC 7915: an IPv4 packet becomes an IPv6 packet (section 4), and an IPv6 packet becomes an IPv4 packet (section 5).

// ---------------------------------------------------------------- IPv4 to IPv6

control FourToSix(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ToIpv6() source;
#ifndef STATEFUL
    ToIpv6() destination;
    ByPrefix() hairpin;
#endif
    Transport() transport;
    Ipv4HeaderRight() header_check;
    Ask() ask;
    counter(1, CounterType.packets_and_bytes) over_lowest_mtu;

    action bad_checksum()               { mark_to_drop(standard_metadata); exit; }
    action ipv4_source_route()          { mark_to_drop(standard_metadata); exit; }
    action ttl_expired()                { mark_to_drop(standard_metadata); exit; }
    action too_big()                    { mark_to_drop(standard_metadata); exit; }
    action protocol_not_translated()    { mark_to_drop(standard_metadata); exit; }
    action icmp_fragment()              { mark_to_drop(standard_metadata); exit; }
    action padded_error()               { mark_to_drop(standard_metadata); exit; }
    action icmp_type_not_translated()   { mark_to_drop(standard_metadata); exit; }
    action udp_zero_checksum()          { mark_to_drop(standard_metadata); exit; }
    action udp_zero_checksum_fragment() { mark_to_drop(standard_metadata); exit; }
    action udp_zero_checksum_length()   { mark_to_drop(standard_metadata); exit; }

    apply {
        bool fragmented = hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0;

        bool header_right;
        header_check.apply(hdr, header_right);
        if (!header_right) { bad_checksum(); }
        if (meta.source_routed) {
            ask.apply(meta, SOURCE_ROUTE, 0);
            ipv4_source_route();
        }
        if (hdr.ipv4.ttl <= 1 && meta.settings.kernel_hops < 2 && meta.round != ROUND_BACK) {
            ask.apply(meta, EXPIRED, 0);
            ttl_expired();
        }

        // IGMP never leaves its link (RFC 7915 section 4.2). Every other protocol is
        // copied, those of IPv6's extension headers and ICMPv6 too (section 4.1).
        if (hdr.ipv4.protocol == PROTO_IGMP) { protocol_not_translated(); }
        if (hdr.ipv4.protocol == PROTO_ICMP && fragmented) { icmp_fragment(); }
        // A payload that a fragment header would push beyond 65535 bytes.
        if (fragmented && meta.l4_bytes > 65527) { too_big(); }

        bool explicit_source;
        hdr.ipv6.setValid();
        source.apply(hdr.ipv4.src, hdr.ipv6.src, explicit_source, hdr.inner_ipv4.isValid(), meta.errors.source6,
                     meta, true, standard_metadata);
#ifdef STATEFUL
        hdr.ipv6.dst = 0;               // Sessions says whose the packet is
#else
        bool explicit_destination;
        destination.apply(hdr.ipv4.dst, hdr.ipv6.dst, explicit_destination, false, 0, meta, true, standard_metadata);
        if (INGRESS_PORT == BLIND && !explicit_destination) {
            meta.settings.kernel_hops = 0;
            if (hdr.ipv4.ttl <= 1 && meta.round != ROUND_BACK) {
                ask.apply(meta, EXPIRED, 0);
                ttl_expired();
            }
        }
        // An error that another host than the one complained about has made is no hairpin.
        if (explicit_source && explicit_destination
            && (!hdr.inner_ipv4.isValid() || hdr.ipv4.src == hdr.inner_ipv4.dst)) {
            hairpin.apply(hdr.ipv4.src, hdr.ipv6.src);
        }
#endif

        // RFC 7915 section 4.1.
        hdr.ipv6.version = 6;
        hdr.ipv6.traffic_class = (hdr.ipv4.tos & meta.settings.keep_tos_4to6) | meta.settings.set_tos_4to6;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_length = meta.l4_bytes;
        hdr.ipv6.next_header = hdr.ipv4.protocol;
        hdr.ipv6.hop_limit = hdr.ipv4.ttl;
        if (meta.round != ROUND_BACK) { hdr.ipv6.hop_limit = (hdr.ipv4.ttl |+| meta.settings.kernel_hops) - 1; }

        bit<32> removed = 0;
        bit<32> added = 0;
        if (!meta.summed) {
            removed = words4(hdr.ipv4.src) + words4(hdr.ipv4.dst);
            added = words6(hdr.ipv6.src) + words6(hdr.ipv6.dst);
        }

        if (hdr.icmp.isValid()) {
            hdr.ipv6.next_header = PROTO_ICMPV6;
            // RFC 7915 section 4.2. Errors are for Inside.
            if (!hdr.inner_ipv4.isValid()) {
                bit<8> new_type = ICMPV6_ECHO;
                if (hdr.icmp.type_ == ICMP_ECHO_REPLY) {
                    new_type = ICMPV6_ECHO_REPLY;
                } else if (hdr.icmp.type_ == ICMP_UNREACHABLE || hdr.icmp.type_ == ICMP_TIME_EXCEEDED
                           || hdr.icmp.type_ == ICMP_PARAMETER_PROBLEM) {
                    padded_error();
                } else if (hdr.icmp.type_ != ICMP_ECHO) {
                    icmp_type_not_translated();
                }
                // ICMPv6 has a pseudo-header in its sum, ICMP has none.
                removed = (bit<32>) (hdr.icmp.type_ ++ hdr.icmp.code);
                added = added + (bit<32>) (new_type ++ hdr.icmp.code) + (bit<32>) meta.l4_bytes + (bit<32>) PROTO_ICMPV6;
                hdr.icmp.type_ = new_type;
            }
        } else if (hdr.udp.isValid() && hdr.udp.checksum == 0) {
            // RFC 7915 section 4.5.
            if (fragmented) { udp_zero_checksum_fragment(); }
            if (meta.settings.compute_udp_zero == 0) {
                ask.apply(meta, PROHIBITED, 0);
                udp_zero_checksum();
            }
            if (hdr.udp.bytes != meta.l4_bytes) { udp_zero_checksum_length(); }
            meta.summed = true;
        }
        transport.apply(hdr, meta, removed, added);

        // RFC 7915 section 4.1, last part.
        if (fragmented) {
            hdr.fragment.setValid();
            hdr.fragment.next_header = hdr.ipv6.next_header;
            hdr.fragment.reserved = 0;
            hdr.fragment.fragment_offset = hdr.ipv4.fragment_offset;
            hdr.fragment.reserved2 = 0;
            hdr.fragment.more_fragments = hdr.ipv4.more_fragments;
            hdr.fragment.identification = (bit<32>) hdr.ipv4.identification;
            hdr.ipv6.next_header = PROTO_FRAGMENT;
            hdr.ipv6.payload_length = meta.l4_bytes + 8;
        }

        meta.dont_fragment = hdr.ipv4.dont_fragment == 1 && !hdr.inner_ipv4.isValid();

        // DF clear and too long for the lowest IPv6 MTU: RFC 7915 section 4 has it
        // fragmented. Errors are never longer (RFC 4443 section 2.4).
        if (hdr.ipv4.dont_fragment == 0 && hdr.ipv6.payload_length > meta.settings.lowest_ipv6_mtu - 40
            && !hdr.inner_ipv4.isValid()) {
            over_lowest_mtu.count(0);
#ifdef __STRAIT__
            fragment_ipv6(meta.settings.lowest_ipv6_mtu, (bit<32>) hdr.ipv4.identification);
#endif
        }

        hdr.ipv4.setInvalid();
        hdr.ethernet.ether_type = TYPE_IPV6;
    }
}

// ---------------------------------------------------------------- IPv6 to IPv4

control SixToFour(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
#ifndef STATEFUL
    ToIpv4() source;
#endif
    ToIpv4() destination;
    Intrinsic() intrinsic;
    Transport() transport;
    Ask() ask;

    action hop_limit_expired()        { mark_to_drop(standard_metadata); exit; }
    action ipv6_routing_header()      { mark_to_drop(standard_metadata); exit; }
    action too_big()                  { mark_to_drop(standard_metadata); exit; }
    action icmp_fragment()            { mark_to_drop(standard_metadata); exit; }
    action padded_error()             { mark_to_drop(standard_metadata); exit; }
    action icmp_type_not_translated() { mark_to_drop(standard_metadata); exit; }

    apply {
        bool fragmented = hdr.fragment.isValid()
            && (hdr.fragment.more_fragments == 1 || hdr.fragment.fragment_offset != 0);

        if (meta.segments_left != 0) {
            ask.apply(meta, ROUTING_HEADER, (bit<32>) meta.segments_left);
            ipv6_routing_header();
        }
        if (hdr.ipv6.hop_limit <= 1 && meta.settings.kernel_hops < 2) {
            ask.apply(meta, EXPIRED, 0);
            hop_limit_expired();
        }
        if (meta.protocol == PROTO_ICMPV6 && fragmented) { icmp_fragment(); }
        if (meta.l4_bytes > 65535 - IPV4_BYTES) { too_big(); }

        hdr.ipv4.setValid();
        bool source_by_prefix;
        bool destination_by_prefix;
#ifdef STATEFUL
        hdr.ipv4.src = 0;               // Sessions gives it one of the pool
        source_by_prefix = false;
#else
        source.apply(hdr.ipv6.src, hdr.ipv4.src, source_by_prefix, hdr.inner_ipv6.isValid(), meta.errors.source4,
                     meta.errors.source4_mask, meta, true, standard_metadata);
#endif
        destination.apply(hdr.ipv6.dst, hdr.ipv4.dst, destination_by_prefix, false, 0, 0, meta, true, standard_metadata);
        if (meta.settings.intrinsic == 1 && destination_by_prefix) { intrinsic.apply(hdr.ipv4.dst, meta.back); }

        // RFC 7915 section 5.1.
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.tos = (hdr.ipv6.traffic_class & meta.settings.keep_tos_6to4) | meta.settings.set_tos_6to4;
        hdr.ipv4.total_length = meta.l4_bytes + IPV4_BYTES;
        hdr.ipv4.ttl = (hdr.ipv6.hop_limit |+| meta.settings.kernel_hops) - 1;
        hdr.ipv4.protocol = meta.protocol;

        bit<32> removed = 0;
        bit<32> added = 0;
        if (!meta.summed) {
            removed = words6(hdr.ipv6.src) + words6(hdr.ipv6.dst);
            added = words4(hdr.ipv4.src) + words4(hdr.ipv4.dst);
        }

        if (meta.protocol == PROTO_ICMPV6) {
            hdr.ipv4.protocol = PROTO_ICMP;
            // RFC 7915 section 5.2. Errors are for Inside.
            if (!hdr.inner_ipv6.isValid()) {
                bit<8> new_type = ICMP_ECHO;
                if (hdr.icmp.type_ == ICMPV6_ECHO_REPLY) {
                    new_type = ICMP_ECHO_REPLY;
                } else if (hdr.icmp.type_ != 0 && hdr.icmp.type_ <= ICMPV6_PARAMETER_PROBLEM) {
                    padded_error();
                } else if (hdr.icmp.type_ != ICMPV6_ECHO) {
                    icmp_type_not_translated();
                }
                removed = removed + (bit<32>) (hdr.icmp.type_ ++ hdr.icmp.code)
                        + (bit<32>) meta.l4_bytes + (bit<32>) PROTO_ICMPV6;
                added = (bit<32>) (new_type ++ hdr.icmp.code);
                hdr.icmp.type_ = new_type;
            }
        }

        if (hdr.fragment.isValid()) {
            // RFC 7915 section 5.1.1.
            hdr.ipv4.identification = hdr.fragment.identification[15:0];
            hdr.ipv4.more_fragments = hdr.fragment.more_fragments;
            hdr.ipv4.fragment_offset = hdr.fragment.fragment_offset;
            hdr.fragment.setInvalid();
            meta.inner.may_fragment = true;
        } else if (hdr.ipv4.total_length > 1260 && !hdr.inner_ipv6.isValid()) {
            // Not to be fragmented: the identification is never looked at (RFC 6864).
            hdr.ipv4.dont_fragment = 1;
        } else {
            // An identification without state: a hash of what tells packets of a flow
            // apart. Two packets with one identification are as rare as with a random
            // number, equal packets excepted, whose fragments may be mixed safely.
            if (hdr.tcp.isValid()) {
                meta.seed = hdr.tcp.sequence ^ (hdr.tcp.acknowledgement + (bit<32>) hdr.tcp.checksum);
            } else if (hdr.udp.isValid()) {
                meta.seed = meta.seed + (bit<32>) hdr.udp.checksum;
            } else if (hdr.icmp.isValid()) {
                meta.seed = hdr.icmp.rest + (bit<32>) hdr.icmp.checksum;
            }
            bit<32> mixed = meta.seed * 0x9e3779b1;     // 2^32 over the golden ratio
            hdr.ipv4.identification = mixed[31:16];
        }
        transport.apply(hdr, meta, removed, added);

        hdr.ipv6.setInvalid();
        hdr.ethernet.ether_type = TYPE_IPV4;
    }
}
