//! Parses addresses: `192.0.2.1`, `2001:db8::1`, `00:00:5e:00:53:01`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Number;

/// The address at the beginning of a text, and its length. A text that can only be an address, but is not a valid one, is an error. `value`
/// says that a value is expected; elsewhere `fe80` may be a name, and a colon may follow a key's name.
pub(super) fn read(text: &str, value: bool) -> Result<Option<(Number, usize)>, String> {
    let part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    // `LOW..HIGH`
    let run = &text[..text[..end].find("..").unwrap_or(end)];
    let (dots, colons) = (run.matches('.').count(), run.matches(':').count());
    let begins = run.starts_with(|c: char| c.is_ascii_digit()) || value;
    let ends = !text[run.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || "_*".contains(c));
    if !begins || !ends || (dots < 2 && colons < 2) {
        return Ok(None);
    }
    let digits = if let Ok(ip) = run.parse::<Ipv4Addr>() {
        format!("{:08x}", u32::from(ip))
    } else if let Ok(ip) = run.parse::<Ipv6Addr>() {
        format!("{:032x}", u128::from(ip))
    } else if let Some(mac) = mac(run) {
        mac
    } else {
        return Err(format!("`{run}` is no IPv4, IPv6 or MAC address"));
    };
    let width = digits.len() as u32 * 4;
    Ok(Some((Number { digit_bits: 4, digits, address: Some((run.to_string(), width)) }, run.len())))
}

/// The digits of a MAC address: six pairs.
fn mac(text: &str) -> Option<String> {
    let pairs: Vec<&str> = text.split(':').collect();
    let pair = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
    (pairs.len() == 6 && pairs.iter().all(pair)).then(|| pairs.concat())
}
