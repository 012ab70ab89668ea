//! The CRCs on tc.

use ir::{Call, HashAlgorithm, StmtKind};

use super::Ebpf;

/// The kernel verifies `crc_of` once and not on each path that leads to a hash. The function takes one bit a step, because a table would
/// need a map of its own.
pub(super) const CRC: &str = r#"
/* Returns the CRC of the first `n` bytes of the scratch buffer. The polynomial is reflected. */
NOINLINE u32 crc_of(u32 n, u32 crc, u32 polynomial)
{
    struct packet *packet = get_packet();
    if (!packet)
        return 0;
    const u8 *p = (const u8 *)packet->scratch.buffer;
    for (u32 i = 0; i < n && i < sizeof(packet->scratch.buffer); i++) {
        crc ^= p[i];
        for (u32 bit = 0; bit < 8; bit++) {
            u32 mask = -(crc & 1);
            asm volatile("" : "+r"(mask)); /* or the compiler makes a branch of each bit, and the verifier follows all combinations */
            crc = crc >> 1 ^ (polynomial & mask);
        }
    }
    return crc;
}

/* These compute the same hashes as dataplane::hash. */
#define hash_crc16(bytes, n) ((u64)crc_of(n, 0, 0xa001))
#define hash_crc32(bytes, n) ((u64)~crc_of(n, ~0u, 0xedb88320))
#define update_crc16(crc, bytes, n) crc_of(n, crc, 0xa001)
#define update_crc32(crc, bytes, n) (~crc_of(n, ~(crc), 0xedb88320))
"#;

impl Ebpf<'_> {
    /// Emits the functions of the CRCs if the program has any.
    pub(super) fn hashes(&mut self) {
        use HashAlgorithm::{Crc16, Crc16Custom, Crc32, Crc32Custom};
        let is_crc = |a: HashAlgorithm| matches!(a, Crc16 | Crc16Custom | Crc32 | Crc32Custom);
        let mut any = self.c.program.profiles.iter().any(|p| p.selector.is_some_and(|(a, _)| is_crc(a)));
        ir::visit::all_stmts(self.c.program, &mut |stmt| {
            if let StmtKind::Call(Call::Hash { algorithm, .. } | Call::UpdateHash { algorithm, .. }) =
                &stmt.kind
            {
                any |= is_crc(*algorithm);
            }
        });
        if any {
            self.c.text.raw(CRC);
        }
    }
}
