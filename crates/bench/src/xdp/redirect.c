/* The least that an XDP program between two ports can do, as a person would write it: each frame goes to the other port. */
typedef unsigned int u32;
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))

struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;

struct {
    int (*type)[14]; /* BPF_MAP_TYPE_DEVMAP */
    int (*max_entries)[1];
    u32 *key;
    u64 *value;
} ports SEC(".maps");

SEC("xdp.frags")
int forward(struct xdp_md *xdp)
{
    return bpf_redirect_map(&ports, 0, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
