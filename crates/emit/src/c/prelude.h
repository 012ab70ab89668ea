/* The common part of all programs of Strait. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned __int128 u128;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef __int128 s128;

#define UNUSED __attribute__((unused))
#define INLINE static inline __attribute__((always_inline, unused))
#define U128(hi, lo) (((u128)(hi) << 64) | (lo))

#define bswap16(x) __builtin_bswap16(x)
#define bswap32(x) __builtin_bswap32(x)
#define bswap64(x) __builtin_bswap64(x)
/* Reads and writes in network order, at any alignment. x86, arm64 and eBPF support unaligned access. */
#define rd8(p) (*(u8 *)(p))
#define rd16(p) bswap16(*(u16 *)(p))
#define rd32(p) bswap32(*(u32 *)(p))
#define rd64(p) bswap64(*(u64 *)(p))
#define wr8(p, v) (*(u8 *)(p) = (v))
#define wr16(p, v) (*(u16 *)(p) = bswap16(v))
#define wr32(p, v) (*(u32 *)(p) = bswap32(v))
#define wr64(p, v) (*(u64 *)(p) = bswap64(v))

/* A cell of a counter. */
struct count {
    u64 packets;
    u64 bytes;
};

/* Whether one of eight headers is valid. `p` points to the validity of the first, which is aligned. */
#define any_valid(p) (*(const u64 *)(p) != 0)

/* Shifts of 128 bits by a distance that is not constant. For these the compiler would call a library function. */
INLINE u128 shl128(u128 v, u32 n)
{
    u64 hi = (u64)(v >> 64), lo = (u64)v;
    if (n >= 128)
        return 0;
    if (n >= 64)
        return U128(lo << (n & 63), 0);
    if (!n)
        return v;
    return U128((hi << n) | (lo >> (64 - n)), lo << n);
}

INLINE u128 shr128(u128 v, u32 n)
{
    u64 hi = (u64)(v >> 64), lo = (u64)v;
    if (n >= 128)
        return 0;
    if (n >= 64)
        return hi >> (n & 63);
    if (!n)
        return v;
    return U128(hi >> n, (lo >> n) | (hi << (64 - n)));
}

/* An arithmetic shift to the right, which fills with copies of the sign bit. */
INLINE u128 sar128(u128 v, u32 n)
{
    u128 sign = (s64)(v >> 64) < 0 ? ~(u128)0 : 0;
    return n ? shr128(v, n) | shl128(sign, n < 128 ? 128 - n : 0) : v;
}

/* Saturating arithmetic (P4-16 section 8.5) of at most 64 bits, and of at most 128. `most` is the largest value. The smallest value is 0 for
 * the unsigned functions (_u) and -most - 1 for the signed ones (_s). */
#define SATURATING(BITS)                                                            \
    INLINE u##BITS saturating_add_u##BITS(u##BITS a, u##BITS b, u##BITS most)       \
    {                                                                               \
        return b > most - a ? most : a + b;                                         \
    }                                                                               \
    INLINE u##BITS saturating_sub_u##BITS(u##BITS a, u##BITS b, u##BITS most)       \
    {                                                                               \
        return a > b ? a - b : 0;                                                   \
    }                                                                               \
    INLINE u##BITS saturating_add_s##BITS(s##BITS a, s##BITS b, s##BITS most)       \
    {                                                                               \
        if (a > 0 && b > most - a)                                                  \
            return most;                                                            \
        if (a < 0 && b < -most - 1 - a)                                             \
            return -most - 1;                                                       \
        return a + b;                                                               \
    }                                                                               \
    INLINE u##BITS saturating_sub_s##BITS(s##BITS a, s##BITS b, s##BITS most)       \
    {                                                                               \
        if (b < 0 && a > most + b)                                                  \
            return most;                                                            \
        if (b > 0 && a < -most - 1 + b)                                             \
            return -most - 1;                                                       \
        return a - b;                                                               \
    }
SATURATING(64)
SATURATING(128)

/* Folds a sum of 16-bit words in host order to 16 bits (RFC 1071). */
INLINE u32 fold(u64 sum)
{
    /* The sum of a number and the same number with its halves exchanged has, in its upper half, both halves plus their carry. */
    u32 half = (u32)((sum + (sum << 32 | sum >> 32)) >> 32);
    return (half + (half << 16 | half >> 16)) >> 16;
}

/* Returns a sum of the words of a value, not folded. The value's last bit must be the last bit of a 16-bit word. */
INLINE u64 word_sum64(u64 v)
{
    return (v & 0xffffffff) + (v >> 32);
}

INLINE u64 word_sum128(u128 v)
{
    return word_sum64((u64)v) + word_sum64((u64)(v >> 64));
}

/* The negative of an unfolded sum of header words. In one's complement every multiple of 0xffff is zero, and this multiple is larger
 * than any such sum. */
#define NEGATED(sum) ((0xffffULL << 32) - (sum))

/* Updates a checksum (RFC 1624): `removed` is subtracted from its sum, and `added` is added. The result is 0 instead of 0xffff where
 * both represent zero, because a sum over data that is not all zeros is never 0. */
INLINE u16 update_checksum(u16 old, u64 removed, u64 added)
{
    return ~fold((u16)~old + NEGATED(removed) + added);
}

INLINE void count_packet(struct count *c, u64 bytes)
{
    c->packets += 1;
    c->bytes += bytes;
}

/* These two and the target's own hash_crc16 and hash_crc32 compute the same hashes as dataplane::hash. */
INLINE u64 hash_identity(const u8 *p, u32 n)
{
    u64 value = 0;
    for (u32 i = 0; i < n && i < 8; i++)
        value = value << 8 | p[i];
    return value;
}

/* Continues hash_identity. The state has its value in 64 bits, and above them how many bytes it has. */
INLINE u128 update_identity(u128 state, const u8 *p, u32 n)
{
    u64 value = (u64)state;
    u32 count = (u32)(state >> 64);
    for (u32 i = 0; i < n && i < 8 && count < 8; i++, count++)
        value = value << 8 | p[i];
    return U128(count, value);
}

/* Continues an Internet checksum with `n` bytes, whose sum is `sum`. The state has the sum in 16 bits, and above them whether the number of
 * bytes is odd. Then the words of the new bytes begin in the middle of words, so the halves of their sum are exchanged. */
INLINE u32 update_csum16(u32 state, u32 sum, u32 n)
{
    u32 odd = state >> 16 & 1;
    sum = odd ? (sum << 8 | sum >> 8) & 0xffff : sum;
    return (odd ^ (n & 1)) << 16 | fold((u64)(state & 0xffff) + sum);
}

INLINE u64 hash_xor16(const u8 *p, u32 n)
{
    u16 value = 0;
    for (; n >= 2; p += 2, n -= 2)
        value ^= rd16(p);
    return n ? (u16)(value ^ *p << 8) : value;
}
