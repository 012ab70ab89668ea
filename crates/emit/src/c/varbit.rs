//! Varbit fields in the kernel: `struct varbit_N`, a length and room for N bytes. Helpers copy them between the packet and the state, because the
//! verifier knows no length of them but the largest. Bytes beyond a length are zero, so comparisons and sums take all of them; but behind the length 0
//! there may be anything, because to clear the bytes for every packet would cost time.

use ir::{Expr, HeaderId, Program, Ty};

use super::access::Standing;
use super::{Body, Emitted, Text, header, wide};

/// The most bytes of a varbit field. They are in the state of the packet.
const MOST: u32 = 256;

/// The functions of varbit fields in the kernel.
pub const VARBIT: &str = r#"
/* A varbit field of at most BYTES bytes, of which `length` are in use. The others are zero, unless the length is 0. */
#define VARBIT(BYTES)                                                                  \
    struct varbit_##BYTES {                                                            \
        u64 length;                                                                    \
        u8 bytes[(BYTES + 7 + !BYTES) / 8 * 8] __attribute__((aligned(8)));            \
    };                                                                                 \
    INLINE int varbit_##BYTES##_equal(const struct varbit_##BYTES *a, const struct varbit_##BYTES *b) \
    {                                                                                  \
        const u64 *x = (const u64 *)a, *y = (const u64 *)b;                            \
        u64 differs = x[0] ^ y[0];                                                     \
        if (!x[0] || differs)                                                          \
            return !differs;                                                           \
        _Pragma("clang loop unroll(full)") for (u32 i = 1; i < sizeof(*a) / 8; i++)    \
            differs |= x[i] ^ y[i];                                                    \
        return !differs;                                                               \
    }                                                                                  \
    /* Returns the sum of the 16-bit words, not folded. */                             \
    INLINE u64 varbit_##BYTES##_sum(const struct varbit_##BYTES *v)                    \
    {                                                                                  \
        u64 sum = 0;                                                                   \
        _Pragma("clang loop unroll(full)") for (u32 i = 0; i < sizeof(v->bytes); i += 4) \
            sum += rd32(v->bytes + i);                                                 \
        return v->length ? sum : 0;                                                    \
    }
"#;

/// Whether the kernel has fields of this type.
pub fn has(ty: Ty) -> bool {
    ty.is_varbit() && wide::room(ty) <= MOST
}

/// Declares the types of all varbit fields of a program.
pub fn declare(program: &Program, text: &mut Text) {
    let fields = program.header_types.iter().flat_map(|t| &t.fields).map(|f| f.ty);
    let vars = program.vars.iter().map(|v| v.ty);
    let rooms: std::collections::BTreeSet<u32> =
        fields.chain(vars).filter(|ty| has(*ty)).map(wide::room).collect();
    if !rooms.is_empty() {
        text.raw(VARBIT);
        rooms.iter().for_each(|room| text.line(format!("VARBIT({room})")));
    }
}

impl Body<'_> {
    /// Emits the extraction of a header with a varbit field of `bits` bits, as [`Body::extract_varbit`] does in ordinary memory.
    pub(super) fn extract_varbit_by_helper(&mut self, h: HeaderId, varbit: usize, bits: &Expr) {
        let ty = self.program.header_type(h).clone();
        let (name, bytes) = (self.names.header(h).to_string(), ty.min_bits() / 8);
        let (at, most) = (ty.fields[varbit].offset, ty.fields[varbit].ty.width());
        if !at.is_multiple_of(8) {
            return self.unsupported(
                "a varbit field that does not begin at a whole byte",
                "put whole bytes in front of it, or run on native",
            );
        }
        let field = format!("s->{name}.{}", self.names.field(h, varbit));
        let (pkt, length, bits) = (self.facts.hook.packet(), self.facts.hook.length(), self.expr(bits));
        self.text.open("");
        self.text.line(format!("u32 bits = {bits}, size = bits >> 3;"));
        self.text.open("if (bits & 7)");
        self.reject(6, "ParserInvalidArgument");
        self.text.close("");
        self.text.open(format!("if (bits > 0x7ffff || s->cursor + {bytes} + size > {length})"));
        self.too_short();
        self.text.close("");
        self.text.open(format!("if (bits > {most})"));
        self.reject(4, "HeaderTooShort");
        self.text.close("");
        // The whole header must be where the deparser can write it.
        self.text
            .open(format!("if ({bytes} + size && !packet_at({pkt}, s->cursor + {bytes} + size - 1, 1))"));
        self.too_short();
        self.text.close("");
        self.text.line(format!("__builtin_memset(&{field}, 0, sizeof({field}));"));
        // The verifier forgets that the length is not zero, and what the compiler knows about it.
        self.text.line("u32 last = size - 1;");
        self.text.line("asm volatile(\"\" : \"+r\"(last));");
        let load = format!("load_bytes({pkt}, s->cursor + {}, {field}.bytes, last + 1)", at / 8);
        self.text.open(format!("if (last < {} && {load})", most / 8));
        self.too_short();
        self.text.close("");
        self.text.line(format!("{field}.length = size;"));
        for (first, place) in [(true, "s->cursor".to_string()), (false, "s->cursor + size".to_string())] {
            let fields: Vec<_> = ty
                .fields
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != varbit && (*i < varbit) == first)
                .collect();
            if fields.is_empty() {
                continue;
            }
            let end = if first { at / 8 } else { bytes };
            self.text.line(format!("p = packet_at({pkt}, {place}, {end});"));
            self.text.open("if (!p)");
            self.too_short();
            self.text.close("");
            for (i, f) in fields {
                self.text.line(format!("s->{name}.{} = {};", self.names.field(h, i), header::read(f)));
            }
        }
        self.text.line(format!("s->{name}_valid = 1;"));
        self.text.line(format!("t->{name}_in = s->cursor;"));
        self.text.line(format!("s->cursor += {bytes} + size;"));
        self.text.close("");
    }

    /// Emits stores of all fields of a header with a varbit field.
    pub fn write_with_varbit(&mut self, at: &Standing<'_>, h: &Emitted, length: &str, varbit: usize) {
        let ty = self.program.header_type(h.id).clone();
        let (first, room) = (ty.fields[varbit].offset / 8, wide::room(ty.fields[varbit].ty));
        let groups = header::groups(&ty);
        let part = |before: bool| {
            groups.iter().filter(move |g| g.iter().all(|f| *f != varbit && (*f < varbit) == before))
        };
        for (before, place, end) in
            [(true, at.out(), first), (false, format!("{} + (u32){length}", at.out()), h.bytes)]
        {
            if part(before).next().is_some() {
                self.point(at, &place, end);
                part(before).for_each(|group| header::write(self, h.id, group));
            }
        }
        let (pkt, value) =
            (self.facts.hook.packet(), format!("s->{}.{}", h.name, self.names.field(h.id, varbit)));
        self.text.line(format!("u32 last = (u32){length} - 1;"));
        self.text.line("asm volatile(\"\" : \"+r\"(last));");
        let store = format!("store_bytes({pkt}, {} + {first}, {value}.bytes, last + 1)", at.out());
        self.text.line(format!("if (last < {room} && {store})"));
        self.text.line("    return 1;");
    }
}
