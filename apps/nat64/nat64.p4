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
//   Nat64.{four_to_six.hairpin,…}.prefix    no key: the RFC 6052 prefix once more (stateless)
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
//   sum (fragments, Ethernet padding), control Transport applies the change as
//   RFC 1624 does, and the declarations are off (meta.summed is false).

#include <core.p4>
#include <v1model.p4>
#ifdef __STRAIT__
#include <strait.p4>
#endif

#include "headers.p4"
#include "parser.p4"
#include "sums.p4"
#include "addresses.p4"
#ifdef STATEFUL
#include "flows.p4"
#ifdef CONTROLLED
#include "controlled.p4"
#else
#include "sessions.p4"
#endif
#endif
#include "transport.p4"
#include "translation.p4"
#include "switch.p4"
#include "errors.p4"

// ---------------------------------------------------------------- the pipeline

control Nat64(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Own() own;
    FourToSix() four_to_six;
    SixToFour() six_to_four;
    SentErrors() sent;
    Ask() ask;
#ifdef STATEFUL
    Held() held;
    Flow() flow;
    Sessions() sessions;
#endif

    counter(1, CounterType.packets_and_bytes) translated_4to6;
    counter(1, CounterType.packets_and_bytes) translated_6to4;
    counter(1, CounterType.packets_and_bytes) came_again;

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
#ifdef CONTROLLED
        if (hdr.packet_out.isValid()) {
            meta.verdict = hdr.packet_out.verdict;
            hdr.packet_out.setInvalid();
        }
#endif
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
#ifdef STATEFUL
        if (meta.round == ROUND_HOLD) { held.apply(hdr, meta, standard_metadata); }
#endif
        if (meta.round != ROUND_FIRST) { sent.apply(hdr, meta, standard_metadata); }
        if (meta.settings.switching == 1) {
            own.apply(hdr, meta, standard_metadata);
        } else if (INGRESS_PORT == LANE) {
            meta.settings.kernel_hops = meta.settings.kernel_hops >> 1;
            meta.settings.send_errors = 0;
        } else if (INGRESS_PORT == DIRECT_LANE) {
            meta.settings.kernel_hops = 0;
            meta.settings.send_errors = 0;
        } else if (INGRESS_PORT == AGAIN) {
            meta.settings.kernel_hops = 0;
            if (meta.round == ROUND_FIRST) { came_again.count(0); }
        }

        if (hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid()) {
            errors.apply();
        }

#ifdef STATEFUL
        flow.apply(hdr, meta, standard_metadata);
#endif
        bool from4 = hdr.ipv4.isValid();
        if (from4) {
            four_to_six.apply(hdr, meta, standard_metadata);
        } else if (hdr.ipv6.isValid()) {
            six_to_four.apply(hdr, meta, standard_metadata);
        } else {
            not_ip();
        }
#ifdef STATEFUL
        sessions.apply(hdr, meta, standard_metadata);   // for both ways in one place: BMv2 needs that of a table
#endif
        if (from4) {
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
        } else {
            if (meta.settings.switching == 1 && meta.back) {
                standard_metadata.egress_spec = INGRESS_PORT;     // it goes no further than egress
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
#ifdef CONTROLLED
        packet.emit(hdr.packet_in);
#endif
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
