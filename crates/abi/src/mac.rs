//! Link-layer addresses as people write them: `02:00:00:00:00:01`.

/// The number that an address is, in six pairs of digits. Of a pair, the first digit may be missing, and `-` may stand for `:`.
pub fn parse(text: &str) -> Option<u64> {
    let pairs: Vec<&str> = text.split([':', '-']).collect();
    let pair = |p: &&str| matches!(p.len(), 1 | 2) && p.bytes().all(|b| b.is_ascii_hexdigit());
    if pairs.len() != 6 || !pairs.iter().all(pair) {
        return None;
    }
    pairs.iter().try_fold(0, |value, pair| Some(value << 8 | u64::from_str_radix(pair, 16).ok()?))
}

/// Whether an address is that of one station, and not of a group or of nobody.
pub fn is_station(mac: u64) -> bool {
    mac != 0 && mac >> 40 & 1 == 0
}

/// The usual form of an address.
pub fn text(mac: u64) -> String {
    let pairs: Vec<String> = mac.to_be_bytes()[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        assert_eq!(parse("02:00:5E:00:53:01"), Some(0x0200_5e00_5301));
        assert_eq!(
            (parse("2-0-5e-0-53-1"), text(0x0200_5e00_5301).as_str()),
            (Some(0x0200_5e00_5301), "02:00:5e:00:53:01")
        );
        assert_eq!(
            (parse("02:00:5e:00:53"), parse("002:0:0:0:0:1"), parse("g:0:0:0:0:1")),
            (None, None, None)
        );
        assert!(is_station(2) && !is_station(0) && !is_station(0x0100_5e00_0001));
    }
}
