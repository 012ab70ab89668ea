// Headers and metadata of NAT64, its constants, and the parser's errors.

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
//
// A packet that comes to the device out of a translator of this machine gets no hop
// back, so that one which routes lead round and round ends (port AGAIN). Where nobody
// tells where a packet was before (port BLIND), none is given back to one that goes to
// an address of the prefix: it may be routed to the device again.
const bit<9> LANE        = 1;
const bit<9> DIRECT_LANE = 2;
const bit<9> AGAIN       = 4;
const bit<9> BLIND       = 5;

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
// The packet goes as it arrived to whoever holds packets for a while.
const bit<8> ROUND_HOLD   = 9;

// What an ICMP error is sent for. Action message has its types and codes.
const bit<8> PROHIBITED     = 0;    // RFC 7915 sections 4.4 and 5.4: every other reason
const bit<8> EXPIRED        = 1;
const bit<8> NO_ROUTE       = 2;
const bit<8> TOO_BIG        = 3;
const bit<8> SOURCE_ROUTE   = 4;
const bit<8> ROUTING_HEADER = 5;
const bit<8> NO_ADDRESS     = 6;    // RFC 6146 section 3.5.1.1, RFC 6888 REQ-11: no room for a host
const bit<8> NO_PROTOCOL    = 7;    // RFC 6146 section 3.4: neither TCP, UDP nor ICMP
const bit<8> NO_PORT        = 8;    // RFC 5382 REQ-4: nobody has asked for this connection

// Why the parser gave up, beside the errors of core.p4.
error {
    BadHeader,              // a version or header length that cannot be
    BadLength,              // headers that do not fit the packet's own length
    InnerRoutingHeader,      // segments left, in the packet inside an error
    FragmentedExtension,    // a fragment header followed by an extension header
    TooManyExtensions
}

// ---------------------------------------------------------------- headers

// Where a packet has arrived.
#ifdef CONTROLLED
#define INGRESS_PORT meta.arrived_at
#else
#define INGRESS_PORT standard_metadata.ingress_port
#endif
// Whether that is the device.
#define AT_DEVICE (INGRESS_PORT == meta.settings.device_port || INGRESS_PORT == AGAIN)

#ifdef CONTROLLED
#ifndef CPU_PORT
#define CPU_PORT 510
#endif
const bit<32> RECIRCULATED = 4;     // as BMv2 numbers them
const bit<32> RESUBMITTED = 6;

// A packet that opens a session, on its way to the controller. Of the two ends of the binding, one is known: the host's from IPv6, otherwise the pool's.
@controller_header("packet_in")
header packet_in_h {
    bit<16>  ingress_port;
    bit<8>   from6;
    bit<8>   protocol;
    bit<128> host;
    bit<16>  host_port;
    bit<32>  address;
    bit<16>  port;
    bit<32>  remote;
    bit<16>  remote_port;
}

// The packet on its way back.
@controller_header("packet_out")
header packet_out_h {
    bit<16> ingress_port;   // where it arrived
    bit<8>  verdict;        // TRANSLATE, NO_ROOM
}
#endif

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
#ifdef CONTROLLED
    packet_in_h   packet_in;
    packet_out_h  packet_out;
#endif
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

#ifdef STATEFUL
// The binding and the session of a packet.
struct session_t {
    bool     from6;         // it came from IPv6
    bool     fragment;
    bool     first;         // the fragment has the ports
    bit<32>  identification;
    bool     known;         // a table knows the host
    bool     held;          // the packet was held, and comes back
    bit<8>   protocol;
    bit<128> host;          // of the IPv6 side
    bit<16>  host_port;
    bit<32>  address;       // of the pool
    bit<16>  port;
    bit<32>  remote;        // of the IPv4 side
    bit<16>  remote_port;
}

// What a transport header says. The parser does it, so that native targets know the keys of the lookups of many packets at once. ICMP has the
// identifier of a query as the port of the host. The caller chooses `remote_port`: p4c takes no condition in a function that a parser calls.
void transport_ends(inout session_t session, in bit<8> protocol, in bit<16> source, in bit<16> destination,
                    in bit<16> remote_port) {
    session.protocol = protocol;
    session.host_port = source;         // from IPv6
    session.port = destination;         // from IPv4
    session.remote_port = remote_port;
}
#endif

struct metadata_t {
#ifdef STATEFUL
    session_t session;
#endif
#ifdef CONTROLLED
    @field_list(1) bit<32> front_bytes;     // of the header in front of a frame of the controller
    bit<8>  verdict;                        // of the controller, about a packet that it has sent back
    @field_list(1) bit<9> arrived_at;       // the port where the packet arrived, though it comes from the controller
#endif
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
