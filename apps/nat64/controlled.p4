// Stateful NAT64 (RFC 6146): bindings and sessions that a controller writes.
//
// A packet that opens a session leaves as it arrived to the controller (packet-in). The controller writes the session's entries, and sends the
// packet back (packet-out), which then passes like one that has just arrived. So no packet is lost, and hosts wait for one round trip.
//   bib6      an IPv6 host and port, and the IPv4 address and port of the pool that it has
//   bib4      the same by the IPv4 address and port
//   sessions  a binding with a remote host and port. Packets of both directions hit this one entry, so its idle timeout is the session's timer.
//             It has the state of a TCP session; a digest tells the controller of segments that change the state.
// A binding has no timer: the controller removes it with its last session (section 3.1).

// What the controller has decided about a packet that it sends back.
const bit<8> TRANSLATE  = 0;
const bit<8> NO_ROOM    = 1;    // for a binding or a session

// A TCP segment that changes the state of its session (section 3.5.2.2).
struct segment_t {
    bit<32> address;
    bit<16> port;
    bit<32> remote;
    bit<16> remote_port;
    bit<8>  from6;
    bit<8>  flags;
}

// The round of a packet for the controller: it leaves as it arrived, behind what the controller has to know of it.
control Held(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        meta.summed = false;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = (bit<16>) INGRESS_PORT;
        hdr.packet_in.from6 = meta.session.from6 ? 8w1 : 0;
        hdr.packet_in.protocol = meta.session.protocol;
        hdr.packet_in.host = meta.session.from6 ? meta.session.host : 0;
        hdr.packet_in.host_port = meta.session.host_port;
        hdr.packet_in.address = meta.session.from6 ? 0 : meta.session.address;
        hdr.packet_in.port = meta.session.port;
        hdr.packet_in.remote = meta.session.remote;
        hdr.packet_in.remote_port = meta.session.remote_port;
        standard_metadata.egress_spec = CPU_PORT;
        exit;
    }
}

// What the packet says of itself, before its headers are translated.
control Flow(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        meta.session.fragment = hdr.ipv4.isValid()
            ? hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0
            : hdr.fragment.isValid() && (hdr.fragment.more_fragments == 1 || hdr.fragment.fragment_offset != 0);
    }
}

// Gives a translated packet its other address: that of the IPv6 host, or that of the pool. Before it, that address is 0.
control Sessions(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ask() ask;
    Quoted() quoted;
    OwnEnd() own_end;
    bool bound_here = false;
    bit<8> state = 0;

    action icmp_error()       { mark_to_drop(standard_metadata); exit; }
    action fragment()         { mark_to_drop(standard_metadata); exit; }
    action no_ports()         { mark_to_drop(standard_metadata); exit; }
    action no_binding()       { mark_to_drop(standard_metadata); exit; }
    action no_room()          { mark_to_drop(standard_metadata); exit; }
    // The packet is for the controller, as it arrived: a round of its own takes it there.
    action hold() {
        meta.round = ROUND_HOLD;
        resubmit_preserving_field_list(1);
        exit;
    }
    action own_prefix()       { mark_to_drop(standard_metadata); exit; }    // section 3.5: as a source, it is a loop

    // The prefix of the IPv4 side, from which no packet may come.
    table sources {
        key = { meta.session.host: lpm; }
        actions = { own_prefix; hold; }
        const default_action = hold();
        size = 16;
    }

    action bound(bit<32> address, bit<16> port) {
        meta.session.address = address;
        meta.session.port = port;
        bound_here = true;
    }
    table bib6 {
        key = { meta.session.protocol: exact; meta.session.host: exact; meta.session.host_port: exact; }
        actions = { bound; NoAction; }
        const default_action = NoAction();
        size = 131072;
    }

    action taken(bit<128> host, bit<16> host_port) {
        meta.session.host = host;
        meta.session.host_port = host_port;
        bound_here = true;
    }
    table bib4 {
        key = { meta.session.protocol: exact; meta.session.address: exact; meta.session.port: exact; }
        actions = { taken; NoAction; }
        const default_action = NoAction();
        size = 131072;
    }

    // tcp_state is 0 for other protocols.
    action session(bit<128> host, bit<16> host_port, bit<8> tcp_state) {
        meta.session.host = host;
        meta.session.host_port = host_port;
        meta.session.known = true;
        state = tcp_state;
    }
    table sessions {
        key = {
            meta.session.protocol: exact; meta.session.address: exact; meta.session.port: exact;
            meta.session.remote: exact; meta.session.remote_port: exact;
        }
        actions = { session; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = 262144;
    }

    // Tells the controller of a segment that changes the state of its session.
    action segment() {
        digest<segment_t>(1, { meta.session.address, meta.session.port, meta.session.remote, meta.session.remote_port,
                               meta.session.from6 ? 8w1 : 0, hdr.tcp.flags });
    }

    apply {
        bool quotes = hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid();
        bit<16> old_port = meta.session.from6 ? meta.session.host_port : meta.session.port;
        if (quotes) {
            quoted.apply(hdr, meta);
            if (meta.session.protocol == 0) { icmp_error(); }
        } else {
            if (meta.session.fragment) { fragment(); }
            if (!hdr.tcp.isValid() && !hdr.udp.isValid() && !hdr.icmp.isValid()) {
                ask.apply(meta, NO_PROTOCOL, 0);
                no_ports();
            }
            if (meta.verdict == NO_ROOM) {
                if (meta.session.from6) { ask.apply(meta, NO_ADDRESS, 0); }
                no_room();
            }
        }

        // An ICMP error belongs to the binding of the packet that it quotes, so it does not restart the timer of a session.
        meta.session.known = false;
        if (meta.session.from6) {
            if (!quotes) { meta.session.remote = hdr.ipv4.dst; }
            bib6.apply();
        }
        if (!quotes && (bound_here || !meta.session.from6)) { sessions.apply(); }
        if (!meta.session.from6 && !meta.session.known) { bib4.apply(); }
        if (quotes) {
            if (!bound_here) { icmp_error(); }
            // Whoever sends it, an address that leads here (RFC 6791).
            if (meta.session.from6) { hdr.ipv4.src = meta.session.address; } else { hdr.ipv6.dst = meta.session.host; }
            return;
        }

        bool syn = hdr.tcp.flags[1:1] == 1;
        bool fin = hdr.tcp.flags[0:0] == 1;
        bool rst = hdr.tcp.flags[2:2] == 1;
        if (!meta.session.known) {
            if (!meta.session.from6 && !bound_here) { no_binding(); }
            // Only a SYN opens a TCP session. Other segments pass by their binding.
            if (!hdr.tcp.isValid() || syn) {
                sources.apply();
            }
            if (!bound_here) { no_binding(); }
        } else if (hdr.tcp.isValid()) {
            bool from6 = meta.session.from6;
            // The controller's knowledge is ahead of the entry: what follows the segment that it is about to hear of must reach it, too.
            bool opens = (state == V6_INIT && !from6 && syn) || (state == V4_INIT && from6 && syn);
            bool ends = (fin || rst) && (state == V6_INIT || state == V4_INIT || state == ESTABLISHED);
            bool last = fin && ((state == V4_FIN && from6) || (state == V6_FIN && !from6));
            if (opens || ends || last || (state == TRANSITORY && !rst)) {
                segment();
            }
        }
        own_end.apply(hdr, meta, old_port);
    }
}
