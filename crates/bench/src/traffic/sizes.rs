//! Sizes of frames, including the frame check sequence, as line rates and RFC 2544 count them.

use std::str::FromStr;

use super::values::{Order, Values};
use harness::rng::Rng;

/// Size of the frame check sequence in bytes. Packets in captures and rings do not have it.
const CHECK_SEQUENCE: usize = 4;
/// The largest size of a frame: a jumbo frame.
const LONGEST: u128 = 9216 + CHECK_SEQUENCE as u128;
/// The simple Internet mix (IMIX) of test equipment: of twelve frames seven have 64 bytes, four 594 and one 1518.
const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// The size of each packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sizes {
    /// The simple Internet mix: of twelve frames seven have 64 bytes, four 594 and one 1518.
    #[default]
    Imix,
    /// Sizes from a description of values, as fields have them.
    Values(Values),
}

impl Sizes {
    /// The size of a packet in bytes, without the frame check sequence.
    pub fn of(&self, packet: u64, rng: &mut Rng) -> usize {
        let frame = match self {
            Sizes::Imix => IMIX[(packet % IMIX.len() as u64) as usize],
            Sizes::Values(values) => values.draw(packet, rng) as usize,
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
