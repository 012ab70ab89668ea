// Bindings and sessions of stateful NAT64 (RFC 6146), as far as it does not matter who makes them: packets (sessions.p4) or a controller (controlled.p4).

// States of a TCP session (RFC 6146 section 3.5.2.1). A session that is no TCP session stays as it was opened.
const bit<8> V6_INIT = 1;
const bit<8> V4_INIT = 2;
const bit<8> ESTABLISHED = 3;
const bit<8> V4_FIN = 4;
const bit<8> V6_FIN = 5;
const bit<8> BOTH_FIN = 6;
const bit<8> TRANSITORY = 7;

// To what binding or session the packet belongs that an ICMP error quotes: it went the other way. protocol is 0 if it has no ports.
control Quoted(in headers_t hdr, inout metadata_t meta) {
    apply {
        bit<32> ports = 0;
        meta.session.protocol = 0;
        if (hdr.inner_tcp.isValid()) {
            meta.session.protocol = PROTO_TCP;
            ports = hdr.inner_tcp.ports;
        } else if (hdr.inner_udp.isValid()) {
            meta.session.protocol = PROTO_UDP;
            ports = hdr.inner_udp.ports;
        } else if (hdr.inner_icmp.isValid()) {
            meta.session.protocol = PROTO_ICMP;
            ports = hdr.inner_icmp.rest[31:16] ++ (meta.session.from6 ? hdr.inner_icmp.rest[31:16] : 0);
        }
        if (meta.session.from6) {
            meta.session.host = hdr.inner_ipv6.dst;
            meta.session.host_port = ports[15:0];
        } else {
            // An error about a packet of somebody else.
            if (hdr.inner_ipv4.src != meta.session.address) { meta.session.protocol = 0; }
            meta.session.port = ports[31:16];
            meta.session.remote = hdr.inner_ipv4.dst;
            meta.session.remote_port = ports[15:0];
        }
    }
}

// The ports of the packet that an error quotes, and how its checksum changes with them.
control QuotedPorts(inout headers_t hdr, in metadata_t meta, inout bit<32> removed, inout bit<32> added) {
    apply {
        bit<16> old_port = meta.session.from6 ? meta.session.host_port : meta.session.port;
        bit<16> new_port = meta.session.from6 ? meta.session.port : meta.session.host_port;
        if (hdr.inner_icmp.isValid()) { hdr.inner_icmp.rest[31:16] = new_port; }
        else if (meta.session.from6) {
            if (hdr.inner_tcp.isValid()) { hdr.inner_tcp.ports[15:0] = new_port; }
            else if (hdr.inner_udp.isValid()) { hdr.inner_udp.ports[15:0] = new_port; }
        } else {
            if (hdr.inner_tcp.isValid()) { hdr.inner_tcp.ports[31:16] = new_port; }
            else if (hdr.inner_udp.isValid()) { hdr.inner_udp.ports[31:16] = new_port; }
        }
        removed = removed + (bit<32>) old_port;
        added = added + (bit<32>) new_port;
    }
}

// Gives a translated packet its other end: the address and port of the pool, or those of the IPv6 host. Before it, that address is 0, and the port is old_port.
control OwnEnd(inout headers_t hdr, in metadata_t meta, in bit<16> old_port) {
    apply {
        bit<32> removed = (bit<32>) old_port;
        bit<32> added_words = 0;
        bit<16> new_port;
        if (meta.session.from6) {
            new_port = meta.session.port;
            hdr.ipv4.src = meta.session.address;
            if (hdr.tcp.isValid()) { hdr.tcp.src_port = new_port; }
            else if (hdr.udp.isValid()) { hdr.udp.src_port = new_port; }
            added_words = words4(hdr.ipv4.src) + (bit<32>) new_port;
        } else {
            new_port = meta.session.host_port;
            hdr.ipv6.dst = meta.session.host;
            if (hdr.tcp.isValid()) { hdr.tcp.dst_port = new_port; }
            else if (hdr.udp.isValid()) { hdr.udp.dst_port = new_port; }
            added_words = words6(hdr.ipv6.dst) + (bit<32>) new_port;
        }
        if (hdr.icmp.isValid()) {
            hdr.icmp.rest[31:16] = new_port;
            // ICMP over IPv4 has no pseudo-header.
            if (meta.session.from6) { added_words = (bit<32>) new_port; }
        }
        if (!meta.summed) {
            if (hdr.tcp.isValid()) {
                hdr.tcp.checksum = adjusted(hdr.tcp.checksum, removed, added_words);
            } else if (hdr.udp.isValid()) {
                if (hdr.udp.checksum != 0) {
                    hdr.udp.checksum = adjusted(hdr.udp.checksum, removed, added_words);
                    if (hdr.udp.checksum == 0) { hdr.udp.checksum = 0xffff; }
                }
            } else if (hdr.icmp.isValid()) {
                hdr.icmp.checksum = adjusted(hdr.icmp.checksum, removed, added_words);
            }
        }
    }
}
