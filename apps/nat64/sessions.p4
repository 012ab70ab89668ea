// Stateful NAT64 (RFC 6146): bindings and sessions, which the dataplane learns itself.
//
// Three tables learn:
//   bib4      an IPv4 address and port of the pool, and the IPv6 host that has it. It is the allocator: a host has
//             the first of its candidates for which the table takes an entry, so no two hosts have one.
//   bib6      the same, by the IPv6 host and port
//   sessions  a binding with a remote host and port. A packet from IPv4 that belongs to a session needs no other
//             lookup, one from IPv6 needs bib6 before it.
// Some hosts have an address of the IPv4 side for themselves (hosts4, hosts6): of their packets only addresses are translated, so every protocol
// passes, and there are no sessions.
// The candidates are a keyed function of the host's address and port, so nobody outside can predict them (RFC 6056),
// and a second router with the same key proposes the same ones. A host's address depends on its own address only
// (RFC 4787 REQ-2), and its port has the range of its own (REQ-3, RFC 6146 section 3.5.1.1), for UDP with the parity (RFC 4787 REQ-4).
//
// Two processors
//   Packets of one host may come to two processors at once. Each looks up, finds nothing, and adds; one of them is refused. So whoever is refused
//   looks again before it says that a table is full. A port that a packet has claimed for nothing is given back.
//
// Shares
//   No subscriber takes all sessions, or all bindings (RFC 6888 REQ-3, REQ-4); a subscriber is a prefix of hosts. What comes from IPv4 for a
//   binding makes sessions only as long as those are fewer than a share of their own: other packets pass by their binding, and leave no
//   session. Packets count up, which two processors may do at once, and sampled; the process that removes sessions counts them once a second,
//   and corrects it.
//
// Lifetimes
//   Sessions have the timers of RFC 6146. A session that has packets restarts the timers of its binding every TOUCH
//   seconds at the latest, so those must be longer than a session's by that; they are profiles of their own. The binding's
//   timer is the long one of TCP as long as it has an established connection: bib4 counts them. The entry of bib4 lives
//   a bit longer than that of bib6, so that no other host gets a port whose host still has it.

// Expire profiles of sessions, and of bindings.
const bit<8> SESSION_UDP  = 0;
const bit<8> SESSION_ICMP = 1;
const bit<8> SESSION_TRANSITORY  = 2;      // TCP_TRANS of RFC 5382
const bit<8> SESSION_ESTABLISHED = 3;      // TCP_EST
const bit<8> FRAGMENTS = 4;                // how long later fragments follow the first one (FRAGMENT_MIN is 2 seconds)
const bit<8> GIVEN_BACK = 5;               // at once
const bit<8> BINDING = 8;                  // added to the profile of its sessions
const bit<8> OWNER   = 16;                 // added for the entry of a port, which must not end before that of its host
const bit<8> KEEP    = 0xff;               // the timer goes on

// A state of a TCP session beside those of flows.p4: it began elsewhere, and nobody has answered yet.
const bit<8> ADOPTED = 8;

// What happens to a binding.
const bit<8> LEAVE = 0;
const bit<8> RESTART = 1;
const bit<8> ESTABLISH = 2;     // one established connection more
const bit<8> CLOSE = 3;         // one less

// Seconds of 2^20 microseconds.
const bit<24> TOUCH = 16;

// Packets that cannot be translated yet are held by a process, if there is one: fragments before the first one of their packet for some
// milliseconds, and SYNs that nobody has asked for for six seconds (RFC 5382 REQ-4). They leave by this port, as they arrived, and come back
// through the device from this address.
const bit<9>  HOLDER = 3;
const bit<48> HOLDER_MAC = 0x025354484f4c;

// Candidates of a host for a new binding, and the ports of the largest block, all of which are candidates.
const bit<8> CANDIDATES = 16;
const bit<32> LARGEST_BLOCK = 32768;

// What pool a host has: none, one whose ports hosts share, or a block of its own.
const bit<8> NO_POOL = 0;
const bit<8> SHARED = 1;
const bit<8> BLOCK = 2;

// What is done to a port: nothing, it is claimed for a host, or what was claimed is given back.
const bit<8> NO_CLAIM = 0;
const bit<8> CLAIM = 1;
const bit<8> GIVE_BACK = 2;

// Cells of subscribers: some have one in common, and the one that has most is counted.
const bit<32> SUBSCRIBERS = 4096;
// Where shares are large, one packet in so many is counted, as so many.
const bit<24> SAMPLE = 16;

// The value of a limit that is none.
const bit<24> NO_LIMIT = 0;

// What is reported of the bindings and sessions that packets make.
const bit<2> LOG_BINDINGS = 1;
const bit<2> LOG_SESSIONS = 2;

// A report. One of a binding has no remote address.
struct report_t {
    bit<8>   protocol;
    bit<128> host;
    bit<16>  host_port;
    bit<32>  address;
    bit<16>  port;
    bit<32>  remote;
    bit<16>  remote_port;
}

// SipHash (Aumasson and Bernstein 2012), one round.
void sip_round(inout bit<64> a, inout bit<64> b, inout bit<64> c, inout bit<64> d) {
    a = a + b;
    b = (b << 13 | b >> 51) ^ a;
    a = a << 32 | a >> 32;
    c = c + d;
    d = (d << 16 | d >> 48) ^ c;
    a = a + d;
    d = (d << 21 | d >> 43) ^ a;
    c = c + b;
    b = (b << 17 | b >> 47) ^ c;
    c = c << 32 | c >> 32;
}

// SipHash-1-3 of three words.
bit<64> keyed(in bit<64> key0, in bit<64> key1, in bit<64> x, in bit<64> y, in bit<64> z) {
    bit<64> a = key0 ^ 0x736f6d6570736575;
    bit<64> b = key1 ^ 0x646f72616e646f6d;
    bit<64> c = key0 ^ 0x6c7967656e657261;
    bit<64> d = key1 ^ 0x7465646279746573;
    d = d ^ x;
    sip_round(a, b, c, d);
    a = a ^ x;
    d = d ^ y;
    sip_round(a, b, c, d);
    a = a ^ y;
    d = d ^ z;
    sip_round(a, b, c, d);
    a = a ^ z;
    c = c ^ 0xff;
    sip_round(a, b, c, d);
    sip_round(a, b, c, d);
    sip_round(a, b, c, d);
    return a ^ b ^ c ^ d;
}

bool is_established(in bit<8> state) {
    return state == ESTABLISHED || state == V4_FIN || state == V6_FIN;
}

// What the packet says of itself, before its headers are translated.
control Flow(in headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        meta.session.held = hdr.ethernet.src == HOLDER_MAC && AT_DEVICE;
        if (hdr.ipv4.isValid()) {
            meta.session.fragment = hdr.ipv4.more_fragments == 1 || hdr.ipv4.fragment_offset != 0;
            meta.session.first = hdr.ipv4.fragment_offset == 0;
            meta.session.identification = (bit<32>) hdr.ipv4.identification;
        } else {
            meta.session.fragment = hdr.fragment.isValid()
                && (hdr.fragment.more_fragments == 1 || hdr.fragment.fragment_offset != 0);
            meta.session.first = hdr.fragment.fragment_offset == 0;
            meta.session.identification = hdr.fragment.identification;
        }
    }
}

// The round of a packet that is held: it leaves as it arrived.
control Held(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        meta.summed = false;
        standard_metadata.egress_spec = HOLDER;
        exit;
    }
}

// Sends the packet to whoever holds packets, and drops nothing. The caller drops the packet, which has no effect then.
control Hold(inout metadata_t meta) {
    apply {
        meta.round = ROUND_HOLD;
        resubmit_preserving_field_list(1);
    }
}

// The share of a subscriber. A cell has 16 bits of the hash of its subscriber, how often that was refused (24 bits), and how many it has (24 bits).
// `amount` is how many are counted for this packet, `told` whether a refusal is counted.
control Share(in bit<64> hash, in bit<24> most, in bit<24> amount, in bool told, out bool crowded) {
    register<bit<64>>(SUBSCRIBERS) cells;
    apply {
        bit<32> index = (bit<32>) hash[63:52];
        bit<64> cell;
        cells.read(cell, index);
        crowded = false;
        if (cell[63:48] != hash[51:36]) {
            // Whoever has few gives way; otherwise who has more gets the cell when they are counted.
            if (amount != 0 && cell[23:0] <= most >> 4) { cells.write(index, hash[51:36] ++ 24w0 ++ amount); }
        } else if (cell[23:0] >= most) {
            crowded = true;
            if (told) { cells.write(index, cell[63:48] ++ (cell[47:24] |+| 1) ++ cell[23:0]); }
        } else if (amount != 0) {
            cells.write(index, cell + (bit<64>) amount);
        }
    }
}

// Gives a translated packet its other address: that of the IPv6 host, or that of the pool. Before it, that address is 0.
control Sessions(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Ask() ask;
    Hold() hold;
    Quoted() quoted;
    OwnEnd() own_end;
    Share() session_share;
    Share() binding_share;
    DirectRegister<bit<32>>() state;        // the state, and behind it when the binding's timers were restarted
    DirectRegister<bit<32>>() established;  // the established connections of a binding
    register<bit<32>>(1) outside_sessions;  // that packets from IPv4 have made
    register<bit<32>>(SUBSCRIBERS) searched;        // when no free port was found in a block (24 bits), and which block it was
    // Packets from IPv4 that would open a session, but for which there is no room.
    counter(1, CounterType.packets) passed_without_session;
    // First fragments of a source that has its share of the table: later fragments do not find it.
    counter(1, CounterType.packets) fragments_limited;

    action icmp_error()       { mark_to_drop(standard_metadata); exit; }
    action fragment()         { mark_to_drop(standard_metadata); exit; }
    action no_ports()         { mark_to_drop(standard_metadata); exit; }
    action filtered()         { mark_to_drop(standard_metadata); exit; }
    action no_binding()       { mark_to_drop(standard_metadata); exit; }
    action no_pool()          { mark_to_drop(standard_metadata); exit; }
    action held_too_long()    { mark_to_drop(standard_metadata); exit; }
    action own_prefix()       { mark_to_drop(standard_metadata); exit; }    // section 3.5: as a source, it is a loop
    action pool_exhausted()   { mark_to_drop(standard_metadata); exit; }
    action bindings_full()    { mark_to_drop(standard_metadata); exit; }
    action limited()          { mark_to_drop(standard_metadata); exit; }
    action session_limit()    { mark_to_drop(standard_metadata); exit; }
    action binding_limit()    { mark_to_drop(standard_metadata); exit; }
    action sessions_full()    { mark_to_drop(standard_metadata); exit; }

    // New sessions, by the /64 of their host (RFC 6888 REQ-4): some hosts share a cell.
    meter(4096, MeterType.packets) new_sessions;
    // First fragments, by the IPv4 address or the /64 that sends them.
    meter(1024, MeterType.packets) new_fragments;
    // Of the address that a host gets: its slot and its number in that; and the ports.
    bit<16> slot_number = 0;
    bit<32> index = 0;
    bit<16> first_port = 0;
    bit<16> port_pairs = 0;
    bit<1>  low_ports = 0;
    bit<2>  reports = 0;
    bit<1>  may_hold = 0;
    bit<64> address_hash = 0;
    bit<1>  address_dependent = 0;
    bit<1>  adopting = 0;
    bit<1>  whole_addresses = 0;
    bool alone = false;         // the host has the address for itself
    bool peer_known = false;
    bit<128> sender = 0;
    bit<32> receiver = 0;
    bit<64> key0 = 0;
    bit<64> key1 = 0;
    bit<8> pooled = NO_POOL;
    bool refused = false;
    bool crowded = false;
    bit<8> claiming = NO_CLAIM;
    bool lost = false;          // no entry was added: another packet was first, or the table is full
    bool asking = false;        // for a packet that changes no state: an ICMP error, a SYN that was held
    bool own = false;
    bool bound_here = false;
    bool fresh = false;         // the binding was made by this packet
    bool opening = false;
    bool added = false;
    bit<8> origin = 0;
    bit<8> profile = 0;
    bit<8> binding_profile = KEEP;
    bit<8> change = LEAVE;
    bit<24> now = 0;

    // Filtering is endpoint-independent or address-dependent (RFC 6146 section 3.5, RFC 4787 section 5); what of the bindings and sessions
    // that packets make is reported; whether a host's segment that is no SYN makes a binding, and a session, so that connections of another
    // router go on here (RFC 6146 section 3.5.2.2 drops it); and whether there are hosts with an address for themselves.
    action choose(bit<1> by_address, bit<2> what, bit<1> adopt, bit<1> whole) {
        address_dependent = by_address;
        reports = what;
        adopting = adopt;
        whole_addresses = whole;
    }
    table choices {
        actions = { choose; }
        default_action = choose(0, 0, 0, 0);
    }

    // Which bits of a host's /64 are its subscriber's prefix; the odd number by which the cells of registers and meters follow from it, which strangers
    // do not know; how many sessions and bindings a subscriber may have; how many sessions packets from IPv4 may have made; and whether only a
    // sample is counted.
    bit<64> mixing;
    bit<64> subscriber_hash;
    bit<32> sample_hash;
    bit<24> most_sessions;
    bit<24> most_bindings;
    bit<24> most_outside;
    bit<24> amount;
    action share(bit<64> mask, bit<64> factor, bit<24> sessions, bit<24> bindings, bit<24> outside, bit<1> sampled) {
        mixing = factor;
        subscriber_hash = (meta.session.host[127:64] & mask) * factor;
        most_sessions = sessions;
        most_bindings = bindings;
        most_outside = outside;
        sample_hash = (meta.session.remote ^ (meta.session.remote_port ++ meta.session.host_port)) * factor[31:0];
        amount = 1;
        if (sampled == 1) { amount = sample_hash[31:28] == 0 ? SAMPLE : 0; }
    }
    table shares {
        actions = { share; }
        default_action = share(0xffffffffffffffff, 0x9e3779b97f4a7c15, NO_LIMIT, NO_LIMIT, NO_LIMIT, 0);
    }

    // Hosts with an address for themselves.
    action to_host(bit<128> host) {
        meta.session.host = host;
        meta.session.host_port = meta.session.port;
        alone = true;
    }
    table hosts4 {
        key = { meta.session.address: exact; }
        actions = { to_host; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }
    action to_address(bit<32> address) {
        meta.session.address = address;
        meta.session.port = meta.session.host_port;
        alone = true;
    }
    table hosts6 {
        key = { meta.session.host: exact; }
        actions = { to_address; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    // Whether somebody holds packets.
    action holder(bit<1> is_there) { may_hold = is_there; }
    table holding {
        actions = { holder; }
        default_action = holder(0);
    }

    // The addresses of a pool are in slots: prefixes of one length. Hosts share the ports: pairs of them, from an even one on. low: a host's port
    // below 1024 gets another one below 1024 (sections 3.5.1.1 and 3.5.2.3). A subscriber is a host without its last subscriber_bits bits, and has
    // one address (RFC 4787 REQ-2). It uses as many pairs as most_pairs says, from a place on that follows from its prefix; others may use them too.
    action pool(bit<16> slot, bit<16> slots, bit<16> first, bit<16> pairs, bit<16> most_pairs, bit<1> low, bit<8> subscriber_bits,
                bit<64> secret0, bit<64> secret1) {
        key0 = secret0;
        key1 = secret1;
        bit<128> subscriber = meta.session.host >> subscriber_bits;
        address_hash = keyed(key0, key1, subscriber[127:64], subscriber[63:0], 0);
        bit<32> scaled = ((bit<32>) address_hash[63:48]) * (bit<32>) slots;
        slot_number = slot + scaled[31:16];
        index = address_hash[31:0];
        scaled = ((bit<32>) address_hash[47:32]) * (bit<32>) (pairs - most_pairs + 1);
        first_port = first + (scaled[31:16] << 1);
        port_pairs = most_pairs;
        low_ports = low;
        pooled = SHARED;
    }
    // Each subscriber has a block of ports of its own, which follows from its number (RFC 7422). An address has some blocks of pairs; inverse
    // is 2^40 divided by their number, rounded down, and 1. The first subscriber has the number 0; bits are the host bits of a slot.
    action blocks(bit<16> slot, bit<8> bits, bit<16> first, bit<16> pairs, bit<16> of_address, bit<48> inverse, bit<8> subscriber_bits,
                  bit<32> origin, bit<64> secret0, bit<64> secret1) {
        key0 = secret0;
        key1 = secret1;
        bit<128> subscriber = meta.session.host >> subscriber_bits;
        bit<32> number = subscriber[31:0] - origin;
        bit<64> product = ((bit<64>) number) * ((bit<64>) inverse);
        index = (bit<32>) product[63:40];
        bit<32> block = number - index * (bit<32>) of_address;
        slot_number = slot + (bit<16>) (index >> bits);
        first_port = first + ((block[15:0] * pairs) << 1);
        port_pairs = pairs;
        pooled = BLOCK;
    }
    table pools {
        key = { meta.session.host: lpm; }
        actions = { pool; blocks; own_prefix; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    // The addresses of a slot: base, and mask has its host bits.
    action slot(bit<32> base, bit<32> mask) { meta.session.address = base | (index & mask); }
    table slots {
        key = { slot_number: exact; }
        actions = { slot; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    action taken(bit<128> host, bit<16> host_port) {
        own = host == meta.session.host && host_port == meta.session.host_port;
        bit<32> count = established.read();
        lost = false;
        if (claiming != NO_CLAIM) {
            // The entry may be about to end, because its host had it before, or has given it back.
            if (own) { set_entry_expire_time(claiming == GIVE_BACK ? GIVEN_BACK : OWNER + profile); }
        } else {
            meta.session.host = host;
            meta.session.host_port = host_port;
            meta.session.known = true;
            if (change == ESTABLISH) {
                established.write(count + 1);
                binding_profile = SESSION_ESTABLISHED;
            } else if (change == CLOSE) {
                if (count > 1) { established.write(count - 1); } else {
                    established.write(0);
                    binding_profile = SESSION_TRANSITORY;
                }
            }
            if (binding_profile != KEEP) { set_entry_expire_time(OWNER + binding_profile); }
            else if (change != LEAVE) { restart_expire_timer(); }
        }
    }
    action free() {
        if (claiming == CLAIM) {
            own = add_entry("taken", { meta.session.host, meta.session.host_port }, OWNER + profile);
            lost = !own;
        }
    }
    table bib4 {
        key = { meta.session.protocol: exact; meta.session.address: exact; meta.session.port: exact; }
        actions = { taken; @defaultonly free; }
        const default_action = free;
        strait_direct_register = established;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 65536;
    }

    action bound(bit<32> address, bit<16> port) {
        meta.session.address = address;
        meta.session.port = port;
        bound_here = true;
        if (binding_profile != KEEP) { set_entry_expire_time(BINDING + binding_profile); }
        else if (change != LEAVE) { restart_expire_timer(); }
    }
    action unbound() {
        if (own) {
            bound_here = add_entry("bound", { meta.session.address, meta.session.port }, BINDING + profile);
            fresh = bound_here;
        }
    }
    table bib6 {
        key = { meta.session.protocol: exact; meta.session.host: exact; meta.session.host_port: exact; }
        actions = { bound; @defaultonly unbound; }
        const default_action = unbound;
        strait_early_lookup = true;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 65536;
    }

    // With address-dependent filtering: the remote hosts to which a binding has sent. Its timers are the binding's.
    action peer() {
        peer_known = true;
        if (change == ESTABLISH) { set_entry_expire_time(BINDING + SESSION_ESTABLISHED); }
        else if (change != LEAVE) { restart_expire_timer(); }
    }
    action no_peer() {
        if (opening && meta.session.from6) { peer_known = add_entry("peer", {}, BINDING + profile); }
    }
    table peers {
        key = {
            meta.session.protocol: exact; meta.session.address: exact; meta.session.port: exact;
            meta.session.remote: exact;
        }
        actions = { peer; @defaultonly no_peer; }
        const default_action = no_peer;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 131072;
    }

    // RFC 6146 section 3.5.2.2 for TCP; each packet restarts the timers of others.
    action session(bit<128> host, bit<16> host_port, bit<8> opened) {
        meta.session.host = host;
        meta.session.host_port = host_port;
        meta.session.known = true;
        if (asking) { return; }
        bit<32> stored = state.read();
        bit<8> old = stored[7:0] == 0 ? opened : stored[7:0];
        bit<8> new = old;
        bit<8> timer = KEEP;
        bool from6 = meta.session.from6;
        if (!hdr.tcp.isValid()) {
            timer = profile;
        } else {
            bool syn = hdr.tcp.flags[1:1] == 1;
            bool fin = hdr.tcp.flags[0:0] == 1;
            bool rst = hdr.tcp.flags[2:2] == 1;
            if (old == V6_INIT) {
                if (syn && !from6) { new = ESTABLISHED; timer = SESSION_ESTABLISHED; }
                else if (syn) { timer = SESSION_TRANSITORY; }
            } else if (old == V4_INIT) {
                if (syn && from6) { new = ESTABLISHED; timer = SESSION_ESTABLISHED; }
            } else if (old == ESTABLISHED) {
                if (fin) { new = from6 ? V6_FIN : V4_FIN; }
                else if (rst) { new = TRANSITORY; timer = SESSION_TRANSITORY; }
                else { timer = SESSION_ESTABLISHED; }
            } else if ((old == V4_FIN && fin && from6) || (old == V6_FIN && fin && !from6)) {
                new = BOTH_FIN;
                timer = SESSION_TRANSITORY;
            } else if (old == V4_FIN || old == V6_FIN) {
                timer = SESSION_ESTABLISHED;
            } else if (old == TRANSITORY && !rst) {
                new = ESTABLISHED;
                timer = SESSION_ESTABLISHED;
            } else if (old == ADOPTED && !rst) {
                if (from6) { timer = SESSION_TRANSITORY; } else { new = ESTABLISHED; timer = SESSION_ESTABLISHED; }
            }
        }
        if (timer != KEEP) { set_entry_expire_time(timer); }
        if (is_established(new) && !is_established(old)) { change = ESTABLISH; }
        else if (is_established(old) && !is_established(new)) { change = CLOSE; }
        else if (timer != KEEP && now - stored[31:8] >= TOUCH) { change = RESTART; }
        if (change != LEAVE || new != old) { state.write((change != LEAVE ? now : stored[31:8]) ++ new); }
    }
    action no_session() {
        if (opening) {
            added = add_entry("session", { meta.session.host, meta.session.host_port, origin }, profile);
        }
    }
    table sessions {
        key = {
            meta.session.protocol: exact; meta.session.address: exact; meta.session.port: exact;
            meta.session.remote: exact; meta.session.remote_port: exact;
        }
        actions = { session; @defaultonly no_session; }
        const default_action = no_session;
        strait_direct_register = state;
        strait_early_lookup = true;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 131072;
    }

    // The first fragment of a packet tells whose the others are. Those that come before it are dropped. to6 is the host, or to4 the
    // address of the pool; of the key, one of host and address is 0.
    action others(bit<128> to6, bit<32> to4) {
        meta.session.host = to6;
        meta.session.address = to4;
        meta.session.known = true;
    }
    action unknown() {
        if (meta.session.first) {
            bit<64> from = meta.session.from6 ? meta.session.host[127:64] : (bit<64>) meta.session.remote;
            from = from * mixing;
            bit<8> color;
            new_fragments.execute_meter((bit<32>) from[63:54], color);
            if (color != 0) { fragments_limited.count(0); }
            else { added = add_entry("others", { meta.session.host, meta.session.address }, FRAGMENTS); }
        }
    }
    table fragments {
        key = {
            sender: exact; receiver: exact; meta.session.remote: exact; meta.session.identification: exact;
            meta.protocol: exact;
        }
        actions = { others; @defaultonly unknown; }
        const default_action = unknown;
        add_on_miss = true;
        idle_timeout_with_auto_delete = true;
        size = 16384;
    }

    // Asks whether the host may open a session.
    action limit() {
        bit<8> color;
        bit<64> prefix = meta.session.host[127:64] * mixing;
        new_sessions.execute_meter((bit<32>) prefix[63:52], color);
        if (color != 0) { refused = true; }
    }

    apply {
        choices.apply();
        if (hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid()) {
            quoted.apply(hdr, meta);
            if (whole_addresses == 1) {
                if (meta.session.from6) { hosts6.apply(); }
                else if (hdr.inner_ipv4.src == meta.session.address) { hosts4.apply(); }
            }
            if (!alone && meta.session.protocol == 0) { icmp_error(); }
            if (meta.session.from6) {
                if (!alone) { bib6.apply(); }
                if (!alone && !bound_here) { icmp_error(); }
                // Whoever sends it, an address that leads here (RFC 6791).
                hdr.ipv4.src = meta.session.address;
            } else {
                asking = true;
                if (!alone) { sessions.apply(); }
                if (!alone && !meta.session.known) { icmp_error(); }
                hdr.ipv6.dst = meta.session.host;
            }
            return;
        }
        if (whole_addresses == 1) {
            if (meta.session.from6) { hosts6.apply(); } else { hosts4.apply(); }
        }
        if (meta.session.fragment && !meta.session.first && !alone) {
            meta.session.known = false;
            if (meta.session.from6) {
                sender = meta.session.host;
                meta.session.remote = hdr.ipv4.dst;
            } else {
                receiver = meta.session.address;
            }
            fragments.apply();
            if (!meta.session.known) {
                holding.apply();
                if (may_hold == 1 && meta.round == ROUND_FIRST && AT_DEVICE) {
                    hold.apply(meta);
                }
                fragment();
            }
            if (meta.session.from6) { hdr.ipv4.src = meta.session.address; } else { hdr.ipv6.dst = meta.session.host; }
            return;
        }
        bool syn = false;
        now = (bit<24>) (standard_metadata.ingress_global_timestamp >> 20);
        if (hdr.tcp.isValid()) {
            profile = SESSION_TRANSITORY;
            syn = hdr.tcp.flags[1:1] == 1;
        } else if (hdr.udp.isValid()) {
            profile = SESSION_UDP;
        } else if (hdr.icmp.isValid()) {
            profile = SESSION_ICMP;
        } else if (!alone) {
            ask.apply(meta, NO_PROTOCOL, 0);
            no_ports();
        }
        bit<16> old_port;

        // Only a SYN opens a TCP session, unless connections of another router are adopted.
        bool adopted = adopting == 1 && meta.session.from6 && !syn && hdr.tcp.isValid() && hdr.tcp.flags[2:2] == 0;
        bool opens = !hdr.tcp.isValid() || syn || adopted;
        bool binds = false;
        if (alone) {
            old_port = meta.session.port;
        } else if (meta.session.from6) {
            old_port = meta.session.host_port;
            meta.session.remote = hdr.ipv4.dst;
            bib6.apply();
            binds = !bound_here;
            if (binds && !opens) { no_binding(); }
        } else {
            old_port = meta.session.port;
        }

        meta.session.known = alone;
        asking = meta.session.held;
        if (!alone && !binds) { sessions.apply(); }
        // The host has asked for the connection meanwhile.
        if (!alone && meta.session.known && meta.session.held) { held_too_long(); }
        if (!meta.session.known) {
            if (!meta.session.from6) {
                bib4.apply();
                bool bound_there = meta.session.known;
                if (bound_there && address_dependent == 1) { peers.apply(); }
                if (!bound_there || (address_dependent == 1 && !peer_known)) {
                    if (syn && hdr.tcp.flags[4:4] == 0 && meta.round == ROUND_FIRST) {
                        if (meta.session.held) {
                            ask.apply(meta, NO_PORT, 0);
                        } else if (AT_DEVICE) {
                            holding.apply();
                            if (may_hold == 1) { hold.apply(meta); }
                        }
                    }
                    if (bound_there) { filtered(); }
                    no_binding();
                }
            }
            // Other segments pass by their binding, and leave no session.
            if (opens) {
                shares.apply();
                bool told = meta.round == ROUND_FIRST && INGRESS_PORT != LANE && INGRESS_PORT != DIRECT_LANE;
                if (meta.session.from6) {
                    limit();
                    if (!refused && most_sessions != NO_LIMIT) {
                        session_share.apply(subscriber_hash, most_sessions, amount, told, crowded);
                    }
                    if (refused || crowded) {
                        ask.apply(meta, NO_ADDRESS, 0);
                        if (refused) { limited(); }
                        session_limit();
                    }
                    if (binds) {
                        if (most_bindings != NO_LIMIT) {
                            binding_share.apply(subscriber_hash, most_bindings, amount, told, crowded);
                            if (crowded) {
                                ask.apply(meta, NO_ADDRESS, 0);
                                binding_limit();
                            }
                        }
                        pools.apply();
                        if (pooled == NO_POOL) {
                            ask.apply(meta, PROHIBITED, 0);
                            no_pool();
                        }
                        slots.apply();
                        bit<64> port_hash = keyed(key0, key1, meta.session.host[127:64], meta.session.host[63:0],
                                                  32w1 ++ meta.session.protocol ++ meta.session.host_port ++ 8w0);
                        if (low_ports == 1 && meta.session.host_port < 1024) {
                            first_port = 2;
                            port_pairs = 511;
                        }
                        // UDP keeps the parity: one candidate of each pair.
                        bit<32> count = (bit<32>) port_pairs;
                        bit<16> parity = meta.session.host_port & 1;
                        bit<8> shift = 1;
                        if (!hdr.udp.isValid()) {
                            count = count << 1;
                            parity = 0;
                            shift = 0;
                        }
                        // The candidates are some steps from each other, round the ports of the host's range. Fifteen steps are less than a round.
                        bit<32> scaled = ((bit<32>) port_hash[15:0]) * count;
                        bit<32> at = scaled >> 16;
                        scaled = ((bit<32>) port_hash[31:16]) * (count >> 4);
                        bit<32> step = (scaled >> 16) + 1;
                        claiming = CLAIM;
                        for (bit<8> i in 1..CANDIDATES) {
                            if (!own) {
                                meta.session.port = first_port + (at[15:0] << shift) + parity;
                                bib4.apply();
                                // If another packet was first, it may have been one of this host.
                                if (!lost) {
                                    at = at + step;
                                    if (at >= count) { at = at - count; }
                                }
                            }
                        }
                        if (!own && !lost && pooled == BLOCK) {
                            // A search of a full block takes long, so there is one in a second.
                            bit<32> block = (meta.session.address ^ (first_port ++ (bit<16>) meta.session.protocol)) * 0x9e3779b1;
                            bit<32> last;
                            searched.read(last, block >> 20);
                            if (last != now ++ block[19:12]) {
                                for (bit<32> n in 1..LARGEST_BLOCK) {
                                    if (own || n > count) { break; }
                                    meta.session.port = first_port + (at[15:0] << shift) + parity;
                                    bib4.apply();
                                    at = at + 1;
                                    if (at >= count) { at = at - count; }
                                }
                                if (!own) { searched.write(block >> 20, now ++ block[19:12]); }
                            }
                        }
                        if (!own) {
                            ask.apply(meta, NO_ADDRESS, 0);
                            if (lost) { bindings_full(); }
                            pool_exhausted();
                        }
                        bit<32> claimed_address = meta.session.address;
                        bit<16> claimed_port = meta.session.port;
                        bib6.apply();
                        if (!bound_here) { bib6.apply(); }
                        if (!bound_here || meta.session.port != claimed_port || meta.session.address != claimed_address) {
                            // Another packet has bound the host to another port, or there is no room.
                            bit<32> address = meta.session.address;
                            bit<16> port = meta.session.port;
                            meta.session.address = claimed_address;
                            meta.session.port = claimed_port;
                            claiming = GIVE_BACK;
                            bib4.apply();
                            meta.session.address = address;
                            meta.session.port = port;
                        } else if (reports != 0 && fresh) {
                            digest<report_t>(1, { meta.session.protocol, meta.session.host, meta.session.host_port,
                                                  meta.session.address, meta.session.port, 0, 0 });
                        }
                        claiming = NO_CLAIM;
                        if (!bound_here) {
                            ask.apply(meta, NO_ADDRESS, 0);
                            bindings_full();
                        }
                    }
                } else if (most_outside != NO_LIMIT) {
                    bit<32> made;
                    outside_sessions.read(made, 0);
                    crowded = made >= (bit<32>) most_outside;
                    if (!crowded && amount != 0) { outside_sessions.write(0, made + (bit<32>) amount); }
                }
                origin = V4_INIT;
                if (meta.session.from6) {
                    // Who answers a connection that passed without a session opens one whose other SYN has been here.
                    origin = adopted || (syn && hdr.tcp.flags[4:4] == 1) ? ADOPTED : V6_INIT;
                }
                added = false;
                meta.session.known = false;
                if (!crowded) {
                    opening = true;
                    sessions.apply();
                    if (!added && !meta.session.known) { sessions.apply(); }
                }
                if (added) {
                    change = RESTART;
                    if (reports == LOG_SESSIONS) {
                        digest<report_t>(1, { meta.session.protocol, meta.session.host, meta.session.host_port,
                                              meta.session.address, meta.session.port, meta.session.remote,
                                              meta.session.remote_port });
                    }
                } else if (!meta.session.known) {
                    if (meta.session.from6) {
                        ask.apply(meta, NO_ADDRESS, 0);
                        sessions_full();
                    }
                    passed_without_session.count(0);
                }
            }
        }
        if (change != LEAVE) {
            bib4.apply();
            bib6.apply();
            if (address_dependent == 1) {
                peers.apply();
                if (!peer_known) { peers.apply(); }
                if (!peer_known) { sessions_full(); }
            }
        }

        if (meta.session.fragment && !alone) {
            // An entry of an older packet with this identification must not change whose this one is.
            bit<128> host = meta.session.host;
            bit<32> address = meta.session.address;
            if (meta.session.from6) { sender = host; } else { receiver = address; }
            shares.apply();
            fragments.apply();
            meta.session.host = host;
            meta.session.address = address;
        }

        own_end.apply(hdr, meta, old_port);
    }
}
