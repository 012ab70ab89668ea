
/* Returns whether the frame has an IPv6 packet of more than `size` bytes, which must leave as fragments: see fragment_ipv6 in
 * p4include/strait.p4. XDP sends a frame once, so it cannot make them. */
INLINE int needs_fragments(struct xdp_md *xdp, u32 size)
{
    u8 ip[42];
    if (size < 56 || bpf_xdp_load_bytes(xdp, 12, ip, sizeof ip) || rd16(ip) != 0x86dd)
        return 0;
    u32 payload = rd16(ip + 6);
    return frame_length(xdp) >= 54 + payload && 40 + payload > size;
}
