//! A packet's headers before their fields have values.

use std::sync::Arc;

/// A field and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// `hdr.ipv4.dst`.
    pub name: String,
    /// The bit where it begins, 0 being the most significant of the first byte.
    pub at: u32,
    /// Bits.
    pub width: u32,
}

/// Headers one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// `ethernet/ipv4/udp`.
    pub name: String,
    /// The fields of all headers.
    pub fields: Arc<[Field]>,
    /// Values of the bits that must have one; zeros elsewhere.
    pub bytes: Vec<u8>,
    /// Ones for the bits that must have their value.
    pub fixed: Vec<u8>,
}

/// Why a name is not one field's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No header has it.
    #[error("{headers} has no field `{name}`")]
    Unknown {
        /// The template.
        headers: String,
        /// What was looked for.
        name: String,
    },
    /// Several have it.
    #[error("`{name}` could be {fields}")]
    Several {
        /// What was looked for.
        name: String,
        /// Their names.
        fields: String,
    },
}

impl Template {
    /// The field of that name, which need not be whole: `ipv4.dst` means `hdr.ipv4.dst`.
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

    /// The bits of a field that must have a value: their mask, and the value.
    pub fn demanded(&self, field: &Field) -> (u128, u128) {
        (read(&self.fixed, field.at, field.width), read(&self.bytes, field.at, field.width))
    }

    /// Lets the bits under the mask have this value; false if they must have another.
    pub fn demand(&mut self, field: &Field, value: u128, mask: u128) -> bool {
        let (fixed, has) = self.demanded(field);
        if (value ^ has) & mask & fixed != 0 {
            return false;
        }
        write(&mut self.bytes, field.at, field.width, has | value & mask);
        write(&mut self.fixed, field.at, field.width, fixed | mask);
        true
    }

    /// Puts the bits that must have a value into a packet.
    pub fn insist(&self, packet: &mut [u8]) {
        for ((byte, value), fixed) in packet.iter_mut().zip(&self.bytes).zip(&self.fixed) {
            *byte = *byte & !fixed | value & fixed;
        }
    }
}

/// Up to 128 bits.
pub fn read(bytes: &[u8], at: u32, width: u32) -> u128 {
    (at..at + width).fold(0, |all, bit| {
        let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
        all << 1 | u128::from(byte >> (7 - bit % 8) & 1)
    })
}

/// Writes as many bits of a value.
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
