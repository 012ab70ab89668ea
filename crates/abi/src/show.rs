//! Values for people: numbers and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Bits;

/// How numbers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Format {
    Decimal,
    Hex,
    Ipv4,
    Ipv6,
    Mac,
}

impl Format {
    /// How a field with this name and width is shown. P4 has no types of addresses; IPv4's are told from other numbers by their names.
    pub fn of(name: &str, width: u32) -> Format {
        let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
        let is_address =
            ["addr", "ip", "dst", "src", "hop", "gateway"].iter().any(|part| last.contains(part));
        match width {
            48 => Format::Mac,
            128 => Format::Ipv6,
            32 if is_address => Format::Ipv4,
            ..=16 => Format::Decimal,
            _ => Format::Hex,
        }
    }

    /// Whether values are addresses.
    pub fn is_address(self) -> bool {
        matches!(self, Format::Ipv4 | Format::Ipv6 | Format::Mac)
    }

    /// A value as text.
    pub fn show(self, value: &Bits) -> String {
        let small = value.to_u128().unwrap_or_default();
        match self {
            Format::Decimal => value.to_big().to_string(),
            Format::Hex => format!("{:#x}", value.to_big()),
            Format::Ipv4 => Ipv4Addr::from(small as u32).to_string(),
            Format::Ipv6 => Ipv6Addr::from(small).to_string(),
            Format::Mac => {
                let bytes = (small as u64).to_be_bytes();
                bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
            }
        }
    }
}

/// The value of a field as text: an address if it is one, otherwise a number.
pub fn value(name: &str, value: &Bits) -> String {
    let format = Format::of(name, value.width());
    if format.is_address() { format.show(value) } else { value.to_string() }
}
