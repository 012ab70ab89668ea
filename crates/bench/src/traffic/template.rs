//! Templates: the headers of a packet, before their fields have values.

use std::sync::Arc;

/// A field of a template and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The full name, such as `hdr.ipv4.dst`.
    pub name: String,
    /// The number of the first bit. Bit 0 is the most significant bit of the first byte.
    pub at: u32,
    /// Width in bits.
    pub width: u32,
}

/// A sequence of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The names of the headers, such as `ethernet/ipv4/udp`.
    pub name: String,
    /// The fields of all headers, in order.
    pub fields: Arc<[Field]>,
    /// The values of the bits that are fixed; the other bits are zero.
    pub bytes: Vec<u8>,
    /// The mask of the fixed bits: packets have these bits of `bytes`, whatever values their fields get.
    pub fixed: Vec<u8>,
}

/// Why a name does not identify a field. The fields of a variant are the parts of its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FieldError {
    /// No header has such a field.
    #[error("{headers} has no field `{name}`")]
    Unknown { headers: String, name: String },
    /// Several headers have such a field.
    #[error("`{name}` could be {fields}")]
    Several { name: String, fields: String },
}

impl Template {
    /// The field with this name. A part after a dot is enough: `ipv4.dst` means `hdr.ipv4.dst`.
    pub fn field(&self, name: &str) -> Result<&Field, FieldError> {
        let means = |field: &&Field| {
            field.name == name || field.name.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
        };
        let found: Vec<&Field> = self.fields.iter().filter(means).collect();
        match found[..] {
            [one] => Ok(one),
            [] => Err(FieldError::Unknown { headers: self.name.clone(), name: name.to_string() }),
            _ => {
                let names: Vec<&str> = found.iter().map(|f| f.name.as_str()).collect();
                Err(FieldError::Several { name: name.to_string(), fields: names.join(" or ") })
            }
        }
    }

    /// The fixed bits of a field: their mask and their value.
    pub fn fixed_bits(&self, field: &Field) -> (u128, u128) {
        (read(&self.fixed, field.at, field.width), read(&self.bytes, field.at, field.width))
    }

    /// Fixes the bits under a mask to a value. Returns false if they are fixed to another value already.
    pub fn fix(&mut self, field: &Field, value: u128, mask: u128) -> bool {
        let (fixed, has) = self.fixed_bits(field);
        if (value ^ has) & mask & fixed != 0 {
            return false;
        }
        write(&mut self.bytes, field.at, field.width, has | value & mask);
        write(&mut self.fixed, field.at, field.width, fixed | mask);
        true
    }

    /// Writes the fixed bits into a packet.
    pub fn write_fixed(&self, packet: &mut [u8]) {
        for ((byte, value), fixed) in packet.iter_mut().zip(&self.bytes).zip(&self.fixed) {
            *byte = *byte & !fixed | value & fixed;
        }
    }
}

/// Reads up to 128 bits, from bit number `at` on.
pub fn read(bytes: &[u8], at: u32, width: u32) -> u128 {
    (at..at + width).fold(0, |all, bit| {
        let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
        all << 1 | u128::from(byte >> (7 - bit % 8) & 1)
    })
}

/// Writes up to 128 bits, from bit number `at` on.
pub fn write(bytes: &mut [u8], at: u32, width: u32, value: u128) {
    if at.is_multiple_of(8) && width.is_multiple_of(8) {
        let (at, size) = (at as usize / 8, width as usize / 8);
        if let Some(room) = bytes.get_mut(at..at + size) {
            room.copy_from_slice(&value.to_be_bytes()[16 - size..]);
        }
        return;
    }
    for n in 0..width {
        let bit = at + width - 1 - n;
        if let Some(byte) = bytes.get_mut(bit as usize / 8) {
            let mask = 0x80 >> (bit % 8);
            *byte = if value >> n & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }
}
