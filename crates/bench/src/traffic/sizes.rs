//! Sizes of frames, with their frame check sequence, as line rates and RFC 2544 count them.

use std::str::FromStr;

use super::values::{Order, Values};
use crate::dice::Dice;

/// Bytes of the frame check sequence, which no packet in a capture or a ring has.
const CHECK_SEQUENCE: usize = 4;
/// Frames that a drawn size stays in: up to a jumbo frame.
const LONGEST: u128 = 9216 + CHECK_SEQUENCE as u128;
/// The Internet mix that test equipment calls simple: of twelve frames seven of 64, four of 594 and one of 1518 bytes.
const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// Sizes from packet to packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sizes {
    /// Seven of 64, four of 594, one of 1518.
    #[default]
    Imix,
    /// As fields have values.
    Values(Values),
}

impl Sizes {
    /// The bytes of a packet, without its frame check sequence.
    pub fn of(&self, packet: u64, dice: &mut Dice) -> usize {
        let frame = match self {
            Sizes::Imix => IMIX[(packet % IMIX.len() as u64) as usize],
            Sizes::Values(values) => values.draw(packet, dice) as usize,
        };
        frame.saturating_sub(CHECK_SEQUENCE)
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if text == "imix" {
            return Ok(Sizes::Imix);
        }
        let mut values: Values = text.parse().map_err(|e: super::ValuesError| e.to_string())?;
        if (0..values.count().min(LONGEST)).any(|n| values.nth(n) > LONGEST) || values.count() > LONGEST {
            return Err(format!("`{text}`: frames have {LONGEST} bytes at most"));
        }
        if values.order == Order::Flow {
            values.order = Order::Sequential;
        }
        Ok(Sizes::Values(values))
    }
}
