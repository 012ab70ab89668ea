
/* Values of more than 128 bits, as words of which the first is the lowest, and varbit fields. These functions work on any number of words. */

/* Returns 64 bits of a value, from bit `at` on. The bits beyond the value are zero. */
INLINE u64 words_bits(const u64 *v, u32 n, u64 at)
{
    u64 first = at / 64, low = first < n ? v[first] : 0;
    u32 bits = at % 64;
    return bits && first + 1 < n ? low >> bits | v[first + 1] << (64 - bits) : low >> bits;
}

INLINE u128 words_bits128(const u64 *v, u32 n, u64 at)
{
    return U128(words_bits(v, n, at + 64), words_bits(v, n, at));
}

INLINE int words_equal(const u64 *a, const u64 *b, u32 n)
{
    u64 differ = 0;
    for (u32 i = 0; i < n; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

static UNUSED int words_less(const u64 *a, const u64 *b, u32 n)
{
    while (n--) {
        if (a[n] != b[n])
            return a[n] < b[n];
    }
    return 0;
}

/* The comparison of two int<width>. */
static UNUSED int words_less_signed(const u64 *a, const u64 *b, u32 n, u32 width)
{
    u64 x = words_bits(a, n, width - 1) & 1, y = words_bits(b, n, width - 1) & 1;
    return x != y ? x > y : words_less(a, b, n);
}

/* Returns the distance of a shift. One of more than 64 bits is larger than any value is wide. */
static UNUSED u64 words_amount(const u64 *v, u32 n)
{
    u64 rest = 0;
    for (u32 i = 1; i < n; i++)
        rest |= v[i];
    return rest ? ~0ULL : v[0];
}

/* Returns the folded sum of the 16-bit words of a value. The value's last bit must be the last bit of a 16-bit word. */
static UNUSED u64 words_sum(const u64 *v, u32 n)
{
    u64 sum = 0;
    for (u32 i = 0; i < n; i++)
        sum += word_sum64(v[i]);
    return fold(sum);
}

static UNUSED void words_multiply(u64 *product, const u64 *a, const u64 *b, u32 n)
{
    __builtin_memset(product, 0, n * 8);
    for (u32 i = 0; i < n; i++) {
        u64 carry = 0;
        for (u32 j = 0; i + j < n; j++) {
            u128 sum = (u128)a[i] * b[j] + product[i + j] + carry;
            product[i + j] = (u64)sum;
            carry = (u64)(sum >> 64);
        }
    }
}

/* Divides bit by bit. Both results are zero if the divisor is zero. */
static UNUSED void words_divide(u64 *quotient, u64 *rest, const u64 *a, const u64 *b, u32 n)
{
    u64 any = 0;
    __builtin_memset(quotient, 0, n * 8);
    __builtin_memset(rest, 0, n * 8);
    for (u32 i = 0; i < n; i++)
        any |= b[i];
    for (u32 at = any ? n * 64 : 0; at--;) {
        u64 out = a[at / 64] >> (at % 64) & 1;
        for (u32 i = 0; i < n; i++) {
            u64 next = rest[i] >> 63;
            rest[i] = rest[i] << 1 | out;
            out = next;
        }
        if (!out && words_less(rest, b, n))
            continue;
        quotient[at / 64] |= 1ULL << (at % 64);
        u64 borrow = 0;
        for (u32 i = 0; i < n; i++) {
            u64 less = b[i] + borrow;
            borrow = less < borrow || rest[i] < less;
            rest[i] -= less;
        }
    }
}

/* Reads a number in network order of `size` bytes, without its last `tail` bits (0 to 7). */
static UNUSED void words_read(u64 *v, u32 n, const u8 *p, u32 size, u32 tail)
{
    for (u32 i = 0; i < n; i++) {
        u64 word = 0;
        for (u32 j = 0; j < 9; j++) {
            u32 at = 8 * i + j; /* the byte, counted from the end */
            u64 byte = at < size ? p[size - 1 - at] : 0;
            if (j == 0)
                word = byte >> tail;
            else if (j < 8 || tail)
                word |= byte << (8 * j - tail);
        }
        v[i] = word;
    }
}

/* Writes the low `size` bytes of a value in network order. */
static UNUSED void words_write(u8 *p, const u64 *v, u32 size)
{
    for (u32 i = 0; i < size; i++)
        p[size - 1 - i] = (u8)(v[i / 8] >> (i % 8 * 8));
}

/* Writes the low `width` bits of a value into bytes that are zero, from bit `at` on. */
static UNUSED void words_write_bits(u8 *p, u32 at, const u64 *v, u32 width)
{
    for (u32 done = 0, bits; done < width; done += bits) {
        u32 end = at + width - done, last = (end - 1) % 8 + 1;
        bits = last < width - done ? last : width - done;
        u64 value = words_bits(v, (width + 63) / 64, done) & ((1u << bits) - 1);
        p[(end - 1) / 8] |= (u8)(value << (8 - last));
    }
}

/* Copies bytes into bytes that are zero, from bit `at` on. */
static UNUSED void bytes_write_bits(u8 *p, u32 at, const u8 *from, u32 size)
{
    u32 bits = at % 8;
    for (p += at / 8; size; size--, p++, from++) {
        *p |= (u8)(*from >> bits);
        if (bits)
            p[1] |= (u8)(*from << (8 - bits));
    }
}

/* Reads `size` bytes from bit `bits` (0 to 7) of `p` on. */
static UNUSED void bytes_read_bits(u8 *to, const u8 *p, u32 bits, u32 size)
{
    for (; size; size--, p++)
        *to++ = (u8)(bits ? *p << bits | p[1] >> (8 - bits) : *p);
}

static UNUSED int bytes_equal(const u8 *a, u32 size, const u8 *b, u32 other)
{
    return size == other && !__builtin_memcmp(a, b, size);
}

/* Inserts a varbit field into a header at `p`, of which the other fields are written as if the field were empty: these take `rest` bytes
 * from the one on in which the field begins. `bits` is the number of its first bit there. */
static UNUSED void bytes_insert(u8 *p, u32 rest, u32 bits, const u8 *field, u32 size)
{
    u8 before = (u8)(bits ? *p & ~(0xff >> bits) : 0);
    __builtin_memmove(p + size, p, rest);
    if (bits)
        p[size] &= (u8)(0xff >> bits);
    for (; size; size--, field++) {
        *p++ = (u8)(before | *field >> bits);
        before = (u8)(bits ? *field << (8 - bits) : 0);
    }
    if (bits)
        *p |= before;
}

/* A varbit field of at most `BYTES` bytes, of which `length` are in use. */
#define VARBIT(BYTES)           \
    struct varbit_##BYTES {     \
        u32 length;             \
        u8 bytes[BYTES + !BYTES]; \
    };

/* The type of values of N words, and their operators. An operator whose result may have bits above the value's width is followed by
 * `keep`, which sets them to zero. */
#define WIDE(N)                                                                                              \
    struct wide_##N {                                                                                        \
        u64 word[N];                                                                                         \
    };                                                                                                       \
    static UNUSED struct wide_##N wide_##N##_keep(struct wide_##N v, u32 width)                              \
    {                                                                                                        \
        u32 at = width / 64;                                                                                 \
        if (at < N)                                                                                          \
            v.word[at] &= (1ULL << width % 64) - 1;                                                          \
        while (++at < N)                                                                                     \
            v.word[at] = 0;                                                                                  \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_low(u128 low)                                                   \
    {                                                                                                        \
        return (struct wide_##N){ { (u64)low, (u64)(low >> 64) } };                                          \
    }                                                                                                        \
    /* The bits of another value from bit `at` on. */                                                        \
    static UNUSED struct wide_##N wide_##N##_of(const u64 *from, u32 words, u64 at)                          \
    {                                                                                                        \
        struct wide_##N v;                                                                                   \
        for (u32 i = 0; i < N; i++)                                                                          \
            v.word[i] = at / 64 < words ? words_bits(from, words, at + 64 * i) : 0;                          \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_read(const u8 *p, u32 size, u32 tail)                           \
    {                                                                                                        \
        struct wide_##N v;                                                                                   \
        words_read(v.word, N, p, size, tail);                                                                \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_not(struct wide_##N v)                                          \
    {                                                                                                        \
        for (u32 i = 0; i < N; i++)                                                                          \
            v.word[i] = ~v.word[i];                                                                          \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_and(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        for (u32 i = 0; i < N; i++)                                                                          \
            a.word[i] &= b.word[i];                                                                          \
        return a;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_or(struct wide_##N a, struct wide_##N b)                        \
    {                                                                                                        \
        for (u32 i = 0; i < N; i++)                                                                          \
            a.word[i] |= b.word[i];                                                                          \
        return a;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_xor(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        for (u32 i = 0; i < N; i++)                                                                          \
            a.word[i] ^= b.word[i];                                                                          \
        return a;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_add(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        u64 carry = 0;                                                                                       \
        for (u32 i = 0; i < N; i++) {                                                                        \
            u128 sum = (u128)a.word[i] + b.word[i] + carry;                                                  \
            a.word[i] = (u64)sum;                                                                            \
            carry = (u64)(sum >> 64);                                                                        \
        }                                                                                                    \
        return a;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_sub(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        return wide_##N##_add(wide_##N##_add(a, wide_##N##_not(b)), wide_##N##_low(1));                      \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_mul(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        struct wide_##N v;                                                                                   \
        words_multiply(v.word, a.word, b.word, N);                                                           \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_div(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        struct wide_##N v, rest;                                                                             \
        words_divide(v.word, rest.word, a.word, b.word, N);                                                  \
        return v;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_mod(struct wide_##N a, struct wide_##N b)                       \
    {                                                                                                        \
        struct wide_##N v, rest;                                                                             \
        words_divide(v.word, rest.word, a.word, b.word, N);                                                  \
        return rest;                                                                                         \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_shl(struct wide_##N v, u64 bits)                                \
    {                                                                                                        \
        struct wide_##N r = { { 0 } };                                                                       \
        for (u64 i = bits / 64, j = 0; i < N; i++, j++) {                                                    \
            r.word[i] = v.word[j] << bits % 64;                                                              \
            if (j && bits % 64)                                                                              \
                r.word[i] |= v.word[j - 1] >> (64 - bits % 64);                                              \
        }                                                                                                    \
        return r;                                                                                            \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_shr(struct wide_##N v, u64 bits)                                \
    {                                                                                                        \
        return wide_##N##_of(v.word, N, bits);                                                               \
    }                                                                                                        \
    /* Extends an int<width> by its sign. */                                                                 \
    static UNUSED struct wide_##N wide_##N##_extend(struct wide_##N v, u32 width)                            \
    {                                                                                                        \
        struct wide_##N above = wide_##N##_shl(wide_##N##_not(wide_##N##_low(0)), width);                    \
        return words_bits(v.word, N, width - 1) & 1 ? wide_##N##_or(v, above) : v;                           \
    }                                                                                                        \
    /* The arithmetic shift to the right of an int<width>. */                                                \
    static UNUSED struct wide_##N wide_##N##_sar(struct wide_##N v, u64 bits, u32 width)                     \
    {                                                                                                        \
        if (!(words_bits(v.word, N, width - 1) & 1))                                                         \
            return wide_##N##_shr(v, bits);                                                                  \
        return wide_##N##_not(wide_##N##_shr(wide_##N##_not(wide_##N##_extend(v, width)), bits));            \
    }                                                                                                        \
    /* Saturating arithmetic (P4-16 section 8.5). */                                                         \
    static UNUSED struct wide_##N wide_##N##_add_sat(struct wide_##N a, struct wide_##N b, u32 width)        \
    {                                                                                                        \
        struct wide_##N v = wide_##N##_keep(wide_##N##_add(a, b), width);                                    \
        return words_less(v.word, a.word, N) ? wide_##N##_keep(wide_##N##_not(wide_##N##_low(0)), width) : v; \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_sub_sat(struct wide_##N a, struct wide_##N b, u32 width)        \
    {                                                                                                        \
        if (words_less(a.word, b.word, N))                                                                   \
            return wide_##N##_low(0);                                                                        \
        return wide_##N##_keep(wide_##N##_sub(a, b), width);                                                 \
    }                                                                                                        \
    /* The sum or difference `v` of two int<width>, or the limit if it has `over`flown: by the sign of `a`. */ \
    static UNUSED struct wide_##N wide_##N##_limit(struct wide_##N v, int over, struct wide_##N a, u32 width) \
    {                                                                                                        \
        struct wide_##N least = wide_##N##_shl(wide_##N##_low(1), width - 1);                                \
        if (!over)                                                                                           \
            return v;                                                                                        \
        return words_bits(a.word, N, width - 1) & 1 ? least : wide_##N##_sub(least, wide_##N##_low(1));      \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_add_sat_signed(struct wide_##N a, struct wide_##N b, u32 width) \
    {                                                                                                        \
        struct wide_##N v = wide_##N##_keep(wide_##N##_add(a, b), width);                                    \
        struct wide_##N over = wide_##N##_and(wide_##N##_xor(a, v), wide_##N##_xor(b, v));                   \
        return wide_##N##_limit(v, words_bits(over.word, N, width - 1) & 1, a, width);                       \
    }                                                                                                        \
    static UNUSED struct wide_##N wide_##N##_sub_sat_signed(struct wide_##N a, struct wide_##N b, u32 width) \
    {                                                                                                        \
        struct wide_##N v = wide_##N##_keep(wide_##N##_sub(a, b), width);                                    \
        struct wide_##N over = wide_##N##_and(wide_##N##_xor(a, b), wide_##N##_xor(a, v));                   \
        return wide_##N##_limit(v, words_bits(over.word, N, width - 1) & 1, a, width);                       \
    }
