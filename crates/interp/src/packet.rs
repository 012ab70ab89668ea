//! The state of one packet (variables, headers, the parser's cursor), and access to bits in bytes.

use abi::Bits;
use ir::{HeaderId, HeaderRef, Program};

/// The state of a header.
#[derive(Debug)]
pub struct HeaderState {
    /// Whether the header is valid.
    pub valid: bool,
    /// One value for each field. The value of a varbit field has the width with which it was extracted.
    pub fields: Vec<Bits>,
}

/// The state of a packet in the program.
#[derive(Debug, Default)]
pub struct PacketState {
    /// The values of the variables, by [`ir::VarId`].
    pub vars: Vec<Bits>,
    /// The headers, by [`ir::HeaderId`].
    pub headers: Vec<HeaderState>,
    /// For each stack, by [`ir::StackId`]: the index of the next free element.
    pub next: Vec<u32>,
    /// The bytes of the packet as it arrived.
    pub data: Vec<u8>,
    /// The parser's cursor, in bits.
    pub cursor: usize,
    /// Index of the drop site that ran last.
    pub site: Option<usize>,
    /// For each direct meter, by [`ir::MeterId`]: the colour that it gave the packet.
    pub colours: Vec<u8>,
    /// For each verified checksum: by how much it was wrong ([`crate::carry`]); `None` if it was not verified.
    pub wrong_by: Vec<Option<u16>>,
}

// This is not derived, so that `clone_from` reuses memory. Otherwise each packet would allocate memory for each of its headers.
impl Clone for HeaderState {
    fn clone(&self) -> Self {
        HeaderState { valid: self.valid, fields: self.fields.clone() }
    }

    fn clone_from(&mut self, from: &Self) {
        self.valid = from.valid;
        self.fields.clone_from(&from.fields);
    }
}

impl Clone for PacketState {
    fn clone(&self) -> Self {
        let mut copy = PacketState::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, from: &Self) {
        self.vars.clone_from(&from.vars);
        self.headers.clone_from(&from.headers);
        self.next.clone_from(&from.next);
        self.data.clone_from(&from.data);
        (self.cursor, self.site) = (from.cursor, from.site);
        self.colours.clone_from(&from.colours);
        self.wrong_by.clone_from(&from.wrong_by);
    }
}

impl PacketState {
    /// A packet whose variables are zero and whose headers are invalid.
    pub fn new(program: &Program) -> PacketState {
        let header = |h: &ir::Header| {
            let fields = &program.header_types[h.ty.index()].fields;
            HeaderState { valid: false, fields: fields.iter().map(|f| zero(f.ty)).collect() }
        };
        PacketState {
            vars: program.vars.iter().map(|v| Bits::zero(v.ty.width())).collect(),
            headers: program.headers.iter().map(header).collect(),
            next: vec![0; program.stacks.len()],
            data: Vec::new(),
            cursor: 0,
            site: None,
            colours: vec![dataplane::meter::GREEN; program.meters.len()],
            wrong_by: Vec::new(),
        }
    }

    /// The number of bits after the cursor.
    pub fn left(&self) -> usize {
        (self.data.len() * 8).saturating_sub(self.cursor)
    }

    /// The whole bytes after the cursor.
    pub fn payload(&self) -> &[u8] {
        self.data.get(self.cursor.div_ceil(8)..).unwrap_or_default()
    }

    /// Makes a header invalid and zero; its varbit field becomes empty.
    pub fn invalidate(&mut self, program: &Program, id: HeaderId) {
        let header = &mut self.headers[id.index()];
        header.valid = false;
        let fields = &program.header_type(id).fields;
        header.fields.iter_mut().zip(fields).for_each(|(value, field)| *value = zero(field.ty));
    }

    /// The index of a stack's next element.
    fn next_of(&self, program: &Program, stack: ir::StackId) -> u64 {
        self.next[program.stacks[stack.index()].index.index()] as u64
    }

    /// The header that a reference denotes; `None` if its index is out of range.
    pub fn resolve(
        &self,
        program: &Program,
        header: &HeaderRef,
        index: impl FnOnce() -> u64,
    ) -> Option<HeaderId> {
        let (stack, at) = match header {
            HeaderRef::Header(id) => return Some(*id),
            HeaderRef::Element(s, _) => (s, index()),
            HeaderRef::Next(s) => (s, self.next_of(program, *s)),
            HeaderRef::Last(s) => (s, self.next_of(program, *s).checked_sub(1)?),
        };
        let stack = &program.stacks[stack.index()];
        (at < stack.size as u64).then(|| HeaderId(stack.first.0 + at as u32))
    }
}

/// The value of a field before something writes it: zero, or an empty varbit (P4-16 section 8.10).
pub fn zero(ty: ir::Ty) -> Bits {
    Bits::zero(if ty.is_varbit() { 0 } else { ty.width() })
}

/// Reads `width` bits from bit number `at` on; bit 0 is the most significant bit of the first byte. The caller has checked that the bits
/// exist.
pub fn read_bits(bytes: &[u8], at: usize, width: u32) -> Bits {
    let (first, end) = (at / 8, (at + width as usize).div_ceil(8));
    let window = bytes.get(first..end).unwrap_or_default();
    let tail = end * 8 - at - width as usize;
    let wide = Bits::from_bytes_be((window.len() * 8) as u32, window);
    wide.shr(tail as u64).resize(width)
}

/// Writes values of any width into bytes, one after the other.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// The number of used bits in the last byte, 0 if it is full.
    partial: u32,
}

impl BitWriter {
    /// Appends a value, most significant bit first.
    pub fn push(&mut self, value: &Bits) {
        let width = value.width();
        if width == 0 {
            return;
        }
        // The value is shifted so that it ends at a byte boundary of the result.
        let used = (self.partial + width) % 8;
        let tail = (8 - used) % 8;
        let bytes = value.resize(self.partial + width + tail).shl(tail as u64).to_bytes_be();
        let mut bytes = bytes.into_iter();
        if self.partial > 0
            && let (Some(last), Some(byte)) = (self.bytes.last_mut(), bytes.next())
        {
            *last |= byte;
        }
        self.bytes.extend(bytes);
        self.partial = used;
    }

    /// The bytes written. The last byte is padded with zero bits.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_in_and_come_out_at_any_place() {
        let parts = [
            (3, 5u128),
            (13, 0x1abc & 0x1fff),
            (1, 1),
            (48, 0x0102_0304_0506),
            (7, 0x55),
            (128, u128::MAX - 9),
        ];
        let mut writer = BitWriter::default();
        parts.iter().for_each(|&(w, v)| writer.push(&Bits::new(w, v)));
        let bytes = writer.finish();
        let mut at = 0;
        for (width, value) in parts {
            assert_eq!(read_bits(&bytes, at, width), Bits::new(width, value));
            at += width as usize;
        }
        assert_eq!(bytes.len(), at.div_ceil(8));
    }
}
