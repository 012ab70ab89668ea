// Addresses: RFC 7757 mappings, RFC 6052 prefixes, and those that are never translated.

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
