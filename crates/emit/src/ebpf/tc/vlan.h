
enum { VLAN = 0x8100, SERVICE_VLAN = 0x88a8, VLAN_HEADERS = 18 };

/* Returns whether the metadata of the skb have a VLAN tag. The assembly keeps the compiler from computing the member's address first, as in
 * packet_start. */
INLINE u32 has_vlan_tag(struct __sk_buff *skb)
{
    u64 present;
    asm volatile("%0 = *(u32 *)(%1 + 20)" : "=r"(present) : "r"(skb)); /* skb->vlan_present */
    return present;
}

/* Puts the outer VLAN tag back into the packet, where P4 programs expect it. The kernel removes that tag before tc runs, and keeps it in
 * the metadata of the skb. Pushing a second tag writes the first one into the packet; the second one, now in the metadata, is a
 * dummy. Returns 0 on success. */
INLINE int vlan_tag_to_packet(struct __sk_buff *skb)
{
    return bpf_skb_vlan_push(skb, bswap16(VLAN), 0);
}

/* Removes the dummy tag, and moves the tag that the packet now begins with, if any, to the metadata of the skb. This also updates
 * skb->protocol, which may still have the EtherType from before the program: the kernel reads it from the packet when it pops the second
 * dummy. The last call fails if the packet ends within its tag; the tag then stays in the packet. Returns 0 on success. */
INLINE int vlan_tag_to_metadata(struct __sk_buff *skb)
{
    if (bpf_skb_vlan_push(skb, bswap16(VLAN), 0) || bpf_skb_vlan_pop(skb))
        return 1;
    return bpf_skb_vlan_pop(skb) && skb->len >= VLAN_HEADERS;
}
