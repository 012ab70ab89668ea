// The parser: an IP packet, and what of a packet an ICMP error quotes.

// What stands in front of the frame.
#ifdef CONTROLLED
#define PACKET_OUT_BYTES 3
#define FRONT_BYTES meta.front_bytes
#else
#define FRONT_BYTES 0
#endif

parser Packet(packet_in packet,
              out headers_t hdr,
              inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {
#ifdef CONTROLLED
    // A packet of the controller has arrived where it first did. In recirculated ones, the header in front is gone. In resubmitted ones it is there
    // again, and what was known stays known: BMv2 forgets the port of such a packet.
    state start {
        transition select(standard_metadata.instance_type, standard_metadata.ingress_port) {
            (RECIRCULATED, _): recirculated;
            (RESUBMITTED, _):  resubmitted;
            (_, CPU_PORT):     packet_out;
            default:           port;
        }
    }

    state recirculated {
        meta.front_bytes = 0;
        transition ethernet;
    }

    state resubmitted {
        transition select(meta.front_bytes) {
            PACKET_OUT_BYTES: again_packet_out;
            default:          ethernet;
        }
    }

    state again_packet_out {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state packet_out {
        packet.extract(hdr.packet_out);
        meta.front_bytes = PACKET_OUT_BYTES;
        meta.arrived_at = (bit<9>) hdr.packet_out.ingress_port;
        transition ethernet;
    }

    state port {
        meta.arrived_at = standard_metadata.ingress_port;
        transition ethernet;
    }

    state ethernet {
#else
    state start {
#endif
        packet.extract(hdr.ethernet);
        transition select(meta.round, hdr.ethernet.ether_type) {
            (ROUND_QUOTE, _):         accept;
            (ROUND_BUILD, TYPE_IPV4): quoted_ipv4;
            (ROUND_BUILD, TYPE_IPV6): quoted_ipv6;
            (ROUND_CUT, _):           cut;
            (ROUND_SUM, _):           cut;
            (_, TYPE_IPV4):           ipv4;
            (_, TYPE_IPV6):           ipv6;
            (_, TYPE_ARP):            arp;
            default:                  accept;
        }
    }

    state quoted_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition accept;
    }

    state quoted_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition accept;
    }

    state cut {
        packet.extract(hdr.ipv6);
        packet.extract(hdr.icmp);
        meta.l4_bytes = hdr.ipv6.payload_length;
        transition accept;
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    // ---- IPv4

    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5, error.BadHeader);
        bit<16> header_bytes = ((bit<16>) hdr.ipv4.ihl) << 2;
        verify(hdr.ipv4.total_length >= header_bytes, error.BadLength);
        meta.l4_bytes = hdr.ipv4.total_length - header_bytes;
        bit<32> frame_bytes = ETHERNET_BYTES + (bit<32>) hdr.ipv4.total_length + FRONT_BYTES;
        verify(standard_metadata.packet_length >= frame_bytes, error.PacketTooShort);
        meta.padding = standard_metadata.packet_length - frame_bytes;
        meta.whole = meta.padding == 0 && hdr.ipv4.more_fragments == 0 && hdr.ipv4.fragment_offset == 0;
        meta.protocol = hdr.ipv4.protocol;
#ifdef STATEFUL
        meta.session.from6 = false;
        meta.session.address = hdr.ipv4.dst;
        meta.session.remote = hdr.ipv4.src;
#endif
        transition select(hdr.ipv4.ihl) {
            5:       ipv4_payload;
            default: ipv4_options;
        }
    }

    // RFC 7915 section 4.1: options are ignored, but for an unexpired source route.
    state ipv4_options {
        meta.options = (((bit<8>) hdr.ipv4.ihl) << 2) - 20;
        transition select(meta.round) {
            ROUND_FIRST: ipv4_sum_options;
            default:     ipv4_option;
        }
    }

    state ipv4_sum_options {
        bit<32> word = packet.lookahead<bit<32>>();
        meta.options_sum = meta.options_sum + (bit<32>) word[31:16] + (bit<32>) word[15:0];
        packet.advance(32);
        meta.options = meta.options - 4;
        meta.options_unread = true;
        transition select(meta.options) {
            0:       accept;
            default: ipv4_sum_options;
        }
    }

    state ipv4_option {
        transition select(packet.lookahead<bit<8>>()) {
            0:       ipv4_options_end;
            1:       ipv4_no_operation;
            131:     ipv4_source_route;
            137:     ipv4_source_route;
            default: ipv4_skip_option;
        }
    }

    state ipv4_no_operation {
        packet.advance(8);
        meta.options = meta.options - 1;
        transition select(meta.options) {
            0:       ipv4_payload;
            default: ipv4_option;
        }
    }

    // RFC 791 section 3.1: the route is used up when the pointer is greater than
    // the length.
    state ipv4_source_route {
        verify(meta.options >= 3, error.BadHeader);
        bit<24> route = packet.lookahead<bit<24>>();
        meta.source_routed = meta.source_routed || route[7:0] <= route[15:8];
        transition ipv4_skip_option;
    }

    state ipv4_skip_option {
        verify(meta.options >= 2, error.BadHeader);
        bit<16> option = packet.lookahead<bit<16>>();
        verify(option[7:0] >= 2 && option[7:0] <= meta.options, error.BadHeader);
        packet.advance(((bit<32>) option[7:0]) << 3);
        meta.options = meta.options - option[7:0];
        transition select(meta.options) {
            0:       ipv4_payload;
            default: ipv4_option;
        }
    }

    // End of the list: what is left is padding of the header.
    state ipv4_options_end {
        packet.advance(((bit<32>) meta.options) << 3);
        transition ipv4_payload;
    }

    // Only the first fragment has a transport header.
    state ipv4_payload {
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, PROTO_TCP):  tcp;
            (0, PROTO_UDP):  udp;
            (0, PROTO_ICMP): icmpv4;
            default:         accept;
        }
    }

    // ---- IPv6

    state ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.BadHeader);
        bit<32> frame_bytes = ETHERNET_BYTES + 40 + (bit<32>) hdr.ipv6.payload_length + FRONT_BYTES;
        verify(standard_metadata.packet_length >= frame_bytes, error.PacketTooShort);
        meta.padding = standard_metadata.packet_length - frame_bytes;
        meta.whole = meta.padding == 0;
        meta.l4_bytes = hdr.ipv6.payload_length;
        meta.protocol = hdr.ipv6.next_header;
#ifdef STATEFUL
        meta.session.from6 = true;
        meta.session.host = hdr.ipv6.src;
        meta.session.remote = hdr.ipv6.dst[31:0];   // of a prefix of 96 bits
#endif
        transition ipv6_next;
    }

    state ipv6_next {
        transition select(meta.protocol) {
            PROTO_TCP:      tcp;
            PROTO_UDP:      udp_over_ipv6;
            PROTO_ICMPV6:   icmpv6;
            PROTO_FRAGMENT: fragment;
            PROTO_HOPOPT:   ipv6_extension;
            PROTO_DSTOPTS:  ipv6_extension;
            PROTO_ROUTING:  ipv6_routing;
            default:        other_over_ipv6;
        }
    }

    // RFC 7915 section 5.1: skipped, "as they have no meaning in IPv4".
    state ipv6_extension {
        verify(meta.extensions < MAX_EXTENSIONS, error.TooManyExtensions);
        meta.extensions = meta.extensions + 1;
        bit<16> extension = packet.lookahead<bit<16>>();
        bit<16> extension_bytes = (((bit<16>) extension[7:0]) + 1) << 3;
        verify(extension_bytes <= meta.l4_bytes, error.BadLength);
        packet.advance(((bit<32>) extension_bytes) << 3);
        meta.l4_bytes = meta.l4_bytes - extension_bytes;
        meta.protocol = extension[15:8];
        transition ipv6_next;
    }

    // Routing with segments left is not for the translator to use up. The byte is the fourth.
    state ipv6_routing {
        bit<32> routing = packet.lookahead<bit<32>>();
        transition select(routing[7:0]) {
            0:       ipv6_extension;
            default: ipv6_segments_left;
        }
    }

    state ipv6_segments_left {
        meta.segments_left = IPV6_BYTES + hdr.ipv6.payload_length - meta.l4_bytes + 3;
        transition ipv6_extension;
    }

    // RFC 7915 section 5.1.1: behind a fragment header only a transport header is
    // translated (ESP counts as one).
    state fragment {
        verify(meta.l4_bytes >= 8, error.BadLength);
        packet.extract(hdr.fragment);
        meta.l4_bytes = meta.l4_bytes - 8;
        meta.protocol = hdr.fragment.next_header;
        meta.whole = meta.whole && hdr.fragment.more_fragments == 0 && hdr.fragment.fragment_offset == 0;
        transition select(hdr.fragment.fragment_offset, hdr.fragment.next_header) {
            (_, PROTO_HOPOPT):   fragmented_extension;
            (_, PROTO_ROUTING):  fragmented_extension;
            (_, PROTO_FRAGMENT): fragmented_extension;
            (_, PROTO_AH):       fragmented_extension;
            (_, PROTO_DSTOPTS):  fragmented_extension;
            (_, PROTO_MOBILITY): fragmented_extension;
            (_, PROTO_HIP):      fragmented_extension;
            (_, PROTO_SHIM6):    fragmented_extension;
            (0, PROTO_TCP):      tcp;
            (0, PROTO_UDP):      udp;
            (0, PROTO_ICMPV6):   icmpv6;
            default:             accept;
        }
    }

    state fragmented_extension {
        verify(false, error.FragmentedExtension);
        transition reject;
    }

    // ---- transport

    state tcp {
        verify(meta.l4_bytes >= 20, error.BadLength);
        packet.extract(hdr.tcp);
        meta.summed = meta.whole;
#ifdef STATEFUL
        transport_ends(meta.session, PROTO_TCP, hdr.tcp.src_port, hdr.tcp.dst_port,
                       meta.session.from6 ? hdr.tcp.dst_port : hdr.tcp.src_port);
#endif
        transition select(hdr.tcp.flags, hdr.tcp.data_offset) {
            (0x02 &&& 0x02, 8 &&& 8): tcp_options;      // SYN, 8 to 15 words
            (0x02 &&& 0x02, 6 &&& 6): tcp_options;      // SYN, 6 or 7 words
            default:                  accept;
        }
    }

    // The MSS is the first option in every common stack's SYN.
    state tcp_options {
        verify(meta.l4_bytes >= 24, error.BadLength);
        transition select(packet.lookahead<bit<16>>()) {
            0x0204:  mss;
            default: mss_elsewhere;
        }
    }

    state mss {
        packet.extract(hdr.mss);
        transition accept;
    }

    state mss_elsewhere {
        meta.mss_elsewhere = true;
        transition accept;
    }

    // A length field that differs from the packet's means a sum over other bytes
    // than the payload; 0 means no sum (RFC 768).
    state udp {
        verify(meta.l4_bytes >= 8, error.BadLength);
        packet.extract(hdr.udp);
        meta.summed = meta.whole && hdr.udp.bytes == meta.l4_bytes && hdr.udp.checksum != 0;
#ifdef STATEFUL
        transport_ends(meta.session, PROTO_UDP, hdr.udp.src_port, hdr.udp.dst_port,
                       meta.session.from6 ? hdr.udp.dst_port : hdr.udp.src_port);
#endif
        transition accept;
    }

    // As above, and something of the payload for the IPv4 identification, where
    // there is something.
    state udp_over_ipv6 {
        verify(meta.l4_bytes >= 8, error.BadLength);
        packet.extract(hdr.udp);
        meta.summed = meta.whole && hdr.udp.bytes == meta.l4_bytes && hdr.udp.checksum != 0;
#ifdef STATEFUL
        transport_ends(meta.session, PROTO_UDP, hdr.udp.src_port, hdr.udp.dst_port,
                       meta.session.from6 ? hdr.udp.dst_port : hdr.udp.src_port);
#endif
        transition select(meta.l4_bytes) {
            0 &&& 0xfff0: accept;
            default:      payload_seed;
        }
    }

    state payload_seed {
        bit<64> data = packet.lookahead<bit<64>>();
        meta.seed = data[63:32] ^ data[31:0];
        transition accept;
    }

    // Sequence numbers or checksums of most other transports are in their first
    // twelve bytes (SCTP, ESP, AH, DCCP).
    state other_over_ipv6 {
        transition select(meta.l4_bytes) {
            0 &&& 0xfff8: accept;
            8 &&& 0xfffc: payload_seed;
            default:      transport_seed;
        }
    }

    state transport_seed {
        bit<96> data = packet.lookahead<bit<96>>();
        meta.seed = data[95:64] ^ data[63:32] ^ data[31:0];
        transition accept;
    }

    // The packet inside an error is looked at only where the error is whole.
    state icmpv4 {
        verify(meta.l4_bytes >= ICMP_BYTES, error.BadLength);
        packet.extract(hdr.icmp);
        meta.summed = meta.whole;
#ifdef STATEFUL
        transport_ends(meta.session, PROTO_ICMP, hdr.icmp.rest[31:16], hdr.icmp.rest[31:16], 0);
#endif
        transition select(meta.whole, hdr.icmp.type_) {
            (true, ICMP_UNREACHABLE):       icmpv4_error;
            (true, ICMP_TIME_EXCEEDED):     icmpv4_error;
            (true, ICMP_PARAMETER_PROBLEM): icmpv4_error;
            default:                        accept;
        }
    }

    state icmpv6 {
        verify(meta.l4_bytes >= ICMP_BYTES, error.BadLength);
        packet.extract(hdr.icmp);
        meta.summed = meta.whole;
#ifdef STATEFUL
        transport_ends(meta.session, PROTO_ICMP, hdr.icmp.rest[31:16], hdr.icmp.rest[31:16], 0);
#endif
        transition select(meta.whole, hdr.icmp.type_, meta.l4_bytes) {
            (_, ICMPV6_SOLICITATION, 24):        solicitation;
            (_, ICMPV6_SOLICITATION, 32):        solicitation_with_option;
            (true, ICMPV6_UNREACHABLE, _):       icmpv6_error_with_length;
            (true, ICMPV6_TIME_EXCEEDED, _):     icmpv6_error_with_length;
            (true, ICMPV6_TOO_BIG, _):           icmpv6_error;
            (true, ICMPV6_PARAMETER_PROBLEM, _): icmpv6_error;
            default:                             accept;
        }
    }

    // ---- the packet inside an error, RFC 7915 sections 4.3 and 5.3

    // RFC 4884 section 4.1: the second byte is the length of the original datagram in
    // words of 32 bits. One that exceeds the packet is none.
    state icmpv4_error {
        meta.inner.present = meta.l4_bytes - ICMP_BYTES;
        bit<16> original = ((bit<16>) hdr.icmp.rest[23:16]) << 2;
        meta.inner.original = original <= meta.inner.present ? original : 0;
        meta.inner.present = meta.inner.original != 0 ? meta.inner.original : meta.inner.present;
        verify(meta.inner.present >= IPV4_BYTES, error.BadLength);
        packet.extract(hdr.inner_ipv4);
        verify(hdr.inner_ipv4.version == 4 && hdr.inner_ipv4.ihl >= 5, error.BadHeader);
        bit<16> header_bytes = ((bit<16>) hdr.inner_ipv4.ihl) << 2;
        verify(hdr.inner_ipv4.total_length >= header_bytes && meta.inner.present >= header_bytes, error.BadLength);
        meta.inner.l4_bytes = hdr.inner_ipv4.total_length - header_bytes;
        meta.inner.present = meta.inner.present - header_bytes;
        meta.inner.protocol = hdr.inner_ipv4.protocol;
        meta.inner.skip = ((bit<8>) hdr.inner_ipv4.ihl) - 5;
        meta.inner.skipped = header_bytes - IPV4_BYTES;
        transition select(hdr.inner_ipv4.ihl) {
            5:       inner_ipv4_payload;
            default: inner_option;
        }
    }

    // What is left out of the packet is left out of its error's checksum.
    state inner_option {
        bit<32> word = packet.lookahead<bit<32>>();
        meta.inner.skipped_sum = meta.inner.skipped_sum + (bit<32>) word[31:16] + (bit<32>) word[15:0];
        packet.advance(32);
        meta.inner.skip = meta.inner.skip - 1;
        transition select(meta.inner.skip) {
            0:       inner_ipv4_payload;
            default: inner_option;
        }
    }

    state inner_ipv4_payload {
        transition select(hdr.inner_ipv4.fragment_offset, hdr.inner_ipv4.protocol) {
            (0, PROTO_TCP):  inner_tcp;
            (0, PROTO_UDP):  inner_udp;
            (0, PROTO_ICMP): inner_icmp;
            default:         inner_end;
        }
    }

    // RFC 4884 section 4.4: the first byte, in words of 64 bits.
    state icmpv6_error_with_length {
        bit<16> original = ((bit<16>) hdr.icmp.rest[31:24]) << 3;
        meta.inner.original = original <= meta.l4_bytes - ICMP_BYTES ? original : 0;
        transition icmpv6_error;
    }

    state icmpv6_error {
        meta.inner.present = meta.inner.original != 0 ? meta.inner.original : meta.l4_bytes - ICMP_BYTES;
        verify(meta.inner.present >= IPV6_BYTES, error.BadLength);
        packet.extract(hdr.inner_ipv6);
        verify(hdr.inner_ipv6.version == 6, error.BadHeader);
        meta.inner.present = meta.inner.present - IPV6_BYTES;
        meta.inner.l4_bytes = hdr.inner_ipv6.payload_length;
        meta.inner.protocol = hdr.inner_ipv6.next_header;
        transition inner_ipv6_next;
    }

    state inner_ipv6_next {
        transition select(meta.inner.protocol) {
            PROTO_TCP:      inner_tcp;
            PROTO_UDP:      inner_udp;
            PROTO_ICMPV6:   inner_icmp;
            PROTO_FRAGMENT: inner_fragment;
            PROTO_HOPOPT:   inner_extension;
            PROTO_DSTOPTS:  inner_extension;
            PROTO_ROUTING:  inner_routing;
            default:        inner_end;
        }
    }

    state inner_routing {
        bit<32> routing = packet.lookahead<bit<32>>();
        verify(routing[7:0] == 0, error.InnerRoutingHeader);
        transition inner_extension;
    }

    state inner_extension {
        verify(meta.inner.present >= 8, error.BadLength);
        bit<16> extension = packet.lookahead<bit<16>>();
        bit<16> extension_bytes = (((bit<16>) extension[7:0]) + 1) << 3;
        meta.inner.skipped = meta.inner.skipped + extension_bytes;
        verify(meta.inner.skipped <= MAX_INNER_EXTENSION_BYTES, error.TooManyExtensions);
        verify(extension_bytes <= meta.inner.present && extension_bytes <= meta.inner.l4_bytes, error.BadLength);
        meta.inner.present = meta.inner.present - extension_bytes;
        meta.inner.l4_bytes = meta.inner.l4_bytes - extension_bytes;
        meta.inner.protocol = extension[15:8];
        meta.inner.skip = extension[7:0] + 1;
        transition inner_extension_word;
    }

    state inner_extension_word {
        bit<64> word = packet.lookahead<bit<64>>();
        meta.inner.skipped_sum = meta.inner.skipped_sum + (bit<32>) word[63:48] + (bit<32>) word[47:32]
                                 + (bit<32>) word[31:16] + (bit<32>) word[15:0];
        packet.advance(64);
        meta.inner.skip = meta.inner.skip - 1;
        transition select(meta.inner.skip) {
            0:       inner_ipv6_next;
            default: inner_extension_word;
        }
    }

    state inner_fragment {
        verify(meta.inner.present >= FRAGMENT_BYTES && meta.inner.l4_bytes >= FRAGMENT_BYTES, error.BadLength);
        packet.extract(hdr.inner_fragment);
        meta.inner.present = meta.inner.present - FRAGMENT_BYTES;
        meta.inner.l4_bytes = meta.inner.l4_bytes - FRAGMENT_BYTES;
        meta.inner.protocol = hdr.inner_fragment.next_header;
        transition select(hdr.inner_fragment.fragment_offset, hdr.inner_fragment.next_header) {
            (_, PROTO_HOPOPT):   fragmented_extension;
            (_, PROTO_ROUTING):  fragmented_extension;
            (_, PROTO_FRAGMENT): fragmented_extension;
            (_, PROTO_AH):       fragmented_extension;
            (_, PROTO_DSTOPTS):  fragmented_extension;
            (_, PROTO_MOBILITY): fragmented_extension;
            (_, PROTO_HIP):      fragmented_extension;
            (_, PROTO_SHIM6):    fragmented_extension;
            (0, PROTO_TCP):      inner_tcp;
            (0, PROTO_UDP):      inner_udp;
            (0, PROTO_ICMPV6):   inner_icmp;
            default:             inner_end;
        }
    }

    // An error may end before the checksum does (RFC 792 asks for eight bytes). What
    // is not there needs no change.
    state inner_tcp {
        transition select(meta.inner.present >= 18) {
            true:    inner_tcp_checksum;
            default: inner_end;
        }
    }

    state inner_tcp_checksum {
        packet.extract(hdr.inner_tcp);
        meta.inner.present = meta.inner.present - 18;
        transition inner_end;
    }

    state inner_udp {
        transition select(meta.inner.present >= 8) {
            true:    inner_udp_checksum;
            default: inner_end;
        }
    }

    state inner_udp_checksum {
        packet.extract(hdr.inner_udp);
        meta.inner.present = meta.inner.present - 8;
        transition inner_end;
    }

    state inner_icmp {
        verify(meta.inner.present >= ICMP_BYTES, error.BadLength);
        packet.extract(hdr.inner_icmp);
        meta.inner.present = meta.inner.present - ICMP_BYTES;
        transition inner_end;
    }

    // Where an extension follows, zeros may have to be put before it.
    state inner_end {
        transition select(meta.inner.original != 0 && meta.inner.present <= MAX_ORIGINAL_BYTES) {
            true:    original;
            default: accept;
        }
    }

    state original {
        packet.extract(hdr.original, ((bit<32>) meta.inner.present[15:1]) << 4);
        transition accept;
    }

    // ---- neighbour discovery

    // A solicitation is answered, never passed on: the answer is summed as a whole.
    state solicitation {
        packet.extract(hdr.neighbour);
        meta.summed = false;
        transition accept;
    }

    state solicitation_with_option {
        packet.extract(hdr.neighbour);
        packet.extract(hdr.link_option);
        meta.summed = false;
        transition accept;
    }
}
