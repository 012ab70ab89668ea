// ICMP errors that are made here.
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
    counter(9, CounterType.packets) errors_sent4;
    counter(9, CounterType.packets) errors_sent6;
    counter(1, CounterType.packets) errors_limited;
    // By sender (the address, or the /64) and port of the packet that the error is about.
    meter(1024, MeterType.packets) limits;
    bit<32> factor = 0;

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

    // Which senders share a cell of the meter follows from an odd number that strangers do not know.
    action mix(bit<32> odd) { factor = odd; }
    table mixing {
        actions = { mix; }
        default_action = mix(0x9e3779b1);
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
            (NO_ADDRESS, false):     message(ICMPV6_UNREACHABLE, 3);
            (NO_PROTOCOL, true):     message(ICMP_UNREACHABLE, 2);
            (NO_PORT, true):         message(ICMP_UNREACHABLE, 3);
            (NO_PROTOCOL, false):    message(ICMPV6_UNREACHABLE, 4);
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
        bit<32> mixed = (sender ^ (bit<32>) meta.port) * factor;
        limits.execute_meter((bit<32>) mixed[31:22], color);
    }

    apply {
        if (meta.round == ROUND_DECIDE) { meta.port = INGRESS_PORT; }
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
                sender = hdr.ipv6.src[127:96] ^ hdr.ipv6.src[95:64];
                bytes = hdr.ipv6.payload_length |+| IPV6_BYTES;
                at_most = LOWEST_MTU - IPV6_BYTES - ICMP_BYTES;
            }
            bool for_us = hdr.ethernet.dst[40:40] == 0 && (mac == 0 || hdr.ethernet.dst == mac);
            if (!answerable || !for_us) {
                meta.round = ROUND_SILENT;
            } else {
                bit<8> color;
                mixing.apply();
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
