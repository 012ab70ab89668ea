// NAT64, stateless (SIIT): RFC 7915 headers, RFC 6052 and RFC 7757 addresses.
//
// P4-16 for v1model, without anything that p4c and BMv2 do not take. Strait's own are
// the annotation @checksum_nonzero, which others ignore, and fragment_ipv6, which
// stands where __STRAIT__ is defined: elsewhere an IPv4 packet with DF clear that is
// too long for the lowest IPv6 MTU leaves whole, and is counted by over_lowest_mtu.
//
// Modes
//   device   (settings.switching = 0) Every IP packet that arrives is translated
//            and leaves by settings.device_port with its MAC addresses as they
//            were. The kernel around it routes, filters and resolves neighbours.
//   switch   (settings.switching = 1) The program owns its ports: it answers ARP,
//            neighbour solicitations and pings for its own addresses, and routes
//            what it translated to a next hop by route4 and route6.
//
// Tables (README.md has every parameter's formula)
//   Nat64.settings                          no key: the configuration is its default action
//   Nat64.four_to_six.{source,destination}.eam4   lpm IPv4; default: embed_* by RFC 6052
//   Nat64.six_to_four.{source,destination}.eam6   lpm IPv6: RFC 7757 maps and the RFC 6052 prefix
//   Nat64.own.{ports,local4,local6}         switch mode: who we are
//   Nat64.{route4,route6}                   switch mode: next hops
//   Nat64.{four_to_six.hairpin,…}.prefix    no key: the RFC 6052 prefix once more
//   Nat64.errors                            no key: what ICMP errors need
//   Nat64.sent.{sources,limits}             ICMP errors that are sent from here
//   Inside.to_ipv6.{source,destination}.eam4, Inside.to_ipv4.{source,destination}.eam6
//                                           the same for the packet inside an ICMP error
//   The tables for source and destination hold the same entries: a P4 table is
//   applied once, and BMv2 insists on it.
//
// Drops
//   Each reason is an action of its own, named by the reason. Where an ICMP error is to
//   be sent, `Ask` stands before it. The packet then passes the pipeline again, as the
//   section "ICMP errors made here" tells.
//
// Checksums
//   TCP, UDP and ICMP sums are declared (verify before, update after) and Strait
//   derives the incremental change. Where the declared sum is not the packet's own
//   sum (fragments, Ethernet padding), section "By hand" applies the change as
//   RFC 1624 does, and the declarations are off (meta.summed is false).

#include <core.p4>
#include <v1model.p4>
#ifdef __STRAIT__
#include <strait.p4>
#endif

// ---------------------------------------------------------------- constants

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP  = 0x0806;
const bit<16> TYPE_IPV6 = 0x86dd;

const bit<8> PROTO_HOPOPT   = 0;
const bit<8> PROTO_ICMP     = 1;
const bit<8> PROTO_IGMP     = 2;
const bit<8> PROTO_TCP      = 6;
const bit<8> PROTO_UDP      = 17;
const bit<8> PROTO_ROUTING  = 43;
const bit<8> PROTO_FRAGMENT = 44;
const bit<8> PROTO_AH       = 51;
const bit<8> PROTO_ICMPV6   = 58;
const bit<8> PROTO_DSTOPTS  = 60;
const bit<8> PROTO_MOBILITY = 135;
const bit<8> PROTO_HIP      = 139;
const bit<8> PROTO_SHIM6    = 140;

const bit<8> ICMP_ECHO_REPLY        = 0;
const bit<8> ICMP_UNREACHABLE       = 3;
const bit<8> ICMP_ECHO              = 8;
const bit<8> ICMP_TIME_EXCEEDED     = 11;
const bit<8> ICMP_PARAMETER_PROBLEM = 12;

const bit<8> ICMPV6_UNREACHABLE       = 1;
const bit<8> ICMPV6_TOO_BIG           = 2;
const bit<8> ICMPV6_TIME_EXCEEDED     = 3;
const bit<8> ICMPV6_PARAMETER_PROBLEM = 4;
const bit<8> ICMPV6_ECHO              = 128;
const bit<8> ICMPV6_ECHO_REPLY        = 129;
const bit<8> ICMPV6_SOLICITATION      = 135;
const bit<8> ICMPV6_ADVERTISEMENT     = 136;
const bit<8> ICMPV6_REDIRECT          = 137;

// Device mode: the kernel routes packets to the device, and takes two hops for each,
// one before and one behind. It takes one for those that arrive by a lane, and none
// for those that leave a lane directly. What is dropped in a lane goes on to the
// device, which sends the ICMP errors.
const bit<9> LANE        = 1;
const bit<9> DIRECT_LANE = 2;

const bit<32> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES     = 20;
const bit<16> IPV6_BYTES     = 40;
const bit<16> FRAGMENT_BYTES = 8;
const bit<16> ICMP_BYTES     = 8;

// RFC 8200 section 5. ICMPv6 errors are not longer than this (RFC 4443 section 2.4).
const bit<16> LOWEST_MTU       = 1280;
const bit<16> MAX_ICMPV6_BYTES = LOWEST_MTU - IPV6_BYTES;

// RFC 8200 section 4 names no limit; eight headers before the transport are more
// than any honest packet has, and bound the parser.
const bit<8> MAX_EXTENSIONS = 8;

// The same for the packet inside an ICMP error, where they are read to be summed.
const bit<16> MAX_INNER_EXTENSION_BYTES = 64;

// What original_h holds. A longer original datagram is not padded.
const bit<16> MAX_ORIGINAL_BYTES = 256;

// RFC 1812 section 4.3.2.3: an ICMP error has at most 576 bytes.
const bit<16> MAX_ICMP_ERROR = 576;

// Which round of the pipeline a packet is in, of those that an ICMP error needs.
const bit<8> ROUND_FIRST  = 0;
const bit<8> ROUND_SILENT = 1;      // as the first; no error is sent
const bit<8> ROUND_DECIDE = 2;      // may an error be sent?
const bit<8> ROUND_QUOTE  = 3;      // the packet is cut to what an error quotes
const bit<8> ROUND_BUILD  = 4;      // the error's headers are put in front
// And of those that cutting a translated one needs.
const bit<8> ROUND_CUT    = 5;      // it is summed as it is, and cut
const bit<8> ROUND_SUM    = 6;      // it is summed again
// Intrinsic hairpinning: what was translated to IPv4 is translated back.
const bit<8> ROUND_BACK   = 7;
// IPv4 options are read in a second round, when the header with them has been summed.
const bit<8> ROUND_OPTIONS = 8;

// What an ICMP error is sent for. Action message has its types and codes.
const bit<8> PROHIBITED     = 0;    // RFC 7915 sections 4.4 and 5.4: every other reason
const bit<8> EXPIRED        = 1;
const bit<8> NO_ROUTE       = 2;
const bit<8> TOO_BIG        = 3;
const bit<8> SOURCE_ROUTE   = 4;
const bit<8> ROUTING_HEADER = 5;

// Why the parser gave up, beside the errors of core.p4.
error {
    BadHeader,              // a version or header length that cannot be
    BadLength,              // headers that do not fit the packet's own length
    InnerRoutingHeader,      // segments left, in the packet inside an error
    FragmentedExtension,    // a fragment header followed by an extension header
    TooManyExtensions
}

// ---------------------------------------------------------------- headers

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

// RFC 826, for IPv4 over Ethernet.
header arp_h {
    bit<16> hardware;
    bit<16> protocol;
    bit<8>  hardware_bytes;
    bit<8>  protocol_bytes;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender_ip;
    bit<48> target_mac;
    bit<32> target_ip;
}

header ipv4_h {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_length;
    bit<16> identification;
    bit<1>  reserved;
    bit<1>  dont_fragment;
    bit<1>  more_fragments;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_h {
    bit<4>   version;
    bit<8>   traffic_class;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header fragment_h {
    bit<8>  next_header;
    bit<8>  reserved;
    bit<13> fragment_offset;
    bit<2>  reserved2;
    bit<1>  more_fragments;
    bit<32> identification;
}

header tcp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// The maximum segment size, where it is the first option of a SYN.
header mss_h {
    bit<16> kind_and_length;
    bit<16> size;
}

header udp_h {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> bytes;
    @checksum_nonzero
    bit<16> checksum;
}

// ICMP and ICMPv6 begin alike.
header icmp_h {
    bit<8>  type_;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;           // echo: identifier and sequence number
}

// The transport header of a packet inside an ICMP error, as far as the checksum: an
// error may hold no more of it.
header inner_tcp_h {
    bit<32>  ports;
    bit<64>  sequence_and_acknowledgement;
    bit<32>  offset_flags_window;
    bit<16>  checksum;
}

header inner_udp_h {
    bit<32> ports;
    bit<16> bytes;
    bit<16> checksum;
}

// RFC 4884: what is left of the original datagram behind the headers above, where an
// extension follows it, and the zeros between the two.
header original_h {
    varbit<2048> bytes;
}
header zeros4_h {
    bit<32> zeros;
}
header zeros8_h {
    bit<64> zeros;
}
header zeros16_h {
    bit<128> zeros;
}

// RFC 4861: what follows icmp_h in a neighbour solicitation or advertisement.
header neighbour_h {
    bit<128> target;
}

header link_option_h {
    bit<8>  kind;           // 1 source, 2 target link-layer address
    bit<8>  octets;         // length in units of eight bytes
    bit<48> mac;
}

struct headers_t {
    ethernet_h    ethernet;
    arp_h         arp;
    ipv4_h        ipv4;
    ipv6_h        ipv6;
    fragment_h    fragment;
    tcp_h         tcp;
    mss_h         mss;
    udp_h         udp;
    icmp_h        icmp;
    neighbour_h   neighbour;
    link_option_h link_option;
    // The packet inside an ICMP error.
    ipv4_h        inner_ipv4;
    ipv6_h        inner_ipv6;
    fragment_h    inner_fragment;
    inner_tcp_h   inner_tcp;
    inner_udp_h   inner_udp;
    icmp_h        inner_icmp;
    original_h    original;
    zeros4_h      zeros4;
    zeros8_h      zeros8;
    zeros16_h     zeros16;
}

// What `errors` holds.
struct error_settings_t {
    bit<16>  ipv4_mtu;      // of the IPv4 side
    bit<16>  ipv6_mtu;      // of the IPv6 side
    bit<32>  source4;       // RFC 6791: where an error's IPv6 source has no IPv4 address:
    bit<32>  source4_mask;  //   an address of this pool; the mask has its host bits
    bit<128> source6;       // where its IPv4 source has no IPv6 address; 0 is none
}

// What is known of the packet inside an ICMP error.
struct inner_t {
    bit<16> present;        // bytes of it that the error holds, behind the headers parsed so far
    bit<16> l4_bytes;       // bytes behind the last header that translation knows, as it says itself
    bit<8>  protocol;       // what those bytes are
    bit<8>  skip;           // options (32 bits) or extensions (64 bits) still to be skipped
    bit<16> skipped;        // bytes that were skipped
    bit<32> skipped_sum;    // the sum of their words, which the error's checksum has
    bit<16> original;       // RFC 4884: the length of the original datagram in bytes; 0 without one
    bool    may_fragment;   // DF stays clear whatever the length
}

// What `settings` holds. A TOS becomes (tos & keep) | set.
struct settings_t {
    bit<1>  switching;
    bit<9>  device_port;
    bit<8>  keep_tos_4to6;
    bit<8>  set_tos_4to6;
    bit<8>  keep_tos_6to4;
    bit<8>  set_tos_6to4;
    bit<1>  compute_udp_zero;   // 4 to 6, checksum 0: 1 computes it, 0 drops the packet
    bit<16> max_mss;            // greatest MSS in a SYN, either way; 0xffff leaves them alone
    bit<16> lowest_ipv6_mtu;    // RFC 7915 section 4, for IPv4 packets with DF clear
    bit<8>  kernel_hops;        // device mode: hops that the kernel around the device takes
    bit<1>  send_errors;        // packets are answered with ICMP errors made here
    bit<1>  intrinsic;          // hairpinning is intrinsic (RFC 7757 section 4.2.2)
}

struct metadata_t {
    settings_t settings;
    bit<32> padding;        // bytes behind the IP packet in its frame
    bit<16> l4_bytes;       // bytes behind the last header that translation knows
    bit<8>  protocol;       // what those bytes are, as the arriving packet numbers it
    bit<8>  options;        // IPv4 options still to be skipped, in bytes
    bit<32> options_sum;    // the sum of their words
    bool    options_unread; // they have only been summed
    bit<8>  extensions;     // IPv6 extension headers met
    bool    whole;          // no fragment and no padding: the payload is what was sent
    bool    summed;         // the transport checksum is declared, see Verify and Update
    bool    mss_elsewhere;  // a SYN whose first option is not the MSS
    bit<32> seed;           // something of the payload, for the IPv4 identification
    inner_t inner;
    error_settings_t errors;
    bool    dont_fragment;  // 4 to 6: DF, of a packet that is no ICMP error
    bool    source_routed;  // an IPv4 source route that is not used up
    bit<16> segments_left;  // where an IPv6 routing header says that some are left; 0 is nowhere
    bit<16> mtu;            // switch mode: of the next hop
    bool    back;           // to IPv4, for a host with a mapping: it is translated back
    // The ICMP error that is made of the packet.
    @field_list(1) bit<8>  round;
    @field_list(1) bit<8>  reason;
    @field_list(1) bit<32> detail;  // its MTU or pointer
    @field_list(1) bit<16> quoted;  // bytes of the packet that it quotes; of a cut one its own
    @field_list(1) bit<9>  port;    // where the packet came from; where a cut error goes
    bit<16> arrived;        // the sum of an error that is cut, or was
}

// ---------------------------------------------------------------- parser

parser Packet(packet_in packet,
              out headers_t hdr,
              inout metadata_t meta,
              inout standard_metadata_t standard_metadata) {
    state start {
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
        bit<32> frame_bytes = ETHERNET_BYTES + (bit<32>) hdr.ipv4.total_length;
        verify(standard_metadata.packet_length >= frame_bytes, error.PacketTooShort);
        meta.padding = standard_metadata.packet_length - frame_bytes;
        meta.whole = meta.padding == 0 && hdr.ipv4.more_fragments == 0 && hdr.ipv4.fragment_offset == 0;
        meta.protocol = hdr.ipv4.protocol;
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
        bit<32> frame_bytes = ETHERNET_BYTES + 40 + (bit<32>) hdr.ipv6.payload_length;
        verify(standard_metadata.packet_length >= frame_bytes, error.PacketTooShort);
        meta.padding = standard_metadata.packet_length - frame_bytes;
        meta.whole = meta.padding == 0;
        meta.l4_bytes = hdr.ipv6.payload_length;
        meta.protocol = hdr.ipv6.next_header;
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
        transition accept;
    }

    // As above, and something of the payload for the IPv4 identification, where
    // there is something.
    state udp_over_ipv6 {
        verify(meta.l4_bytes >= 8, error.BadLength);
        packet.extract(hdr.udp);
        meta.summed = meta.whole && hdr.udp.bytes == meta.l4_bytes && hdr.udp.checksum != 0;
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

// ---------------------------------------------------------------- addresses

// This network, loopback, link-local, multicast, class E with broadcast. Which of
// them is asked only when it is one.
bool is_special(in bit<32> address) {
    return address[31:24] == 0 || address[31:24] == 127 || address[31:16] == 0xa9fe || address[31:29] == 7;
}

// RFC 6052 section 3.1 with RFC 5735 section 3 (now RFC 6890): what else is not
// global, and so not for the well-known prefix.
bool is_not_global(in bit<32> address) {
    return address[31:24] == 10                     // 10.0.0.0/8
        || address[31:22] == 0x191                  // 100.64.0.0/10
        || address[31:20] == 0xac1                  // 172.16.0.0/12
        || address[31:8] == 0xc00000                // 192.0.0.0/24
        || address[31:8] == 0xc00002                // 192.0.2.0/24
        || address[31:8] == 0xc05863                // 192.88.99.0/24
        || address[31:16] == 0xc0a8                 // 192.168.0.0/16
        || address[31:17] == 0x6309                 // 198.18.0.0/15
        || address[31:8] == 0xc63364                // 198.51.100.0/24
        || address[31:8] == 0xcb0071;               // 203.0.113.0/24
}

// Asks for an ICMP error about the packet: the next round decides. What stands behind
// it drops the packet, and is its reason if no error is sent.
control Ask(inout metadata_t meta, in bit<8> reason, in bit<32> detail) {
    apply {
        if (meta.settings.send_errors == 1 && (meta.round == ROUND_FIRST || meta.round == ROUND_OPTIONS)) {
            meta.round = ROUND_DECIDE;
            meta.reason = reason;
            meta.detail = detail;
            resubmit_preserving_field_list(1);
        }
    }
}

// Drops the packet for an IPv4 address that is never translated. No error is sent for one
// that no router forwards (RFC 1812 section 5.3.7).
control Refuse(in bit<32> address, in bool well_known, inout metadata_t meta, in bool answered,
               inout standard_metadata_t standard_metadata) {
    Ask() ask;
    action unspecified()       { mark_to_drop(standard_metadata); exit; }
    action loopback()          { mark_to_drop(standard_metadata); exit; }
    action link_local()        { mark_to_drop(standard_metadata); exit; }
    action multicast()         { mark_to_drop(standard_metadata); exit; }
    action broadcast()         { mark_to_drop(standard_metadata); exit; }
    action class_e()           { mark_to_drop(standard_metadata); exit; }
    action not_global()        { mark_to_drop(standard_metadata); exit; }

    apply {
        if (is_special(address)) {
            if (address[31:24] == 0) { unspecified(); }
            else if (address[31:24] == 127) { loopback(); }
            else if (address[31:16] == 0xa9fe) { link_local(); }
            else if (address[31:28] == 14) { multicast(); }
            else if (address == 0xffffffff) { broadcast(); }
            else { class_e(); }
        }
        if (well_known && is_not_global(address)) {
            if (answered) { ask.apply(meta, PROHIBITED, 0); }
            not_global();
        }
    }
}

// One IPv4 address becomes an IPv6 address: by the longest explicit mapping, else
// by RFC 6052, which is the table's default action.
//
// An ICMP error's source is translated even if it is none that may send (RFC 7915 section
// 4.1: for trouble-shooting). Where the prefix must not carry it, or there is no prefix, it
// is `spare`, unless that is 0.
//
// answered: for packets that no address is found for, an ICMP error is sent.
control ToIpv6(in bit<32> ipv4, inout bit<128> ipv6, out bool explicit, in bool error_source, in bit<128> spare,
               inout metadata_t meta, in bool answered, inout standard_metadata_t standard_metadata) {
    Refuse() refuse;
    Ask() ask;
    bool well_known = false;
    bool mapped = true;

    action not_mapped() { mark_to_drop(standard_metadata); exit; }

    // No prefix is configured and no mapping fits.
    action no_prefix() { mapped = false; ipv6 = 0; }

    // RFC 6052 section 2.2; bits 64 to 71 are the u octet.
    action embed_32(bit<128> prefix) { ipv6 = prefix[127:96] ++ ipv4 ++ 64w0; }
    action embed_40(bit<128> prefix) { ipv6 = prefix[127:88] ++ ipv4[31:8]  ++ 8w0 ++ ipv4[7:0]  ++ 48w0; }
    action embed_48(bit<128> prefix) { ipv6 = prefix[127:80] ++ ipv4[31:16] ++ 8w0 ++ ipv4[15:0] ++ 40w0; }
    action embed_56(bit<128> prefix) { ipv6 = prefix[127:72] ++ ipv4[31:24] ++ 8w0 ++ ipv4[23:0] ++ 32w0; }
    action embed_64(bit<128> prefix) { ipv6 = prefix[127:64] ++ 8w0 ++ ipv4 ++ 24w0; }
    action embed_96(bit<128> prefix) { ipv6 = prefix[127:32] ++ ipv4; }
    action embed_well_known() {
        ipv6 = 96w0x0064ff9b0000000000000000 ++ ipv4;
        well_known = true;
    }

    // RFC 7757 section 3.3: the suffix follows the IPv6 prefix; zeros follow it.
    // Most maps end at bit 0 on both sides and need no shift.
    action map(bit<128> prefix, bit<32> suffix_mask) {
        ipv6 = prefix | (bit<128>) (ipv4 & suffix_mask);
    }
    action map_shifted(bit<128> prefix, bit<32> suffix_mask, bit<8> shift) {
        ipv6 = prefix | ((bit<128>) (ipv4 & suffix_mask) << shift);
    }

    table eam4 {
        key = { ipv4: lpm; }
        actions = {
            map; map_shifted;
            embed_32; embed_40; embed_48; embed_56; embed_64; embed_96; embed_well_known;
            no_prefix;
        }
        default_action = no_prefix();
        size = 4096;
    }

    apply {
        explicit = eam4.apply().hit;
        if (!error_source) {
            refuse.apply(ipv4, well_known, meta, answered, standard_metadata);
            if (!mapped) {
                if (answered) { ask.apply(meta, PROHIBITED, 0); }
                not_mapped();
            }
        } else if (!mapped || (well_known && (is_special(ipv4) || is_not_global(ipv4)))) {
            if (spare == 0) { not_mapped(); }
            ipv6 = spare;
        }
    }
}

// RFC 7757 section 4.2.1: where both addresses have explicit mappings, the packet comes
// from one mapped host and goes to another, which has met the first by the prefix. The
// default action is that of eam4.
control ByPrefix(in bit<32> ipv4, inout bit<128> ipv6) {
    action embed_32(bit<128> prefix) { ipv6 = prefix[127:96] ++ ipv4 ++ 64w0; }
    action embed_40(bit<128> prefix) { ipv6 = prefix[127:88] ++ ipv4[31:8]  ++ 8w0 ++ ipv4[7:0]  ++ 48w0; }
    action embed_48(bit<128> prefix) { ipv6 = prefix[127:80] ++ ipv4[31:16] ++ 8w0 ++ ipv4[15:0] ++ 40w0; }
    action embed_56(bit<128> prefix) { ipv6 = prefix[127:72] ++ ipv4[31:24] ++ 8w0 ++ ipv4[23:0] ++ 32w0; }
    action embed_64(bit<128> prefix) { ipv6 = prefix[127:64] ++ 8w0 ++ ipv4 ++ 24w0; }
    action embed_96(bit<128> prefix) { ipv6 = prefix[127:32] ++ ipv4; }
    action no_prefix() { }

    table prefix {
        actions = { embed_32; embed_40; embed_48; embed_56; embed_64; embed_96; no_prefix; }
        default_action = no_prefix();
    }

    apply { prefix.apply(); }
}

// One IPv6 address becomes an IPv4 address. The RFC 6052 prefix is an entry beside
// the mappings; where a mapping covers that prefix, the control plane leaves it out,
// since mappings are tried first.
//
// An ICMP error's source that has no IPv4 address is an address of a pool (RFC 6791),
// always the same for one source.
control ToIpv4(in bit<128> ipv6, inout bit<32> ipv4, out bool by_prefix, in bool error_source, in bit<32> pool, in bit<32> pool_mask,
               inout metadata_t meta, in bool answered, inout standard_metadata_t standard_metadata) {
    Refuse() refuse;
    Ask() ask;
    bool well_known = false;

    action not_mapped()      { mark_to_drop(standard_metadata); exit; }
    action unspecified_ipv6() { mark_to_drop(standard_metadata); exit; }
    action loopback_ipv6()   { mark_to_drop(standard_metadata); exit; }
    action link_local_ipv6() { mark_to_drop(standard_metadata); exit; }
    action multicast_ipv6()  { mark_to_drop(standard_metadata); exit; }

    // RFC 6052 section 2.3: the u octet and the suffix are not looked at.
    action extract_32() { ipv4 = ipv6[95:64]; by_prefix = true; }
    action extract_40() { ipv4 = ipv6[87:64] ++ ipv6[55:48]; by_prefix = true; }
    action extract_48() { ipv4 = ipv6[79:64] ++ ipv6[55:40]; by_prefix = true; }
    action extract_56() { ipv4 = ipv6[71:64] ++ ipv6[55:32]; by_prefix = true; }
    action extract_64() { ipv4 = ipv6[55:24]; by_prefix = true; }
    action extract_96() { ipv4 = ipv6[31:0]; by_prefix = true; }
    action extract_well_known() {
        ipv4 = ipv6[31:0];
        by_prefix = true;
        well_known = true;
    }

    // RFC 7757 section 3.3: bits behind the IPv4 suffix are ignored.
    action map(bit<32> prefix, bit<32> suffix_mask) {
        ipv4 = prefix | (ipv6[31:0] & suffix_mask);
    }
    action map_shifted(bit<32> prefix, bit<32> suffix_mask, bit<8> shift) {
        ipv4 = prefix | ((bit<32>) (ipv6 >> shift) & suffix_mask);
    }

    table eam6 {
        key = { ipv6: lpm; }
        actions = {
            map; map_shifted;
            extract_32; extract_40; extract_48; extract_56; extract_64; extract_96; extract_well_known;
            NoAction;
        }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        ipv4 = 0;
        by_prefix = false;
        if (!eam6.apply().hit) {
            if (ipv6[127:120] == 0xff) { multicast_ipv6(); }
            else if (ipv6[127:118] == 0x3fa) { link_local_ipv6(); }
            else if (ipv6 == 0) { unspecified_ipv6(); }
            else if (ipv6 == 1) { loopback_ipv6(); }
            else if (!error_source) {
                if (answered) { ask.apply(meta, PROHIBITED, 0); }
                not_mapped();
            }
            bit<32> mixed = (ipv6[127:96] ^ ipv6[95:64] ^ ipv6[63:32] ^ ipv6[31:0]) * 0x9e3779b1;
            ipv4 = pool | ((mixed ^ (mixed >> 16)) & pool_mask);
        } else {
            refuse.apply(ipv4, well_known, meta, answered, standard_metadata);
        }
    }
}

// RFC 7757 section 4.2.2: whether an IPv4 address that the prefix has led to is that of a
// mapped IPv6 host. The keys are those of eam4. An error goes to the source of the packet
// inside it, by which the RFC decides.
control Intrinsic(in bit<32> ipv4, out bool yes) {
    table mapped {
        key = { ipv4: lpm; }
        actions = { NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    apply { yes = mapped.apply().hit; }
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
    ToIpv6() source;
    ToIpv6() destination;
    ByPrefix() hairpin;
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

        bool explicit_source;
        bool explicit_destination;
        hdr.inner_ipv6.setValid();
        source.apply(hdr.inner_ipv4.src, hdr.inner_ipv6.src, explicit_source, false, 0, meta, false, standard_metadata);
        destination.apply(hdr.inner_ipv4.dst, hdr.inner_ipv6.dst, explicit_destination, false, 0, meta, false,
                          standard_metadata);
        if (explicit_source && explicit_destination) {
            hairpin.apply(hdr.inner_ipv4.dst, hdr.inner_ipv6.dst);
        }

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
    ToIpv4() destination;
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
        destination.apply(hdr.inner_ipv6.dst, hdr.inner_ipv4.dst, by_prefix, false, 0, 0, meta, false, standard_metadata);

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
        } else if (meta.inner.protocol == PROTO_ICMP || meta.inner.protocol == PROTO_IGMP) {
            inner_not_translated();
        }
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

// ---------------------------------------------------------------- IPv4 to IPv6

control FourToSix(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ToIpv6() source;
    ToIpv6() destination;
    ByPrefix() hairpin;
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

        // Protocols that mean something else, or a header, to IPv6. IGMP never leaves
        // its link (RFC 7915 section 4.2).
        if (hdr.ipv4.protocol == PROTO_IGMP || hdr.ipv4.protocol == PROTO_ICMPV6
            || hdr.ipv4.protocol == PROTO_HOPOPT || hdr.ipv4.protocol == PROTO_ROUTING
            || hdr.ipv4.protocol == PROTO_FRAGMENT || hdr.ipv4.protocol == PROTO_DSTOPTS) {
            ask.apply(meta, PROHIBITED, 0);
            protocol_not_translated();
        }
        if (hdr.ipv4.protocol == PROTO_ICMP && fragmented) { icmp_fragment(); }
        // A payload that a fragment header would push beyond 65535 bytes.
        if (fragmented && meta.l4_bytes > 65527) { too_big(); }

        bool explicit_source;
        bool explicit_destination;
        hdr.ipv6.setValid();
        source.apply(hdr.ipv4.src, hdr.ipv6.src, explicit_source, hdr.inner_ipv4.isValid(), meta.errors.source6,
                     meta, true, standard_metadata);
        destination.apply(hdr.ipv4.dst, hdr.ipv6.dst, explicit_destination, false, 0, meta, true, standard_metadata);
        // An error that another host than the one complained about has made is no hairpin.
        if (explicit_source && explicit_destination
            && (!hdr.inner_ipv4.isValid() || hdr.ipv4.src == hdr.inner_ipv4.dst)) {
            hairpin.apply(hdr.ipv4.src, hdr.ipv6.src);
        }

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
    ToIpv4() source;
    ToIpv4() destination;
    Intrinsic() intrinsic;
    Transport() transport;
    Ask() ask;

    action hop_limit_expired()        { mark_to_drop(standard_metadata); exit; }
    action ipv6_routing_header()      { mark_to_drop(standard_metadata); exit; }
    action too_big()                  { mark_to_drop(standard_metadata); exit; }
    action protocol_not_translated()  { mark_to_drop(standard_metadata); exit; }
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
        if (meta.protocol == PROTO_ICMP || meta.protocol == PROTO_IGMP) {
            ask.apply(meta, PROHIBITED, 0);
            protocol_not_translated();
        }
        if (meta.protocol == PROTO_ICMPV6 && fragmented) { icmp_fragment(); }
        if (meta.l4_bytes > 65535 - IPV4_BYTES) { too_big(); }

        hdr.ipv4.setValid();
        bool source_by_prefix;
        bool destination_by_prefix;
        source.apply(hdr.ipv6.src, hdr.ipv4.src, source_by_prefix, hdr.inner_ipv6.isValid(), meta.errors.source4,
                     meta.errors.source4_mask, meta, true, standard_metadata);
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

// ---------------------------------------------------------------- the switch's own addresses
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
        key = { standard_metadata.ingress_port: exact; }
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
        standard_metadata.egress_spec = standard_metadata.ingress_port;
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

// ---------------------------------------------------------------- ICMP errors made here
//
// A packet that asked for an ICMP error passes the pipeline three times more:
//   DECIDE  parsed as it was in the first round. Is one allowed (RFC 1812 section 4.3.2.7,
//           RFC 4443 section 2.4)? If none is, the translation drops the packet as before.
//   QUOTE   behind Ethernet all is payload, options and extension headers too; egress
//           cuts it to what an error may quote.
//   BUILD   the headers of the error are put in front, and the sum is that of the whole.
// The first two are resubmissions, since only those leave the packet as it arrived.
//
// A translated error that is to be cut passes it twice more: CUT, where egress cuts it,
// and SUM, where the rest is summed.

control SentErrors(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<48> mac = 0;
    bit<32> source4 = 0;
    bit<128> source6 = 0;
    // By what the error is sent for.
    counter(6, CounterType.packets) errors_sent4;
    counter(6, CounterType.packets) errors_sent6;
    counter(1, CounterType.packets) errors_limited;
    // By sender and port of the packet that the error is about.
    meter(1024, MeterType.packets) limits;

    // Who sends the errors about packets of this port. An address of 0: nobody. Packets
    // whose destination is not the port's MAC address are for somebody else; 0: the
    // kernel has seen to that.
    action source(bit<48> port_mac, bit<32> ipv4, bit<128> ipv6) {
        mac = port_mac;
        source4 = ipv4;
        source6 = ipv6;
    }
    table sources {
        key = { meta.port: exact; }
        actions = { source; }
        default_action = source(0, 0, 0);
        size = 512;
    }

    // Not about an error, nor a later fragment, nor to or from a group. Whether ICMP's
    // other types are errors, nobody knows.
    action answerable4(out bool yes) {
        yes = hdr.ipv4.fragment_offset == 0 && source4 != 0
            && !is_special(hdr.ipv4.src) && hdr.ipv4.dst[31:29] != 7
            && (hdr.ipv4.protocol != PROTO_ICMP
                || (hdr.icmp.isValid()
                    && (hdr.icmp.type_ == ICMP_ECHO || hdr.icmp.type_ == ICMP_ECHO_REPLY
                        || (hdr.icmp.type_ >= 13 && hdr.icmp.type_ <= 18))));
    }

    // The types of errors are below 128, but for redirects. RFC 7915 section 5.4 excepts
    // all of ICMPv6.
    action answerable6(out bool yes) {
        yes = (!hdr.fragment.isValid() || hdr.fragment.fragment_offset == 0) && source6 != 0
            && hdr.ipv6.src[127:1] != 0 && hdr.ipv6.src[127:120] != 0xff && hdr.ipv6.dst[127:120] != 0xff
            && (meta.protocol != PROTO_ICMPV6
                || (hdr.icmp.isValid() && meta.reason != PROHIBITED
                    && hdr.icmp.type_ >= ICMPV6_ECHO && hdr.icmp.type_ != ICMPV6_REDIRECT));
    }

    action message(bit<8> type_, bit<8> code) {
        hdr.icmp.type_ = type_;
        hdr.icmp.code = code;
    }
    table messages {
        key = { meta.reason: exact; hdr.inner_ipv4.isValid(): exact; }
        actions = { message; }
        const default_action = message(ICMPV6_UNREACHABLE, 1);
        const entries = {
            (PROHIBITED, true):      message(ICMP_UNREACHABLE, 13);
            (EXPIRED, true):         message(ICMP_TIME_EXCEEDED, 0);
            (NO_ROUTE, true):        message(ICMP_UNREACHABLE, 0);
            (TOO_BIG, true):         message(ICMP_UNREACHABLE, 4);
            (SOURCE_ROUTE, true):    message(ICMP_UNREACHABLE, 5);
            (PROHIBITED, false):     message(ICMPV6_UNREACHABLE, 1);
            (EXPIRED, false):        message(ICMPV6_TIME_EXCEEDED, 0);
            (NO_ROUTE, false):       message(ICMPV6_UNREACHABLE, 0);
            (TOO_BIG, false):        message(ICMPV6_TOO_BIG, 0);
            (ROUTING_HEADER, false): message(ICMPV6_PARAMETER_PROBLEM, 0);
        }
    }

    // RFC 1812 section 4.3.2.5: precedence 6, and the rest of the packet's TOS. DF is set: there
    // is no identification.
    action build4() {
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.tos = 0xc0 | (hdr.inner_ipv4.tos & 0x1e);
        hdr.ipv4.total_length = meta.l4_bytes + IPV4_BYTES;
        hdr.ipv4.identification = 0;
        hdr.ipv4.reserved = 0;
        hdr.ipv4.dont_fragment = 1;
        hdr.ipv4.more_fragments = 0;
        hdr.ipv4.fragment_offset = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = PROTO_ICMP;
        hdr.ipv4.src = source4;
        hdr.ipv4.dst = hdr.inner_ipv4.src;
    }

    action build6() {
        hdr.ipv6.setValid();
        hdr.ipv6.version = 6;
        hdr.ipv6.traffic_class = 0;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_length = meta.l4_bytes;
        hdr.ipv6.next_header = PROTO_ICMPV6;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.src = source6;
        hdr.ipv6.dst = hdr.inner_ipv6.src;
    }

    // A token bucket by sender and port, of which senders may share one.
    action limit(in bit<32> sender, out bit<8> color) {
        bit<32> mixed = (sender ^ (bit<32>) meta.port) * 0x9e3779b1;
        limits.execute_meter((bit<32>) mixed[31:22], color);
    }

    apply {
        if (meta.round == ROUND_DECIDE) { meta.port = standard_metadata.ingress_port; }
        if (meta.round == ROUND_DECIDE || meta.round == ROUND_BUILD) { sources.apply(); }

        if (meta.round == ROUND_DECIDE) {
            bool answerable = false;
            bit<32> sender = 0;
            bit<16> bytes = 0;
            bit<16> at_most = 0;
            if (hdr.ipv4.isValid()) {
                answerable4(answerable);
                sender = hdr.ipv4.src;
                bytes = hdr.ipv4.total_length;
                at_most = MAX_ICMP_ERROR - IPV4_BYTES - ICMP_BYTES;
            } else {
                answerable6(answerable);
                sender = hdr.ipv6.src[127:96] ^ hdr.ipv6.src[95:64] ^ hdr.ipv6.src[63:32] ^ hdr.ipv6.src[31:0];
                bytes = hdr.ipv6.payload_length |+| IPV6_BYTES;
                at_most = LOWEST_MTU - IPV6_BYTES - ICMP_BYTES;
            }
            bool for_us = hdr.ethernet.dst[40:40] == 0 && (mac == 0 || hdr.ethernet.dst == mac);
            if (!answerable || !for_us) {
                meta.round = ROUND_SILENT;
            } else {
                bit<8> color;
                limit(sender, color);
                if (color != 0) {
                    errors_limited.count(0);
                    meta.round = ROUND_SILENT;
                } else {
                    meta.quoted = bytes;
                    if (bytes > at_most) { meta.quoted = at_most; }
                    meta.round = ROUND_QUOTE;
                    resubmit_preserving_field_list(1);
                    exit;
                }
            }
        } else if (meta.round == ROUND_QUOTE) {
            standard_metadata.egress_spec = meta.port;      // it goes no further than egress
            exit;
        } else if (meta.round == ROUND_CUT || meta.round == ROUND_SUM) {
            // A sum over the sum: 0 if it is right. That is what arrives in the second of
            // these rounds: a wrong one stays wrong by as much.
            meta.arrived = hdr.icmp.checksum;
            meta.summed = true;
            standard_metadata.egress_spec = meta.port;
            exit;
        } else if (meta.round == ROUND_BUILD) {
            meta.l4_bytes = meta.quoted + ICMP_BYTES;
            hdr.icmp.setValid();
            hdr.icmp.rest = meta.detail;
            meta.summed = true;
            messages.apply();
            if (hdr.inner_ipv4.isValid()) {
                build4();
                errors_sent4.count((bit<32>) meta.reason);
            } else {
                build6();
                errors_sent6.count((bit<32>) meta.reason);
            }
            if (mac != 0) {
                hdr.ethernet.dst = hdr.ethernet.src;
                hdr.ethernet.src = mac;
            }
            standard_metadata.egress_spec = meta.settings.device_port;
            if (meta.settings.switching == 1) { standard_metadata.egress_spec = meta.port; }
            exit;
        }
    }
}

// ---------------------------------------------------------------- the pipeline

control Nat64(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Own() own;
    FourToSix() four_to_six;
    SixToFour() six_to_four;
    SentErrors() sent;
    Ask() ask;

    counter(1, CounterType.packets_and_bytes) translated_4to6;
    counter(1, CounterType.packets_and_bytes) translated_6to4;

    action truncated()            { mark_to_drop(standard_metadata); exit; }
    action inner_routing_header() { mark_to_drop(standard_metadata); exit; }
    action fragmented_extension() { mark_to_drop(standard_metadata); exit; }
    action too_many_extensions()  { mark_to_drop(standard_metadata); exit; }
    action malformed()            { mark_to_drop(standard_metadata); exit; }
    action bad_options_checksum() { mark_to_drop(standard_metadata); exit; }
    action not_ip()               { mark_to_drop(standard_metadata); exit; }
    action no_route()             { mark_to_drop(standard_metadata); exit; }
    action too_big()              { mark_to_drop(standard_metadata); exit; }

    action configure(bit<1> switching, bit<9> device_port,
                     bit<8> keep_tos_4to6, bit<8> set_tos_4to6, bit<8> keep_tos_6to4, bit<8> set_tos_6to4,
                     bit<1> compute_udp_zero, bit<16> max_mss, bit<16> lowest_ipv6_mtu, bit<8> kernel_hops,
                     bit<1> send_errors, bit<1> intrinsic) {
        meta.settings.switching = switching;
        meta.settings.device_port = device_port;
        meta.settings.keep_tos_4to6 = keep_tos_4to6;
        meta.settings.set_tos_4to6 = set_tos_4to6;
        meta.settings.keep_tos_6to4 = keep_tos_6to4;
        meta.settings.set_tos_6to4 = set_tos_6to4;
        meta.settings.compute_udp_zero = compute_udp_zero;
        meta.settings.max_mss = max_mss;
        meta.settings.lowest_ipv6_mtu = lowest_ipv6_mtu;
        meta.settings.kernel_hops = kernel_hops;
        meta.settings.send_errors = send_errors;
        meta.settings.intrinsic = intrinsic;
    }

    action configure_errors(bit<16> ipv4_mtu, bit<16> ipv6_mtu, bit<32> source4, bit<32> source4_mask, bit<128> source6) {
        meta.errors.ipv4_mtu = ipv4_mtu;
        meta.errors.ipv6_mtu = ipv6_mtu;
        meta.errors.source4 = source4;
        meta.errors.source4_mask = source4_mask;
        meta.errors.source6 = source6;
    }

    // 192.0.0.8 is the dummy address of RFC 7600.
    table errors {
        actions = { configure_errors; }
        default_action = configure_errors(0xffff, 0xffff, 0xc0000008, 0, 0);
    }

    table settings {
        actions = { configure; }
        default_action = configure(0, 0, 0xff, 0, 0xff, 0, 1, 1440, 1280, 0, 0, 0);
    }

    // mtu: the greatest IP packet that may leave by it.
    action next_hop(bit<9> port, bit<48> src_mac, bit<48> dst_mac, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.mtu = mtu;
        hdr.ethernet.src = src_mac;
        hdr.ethernet.dst = dst_mac;
    }

    table route4 {
        key = { hdr.ipv4.dst: lpm; }
        actions = { next_hop; no_route; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    table route6 {
        key = { hdr.ipv6.dst: lpm; }
        actions = { next_hop; no_route; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError) {
            if (standard_metadata.parser_error == error.PacketTooShort) { truncated(); }
            else if (standard_metadata.parser_error == error.InnerRoutingHeader) { inner_routing_header(); }
            else if (standard_metadata.parser_error == error.FragmentedExtension) { fragmented_extension(); }
            else if (standard_metadata.parser_error == error.TooManyExtensions) { too_many_extensions(); }
            else { malformed(); }
        }

        if (meta.options_unread) {
            if (folded((bit<32>) header_sum(hdr.ipv4) + meta.options_sum) != 0xffff) { bad_options_checksum(); }
            meta.round = ROUND_OPTIONS;
            resubmit_preserving_field_list(1);
            exit;
        }

        settings.apply();
        if (meta.round != ROUND_FIRST) { sent.apply(hdr, meta, standard_metadata); }
        if (meta.settings.switching == 1) {
            own.apply(hdr, meta, standard_metadata);
        } else if (standard_metadata.ingress_port == LANE) {
            meta.settings.kernel_hops = meta.settings.kernel_hops >> 1;
            meta.settings.send_errors = 0;
        } else if (standard_metadata.ingress_port == DIRECT_LANE) {
            meta.settings.kernel_hops = 0;
            meta.settings.send_errors = 0;
        }

        if (hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid()) {
            errors.apply();
        }

        if (hdr.ipv4.isValid()) {
            four_to_six.apply(hdr, meta, standard_metadata);
            if (meta.settings.switching == 1) {
                if (!route6.apply().hit) {
                    ask.apply(meta, NO_ROUTE, 0);
                    no_route();
                }
                // What may be fragmented is as long as a fragment may be.
                if (meta.dont_fragment && (bit<32>) hdr.ipv6.payload_length + 40 > (bit<32>) meta.mtu) {
                    ask.apply(meta, TOO_BIG, (bit<32>) (meta.mtu |-| (hdr.fragment.isValid() ? 16w28 : 20)));
                    too_big();
                }
            }
            if (!hdr.inner_ipv4.isValid()) { translated_4to6.count(0); }
        } else if (hdr.ipv6.isValid()) {
            six_to_four.apply(hdr, meta, standard_metadata);
            if (meta.settings.switching == 1 && meta.back) {
                standard_metadata.egress_spec = standard_metadata.ingress_port;     // it goes no further than egress
            } else if (meta.settings.switching == 1) {
                if (!route4.apply().hit) {
                    ask.apply(meta, NO_ROUTE, 0);
                    no_route();
                }
                // Nothing is fragmented here: DF is set, or the sender fragments.
                if (hdr.ipv4.total_length > meta.mtu && !hdr.inner_ipv6.isValid()) {
                    ask.apply(meta, TOO_BIG, (bit<32>) (meta.mtu < LOWEST_MTU - 20 ? LOWEST_MTU : meta.mtu |+| 20));
                    too_big();
                }
            }
            if (!hdr.inner_ipv6.isValid()) { translated_6to4.count(0); }
        } else {
            not_ip();
        }
        if (meta.settings.switching == 0) { standard_metadata.egress_spec = meta.settings.device_port; }
    }
}

// ---------------------------------------------------------------- egress: the packet inside an ICMP error

control Inside(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    ErrorToIpv6() to_ipv6;
    ErrorToIpv4() to_ipv4;
    counter(1, CounterType.packets_and_bytes) errors_4to6;
    counter(1, CounterType.packets_and_bytes) errors_6to4;

    apply {
        if (meta.round == ROUND_QUOTE) {
            truncate(ETHERNET_BYTES + (bit<32>) meta.quoted);
            meta.round = ROUND_BUILD;
            recirculate_preserving_field_list(1);
        } else if (meta.round == ROUND_CUT) {
            hdr.ipv6.payload_length = meta.quoted;
            truncate(ETHERNET_BYTES + (bit<32>) IPV6_BYTES + (bit<32>) meta.quoted);
            meta.round = ROUND_SUM;
            recirculate_preserving_field_list(1);
        } else if (meta.round == ROUND_BUILD) {
            // What it quotes is for the sender of the packet, as he sent it.
        } else if (hdr.inner_ipv4.isValid()) {
            to_ipv6.apply(hdr, meta, standard_metadata);
            hdr.ipv6.payload_length = meta.l4_bytes;
            errors_4to6.count(0);
        } else if (hdr.inner_ipv6.isValid()) {
            to_ipv4.apply(hdr, meta, standard_metadata);
            hdr.ipv4.total_length = meta.l4_bytes + IPV4_BYTES;
            if (hdr.ipv4.total_length > 1260 && !meta.inner.may_fragment) { hdr.ipv4.dont_fragment = 1; }
            errors_6to4.count(0);
        }
        if (meta.back) {
            meta.round = ROUND_BACK;
            recirculate_preserving_field_list(1);
        }
    }
}

// ---------------------------------------------------------------- deparser

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.fragment);
        packet.emit(hdr.tcp);
        packet.emit(hdr.mss);
        packet.emit(hdr.udp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.neighbour);
        packet.emit(hdr.link_option);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_fragment);
        packet.emit(hdr.inner_tcp);
        packet.emit(hdr.inner_udp);
        packet.emit(hdr.inner_icmp);
        packet.emit(hdr.original);
        packet.emit(hdr.zeros4);
        packet.emit(hdr.zeros8);
        packet.emit(hdr.zeros16);
    }
}

V1Switch(Packet(), Verify(), Nat64(), Inside(), Update(), Deparse()) main;
