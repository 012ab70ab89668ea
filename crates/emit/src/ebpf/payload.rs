//! Sums over the payload, for the few packets that need them.

/// The function that sums a payload, for the few packets that need it. It sums up to 66 KiB in steps of 256 bytes.
pub const SUM: &str = r#"
/* Returns the sum of all bytes from `at` on, in host order and folded; or a negative number if it cannot be computed. */
NOINLINE int payload_sum(CONTEXT *context, u32 at)
{
    struct packet *packet = get_packet();
    if (!packet || is_gso(context))
        return -1;
    struct scratch *t = &packet->scratch;
    u32 len = frame_length(context);
    s64 sum = 0;
    for (u32 i = 0; i < 264; i++) {
        if (at + 256 > len)
            break;
        if (load_bytes(context, at, t->buffer, 256))
            return -1;
        sum = bpf_csum_diff(0, 0, t->buffer, 256, (u32)sum);
        at += 256;
    }
    if (at < len) {
        u32 rest = len - at;
        if (rest > 255)
            return -1;
        __builtin_memset(t->buffer, 0, 256);
        if (load_bytes(context, at, t->buffer, one_to_256(rest)))
            return -1;
        sum = bpf_csum_diff(0, 0, t->buffer, 256, (u32)sum);
    }
    return bswap16(fold((u32)sum));
}
"#;
