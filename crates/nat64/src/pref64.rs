//! The translation prefix that a network announces: by router advertisements (PREF64, RFC 8781) or by a DNS64 (RFC 7050).
//!
//! These functions read what anybody on the link may have sent. They accept it or return `None`, and never fail in another way.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::Ipv6Net;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::ranges::unroutable;

/// A prefix as a router advertises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pref64 {
    /// The translation prefix that is advertised.
    pub prefix: Ipv6Net,
    /// How long it is valid, in seconds. Zero withdraws it.
    pub lifetime: u32,
}

/// What a DNS64 says about its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The prefixes, in the order of the answer. There are none if the resolver does no DNS64.
    pub prefixes: Vec<Ipv6Net>,
    /// How long they are valid, in seconds; without a prefix, how long that is so (RFC 2308).
    pub ttl: u32,
}

/// The type of a router advertisement (RFC 4861 section 4.2).
pub const ADVERTISEMENT: u8 = 134;
/// The bytes of an advertisement before its options.
const FIXED: usize = 16;
/// The type of the option, and its length in units of 8 bytes (RFC 8781 section 4).
const OPTION: (u8, u8) = (38, 2);
/// The name with well-known addresses (RFC 7050 section 8.2).
pub const WELL_KNOWN_NAME: &str = "ipv4only.arpa";
/// The addresses of that name.
const WELL_KNOWN_ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];

/// The prefixes in a router advertisement: an ICMPv6 message from its type on, whose checksum was right. `None` if it is not a valid
/// advertisement (RFC 4861 section 6.1.2). The caller checks the source and the hop limit, which are outside of it.
pub fn advertised(message: &[u8]) -> Option<Vec<Pref64>> {
    let (fixed, mut options) = message.split_at_checked(FIXED)?;
    if fixed[..2] != [ADVERTISEMENT, 0] {
        return None;
    }
    let mut found: Vec<Pref64> = Vec::new();
    while let [_, units, ..] = options {
        let length = usize::from(*units) * 8;
        // An option of no length makes the whole message invalid.
        let (option, rest) = options.split_at_checked(length).filter(|_| length > 0)?;
        // If a prefix is there twice, the first one counts.
        found.extend(pref64(option).filter(|new| found.iter().all(|old| old.prefix != new.prefix)));
        options = rest;
    }
    options.is_empty().then_some(found)
}

/// The prefix in one option of an advertisement; `None` if it is another option, or one that receivers must ignore (RFC 8781 section 4).
fn pref64(option: &[u8]) -> Option<Pref64> {
    let option: &[u8; 16] = option.try_into().ok()?;
    if (option[0], option[1]) != OPTION {
        return None;
    }
    let word = u16::from_be_bytes([option[2], option[3]]);
    // The lifetime is in units of 8 seconds; what is left of the field is the code of the prefix length.
    let lifetime = u32::from(word >> 3) * 8;
    let length = *[96, 64, 56, 48, 40, 32].get(usize::from(word & 7))?;
    let mut address = [0; 16];
    address[..12].copy_from_slice(&option[4..]);
    let prefix = Ipv6Net::new(address.into(), length).ok()?.trunc();
    usable(prefix).then_some(Pref64 { prefix, lifetime })
}

/// Whether a prefix can carry IPv4 addresses and be routed.
fn usable(prefix: Ipv6Net) -> bool {
    let u_octet = prefix.prefix_len() == 96 && prefix.addr().octets()[8] != 0;
    !u_octet && unroutable(prefix).is_none()
}

/// The question for the addresses of the well-known name.
pub fn question(id: u16) -> Vec<u8> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new_unchecked(WELL_KNOWN_NAME);
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::AAAA), QCLASS::CLASS(CLASS::IN), false));
    // Writing into a vector does not fail, and the name is short.
    packet.build_bytes_vec().unwrap_or_default()
}

/// What an answer to [`question`] says. The error is why it says nothing.
pub fn answered(message: &[u8], id: u16) -> Result<Answer, String> {
    let packet = Packet::parse(message).map_err(|error| format!("the answer cannot be read: {error}"))?;
    let asked = packet.questions.iter().any(|q| is_well_known_name(&q.qname));
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !asked {
        return Err("the answer is to another question".into());
    }
    match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {}
        code => return Err(format!("the resolver refuses: {code:?}")),
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Err("the answer is truncated".into());
    }
    let addresses: Vec<(Ipv6Addr, u32)> = packet
        .answers
        .iter()
        .filter(|record| is_well_known_name(&record.name) && record.class == CLASS::IN)
        .filter_map(|record| match &record.rdata {
            RData::AAAA(aaaa) => Some((Ipv6Addr::from(aaaa.address), record.ttl)),
            _ => None,
        })
        .collect();
    let ttl = addresses.iter().map(|(_, ttl)| *ttl).min().or_else(|| negative_ttl(&packet));
    let mut answer = Answer { prefixes: Vec::new(), ttl: ttl.unwrap_or(0) };
    for prefix in addresses.iter().filter_map(|(address, _)| synthesised(*address)) {
        if !answer.prefixes.contains(&prefix) {
            answer.prefixes.push(prefix);
        }
    }
    Ok(answer)
}

/// How long a resolver may be believed that there is no such record: the lesser of the SOA record's TTL and its last field (RFC 2308 section 5).
fn negative_ttl(packet: &Packet<'_>) -> Option<u32> {
    packet.name_servers.iter().find_map(|record| match &record.rdata {
        RData::SOA(soa) => Some(record.ttl.min(soa.minimum)),
        _ => None,
    })
}

fn is_well_known_name(name: &Name<'_>) -> bool {
    name.to_string().trim_end_matches('.').eq_ignore_ascii_case(WELL_KNOWN_NAME)
}

/// The prefix of a synthesised address: the one length with which it contains a well-known address. An address that is there once more, at any
/// byte, does not tell the length; then the other one decides (RFC 7050 section 3).
fn synthesised(address: Ipv6Addr) -> Option<Ipv6Net> {
    let octets = address.octets();
    WELL_KNOWN_ADDRESSES
        .into_iter()
        .find_map(|known| {
            let lengths = [32, 40, 48, 56, 64, 96];
            let mut fits = lengths.into_iter().filter(|length| embedded(address, *length) == known);
            // Bytes 4, 9 and 12 are where lengths 32, 64 and 96 have it.
            let mut elsewhere = (0..=12).filter(|at| ![4, 9, 12].contains(at));
            if elsewhere.any(|at| octets[at..at + 4] == known.octets()) {
                return None;
            }
            match (fits.next(), fits.next()) {
                (Some(length), None) => Ipv6Net::new(address, length).ok().map(|net| net.trunc()),
                _ => None,
            }
        })
        .filter(|prefix| usable(*prefix))
}

/// The IPv4 address behind a prefix of this length (RFC 6052 section 2.2).
fn embedded(address: Ipv6Addr, length: u8) -> Ipv4Addr {
    let octets = address.octets();
    let from = usize::from(length / 8);
    // Byte 8 belongs to neither.
    let mut carried = (from..16).filter(|at| *at != 8).map(|at| octets[at]);
    Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|_| carried.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv6Net {
        text.parse().expect("a prefix")
    }

    /// An advertisement with these options.
    fn message(options: &[&[u8]]) -> Vec<u8> {
        let fixed = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        [&fixed[..], &options.concat()].concat()
    }

    /// The option with this second word (lifetime and code) and these first bytes of the prefix.
    fn option(word: u16, prefix: &str) -> Vec<u8> {
        let address: Ipv6Addr = prefix.parse().expect("an address");
        [&[38, 2][..], &word.to_be_bytes(), &address.octets()[..12]].concat()
    }

    #[test]
    fn each_length_code_is_a_length() {
        for (code, length) in [(0, 96), (1, 64), (2, 56), (3, 48), (4, 40), (5, 32)] {
            let found = advertised(&message(&[&option(600 << 3 | code, "2001:db8::")])).expect("is valid");
            assert_eq!(found, [Pref64 { prefix: net(&format!("2001:db8::/{length}")), lifetime: 4800 }]);
        }
        for code in [6, 7] {
            assert_eq!(advertised(&message(&[&option(600 << 3 | code, "2001:db8::")])), Some(vec![]));
        }
    }

    #[test]
    fn other_options_and_bits_after_the_prefix_are_ignored() {
        let link_layer = [1, 1, 2, 0, 0, 0, 0, 1];
        let found = advertised(&message(&[
            &link_layer,
            &option(1 << 3 | 3, "2001:db8:64:ffff:ffff::"),
            &option(0xfff8, "64:ff9b::"),
            &option(0, "64:ff9b::"),
        ]));
        let first = Pref64 { prefix: net("2001:db8:64::/48"), lifetime: 8 };
        assert_eq!(found, Some(vec![first, Pref64 { prefix: net("64:ff9b::/96"), lifetime: 65528 }]));
    }

    /// Each row has: a message that is not an advertisement, or none that counts.
    #[test]
    fn malformed_advertisements_are_refused() {
        let good = message(&[&option(8, "2001:db8::")]);
        assert!((0..good.len()).all(|n| n == FIXED || advertised(&good[..n]).is_none()), "cut anywhere");
        for (at, value) in [(0, 135), (1, 1), (17, 0), (17, 3), (17, 255)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(advertised(&bad), None, "byte {at} is {value}");
        }
        // The option has another length.
        let short = [38, 1, 0, 8, 0x20, 1, 0xd, 0xb8];
        let long = [&[38, 3][..], &[0; 22]].concat();
        assert_eq!(advertised(&message(&[&short, &long])), Some(vec![]));
    }

    #[test]
    fn prefixes_that_no_router_forwards_are_ignored() {
        for prefix in ["fe80::", "ff0e::", "::", "::ffff:0:0", "2001:db8:0:0:100::"] {
            assert_eq!(advertised(&message(&[&option(8, prefix)])), Some(vec![]), "{prefix}");
        }
    }

    /// RFC 6052 section 2.4 and RFC 7050 section 3.
    #[test]
    fn a_synthesised_address_tells_its_prefix() {
        for (address, prefix) in [
            ("64:ff9b::192.0.0.170", Some("64:ff9b::/96")),
            ("2001:db8:c000:ab::", Some("2001:db8::/32")),
            ("2001:db8:1c0:0:aa::", Some("2001:db8:100::/40")),
            ("2001:db8:122:c000:0:ab00::", Some("2001:db8:122::/48")),
            ("2001:db8:122:3c0:0:aa::", Some("2001:db8:122:300::/56")),
            ("2001:db8:122:344:c0:0:aa00:0", Some("2001:db8:122:344::/64")),
            ("2001:db8:122:344::192.0.0.171", Some("2001:db8:122:344::/96")),
            ("2001:db8::192.0.0.172", None),
            // The first address is at two places, the second one at none.
            ("2001:db8:c000:aa::192.0.0.170", None),
            ("2001:db8:c000:aa::192.0.0.171", Some("2001:db8::/32")),
            // The first address is also where no prefix ends.
            ("20c0:0:aa00::192.0.0.170", None),
            ("20c0:0:aa00::192.0.0.171", Some("20c0:0:aa00::/96")),
        ] {
            let found = synthesised(address.parse().expect("an address"));
            assert_eq!(found, prefix.map(net), "{address}");
        }
    }

    /// An answer with these records.
    fn reply(id: u16, code: RCODE, records: &[(&str, &str, u32)]) -> Vec<u8> {
        let mut packet = Packet::new_reply(id);
        *packet.rcode_mut() = code;
        let name = Name::new_unchecked(WELL_KNOWN_NAME);
        packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::AAAA), QCLASS::CLASS(CLASS::IN), false));
        for (name, address, ttl) in records {
            let address: Ipv6Addr = address.parse().expect("an address");
            let data = RData::AAAA(simple_dns::rdata::AAAA { address: address.into() });
            let name = Name::new(name).expect("a name");
            packet.answers.push(simple_dns::ResourceRecord::new(name, CLASS::IN, *ttl, data));
        }
        packet.build_bytes_vec().expect("is short")
    }

    #[test]
    fn an_answer_tells_prefixes_and_how_long() {
        let records = [
            ("ipv4only.arpa", "2001:db8:64::192.0.0.170", 300),
            ("IPV4only.arpa", "2001:db8:64::192.0.0.171", 200),
            ("ipv4only.arpa", "2001:db8:46::192.0.0.170", 600),
            ("ipv4only.arpa", "2001:db8::1", 600),
            ("example.org", "2001:db8:99::192.0.0.170", 10),
        ];
        let prefixes = vec![net("2001:db8:64::/96"), net("2001:db8:46::/96")];
        assert_eq!(answered(&reply(7, RCODE::NoError, &records), 7), Ok(Answer { prefixes, ttl: 200 }));
        let none = Ok(Answer { prefixes: vec![], ttl: 0 });
        assert_eq!(answered(&reply(7, RCODE::NoError, &[]), 7), none);
        assert_eq!(answered(&reply(7, RCODE::NameError, &[]), 7), none);
        assert!(
            answered(&reply(8, RCODE::NoError, &records), 7).expect_err("id").contains("another question")
        );
        assert!(answered(&reply(7, RCODE::ServerFailure, &[]), 7).expect_err("code").contains("refuses"));
        assert!(answered(&question(7), 7).is_err());
    }

    #[test]
    fn an_answer_without_a_prefix_tells_how_long_that_is_so() {
        for (ttl, minimum, expected) in [(3600, 900, 900), (600, 900, 600)] {
            let bytes = reply(7, RCODE::NameError, &[]);
            let mut packet = Packet::parse(&bytes).expect("is well made");
            let soa = simple_dns::rdata::SOA {
                mname: Name::new_unchecked("sns.dns.icann.org"),
                rname: Name::new_unchecked("noc.dns.icann.org"),
                serial: 1,
                refresh: 7200,
                retry: 3600,
                expire: 604_800,
                minimum,
            };
            let name = Name::new_unchecked("ipv4only.arpa");
            packet.name_servers.push(simple_dns::ResourceRecord::new(name, CLASS::IN, ttl, RData::SOA(soa)));
            let answer = answered(&packet.build_bytes_vec().expect("is short"), 7);
            assert_eq!(answer, Ok(Answer { prefixes: vec![], ttl: expected }));
        }
    }

    /// With the bit CD a resolver would synthesise nothing (RFC 7050 section 3).
    #[test]
    fn the_question_lets_the_resolver_check_and_synthesise() {
        assert_eq!(question(7)[..12], [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    /// What anybody on the link sends is read or refused.
    #[test]
    fn no_message_is_too_bad() {
        let good = [
            message(&[&option(8, "2001:db8::"), &[1, 1, 0, 0, 0, 0, 0, 0], &option(16, "64:ff9b::")]),
            reply(7, RCODE::NoError, &[("ipv4only.arpa", "2001:db8::192.0.0.170", 300)]),
        ];
        // xorshift64 (Marsaglia 2003) produces the same messages in every run.
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 32) as usize % n
        };
        let mut read = 0;
        for round in 0..40_000 {
            let mut bytes = good[round % 2].clone();
            for _ in 0..=below(4) {
                let at = below(bytes.len());
                bytes[at] = below(256) as u8;
            }
            if below(4) == 0 {
                bytes.truncate(below(bytes.len()) + 1);
            }
            read += usize::from(advertised(&bytes).is_some()) + usize::from(answered(&bytes, 7).is_ok());
        }
        assert!(read > 1_000, "{read}");
    }
}
