// What Strait has beside the standard architectures. Other compilers do not know it, so programs that they
// compile, too, include this file where __STRAIT__ is defined, which Strait does.

#ifndef _STRAIT_P4_
#define _STRAIT_P4_

// v1model, in any control. The packet leaves as IPv6 fragments of at most `size` bytes (RFC 8200 section 4.5), if
// the deparsed packet is an Ethernet frame with an IPv6 packet of more than `size` bytes. If a fragment header
// follows its IPv6 header, the fragments continue its offset and identification, and the last one has its M flag.
// Otherwise every fragment gets a fragment header with `identification`. Bytes behind the IPv6 packet, such as
// Ethernet padding, are cut off. The packet leaves whole if `size` is below 56.
//
// On native and tc, the segments of a GSO packet are left alone; XDP drops and counts what it would have to fragment.
// The last call counts. A packet that is recirculated, and clones, are not affected.
extern void fragment_ipv6(in bit<16> size, in bit<32> identification);

// Tables that learn, as in PNA (pna.p4 has the rules): v1model with tables that have `add_on_miss = true`, and
// `idle_timeout_with_auto_delete = true` where the entries are to expire.
#ifdef _V1_MODEL_P4_
extern bool add_entry<T>(string action_name, in T action_params, in bit<8> expire_time_profile_id);
extern void set_entry_expire_time(in bit<8> expire_time_profile_id);
extern void restart_expire_timer();
#endif

// A number for each entry of a table that learns, beside its action data; the name is that of Tofino's architecture. The table names the register by
// its property `strait_direct_register`, and actions of that table use it. It is 0 for a new entry, and for one whose action the control
// plane has changed. Where no entry was hit, `read` gives 0, and `write` does nothing. If two workers write the number of one entry at the same time,
// one of the writes is lost; compiled targets refuse an `@atomic` block with several uses.
extern DirectRegister<T> {
    DirectRegister();
    T read();
    void write(in T value);
}

#endif // _STRAIT_P4_
