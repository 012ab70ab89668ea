//! The conversion of fields between the packet and the state.

use std::cmp::Ordering;

use ir::{Field, HeaderId, HeaderType};

use super::{Body, Text, c_type, constant, mask, wide};

/// The C that reads a field from the packet. `p` points to the header.
pub fn read(field: &Field) -> String {
    let (at, width) = (field.offset, field.ty.width());
    if width == 0 {
        return constant(&abi::Bits::zero(0));
    }
    if wide::is_wide(field.ty) {
        return wide::read(at, width);
    }
    let (first, end) = (at / 8, (at + width).div_ceil(8));
    let whole = spans(first, end);
    if whole.len() == 1 && at.is_multiple_of(8) && width == 8 * whole[0].1 {
        return load(whole[0]);
    }
    let wide = machine_word(width);
    let part = |span @ (from, size): (u32, u32)| {
        // The piece may end before or after the field, so it is shifted left or right by the distance. A field of at most 128 bits may
        // span 17 bytes, and its pieces may contain bits of other fields on both sides. The mask, or the left end of the word, removes the
        // bits of the fields before.
        let (piece_end, field_end) = (8 * (from + size), at + width);
        let loaded = load(span);
        match piece_end.cmp(&field_end) {
            Ordering::Less => format!("(({wide}){loaded} << {})", field_end - piece_end),
            Ordering::Equal => format!("({wide}){loaded}"),
            Ordering::Greater => format!("({wide})({loaded} >> {})", piece_end - field_end),
        }
    };
    mask(whole.into_iter().map(part).collect::<Vec<_>>().join(" | "), width)
}

/// The type in which a value of `width` bits is assembled. It has at least 32 bits, because C would promote a smaller one to a signed `int`.
fn machine_word(width: u32) -> &'static str {
    match width {
        0..=32 => "u32",
        33..=64 => "u64",
        _ => "u128",
    }
}

/// Divides the bytes `first..end` into pieces of 8, 4, 2 or 1 bytes. Returns the offset and the size of each.
fn spans(first: u32, end: u32) -> Vec<(u32, u32)> {
    let mut at = first;
    let mut out = Vec::new();
    while at < end {
        let size = [8, 4, 2, 1].into_iter().find(|s| at + s <= end).unwrap_or(1);
        out.push((at, size));
        at += size;
    }
    out
}

fn load((at, size): (u32, u32)) -> String {
    format!("rd{}(p + {at})", size * 8)
}

/// The groups of fields that share bytes. Each group is a whole number of bytes. A varbit field counts as empty.
pub fn groups(ty: &HeaderType) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    for (i, field) in ty.fields.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if at % 8 != 0 => group.push(i),
            _ => groups.push(vec![i]),
        }
        at += field.min_bits();
    }
    groups
}

/// Emits stores of a group of fields to the header at `p`. Each store writes a piece with the bits of all fields that lie in it.
pub fn write(body: &mut Body<'_>, header: HeaderId, group: &[usize]) {
    let ty = body.program.header_type(header);
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let end_of = |i: usize| ty.fields[i].offset + ty.fields[i].min_bits();
    for (from, size) in spans(ty.fields[*first].offset / 8, end_of(*last) / 8) {
        let (start, end) = (8 * from, 8 * (from + size));
        let wide = machine_word(8 * size);
        let inside =
            |&&i: &&usize| ty.fields[i].min_bits() > 0 && ty.fields[i].offset < end && end_of(i) > start;
        let inside: Vec<usize> = group.iter().filter(inside).copied().collect();
        let part = |&i: &usize| {
            let member = format!("s->{}.{}", body.names.header(header), body.names.field(header, i));
            let width = ty.fields[i].ty.width();
            if width > 128 {
                let low = wide::word_at(&member, width, end_of(i).saturating_sub(end));
                return match end_of(i) < end {
                    true => format!("({low} << {})", end - end_of(i)),
                    false => low,
                };
            }
            match end_of(i).cmp(&end) {
                Ordering::Greater => format!("({wide})({member} >> {})", end_of(i) - end),
                Ordering::Equal if inside.len() == 1 => member,
                Ordering::Equal => format!("({wide}){member}"),
                Ordering::Less => format!("(({wide}){member} << {})", end - end_of(i)),
            }
        };
        let value = inside.iter().map(part).collect::<Vec<_>>().join(" | ");
        body.text.line(format!("wr{0}(p + {from}, (u{0})({value}));", size * 8));
    }
}

/// Emits stores of a packed key field, which has whole bytes in network order, at `k + at`.
pub fn write_key(value: &str, width: u32, at: u32, text: &mut Text) {
    let bytes = width.div_ceil(8);
    if width > 128 {
        text.line(format!("words_write(k + {at}, {}, {bytes});", wide::as_words(value, width)));
        return;
    }
    let wide = c_type(ir::Ty::Bit(width.max(8))).unwrap_or("u128");
    let mut left = bytes * 8;
    for (offset, size) in spans(at, at + bytes) {
        left -= size * 8;
        let shifted = if left == 0 { format!("({value})") } else { format!("(({wide})({value}) >> {left})") };
        text.line(format!("wr{}(k + {offset}, (u{}){shifted});", size * 8, size * 8));
    }
}

/// Emits stores of the low `width` bits of a value into zeroed bytes, most significant bit first, from bit `at` on.
pub fn write_bits(bytes: &str, value: &str, width: u32, at: u32, text: &mut Text) {
    let (end, mut from) = (at + width, at);
    if width > 128 {
        let value = wide::as_words(value, width);
        text.line(format!("words_write_bits({bytes}, {at}, {value}, {width});"));
        return;
    }
    text.open("");
    text.line(format!("{} v = {value};", c_type(ir::Ty::Bit(width.max(8))).unwrap_or("u128")));
    while from < end {
        let to = end.min((from / 8 + 1) * 8);
        let part = format!("(v >> {} & {})", end - to, (1u32 << (to - from)) - 1);
        let shift = (8 - to % 8) % 8;
        text.line(format!("{bytes}[{}] |= (u8)({part} << {shift});", from / 8));
        from = to;
    }
    text.close("");
}

/// The C of a ternary match: whether `value` equals `v` under the mask `m`.
pub fn masked_equal(value: &str, v: &abi::Bits, m: &abi::Bits) -> String {
    let masked = match v.width() {
        0..=128 => format!("(({value}) & {})", constant(m)),
        width => wide::call(width, "and", &[value, &constant(m)]),
    };
    super::equal(&masked, &constant(&v.and(m)), v.width())
}
