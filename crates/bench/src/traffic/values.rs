//! The values of a field in a sequence of packets: `5`, `192.0.2.0/24`, `1024..65535`, `uniform:1..10`, `zipf(1.1):2001:db8::/64`,
//! `seq:1,5,9`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rand_distr::{Distribution, Zipf};

use harness::rng::Rng;

/// The default exponent of `zipf:`. It is that of word frequencies, and close to what is observed of flows.
const EXPONENT: f64 = 1.0;

/// A set of values, and the order in which packets take them.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    set: Set,
    /// How a packet's value is chosen.
    pub order: Order,
}

/// An ordered set of values.
#[derive(Clone, Debug, PartialEq)]
enum Set {
    Range { low: u128, high: u128 },
    List(Vec<u128>),
}

/// How the value of a packet is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// The packet's flow determines it. Flows differ in at least one of these fields.
    Flow,
    /// Packets take the values one after the other.
    Sequential,
    /// All values are equally likely.
    Uniform,
    /// The probability of the n-th value falls with n to this power (Zipf's law).
    Zipf(f64),
}

/// Why a text does not describe values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A part is neither a number nor an address.
    #[error("`{0}` is not a number (10, 0x0a, 0b1010) or an address (IPv4, IPv6, MAC)")]
    Number(String),
    /// A range ends before it begins.
    #[error("the range `{0}` is empty: its end is below its beginning")]
    Empty(String),
    /// A prefix is longer than its address.
    #[error("`{0}`: the prefix's length is not 0 to {1}")]
    Prefix(String, u32),
    /// An exponent is not a positive number.
    #[error("`{0}`: Zipf's exponent is a number above 0")]
    Exponent(String),
    /// A value needs more bits than its field has.
    #[error("`{0}` does not fit {1} bits")]
    TooWide(String, u32),
}

impl Values {
    /// The number of values. If every `u128` is a value, the largest `u128`.
    pub fn count(&self) -> u128 {
        match &self.set {
            Set::Range { low, high } => (high - low).saturating_add(1),
            Set::List(all) => all.len() as u128,
        }
    }

    /// Value number `n`, counted from 0. After the last value the first follows.
    pub fn nth(&self, n: u128) -> u128 {
        match &self.set {
            Set::Range { low, .. } => low + n % self.count(),
            Set::List(all) => all[(n % all.len() as u128) as usize],
        }
    }

    /// The largest value.
    fn most(&self) -> u128 {
        match &self.set {
            Set::Range { high, .. } => *high,
            Set::List(all) => all.iter().copied().max().unwrap_or(0),
        }
    }

    /// Checks that all values fit into `width` bits.
    pub fn fit(&self, width: u32) -> Result<(), ValuesError> {
        let most = self.most();
        if 128 - most.leading_zeros() <= width {
            Ok(())
        } else {
            Err(ValuesError::TooWide(most.to_string(), width))
        }
    }

    /// The value of a packet, for an order other than [`Order::Flow`].
    pub fn draw(&self, packet: u64, rng: &mut Rng) -> u128 {
        let count = self.count();
        match self.order {
            Order::Flow | Order::Sequential => self.nth(packet.into()),
            Order::Uniform => self.nth(rng.below_wide(count)),
            Order::Zipf(exponent) => self.nth(zipf(count as f64, exponent, rng)),
        }
    }
}

/// A random number below `count`, distributed by Zipf's law.
pub fn zipf(count: f64, exponent: f64, rng: &mut Rng) -> u128 {
    // Both parameters were checked when they were parsed.
    Zipf::new(count, exponent).map_or(0, |zipf| zipf.sample(rng) as u128 - 1)
}

/// Splits the prefix `uniform:`, `seq:`, `zipf:` or `zipf(S):` off a description.
pub fn order(text: &str) -> Result<(Order, &str), ValuesError> {
    for (name, order) in [("uniform", Order::Uniform), ("seq", Order::Sequential)] {
        if let Some(rest) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) {
            return Ok((order, rest));
        }
    }
    let Some(rest) = text.strip_prefix("zipf") else { return Ok((Order::Flow, text)) };
    if let Some(rest) = rest.strip_prefix(':') {
        return Ok((Order::Zipf(EXPONENT), rest));
    }
    let (exponent, rest) = rest
        .strip_prefix('(')
        .and_then(|rest| rest.split_once("):"))
        .ok_or_else(|| ValuesError::Exponent(text.to_string()))?;
    let exponent = exponent.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
    Ok((Order::Zipf(exponent.ok_or_else(|| ValuesError::Exponent(text.to_string()))?), rest))
}

impl FromStr for Values {
    type Err = ValuesError;

    fn from_str(text: &str) -> Result<Values, ValuesError> {
        let (order, text) = order(text)?;
        let set = if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (number(low)?, number(high)?);
            if high < low {
                return Err(ValuesError::Empty(text.to_string()));
            }
            Set::Range { low, high }
        } else if let Some((address, length)) = text.split_once('/') {
            prefix(text, address, length)?
        } else {
            Set::List(text.split(',').map(number).collect::<Result<_, _>>()?)
        };
        Ok(Values { set, order })
    }
}

fn prefix(text: &str, address: &str, length: &str) -> Result<Set, ValuesError> {
    let width = match address {
        a if a.parse::<Ipv4Addr>().is_ok() => 32,
        a if a.parse::<Ipv6Addr>().is_ok() => 128,
        other => return Err(ValuesError::Number(other.to_string())),
    };
    let length = length.parse().ok().filter(|length| *length <= width);
    let length: u32 = length.ok_or_else(|| ValuesError::Prefix(text.to_string(), width))?;
    let rest = u128::MAX.checked_shr(128 - (width - length)).unwrap_or(0);
    let low = number(address)? & !rest;
    Ok(Set::Range { low, high: low | rest })
}

/// Parses a number in P4 syntax, or an address.
pub fn number(text: &str) -> Result<u128, ValuesError> {
    let text = text.trim();
    let radix = |digits: &str, radix| u128::from_str_radix(&digits.replace('_', ""), radix).ok();
    let value = if let Some(hex) = text.strip_prefix("0x") {
        radix(hex, 16)
    } else if let Some(binary) = text.strip_prefix("0b") {
        radix(binary, 2)
    } else if let Ok(address) = text.parse::<Ipv4Addr>() {
        Some(u32::from(address).into())
    } else if let Some(mac) = mac(text) {
        Some(mac)
    } else if let Ok(address) = text.parse::<Ipv6Addr>() {
        Some(address.into())
    } else {
        radix(text, 10)
    };
    value.ok_or_else(|| ValuesError::Number(text.to_string()))
}

/// Parses a MAC address such as `02:00:00:00:00:01`.
fn mac(text: &str) -> Option<u128> {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let bytes: Vec<u8> = parts.iter().map(byte).collect::<Option<_>>()?;
    (bytes.len() == 6).then(|| bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<u128> {
        let values: Values = text.parse().unwrap();
        (0..values.count()).map(|n| values.nth(n)).collect()
    }

    #[test]
    fn every_way_of_writing_values() {
        assert_eq!(all("5"), [5]);
        assert_eq!(all("0x10..0x12"), [16, 17, 18]);
        assert_eq!(all("seq:1,5,0b11"), [1, 5, 3]);
        assert_eq!(all("192.0.2.8/30"), [0xc000_0208, 0xc000_0209, 0xc000_020a, 0xc000_020b]);
        assert_eq!(all("2001:db8::/127"), [0x2001_0db8 << 96, (0x2001_0db8 << 96) + 1]);
        assert_eq!(all("02:00:00:00:00:0a"), [0x0200_0000_000a]);
        assert_eq!("::/0".parse::<Values>().unwrap().count(), u128::MAX);
        assert_eq!("zipf(1.5):1..3".parse::<Values>().unwrap().order, Order::Zipf(1.5));
    }

    #[test]
    fn what_is_no_value_is_said() {
        for (text, why) in [
            ("x", "`x` is not a number (10, 0x0a, 0b1010) or an address (IPv4, IPv6, MAC)"),
            ("5..4", "the range `5..4` is empty: its end is below its beginning"),
            ("192.0.2.0/33", "`192.0.2.0/33`: the prefix's length is not 0 to 32"),
            ("zipf(0):1..2", "`zipf(0):1..2`: Zipf's exponent is a number above 0"),
        ] {
            assert_eq!(text.parse::<Values>().unwrap_err().to_string(), why);
        }
        assert_eq!(
            "256".parse::<Values>().unwrap().fit(8).unwrap_err().to_string(),
            "`256` does not fit 8 bits"
        );
    }

    /// With exponent 1 the n-th value occurs 1/n times as often as the first.
    #[test]
    fn zipf_is_zipf() {
        let (values, mut rng) = ("zipf(1):0..9".parse::<Values>().expect("a distribution"), Rng::new(1));
        let mut seen = [0u32; 10];
        (0..100_000).for_each(|n| seen[values.draw(n, &mut rng) as usize] += 1);
        for n in [1, 3, 9] {
            let ratio = f64::from(seen[0]) / f64::from(seen[n]) / (n as f64 + 1.0);
            assert!((0.9..1.1).contains(&ratio), "value {n} comes {ratio} times as often as it should");
        }
    }
}
