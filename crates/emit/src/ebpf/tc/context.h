
/* What eBPF programs at a tc hook need: the packet is a struct __sk_buff. */
enum { TC_ACT_OK = 0, TC_ACT_SHOT = 2 };
enum { BPF_F_MARK_MANGLED_0 = 1 << 5, BPF_F_PSEUDO_HDR = 1 << 4 };
enum { BPF_ADJ_ROOM_MAC = 1, BPF_F_ADJ_ROOM_FIXED_GSO = 1 };

struct __sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id, family;
    u32 remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
    u64 flow_keys;
    u64 tstamp;
    u32 wire_len, gso_segs;
    u64 sk;
    u32 gso_size;
    u8 tstamp_type;
    u32 : 24;
    u64 hwtstamp;
};

__attribute__((unused)) static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
__attribute__((unused)) static long (*bpf_l4_csum_replace)(struct __sk_buff *skb, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
__attribute__((unused)) static long (*bpf_skb_vlan_push)(struct __sk_buff *skb, u16 protocol, u16 tci) = (void *)18;
__attribute__((unused)) static long (*bpf_skb_vlan_pop)(struct __sk_buff *skb) = (void *)19;
__attribute__((unused)) static long (*bpf_redirect)(u32 ifindex, u64 flags) = (void *)23;
__attribute__((unused)) static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
__attribute__((unused)) static long (*bpf_skb_change_proto)(struct __sk_buff *skb, u16 proto, u64 flags) = (void *)31;
__attribute__((unused)) static long (*bpf_skb_change_tail)(struct __sk_buff *skb, u32 len, u64 flags) = (void *)38;
__attribute__((unused)) static long (*bpf_skb_pull_data)(struct __sk_buff *skb, u32 len) = (void *)39;
__attribute__((unused)) static long (*bpf_skb_adjust_room)(struct __sk_buff *skb, s32 len_diff, u32 mode, u64 flags) = (void *)50;
