//! Fields in the packet: how each is read into the state and written back.

use ir::{Field, HeaderType};

use super::{Text, c_name, c_type, constant, mask};

/// The C that reads a field whose header stands at `p`.
pub fn read(field: &Field) -> String {
    let (at, width) = (field.offset, field.ty.width());
    let (first, end) = (at / 8, (at + width).div_ceil(8));
    let tail = end * 8 - at - width;
    let bytes = end - first;
    let wide = if bytes > 8 {
        "u128"
    } else if bytes > 4 {
        "u64"
    } else {
        "u32"
    };
    let whole = spans(first, end);
    if whole.len() == 1 && tail == 0 && width == bytes * 8 {
        return load(whole[0]);
    }
    let mut left = bytes * 8;
    let mut parts = Vec::new();
    for span in whole {
        left -= span.1 * 8;
        let part = format!("({wide}){}", load(span));
        parts.push(if left == 0 { part } else { format!("({part} << {left})") });
    }
    let value = parts.join(" | ");
    let value = if tail == 0 { value } else { format!("({value}) >> {tail}") };
    mask(value, width)
}

/// Bytes `first..end` as naturally sized pieces: offset and size.
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

/// Groups of fields that share bytes: each group is a whole number of bytes.
pub fn groups(ty: &HeaderType) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    for (i, field) in ty.fields.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if at % 8 != 0 => group.push(i),
            _ => groups.push(vec![i]),
        }
        at += field.ty.width();
    }
    groups
}

/// Writes a group of fields of header `name` at `p`.
pub fn write(ty: &HeaderType, name: &str, group: &[usize], text: &mut Text) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let start = ty.fields[*first].offset;
    let end = ty.fields[*last].offset + ty.fields[*last].ty.width();
    let bits = end - start;
    let member = |i: usize| format!("s->{name}.{}", c_name(&ty.fields[i].name));
    let wide = if bits > 64 {
        "u128"
    } else if bits > 32 {
        "u64"
    } else {
        "u32"
    };
    let value = match group {
        [one] => member(*one),
        many => {
            let part = |&i: &usize| {
                let f = &ty.fields[i];
                let up = end - f.offset - f.ty.width();
                let part = format!("({wide}){}", member(i));
                if up == 0 { part } else { format!("({part} << {up})") }
            };
            many.iter().map(part).collect::<Vec<_>>().join(" | ")
        }
    };
    let pieces = spans(start / 8, end / 8);
    if let [(at, size)] = pieces.as_slice() {
        text.line(format!("wr{}(p + {at}, (u{})({value}));", size * 8, size * 8));
        return;
    }
    let mut left = bits;
    for (at, size) in pieces {
        left -= size * 8;
        let shifted = if left == 0 { format!("({value})") } else { format!("(({wide})({value}) >> {left})") };
        text.line(format!("wr{}(p + {at}, (u{}){shifted});", size * 8, size * 8));
    }
}

/// Writes a packed key field (big-endian, whole bytes) at `k + at`.
pub fn write_key(value: &str, width: u32, at: u32, text: &mut Text) {
    let bytes = width.div_ceil(8);
    let wide = c_type(ir::Ty::Bit(width.max(8))).unwrap_or("u128");
    let mut left = bytes * 8;
    for (offset, size) in spans(at, at + bytes) {
        left -= size * 8;
        let shifted = if left == 0 { format!("({value})") } else { format!("(({wide})({value}) >> {left})") };
        text.line(format!("wr{}(k + {offset}, (u{}){shifted});", size * 8, size * 8));
    }
}

/// A condition that holds when a value lies under a constant value and mask.
pub fn masked_equal(value: &str, v: &abi::Bits, m: &abi::Bits) -> String {
    super::equal(&format!("(({value}) & {})", constant(m)), &constant(&v.and(m)), v.width())
}
