//! Values: numbers and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use abi::Bits;
use num_bigint::BigUint;

use super::{Field, Kind, Mistake};
use crate::bytes;

/// The bytes of a value, as P4Runtime has them.
pub fn parse_value(field: &Field<'_>, text: &str) -> Result<Vec<u8>, Mistake> {
    match field.kind {
        Kind::Name if text.is_empty() => Err(format!("`{}` is an empty name", field.name)),
        Kind::Name => Ok(text.as_bytes().to_vec()),
        Kind::Bits(width) => Ok(bytes::shortest(&number(field.name, text, width)?)),
    }
}

/// A number of so many bits.
pub(super) fn number(name: &str, text: &str, width: u32) -> Result<Bits, Mistake> {
    let value = address(name, text, width)?.or_else(|| digits(text));
    let value = value.ok_or_else(|| format!("`{text}` is no number and no address (for `{name}`)"))?;
    match value.bits() <= u64::from(width) {
        true => Ok(Bits::from_big(width, &value)),
        false => Err(format!("`{text}` does not fit into the {width} bits of `{name}`")),
    }
}

fn digits(text: &str) -> Option<BigUint> {
    let text = text.replace('_', "");
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0b" | "0B") => (&text[2..], 2),
        _ => (text.as_str(), 10),
    };
    BigUint::parse_bytes(digits.as_bytes(), radix)
}

/// The value of an address, which must have the width of its field.
fn address(name: &str, text: &str, width: u32) -> Result<Option<BigUint>, Mistake> {
    let (value, own) = if let Ok(ip) = text.parse::<Ipv4Addr>() {
        (BigUint::from(u32::from(ip)), 32)
    } else if let Some(mac) = abi::mac::parse(text) {
        (BigUint::from(mac), 48)
    } else if let Ok(ip) = text.parse::<Ipv6Addr>() {
        (BigUint::from(u128::from(ip)), 128)
    } else {
        return Ok(None);
    };
    match own == width {
        true => Ok(Some(value)),
        false => Err(format!("`{text}` is an address of {own} bits, and `{name}` has {width}")),
    }
}

/// A value for people.
pub fn show_value(field: &Field<'_>, value: &[u8]) -> String {
    match field.kind {
        Kind::Name => String::from_utf8_lossy(value).into_owned(),
        Kind::Bits(width) => field.format.show(&Bits::from_bytes_be(width, value)),
    }
}
