//! What anybody on a link may send to a CLAT: router advertisements and DNS answers.
#![no_main]

use nat64::pref64;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    for found in pref64::advertised(message).unwrap_or_default() {
        assert!([32, 40, 48, 56, 64, 96].contains(&found.prefix.prefix_len()) && found.lifetime < 1 << 16);
    }
    // A DNS message begins with its number.
    let id = message.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
    if let Ok(answer) = pref64::answered(message, id) {
        assert!(answer.prefixes.iter().all(|prefix| prefix.addr() == prefix.network()));
    }
});
