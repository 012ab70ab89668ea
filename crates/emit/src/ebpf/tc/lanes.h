
/* Lanes at a tc hook. The kernel resolves the next hop when it sends the packet. */
__attribute__((unused)) static long (*bpf_redirect_neigh)(u32 ifindex, void *hop, s32 size, u64 flags) = (void *)152;

INLINE u32 ingress_of(struct __sk_buff *skb)
{
    return skb->ifindex;
}

INLINE u32 is_whole(UNUSED struct __sk_buff *skb, UNUSED u32 length)
{
    return 1;
}

INLINE u32 takes_packets(UNUSED u32 ifindex)
{
    return 1;
}

INLINE u32 is_for_the_stack(void)
{
    return 0;
}

/* Returns the EtherType of a packet that may enter a lane; 0 if it is for another host, or for another interface. */
INLINE u32 type_for_lane(struct __sk_buff *skb, UNUSED struct scratch *t, UNUSED struct ingress *from)
{
    return skb->pkt_type || has_vlan_tag(skb) ? 0 : bswap16((u16)skb->protocol);
}

/* Sends a translated packet on: with DIRECT to its next hop if the kernel knows the neighbour; otherwise the network stack routes the packet. */
INLINE int leave_lane(struct __sk_buff *skb, struct scratch *t, struct ingress *from, struct cached_route *asked)
{
    count_in_lane(from, skb->len);
    if (!(from->flags & DIRECT))
        return TC_ACT_OK;
    u32 type = bswap16((u16)skb->protocol);
    if (has_next_hop(skb, t, type, asked))
        return bpf_redirect_neigh(asked->leaving.ifindex, &asked->leaving.family, 20, 0);
    give_back_hop(skb, t, type);
    return TC_ACT_OK;
}

/* Returns the ingress port of a packet. An interface that is a source receives what programs of Strait have sent; the kernel has routed it here then.
 * In a VRF, the kernel names the VRF in the place of the interface. There, what this program has sent is known by its mark. */
INLINE u32 arrived_at(struct __sk_buff *skb, struct ingress *from)
{
    u32 again = from->again & 0xffff;
    if (!again)
        return from->port;
    struct ingress *before = find_port(skb->ingress_ifindex);
    return (before && before->flags & SOURCE) || skb->tc_index == from->again >> 16 ? again : from->port;
}

/* Marks a packet that comes out of the interface. The kernel keeps this number with it as long as no filter at the interface's ingress changes it. */
INLINE void mark_sent(struct __sk_buff *skb, struct ingress *from)
{
    if (from->again)
        skb->tc_index = from->again >> 16;
}
