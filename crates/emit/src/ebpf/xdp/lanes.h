
/* Lanes at the XDP hook. A frame gets its MAC addresses here, and leaves through an interface that has a lane itself: the host has made sure that such
 * interfaces take frames. */
__attribute__((unused)) static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;

INLINE u32 ingress_of(struct xdp_md *xdp)
{
    return xdp->ingress_ifindex;
}

/* A frame of several buffers is left to the kernel, because many drivers take none. */
INLINE u32 is_whole(struct xdp_md *xdp, u32 length)
{
    return (u64)(packet_end(xdp) - packet_start(xdp)) >= ETHERNET + length;
}

INLINE u32 takes_packets(u32 ifindex)
{
    struct ingress *to = find_port(ifindex);
    return to && to->lane;
}

/* The kernel keeps the MAC address of a neighbour up to date only if it sends packets there itself. So it gets one packet in 128 of those for which it is asked:
 * of a steady flow, one in 1 to 13 seconds. */
INLINE u32 is_for_the_stack(void)
{
    return !(bpf_get_prandom_u32() & 127);
}

/* Returns the EtherType of a frame that is for this interface; otherwise 0. */
INLINE u32 type_for_lane(struct xdp_md *xdp, struct scratch *t, struct ingress *from)
{
    u8 *p = packet_at(xdp, 0, ETHERNET);
    if (!p || *(u32 *)p != *(u32 *)from->mac || *(u16 *)(p + 4) != *(u16 *)(from->mac + 4))
        return 0;
    return rd16(p + 12);
}

/* Sends a translated frame to its next hop if the kernel knows the neighbour, and if the interface has a lane; otherwise the kernel routes it. */
INLINE int leave_lane(struct xdp_md *xdp, struct scratch *t, struct ingress *from, struct cached_route *asked)
{
    u8 *p = packet_at(xdp, 0, ETHERNET);
    if (!p)
        return XDP_PASS;
    count_in_lane(from, (u32)(packet_end(xdp) - p));
    u32 type = rd16(p + 12);
    if (!has_next_hop(xdp, t, type, asked)) {
        give_back_hop(xdp, t, type);
        return XDP_PASS;
    }
    p = packet_at(xdp, 0, ETHERNET);
    if (!p)
        return XDP_PASS;
    copy_bytes(p, asked->leaving.macs + 6, 6);
    copy_bytes(p + 6, asked->leaving.macs, 6);
    return bpf_redirect(asked->leaving.ifindex, 0);
}
