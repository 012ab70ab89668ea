//! Byte strings (P4Runtime specification, section 8.3): any length is accepted, the shortest one is returned.

use abi::Bits;
use num_bigint::BigUint;

use super::{Code, Status};

/// The value of a `bit<W>`.
pub fn value(bytes: &[u8], width: u32) -> Result<Bits, Status> {
    let significant = significant(bytes)?;
    let used = significant.first().map_or(0, |first| 8 * significant.len() as u32 - first.leading_zeros());
    match used <= width {
        true => Ok(Bits::from_bytes_be(width, significant)),
        false => Err(too_large(bytes, width)),
    }
}

/// The value of an `int<W>`, as its two's complement.
pub fn signed(bytes: &[u8], width: u32) -> Result<Bits, Status> {
    let first = *bytes.first().ok_or_else(empty)?;
    let negative = first & 0x80 != 0;
    let all = Bits::from_big(8 * bytes.len() as u32, &BigUint::from_bytes_be(bytes));
    let kept = all.resize(width.min(all.width()));
    // The value fits if nothing is lost when the bits that are kept are extended by the sign again.
    let fits = kept.resize_signed(all.width()) == all && (width > 0 || !negative);
    match fits {
        true => Ok(kept.resize_signed(width)),
        false => Err(too_large(bytes, width)),
    }
}

/// The shortest byte string of a `bit<W>`.
pub fn shortest(value: &Bits) -> Vec<u8> {
    let bytes = value.to_bytes_be();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match bytes[zeros..].is_empty() {
        true => vec![0],
        false => bytes[zeros..].to_vec(),
    }
}

/// The shortest byte string of an `int<W>`.
pub fn shortest_signed(value: &Bits) -> Vec<u8> {
    let whole = value.width().max(1).next_multiple_of(8);
    let bytes = value.resize_signed(whole).to_bytes_be();
    let redundant =
        |pair: &[u8]| (pair[0] == 0 && pair[1] & 0x80 == 0) || (pair[0] == 0xff && pair[1] & 0x80 != 0);
    let skipped = bytes.windows(2).take_while(|pair| redundant(pair)).count();
    bytes[skipped..].to_vec()
}

/// A number of at most 64 bits.
pub fn number(bytes: &[u8]) -> Result<u64, Status> {
    Ok(value(bytes, 64)?.low_u64())
}

fn significant(bytes: &[u8]) -> Result<&[u8], Status> {
    if bytes.is_empty() {
        return Err(empty());
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(&bytes[zeros..])
}

fn empty() -> Status {
    Status::new(Code::OutOfRange, "the byte string is empty")
}

fn too_large(bytes: &[u8], width: u32) -> Status {
    let hex: String = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    Status::new(Code::OutOfRange, format!("0x{hex} does not fit into {width} bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of valid and invalid byte strings of section 8.3.
    #[test]
    fn byte_strings_are_those_of_the_specification() {
        let unsigned: [(&[u8], u32, Option<u128>); 9] = [
            (&[0x63], 8, Some(99)),
            (&[0, 0x63], 16, Some(99)),
            (&[0, 0x30, 0x64], 16, Some(12388)),
            (&[0, 0, 0x63], 12, Some(99)),
            (&[1, 0x63], 8, None),
            (&[], 8, None),
            (&[1, 0, 0x63], 16, None),
            (&[0x10, 0x63], 12, None),
            (&[0, 0x40, 0x63], 12, None),
        ];
        for (bytes, width, expected) in unsigned {
            assert_eq!(value(bytes, width).ok().and_then(|v| v.to_u128()), expected, "{bytes:?}");
        }
        let negative = |width: u32, value: i32| Bits::new(width, value as u128);
        let with_sign: [(&[u8], u32, Option<Bits>); 8] = [
            (&[0x63], 8, Some(negative(8, 99))),
            (&[0x9d], 8, Some(negative(8, -99))),
            (&[0xff, 0x9d], 8, Some(negative(8, -99))),
            (&[0xfd, 0x1d], 12, Some(negative(12, -739))),
            (&[0, 0], 16, Some(negative(16, 0))),
            (&[0, 0x9d], 8, None),
            (&[0x8d, 0x1d], 12, None),
            (&[], 16, None),
        ];
        for (bytes, width, expected) in with_sign {
            assert_eq!(signed(bytes, width).ok(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_shortest_byte_string_is_returned() {
        assert_eq!(shortest(&Bits::new(32, 0)), [0]);
        assert_eq!(shortest(&Bits::new(32, 0x1234)), [0x12, 0x34]);
        assert_eq!(shortest_signed(&Bits::new(12, -739i32 as u128)), [0xfd, 0x1d]);
        assert_eq!(shortest_signed(&Bits::new(16, -99i32 as u128)), [0x9d]);
        assert_eq!(shortest_signed(&Bits::new(16, 0x80)), [0, 0x80]);
        assert_eq!(shortest_signed(&Bits::new(16, 0)), [0]);
    }
}
