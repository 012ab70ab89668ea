// Checksums: ones' complement sums by hand, and those that are declared.

// ---------------------------------------------------------------- ones' complement sums

// The 16-bit words of an address, added.
bit<32> words4(in bit<32> address) {
    return (bit<32>) address[31:16] + (bit<32>) address[15:0];
}

bit<32> words6(in bit<128> address) {
    return (bit<32>) address[127:112] + (bit<32>) address[111:96] + (bit<32>) address[95:80]
         + (bit<32>) address[79:64] + (bit<32>) address[63:48] + (bit<32>) address[47:32]
         + (bit<32>) address[31:16] + (bit<32>) address[15:0];
}

// A sum of words as one word. Two rounds: the first may carry once more.
bit<16> folded(in bit<32> sum) {
    bit<32> once = (bit<32>) sum[31:16] + (bit<32>) sum[15:0];
    return once[31:16] + once[15:0];
}

// RFC 1624 section 3, equation 3: HC' = ~(~HC + ~m + m').
bit<16> adjusted(in bit<16> checksum, in bit<32> removed, in bit<32> added) {
    return ~folded((bit<32>) ~checksum + (bit<32>) ~folded(removed) + (bit<32>) folded(added));
}

// ---------------------------------------------------------------- IPv4 header checksum
//
// RFC 1812 section 5.2.2. A header with options has been summed in the first round.

bit<16> header_sum(in ipv4_h ipv4) {
    return folded(
        (bit<32>) (ipv4.version ++ ipv4.ihl ++ ipv4.tos)
        + (bit<32>) ipv4.total_length
        + (bit<32>) ipv4.identification
        + (bit<32>) (ipv4.reserved ++ ipv4.dont_fragment ++ ipv4.more_fragments ++ ipv4.fragment_offset)
        + (bit<32>) (ipv4.ttl ++ ipv4.protocol)
        + (bit<32>) ipv4.checksum
        + words4(ipv4.src) + words4(ipv4.dst));
}

control Ipv4HeaderRight(inout headers_t hdr, out bool right) {
    apply { right = hdr.ipv4.ihl != 5 || header_sum(hdr.ipv4) == 0xffff; }
}

// ---------------------------------------------------------------- declared sums
//
// The lists of Verify and Update are the same but for meta.summed, which ingress
// may set: a UDP checksum to be computed, an advertisement made here.
// Fields of headers that are not valid add nothing: a packet has one of the two IP
// headers, and perhaps the option. The pseudo-headers of both (RFC 9293 section 3.1,
// RFC 768, RFC 8200 section 8.1) have equal sums but for the addresses.

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(
            meta.summed && hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv6.src, hdr.ipv6.dst, 8w0, 8w6, meta.l4_bytes,
              hdr.tcp.src_port, hdr.tcp.dst_port, hdr.tcp.sequence, hdr.tcp.acknowledgement, hdr.tcp.data_offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent,
              hdr.mss.kind_and_length, hdr.mss.size },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(
            meta.summed && hdr.udp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv6.src, hdr.ipv6.dst, 8w0, 8w17, hdr.udp.bytes,
              hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.bytes },
            hdr.udp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(
            meta.summed && hdr.icmp.isValid() && hdr.ipv4.isValid(),
            { hdr.icmp.type_, hdr.icmp.code, hdr.icmp.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.total_length,
              hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved, hdr.inner_ipv4.dont_fragment,
              hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
              hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_ipv6.version, hdr.inner_ipv6.traffic_class, hdr.inner_ipv6.flow_label,
              hdr.inner_ipv6.payload_length, hdr.inner_ipv6.next_header, hdr.inner_ipv6.hop_limit,
              hdr.inner_ipv6.src, hdr.inner_ipv6.dst,
              hdr.inner_fragment.next_header, hdr.inner_fragment.reserved, hdr.inner_fragment.fragment_offset,
              hdr.inner_fragment.reserved2, hdr.inner_fragment.more_fragments, hdr.inner_fragment.identification,
              hdr.inner_tcp.ports, hdr.inner_tcp.sequence_and_acknowledgement, hdr.inner_tcp.offset_flags_window,
              hdr.inner_tcp.checksum, hdr.inner_udp.ports, hdr.inner_udp.bytes, hdr.inner_udp.checksum,
              hdr.inner_icmp.type_, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.rest,
              hdr.original.bytes, meta.inner.skipped_sum },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(
            meta.summed && hdr.icmp.isValid() && hdr.ipv6.isValid() && !hdr.neighbour.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, meta.l4_bytes, 24w0, 8w58,
              hdr.icmp.type_, hdr.icmp.code, hdr.icmp.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.total_length,
              hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved, hdr.inner_ipv4.dont_fragment,
              hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
              hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_ipv6.version, hdr.inner_ipv6.traffic_class, hdr.inner_ipv6.flow_label,
              hdr.inner_ipv6.payload_length, hdr.inner_ipv6.next_header, hdr.inner_ipv6.hop_limit,
              hdr.inner_ipv6.src, hdr.inner_ipv6.dst,
              hdr.inner_fragment.next_header, hdr.inner_fragment.reserved, hdr.inner_fragment.fragment_offset,
              hdr.inner_fragment.reserved2, hdr.inner_fragment.more_fragments, hdr.inner_fragment.identification,
              hdr.inner_tcp.ports, hdr.inner_tcp.sequence_and_acknowledgement, hdr.inner_tcp.offset_flags_window,
              hdr.inner_tcp.checksum, hdr.inner_udp.ports, hdr.inner_udp.bytes, hdr.inner_udp.checksum,
              hdr.inner_icmp.type_, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.rest,
              hdr.original.bytes, meta.inner.skipped_sum },
            hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // Every IPv4 header that leaves was made here and has no options.
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.reserved, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);

        update_checksum_with_payload(
            meta.summed && hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv6.src, hdr.ipv6.dst, 8w0, 8w6, meta.l4_bytes,
              hdr.tcp.src_port, hdr.tcp.dst_port, hdr.tcp.sequence, hdr.tcp.acknowledgement, hdr.tcp.data_offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent,
              hdr.mss.kind_and_length, hdr.mss.size },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(
            meta.summed && hdr.udp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv6.src, hdr.ipv6.dst, 8w0, 8w17, hdr.udp.bytes,
              hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.bytes },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(
            meta.summed && hdr.icmp.isValid() && hdr.ipv4.isValid(),
            { hdr.icmp.type_, hdr.icmp.code, hdr.icmp.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.total_length,
              hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved, hdr.inner_ipv4.dont_fragment,
              hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
              hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_ipv6.version, hdr.inner_ipv6.traffic_class, hdr.inner_ipv6.flow_label,
              hdr.inner_ipv6.payload_length, hdr.inner_ipv6.next_header, hdr.inner_ipv6.hop_limit,
              hdr.inner_ipv6.src, hdr.inner_ipv6.dst,
              hdr.inner_fragment.next_header, hdr.inner_fragment.reserved, hdr.inner_fragment.fragment_offset,
              hdr.inner_fragment.reserved2, hdr.inner_fragment.more_fragments, hdr.inner_fragment.identification,
              hdr.inner_tcp.ports, hdr.inner_tcp.sequence_and_acknowledgement, hdr.inner_tcp.offset_flags_window,
              hdr.inner_tcp.checksum, hdr.inner_udp.ports, hdr.inner_udp.bytes, hdr.inner_udp.checksum,
              hdr.inner_icmp.type_, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.rest,
              hdr.original.bytes },
            hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(
            meta.summed && hdr.icmp.isValid() && hdr.ipv6.isValid() && !hdr.neighbour.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, meta.l4_bytes, 24w0, 8w58,
              hdr.icmp.type_, hdr.icmp.code, hdr.icmp.rest,
              hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos, hdr.inner_ipv4.total_length,
              hdr.inner_ipv4.identification, hdr.inner_ipv4.reserved, hdr.inner_ipv4.dont_fragment,
              hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.ttl,
              hdr.inner_ipv4.protocol, hdr.inner_ipv4.checksum, hdr.inner_ipv4.src, hdr.inner_ipv4.dst,
              hdr.inner_ipv6.version, hdr.inner_ipv6.traffic_class, hdr.inner_ipv6.flow_label,
              hdr.inner_ipv6.payload_length, hdr.inner_ipv6.next_header, hdr.inner_ipv6.hop_limit,
              hdr.inner_ipv6.src, hdr.inner_ipv6.dst,
              hdr.inner_fragment.next_header, hdr.inner_fragment.reserved, hdr.inner_fragment.fragment_offset,
              hdr.inner_fragment.reserved2, hdr.inner_fragment.more_fragments, hdr.inner_fragment.identification,
              hdr.inner_tcp.ports, hdr.inner_tcp.sequence_and_acknowledgement, hdr.inner_tcp.offset_flags_window,
              hdr.inner_tcp.checksum, hdr.inner_udp.ports, hdr.inner_udp.bytes, hdr.inner_udp.checksum,
              hdr.inner_icmp.type_, hdr.inner_icmp.code, hdr.inner_icmp.checksum, hdr.inner_icmp.rest,
              hdr.original.bytes, meta.arrived },
            hdr.icmp.checksum, HashAlgorithm.csum16);

        // A neighbour advertisement, which has no payload behind its option.
        update_checksum(
            meta.summed && hdr.neighbour.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 16w0, meta.l4_bytes, 24w0, 8w58,
              hdr.icmp.type_, hdr.icmp.code, hdr.icmp.rest, hdr.neighbour.target,
              hdr.link_option.kind, hdr.link_option.octets, hdr.link_option.mac },
            hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}
