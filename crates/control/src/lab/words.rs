//! The forms of values in a topology: times, shares, rates, link-layer addresses, and the order of names.

use std::cmp::Ordering;
use std::time::Duration;

use dataplane::queue::Rate;

use abi::mac;

/// A time as tc(8) writes it: `10ms`, `1.5s`, `300us`. A number alone counts microseconds, as for tc.
pub fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "" => 1e-6,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * scale).ok().filter(|time| time.as_secs() <= 3600)
}

/// A share in percent: `1%`, `0.5%`.
pub fn percent(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit == "%" && number <= 100.0).then_some(number)
}

/// Bits per second: `10mbit`, `500kbit`, `1gbit`, as for the queue of a port.
pub fn rate(text: &str) -> Option<u64> {
    match text.parse() {
        Ok(Rate::Bits(rate)) => Some(rate),
        _ => None,
    }
}

/// A number that is not negative, and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// A link-layer address of one station, in the usual form.
pub fn mac(text: &str) -> Option<String> {
    mac::parse(text).filter(|mac| mac::is_station(*mac)).map(mac::text)
}

/// The order in which people number things: `s2` stands before `s10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| {
        let digits = text.len() - text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (name, number) = text.split_at(text.len() - digits);
        (name.to_string(), number.parse::<u64>().ok())
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}
