// What lies behind the IP headers, both ways: transport checksums, the MSS, and the packet inside an ICMP error.

// ---------------------------------------------------------------- transport, both ways
//
// Clamps the MSS, and changes a checksum that is not declared. removed and added are
// the sums of the words that left and joined its pseudo-header, and for ICMP of its
// type and code.

control Transport(inout headers_t hdr, inout metadata_t meta, in bit<32> removed, in bit<32> added) {
    counter(1, CounterType.packets) mss_clamped;
    counter(1, CounterType.packets) mss_not_first;

    apply {
        bit<32> old_mss = 0;
        bit<32> new_mss = 0;
        if (hdr.mss.isValid() && hdr.mss.size > meta.settings.max_mss) {
            old_mss = (bit<32>) hdr.mss.size;
            new_mss = (bit<32>) meta.settings.max_mss;
            hdr.mss.size = meta.settings.max_mss;
            mss_clamped.count(0);
        }
        if (meta.mss_elsewhere) {
            mss_not_first.count(0);
        }

        // By hand.
        if (!meta.summed) {
            if (hdr.tcp.isValid()) {
                hdr.tcp.checksum = adjusted(hdr.tcp.checksum, removed + old_mss, added + new_mss);
            } else if (hdr.udp.isValid()) {
                // 6 to 4, a sender that sums nothing (RFC 6935) stays one that sums nothing.
                if (hdr.udp.checksum != 0) {
                    hdr.udp.checksum = adjusted(hdr.udp.checksum, removed, added);
                    if (hdr.udp.checksum == 0) { hdr.udp.checksum = 0xffff; }
                }
            } else if (hdr.icmp.isValid()) {
                hdr.icmp.checksum = adjusted(hdr.icmp.checksum, removed, added);
            }
        }
    }
}

// ---------------------------------------------------------------- ICMP errors, both ways

// The sum of the inner transport's checksum is changed as that of any packet; only
// the TCP and UDP of a first fragment have one here.
control InnerTransport(inout headers_t hdr, in bit<32> removed, in bit<32> added) {
    apply {
        if (hdr.inner_tcp.isValid()) {
            hdr.inner_tcp.checksum = adjusted(hdr.inner_tcp.checksum, removed, added);
        } else if (hdr.inner_udp.isValid() && hdr.inner_udp.checksum != 0) {
            hdr.inner_udp.checksum = adjusted(hdr.inner_udp.checksum, removed, added);
            if (hdr.inner_udp.checksum == 0) { hdr.inner_udp.checksum = 0xffff; }
        } else if (hdr.inner_icmp.isValid()) {
            hdr.inner_icmp.checksum = adjusted(hdr.inner_icmp.checksum, removed, added);
        }
    }
}

// RFC 4884: an extension begins behind an original datagram of at least 128 bytes whose
// length is a multiple of `unit` bytes. `original` is its length after translation; the
// zeros that it lacks are put behind it. Where it cannot be made so, or the new type has no
// length attribute, its length is not told. In ICMP the extension is then a part of the
// original datagram (RFC 4884 section 5).
control Extension(inout headers_t hdr, inout metadata_t meta, in bit<16> unit, in bool attribute) {
    counter(1, CounterType.packets) extension_not_told;

    apply {
        if (meta.inner.original != 0) {
            bit<16> original = meta.inner.original;
            bit<16> wanted = original < 128 ? 16w128 : (original + (unit - 1)) & ~(unit - 1);
            bit<16> zeros = wanted - original;
            if (!attribute || (zeros != 0 && !hdr.original.isValid()) || zeros > 28) {
                meta.inner.original = 0;
                extension_not_told.count(0);
            } else {
                meta.inner.original = wanted;
                meta.l4_bytes = meta.l4_bytes + zeros;
                if (zeros[2:2] == 1) { hdr.zeros4.setValid(); hdr.zeros4.zeros = 0; }
                if (zeros[3:3] == 1) { hdr.zeros8.setValid(); hdr.zeros8.zeros = 0; }
                if (zeros[4:4] == 1) { hdr.zeros16.setValid(); hdr.zeros16.zeros = 0; }
            }
        }
    }
}

// RFC 7915 sections 4.2 and 4.3: type, code and what follows them, and the packet inside.
control ErrorToIpv6(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
#ifdef STATEFUL
    QuotedPorts() ports;
#else
    ToIpv6() source;
    ByPrefix() hairpin;
#endif
    ToIpv6() destination;
    InnerTransport() transport;
    Extension() extension;
    counter(1, CounterType.packets) errors_cut;
    bit<8> old_pointer = hdr.icmp.rest[31:24];
    bool attribute = false;

    action error_not_translated()   { mark_to_drop(standard_metadata); exit; }
    action pointer_not_translated() { mark_to_drop(standard_metadata); exit; }
    action inner_not_translated()   { mark_to_drop(standard_metadata); exit; }

    action to_unreachable(bit<8> code) {
        hdr.icmp.type_ = ICMPV6_UNREACHABLE;
        hdr.icmp.code = code;
        hdr.icmp.rest = 0;
        attribute = true;
    }
    action to_time_exceeded() {
        hdr.icmp.type_ = ICMPV6_TIME_EXCEEDED;
        hdr.icmp.rest = 0;
        attribute = true;
    }
    // The protocol is not known there: the pointer is that of the Next Header field.
    action to_unknown_next_header() {
        hdr.icmp.type_ = ICMPV6_PARAMETER_PROBLEM;
        hdr.icmp.code = 1;
        hdr.icmp.rest = 6;
    }
    // hdr.icmp.rest becomes the MTU further down.
    action to_too_big() {
        hdr.icmp.type_ = ICMPV6_TOO_BIG;
        hdr.icmp.code = 0;
    }
    // hdr.icmp.rest becomes the pointer further down.
    action to_parameter_problem() {
        hdr.icmp.type_ = ICMPV6_PARAMETER_PROBLEM;
        hdr.icmp.code = 0;
    }

    table types {
        key = { hdr.icmp.type_: exact; hdr.icmp.code: ternary; }
        actions = {
            to_unreachable; to_time_exceeded; to_unknown_next_header; to_too_big; to_parameter_problem;
            error_not_translated;
        }
        const default_action = error_not_translated();
        const entries = {
            (ICMP_UNREACHABLE, 0):       to_unreachable(0);
            (ICMP_UNREACHABLE, 1):       to_unreachable(0);
            (ICMP_UNREACHABLE, 2):       to_unknown_next_header();
            (ICMP_UNREACHABLE, 3):       to_unreachable(4);
            (ICMP_UNREACHABLE, 4):       to_too_big();
            (ICMP_UNREACHABLE, 5):       to_unreachable(0);
            (ICMP_UNREACHABLE, 6):       to_unreachable(0);
            (ICMP_UNREACHABLE, 7):       to_unreachable(0);
            (ICMP_UNREACHABLE, 8):       to_unreachable(0);
            (ICMP_UNREACHABLE, 9):       to_unreachable(1);
            (ICMP_UNREACHABLE, 10):      to_unreachable(1);
            (ICMP_UNREACHABLE, 11):      to_unreachable(0);
            (ICMP_UNREACHABLE, 12):      to_unreachable(0);
            (ICMP_UNREACHABLE, 13):      to_unreachable(1);
            (ICMP_UNREACHABLE, 15):      to_unreachable(1);
            (ICMP_TIME_EXCEEDED, _):     to_time_exceeded();
            (ICMP_PARAMETER_PROBLEM, 0): to_parameter_problem();
            (ICMP_PARAMETER_PROBLEM, 2): to_parameter_problem();
        }
    }

    // RFC 7915 figure 3: which field of the IPv6 header is that of the IPv4 header. The
    // identification, the flags, the fragment offset and the checksum have none.
    action pointer(bit<32> to) { hdr.icmp.rest = to; }
    table pointers {
        key = { old_pointer: exact; }
        actions = { pointer; pointer_not_translated; }
        const default_action = pointer_not_translated();
        const entries = {
            0:  pointer(0);
            1:  pointer(1);
            2:  pointer(4);
            3:  pointer(4);
            8:  pointer(7);
            9:  pointer(6);
            12: pointer(8);
            13: pointer(8);
            14: pointer(8);
            15: pointer(8);
            16: pointer(24);
            17: pointer(24);
            18: pointer(24);
            19: pointer(24);
        }
    }

    // RFC 1191 section 7.1: the greatest plateau below the length of the packet. RFC 7915
    // section 4.2 asks for it where a router tells no MTU.
    action plateau(in bit<16> below, out bit<32> mtu) {
        if (below > 32000)      { mtu = 32000; }
        else if (below > 17914) { mtu = 17914; }
        else if (below > 8166)  { mtu = 8166; }
        else if (below > 4352)  { mtu = 4352; }
        else if (below > 2002)  { mtu = 2002; }
        else if (below > 1492)  { mtu = 1492; }
        else                    { mtu = 1006; }      // below the floor all are the same
    }

    apply {
        bit<32> told = (bit<32>) hdr.icmp.rest[15:0];
        types.apply();
        if (hdr.icmp.type_ == ICMPV6_PARAMETER_PROBLEM && hdr.icmp.code == 0) {
            pointers.apply();
        } else if (hdr.icmp.type_ == ICMPV6_TOO_BIG) {
            if (told == 0) { plateau(hdr.inner_ipv4.total_length, told); }
            bit<32> mtu = told + 20;
            bit<32> ipv4_mtu = (bit<32>) meta.errors.ipv4_mtu + 20;
            if (mtu > ipv4_mtu) { mtu = ipv4_mtu; }
            if (mtu > (bit<32>) meta.errors.ipv6_mtu) { mtu = (bit<32>) meta.errors.ipv6_mtu; }
            if (mtu < (bit<32>) LOWEST_MTU) { mtu = (bit<32>) LOWEST_MTU; }
            hdr.icmp.rest = mtu;
        }

        bool explicit_destination;
        hdr.inner_ipv6.setValid();
#ifdef STATEFUL
        hdr.inner_ipv6.src = meta.session.host;
#else
        bool explicit_source;
        source.apply(hdr.inner_ipv4.src, hdr.inner_ipv6.src, explicit_source, false, 0, meta, false, standard_metadata);
#endif
        destination.apply(hdr.inner_ipv4.dst, hdr.inner_ipv6.dst, explicit_destination, false, 0, meta, false,
                          standard_metadata);
#ifndef STATEFUL
        if (explicit_source && explicit_destination) {
            hairpin.apply(hdr.inner_ipv4.dst, hdr.inner_ipv6.dst);
        }
#endif

        // As section 4.1, but for the hop limit.
        bool fragmented = hdr.inner_ipv4.more_fragments == 1 || hdr.inner_ipv4.fragment_offset != 0;
        hdr.inner_ipv6.version = 6;
        hdr.inner_ipv6.traffic_class = (hdr.inner_ipv4.tos & meta.settings.keep_tos_4to6) | meta.settings.set_tos_4to6;
        hdr.inner_ipv6.flow_label = 0;
        hdr.inner_ipv6.payload_length = meta.inner.l4_bytes;
        hdr.inner_ipv6.next_header = meta.inner.protocol;
        hdr.inner_ipv6.hop_limit = hdr.inner_ipv4.ttl;
        meta.l4_bytes = meta.l4_bytes - meta.inner.skipped + 20;
        meta.inner.original = meta.inner.original == 0 ? 0 : meta.inner.original - meta.inner.skipped + 20;

        bit<32> removed = words4(hdr.inner_ipv4.src) + words4(hdr.inner_ipv4.dst);
        bit<32> added = words6(hdr.inner_ipv6.src) + words6(hdr.inner_ipv6.dst);
        if (meta.inner.protocol == PROTO_ICMP) {
            // Fragments of ICMP are not translated, and errors are not about errors.
            if (fragmented || !hdr.inner_icmp.isValid()) { inner_not_translated(); }
            bit<8> new_type = ICMPV6_ECHO;
            if (hdr.inner_icmp.type_ == ICMP_ECHO_REPLY) { new_type = ICMPV6_ECHO_REPLY; }
            else if (hdr.inner_icmp.type_ != ICMP_ECHO) { inner_not_translated(); }
            removed = (bit<32>) (hdr.inner_icmp.type_ ++ hdr.inner_icmp.code);
            added = added + (bit<32>) (new_type ++ hdr.inner_icmp.code)
                  + (bit<32>) meta.inner.l4_bytes + (bit<32>) PROTO_ICMPV6;
            hdr.inner_icmp.type_ = new_type;
            hdr.inner_ipv6.next_header = PROTO_ICMPV6;
        }
#ifdef STATEFUL
        ports.apply(hdr, meta, removed, added);
#endif
        transport.apply(hdr, removed, added);

        if (fragmented) {
            hdr.inner_fragment.setValid();
            hdr.inner_fragment.next_header = hdr.inner_ipv6.next_header;
            hdr.inner_fragment.reserved = 0;
            hdr.inner_fragment.fragment_offset = hdr.inner_ipv4.fragment_offset;
            hdr.inner_fragment.reserved2 = 0;
            hdr.inner_fragment.more_fragments = hdr.inner_ipv4.more_fragments;
            hdr.inner_fragment.identification = (bit<32>) hdr.inner_ipv4.identification;
            hdr.inner_ipv6.next_header = PROTO_FRAGMENT;
            hdr.inner_ipv6.payload_length = meta.inner.l4_bytes + FRAGMENT_BYTES;
            meta.l4_bytes = meta.l4_bytes + FRAGMENT_BYTES;
            meta.inner.original = meta.inner.original == 0 ? 0 : meta.inner.original + FRAGMENT_BYTES;
        }
        hdr.inner_ipv4.setInvalid();

        // An extension is cut off where its length is not told (RFC 4884 section 4.6), and
        // where 1280 bytes do not hold it (RFC 7915 section 4.2).
        bit<16> bytes = 0;
        bit<16> original = meta.inner.original;
        extension.apply(hdr, meta, 8, attribute);
        if (meta.inner.original == 0) {
            if (original != 0) { bytes = original + ICMP_BYTES; }
        } else if (meta.l4_bytes > MAX_ICMPV6_BYTES) {
            bytes = meta.inner.original + ICMP_BYTES;
        } else {
            hdr.icmp.rest[31:24] = meta.inner.original[10:3];
        }
        if (meta.l4_bytes > MAX_ICMPV6_BYTES && (bytes == 0 || bytes > MAX_ICMPV6_BYTES)) { bytes = MAX_ICMPV6_BYTES; }
        if (bytes != 0) {
            meta.round = ROUND_CUT;
            meta.quoted = bytes;
            meta.port = standard_metadata.egress_port;
            errors_cut.count(0);
            recirculate_preserving_field_list(1);
        }
    }
}

// RFC 7915 sections 5.2 and 5.3.
control ErrorToIpv4(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ToIpv4() source;
#ifdef STATEFUL
    QuotedPorts() ports;
#else
    ToIpv4() destination;
#endif
    InnerTransport() transport;
    Extension() extension;
    bit<32> old_pointer = hdr.icmp.rest;
    bool attribute = false;

    action error_not_translated()   { mark_to_drop(standard_metadata); exit; }
    action pointer_not_translated() { mark_to_drop(standard_metadata); exit; }
    action inner_not_translated()   { mark_to_drop(standard_metadata); exit; }

    action to_unreachable(bit<8> code) {
        hdr.icmp.type_ = ICMP_UNREACHABLE;
        hdr.icmp.code = code;
        hdr.icmp.rest = 0;
        attribute = true;
    }
    // hdr.icmp.rest becomes the MTU further down.
    action to_fragmentation_needed() {
        hdr.icmp.type_ = ICMP_UNREACHABLE;
        hdr.icmp.code = 4;
    }
    action to_time_exceeded() {
        hdr.icmp.type_ = ICMP_TIME_EXCEEDED;
        hdr.icmp.rest = 0;
        attribute = true;
    }
    // hdr.icmp.rest becomes the pointer further down.
    action to_parameter_problem() {
        hdr.icmp.type_ = ICMP_PARAMETER_PROBLEM;
        hdr.icmp.code = 0;
    }

    table types {
        key = { hdr.icmp.type_: exact; hdr.icmp.code: ternary; }
        actions = {
            to_unreachable; to_fragmentation_needed; to_time_exceeded; to_parameter_problem; error_not_translated;
        }
        const default_action = error_not_translated();
        const entries = {
            (ICMPV6_UNREACHABLE, 0):       to_unreachable(1);
            (ICMPV6_UNREACHABLE, 1):       to_unreachable(10);
            (ICMPV6_UNREACHABLE, 2):       to_unreachable(1);
            (ICMPV6_UNREACHABLE, 3):       to_unreachable(1);
            (ICMPV6_UNREACHABLE, 4):       to_unreachable(3);
            (ICMPV6_TOO_BIG, _):           to_fragmentation_needed();
            (ICMPV6_TIME_EXCEEDED, _):     to_time_exceeded();
            (ICMPV6_PARAMETER_PROBLEM, 0): to_parameter_problem();
            (ICMPV6_PARAMETER_PROBLEM, 1): to_unreachable(2);
        }
    }

    // RFC 7915 figure 6.
    action pointer(bit<8> to) { hdr.icmp.rest = to ++ 24w0; }
    table pointers {
        key = { old_pointer: range; }
        actions = { pointer; pointer_not_translated; }
        const default_action = pointer_not_translated();
        const entries = {
            0:        pointer(0);
            1:        pointer(1);
            4 .. 5:   pointer(2);
            6:        pointer(9);
            7:        pointer(8);
            8 .. 23:  pointer(12);
            24 .. 39: pointer(16);
        }
    }

    apply {
        bit<32> told = hdr.icmp.rest;
        types.apply();
        if (hdr.icmp.type_ == ICMP_PARAMETER_PROBLEM) {
            pointers.apply();
        } else if (hdr.icmp.type_ == ICMP_UNREACHABLE && hdr.icmp.code == 4) {
            // The fragment header of the packet inside is not there in IPv4 either. 88 is
            // RFC 791's lowest MTU and 20.
            bit<32> growth = hdr.inner_fragment.isValid() ? 32w28 : 20;
            if (told > (bit<32>) meta.errors.ipv6_mtu) { told = (bit<32>) meta.errors.ipv6_mtu; }
            bit<32> mtu = told < 88 + 8 ? 68 : told - growth;
            if (mtu > (bit<32>) meta.errors.ipv4_mtu) { mtu = (bit<32>) meta.errors.ipv4_mtu; }
            hdr.icmp.rest = mtu;
        }

        hdr.inner_ipv4.setValid();
        bool by_prefix;
        source.apply(hdr.inner_ipv6.src, hdr.inner_ipv4.src, by_prefix, false, 0, 0, meta, false, standard_metadata);
#ifdef STATEFUL
        hdr.inner_ipv4.dst = meta.session.address;
#else
        destination.apply(hdr.inner_ipv6.dst, hdr.inner_ipv4.dst, by_prefix, false, 0, 0, meta, false, standard_metadata);
#endif

        // As section 5.1, but for the hop limit.
        hdr.inner_ipv4.version = 4;
        hdr.inner_ipv4.ihl = 5;
        hdr.inner_ipv4.tos = (hdr.inner_ipv6.traffic_class & meta.settings.keep_tos_6to4) | meta.settings.set_tos_6to4;
        hdr.inner_ipv4.total_length = meta.inner.l4_bytes + IPV4_BYTES;
        hdr.inner_ipv4.identification = 0;
        hdr.inner_ipv4.reserved = 0;
        hdr.inner_ipv4.dont_fragment = hdr.inner_ipv4.total_length > 1260 ? 1w1 : 0;
        hdr.inner_ipv4.more_fragments = 0;
        hdr.inner_ipv4.fragment_offset = 0;
        hdr.inner_ipv4.ttl = hdr.inner_ipv6.hop_limit;
        hdr.inner_ipv4.protocol = meta.inner.protocol;
        hdr.inner_ipv4.checksum = 0;
        bit<16> shrink = meta.inner.skipped + 20;

        bool fragmented = hdr.inner_fragment.isValid()
            && (hdr.inner_fragment.more_fragments == 1 || hdr.inner_fragment.fragment_offset != 0);
        bit<32> removed = words6(hdr.inner_ipv6.src) + words6(hdr.inner_ipv6.dst);
        bit<32> added = words4(hdr.inner_ipv4.src) + words4(hdr.inner_ipv4.dst);
        if (meta.inner.protocol == PROTO_ICMPV6) {
            if (fragmented || !hdr.inner_icmp.isValid()) { inner_not_translated(); }
            bit<8> new_type = ICMP_ECHO;
            if (hdr.inner_icmp.type_ == ICMPV6_ECHO_REPLY) { new_type = ICMP_ECHO_REPLY; }
            else if (hdr.inner_icmp.type_ != ICMPV6_ECHO) { inner_not_translated(); }
            removed = removed + (bit<32>) (hdr.inner_icmp.type_ ++ hdr.inner_icmp.code)
                    + (bit<32>) meta.inner.l4_bytes + (bit<32>) PROTO_ICMPV6;
            added = (bit<32>) (new_type ++ hdr.inner_icmp.code);
            hdr.inner_icmp.type_ = new_type;
            hdr.inner_ipv4.protocol = PROTO_ICMP;
        }
#ifdef STATEFUL
        ports.apply(hdr, meta, removed, added);
#endif
        transport.apply(hdr, removed, added);

        if (hdr.inner_fragment.isValid()) {
            hdr.inner_ipv4.identification = hdr.inner_fragment.identification[15:0];
            hdr.inner_ipv4.dont_fragment = 0;
            hdr.inner_ipv4.more_fragments = hdr.inner_fragment.more_fragments;
            hdr.inner_ipv4.fragment_offset = hdr.inner_fragment.fragment_offset;
            hdr.inner_fragment.setInvalid();
            shrink = shrink + FRAGMENT_BYTES;
        }
        hdr.inner_ipv6.setInvalid();
        hdr.inner_ipv4.checksum = ~header_sum(hdr.inner_ipv4);
        meta.l4_bytes = meta.l4_bytes - shrink;
        meta.inner.original = meta.inner.original == 0 ? 0 : meta.inner.original - shrink;

        extension.apply(hdr, meta, 4, attribute);
        if (meta.inner.original != 0) { hdr.icmp.rest[23:16] = meta.inner.original[9:2]; }
    }
}
