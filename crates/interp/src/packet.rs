//! The state of one packet: variables, headers, the parser's cursor; and bits in bytes.

use abi::Bits;
use ir::{HeaderId, HeaderRef, Program};

/// A header's storage.
#[derive(Debug)]
pub struct HeaderState {
    /// Whether it is there.
    pub valid: bool,
    /// One value a field. A varbit field's value has the width it was extracted with.
    pub fields: Vec<Bits>,
}

/// Everything that a packet carries through the program.
#[derive(Debug, Default)]
pub struct PacketState {
    /// By [`ir::VarId`].
    pub vars: Vec<Bits>,
    /// By [`ir::HeaderId`].
    pub headers: Vec<HeaderState>,
    /// By [`ir::StackId`]: the number of the next free element.
    pub next: Vec<u32>,
    /// The packet as it came.
    pub data: Vec<u8>,
    /// The parser's cursor, in bits.
    pub cursor: usize,
    /// Index of the drop site that ran last.
    pub site: Option<usize>,
    /// By [`ir::MeterId`]: the colour that a direct meter gave.
    pub colours: Vec<u8>,
    /// What shall happen when this half of the pipeline ends.
    pub asked: Asked,
}

/// What a packet has asked for. The last call of each kind counts.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// PNA: where to; nowhere without it.
    pub port: Option<u32>,
    /// PNA: sessions by slot.
    pub mirrors: std::collections::BTreeMap<u32, u32>,
    /// Session and variables to keep; whether as egress leaves it.
    pub clone: Option<(bool, u32, Vec<ir::VarId>)>,
    /// Variables to keep.
    pub resubmit: Option<Vec<ir::VarId>>,
    /// Variables to keep.
    pub recirculate: Option<Vec<ir::VarId>>,
    /// Messages to the control plane.
    pub digests: Vec<abi::Digest>,
    /// Bytes of the deparsed packet that stay.
    pub truncate: Option<u64>,
}

// Written out, so that `clone_from` keeps the memory that is there: a packet would allocate for each of its headers.
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
        self.asked.clone_from(&from.asked);
    }
}

impl PacketState {
    /// All zero, all invalid.
    pub fn new(program: &Program) -> PacketState {
        let header = |h: &ir::Header| {
            let fields = &program.header_types[h.ty.index()].fields;
            let zero = |f: &ir::Field| Bits::zero(if f.ty.is_varbit() { 0 } else { f.ty.width() });
            HeaderState { valid: false, fields: fields.iter().map(zero).collect() }
        };
        PacketState {
            vars: program.vars.iter().map(|v| Bits::zero(v.ty.width())).collect(),
            headers: program.headers.iter().map(header).collect(),
            next: vec![0; program.stacks.len()],
            data: Vec::new(),
            cursor: 0,
            site: None,
            colours: vec![dataplane::meter::GREEN; program.meters.len()],
            asked: Asked::default(),
        }
    }

    /// Bits of the packet from the cursor on.
    pub fn left(&self) -> usize {
        (self.data.len() * 8).saturating_sub(self.cursor)
    }

    /// What lies behind the cursor, in whole bytes.
    pub fn payload(&self) -> &[u8] {
        self.data.get(self.cursor.div_ceil(8)..).unwrap_or_default()
    }

    /// Makes a header invalid and zero.
    pub fn invalidate(&mut self, id: HeaderId) {
        let header = &mut self.headers[id.index()];
        header.valid = false;
        header.fields.iter_mut().for_each(|f| *f = Bits::zero(f.width()));
    }

    /// The next index of a stack.
    fn next_of(&self, program: &Program, stack: ir::StackId) -> u64 {
        self.next[program.stacks[stack.index()].index.index()] as u64
    }

    /// The header that a reference whose index is known names; `None`: out of range.
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

/// `width` bits of `bytes`, from bit `at` on (0 is the most significant of the first byte). The caller knows they are
/// there.
pub fn read_bits(bytes: &[u8], at: usize, width: u32) -> Bits {
    let (first, end) = (at / 8, (at + width as usize).div_ceil(8));
    let window = bytes.get(first..end).unwrap_or_default();
    let tail = end * 8 - at - width as usize;
    let wide = Bits::from_bytes_be((window.len() * 8) as u32, window);
    wide.shr(tail as u64).resize(width)
}

/// Bits put one after the other into bytes.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are taken, 0 if it is full.
    partial: u32,
}

impl BitWriter {
    /// Appends a value, most significant bit first.
    pub fn push(&mut self, value: &Bits) {
        let width = value.width();
        if width == 0 {
            return;
        }
        // Shifted so that its end is the end of a byte of the result.
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

    /// The bytes, the last one filled up with zero bits.
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
