//! Files that are good, and files with each mistake.

use super::*;

const GOOD: &str = r#"
[nat64]
mode   = "stateless"
prefix = "2001:db8:64::/96"
attach = { device = "nat64" }
tos = 0
udp-zero-checksum = "drop"

[[map]]
ipv4 = "198.51.100.0/24"
ipv6 = "2001:db8:100::/120"

[[map]]
ipv4 = "203.0.113.7"
ipv6 = "2001:db8::7"
"#;

#[test]
fn a_good_file_is_read_as_it_says() {
    let config = parse(GOOD).expect("is good");
    assert_eq!(config.prefix, Some("2001:db8:64::/96".parse().expect("a net")));
    assert_eq!(config.maps.len(), 2);
    assert_eq!(config.maps[1].ipv4.prefix_len(), 32);
    assert_eq!((config.tos, config.udp_zero_checksum), (Tos::Fixed(0), UdpZeroChecksum::Drop));
    assert_eq!((config.clamp_mss, config.ipv6_mtu, config.lowest_ipv6_mtu), (true, None, 1280));
}

/// A mistake: text of a good file, what stands there instead, the line of the problem, and words of the message and of the hint.
pub(super) type Mistake = (&'static str, &'static str, usize, &'static [&'static str]);

/// Checks that each mistake in a file is found.
pub(super) fn each_is_found(good: &str, mistakes: &[Mistake]) {
    for (from, to, line, words) in mistakes {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from} is not in the file");
        let problems = parse(&text).expect_err(to);
        let shown: Vec<_> = problems.iter().map(|p| p.to_string()).collect();
        let hit =
            problems.iter().zip(&shown).any(|(p, s)| p.line == *line && words.iter().all(|w| s.contains(w)));
        assert!(hit, "{to}: line {line} with {words:?} expected in {shown:#?}");
    }
}

#[test]
fn each_mistake_is_found_on_its_line() {
    let cases: &[Mistake] = &[
        ("mode   = \"stateless\"", "", 2, &["`mode` is missing"]),
        ("\"stateless\"", "\"stateful\"", 2, &["without a `pool`", "203.0.113.0/28"]),
        ("\"stateless\"", "\"statless\"", 3, &["neither"]),
        ("mode ", "mod ", 3, &["unknown key `mod`", "did you mean `mode`"]),
        ("2001:db8:64::/96", "2001:db8:64::/95", 4, &["/95", "/96"]),
        ("2001:db8:64::/96", "2001:db8:64::1/96", 4, &["bits after", "2001:db8:64::/96"]),
        ("2001:db8:64::/96", "2001:db8:64:0:100::/96", 4, &["u octet"]),
        ("2001:db8:64::/96", "192.0.2.0/24", 4, &["not an IPv6 prefix"]),
        ("device =", "interfaces =", 5, &["not a list", "eth1"]),
        ("\"nat64\" }", "\"much-too-long-a-name\" }", 5, &["not a name", "14"]),
        ("\"nat64\" }", "\"nat64\", express = \"eth0\" }", 5, &["not a list", "eth1"]),
        ("\"nat64\" }", "\"nat64\", express = [\"eth0\", \"eth0\"] }", 5, &["twice"]),
        ("\"nat64\" }", "\"nat64\", express = [\"nat64\"] }", 5, &["the device itself"]),
        ("\"nat64\" }", "\"nat64\", bypass-netfilter = true }", 5, &["express lanes", "eth1"]),
        ("\"nat64\" }", "\"nat64\", exprss = [] }", 5, &["did you mean `express`"]),
        ("tos = 0", "tos = 256", 6, &["0 to 255"]),
        ("tos = 0", "pool = [\"203.0.113.0/28\"]", 6, &["belongs to mode \"stateful\""]),
        ("tos = 0", "log = \"bindings\"", 6, &["belongs to mode \"stateful\""]),
        ("tos = 0", "routes = [\"198.51.100.1/24\"]", 6, &["bits after"]),
        ("tos = 0", "ipv6-mtu = 1279", 6, &["1280"]),
        ("tos = 0", "lowest-ipv6-mtu = 1279", 6, &["1280 to 9264"]),
        ("\"drop\"", "\"ignore\"", 7, &["compute", "4.5"]),
        ("198.51.100.0/24", "127.0.0.0/24", 10, &["is loopback"]),
        ("198.51.100.0/24", "126.0.0.0/7", 10, &["covers 127.0.0.0/8 (loopback)"]),
        ("198.51.100.0/24", "192.0.0.0/2", 10, &["covers 224.0.0.0/4 (multicast)"]),
        ("2001:db8:100::/120", "::ffff:0:0/112", 11, &["IPv4-mapped"]),
        ("2001:db8:100::/120", "fe80::/16", 11, &["link-local"]),
        ("2001:db8:64::/96", "::/96", 4, &["IPv4-compatible"]),
        ("2001:db8:64::/96", "::/32", 4, &["covers ::/96"]),
        ("2001:db8:64::/96", "ff00::/32", 4, &["multicast", "one of your own"]),
        ("tos = 0", "routes = [\"0.0.0.0/0\"]", 6, &["default route", "IPv6 hosts"]),
        ("tos = 0", "routes = [\"126.0.0.0/7\"]", 6, &["covers 127.0.0.0/8"]),
        ("tos = 0", "routes = [\"192.0.2.0/24\", \"192.0.2.0/24\"]", 6, &["twice"]),
        ("tos = 0", "ipv6-mtu = 65535", 6, &["1280 to 65527"]),
        ("\"nat64\" }", "\"all\" }", 5, &["the kernel uses the name `all`"]),
        ("\"nat64\" }", "\"default\" }", 5, &["the kernel uses"]),
        ("2001:db8:100::/120", "2001:db8:100::/121", 11, &["7 suffix bits", "/120"]),
        ("2001:db8::7", "2001:db8::7\"\nipv5 = \"1", 16, &["ipv5", "ipv4"]),
        (
            "203.0.113.7\"\nipv6 = \"2001:db8::7",
            "198.51.100.0/24\"\nipv6 = \"2001:db8:9::/120",
            13,
            &["twice"],
        ),
        ("ipv6 = \"2001:db8::7\"", "", 13, &["without `ipv6`"]),
        ("[nat64]", "[nat64", 2, &["TOML"]),
    ];
    each_is_found(GOOD, cases);
}

#[test]
fn all_problems_are_reported_in_order() {
    let text = GOOD.replace("stateless", "x").replace("/120", "/121").replace("tos = 0", "tos = -1");
    let lines: Vec<_> = parse(&text).expect_err("three mistakes").iter().map(|p| p.line).collect();
    assert_eq!(lines, [3, 6, 11]);
}

#[test]
fn the_well_known_prefix_carries_global_addresses_only() {
    let text = |prefix: &str, net: &str| {
        let lines = format!("prefix = \"{prefix}\"\nroutes = [\"{net}\"]");
        GOOD.replace("prefix = \"2001:db8:64::/96\"", &lines)
    };
    let problems = parse(&text("64:ff9b::/96", "10.1.0.0/16")).expect_err("is private");
    let said = problems[0].to_string();
    assert!(said.contains("line 5") && said.contains("10.0.0.0/8") && said.contains("3.1"), "{said}");
    assert!(parse(&text("64:ff9b::/96", "9.0.0.0/8")).is_ok());
    assert!(parse(&text("64:ff9b:1::/96", "10.1.0.0/16")).is_ok());
}

#[test]
fn a_private_pool_of_error_sources_is_allowed_and_told_of() {
    for (pool, words) in [
        ("192.0.2.64/28", None),
        ("10.1.0.0/28", Some("10.0.0.0/8, which is private")),
        ("100.64.1.0/24", Some("100.64.0.0/10")),
    ] {
        let config = parse(&GOOD.replace("tos = 0", &format!("error-pool4 = \"{pool}\""))).expect(pool);
        let told: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), usize::from(words.is_some()), "{told:?}");
        assert!(words.is_none_or(|words| told[0].contains(words)), "{told:?}");
    }
}

/// Each row has: the second mapping, and words of the warning; none if there is no warning.
#[test]
fn mappings_inside_each_other_are_allowed_and_told_of() {
    for (ipv4, ipv6, words) in [
        (
            "198.51.100.7",
            "2001:db8::7",
            &["2001:db8:100::7 becomes 198.51.100.7 too", "answers go to 2001:db8::7"][..],
        ),
        ("198.51.100.7", "2001:db8:100::7", &[]),
        ("198.51.0.0/16", "2001:db8:200::/112", &["198.51.100.0/24 is inside 198.51.0.0/16"]),
        ("203.0.113.9", "2001:db8:100::9", &["2001:db8:100::9/128 is inside 2001:db8:100::/120"]),
        ("203.0.113.9", "2001:db8:200::9", &[]),
    ] {
        let text = GOOD
            .replace("203.0.113.7\"", &format!("{ipv4}\""))
            .replace("2001:db8::7\"", &format!("{ipv6}\""));
        let warnings = parse(&text).expect("is allowed").warnings;
        let said: String = warnings.iter().map(Problem::to_string).collect();
        assert_eq!(said.is_empty(), words.is_empty(), "{ipv4} {ipv6}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{ipv4} {ipv6}: {said}");
        assert!(said.is_empty() || (said.contains("line 13") && said.contains("RFC 7757")), "{said}");
    }
}

const SWITCH: &str = r#"[nat64]
mode   = "stateful"
prefix = "2001:db8:64::/96"
pool   = ["203.0.113.9"]
[switch]
mac       = "02:00:00:00:00:fe"
ports     = [0, 1]
addresses = ["2001:db8:100::1", "192.0.2.1"]
[[switch.route]]
to   = "192.0.2.0/24"
port = 1
mac  = "02:00:00:00:00:0b"
"#;

#[test]
fn a_switch_has_ports_addresses_and_routes() {
    let switch = parse(SWITCH).expect("is good").switch.expect("it is a switch");
    let route =
        NextHop { to: "192.0.2.0/24".parse().expect("a net"), port: 1, mac: 0x0200_0000_000b, mtu: 1500 };
    assert_eq!((switch.mac, switch.ports, switch.routes), (0x0200_0000_00fe, vec![0, 1], vec![route]));
    assert_eq!(switch.addresses.len(), 2);
    let mistakes: &[Mistake] = &[
        (
            "\"stateful\"\nprefix = \"2001:db8:64::/96\"\npool   = [\"203.0.113.9\"]",
            "\"stateless\"\nprefix = \"2001:db8:64::/96\"\n",
            5,
            &["belongs to mode \"stateful\""],
        ),
        ("mac       =", "mak =", 6, &["unknown key `mak`", "`mac`"]),
        ("02:00:00:00:00:fe", "01:00:00:00:00:fe", 6, &["no MAC address of one station"]),
        ("[0, 1]", "[0, 511]", 7, &["from 0 to 509"]),
        ("[0, 1]", "[0, 2]", 9, &["leaves by port 1"]),
        ("192.0.2.1\"", "192.0.2.1/24\"", 8, &["no IP address"]),
        ("to   =", "mtu  =", 9, &["needs `to`"]),
        ("192.0.2.0/24", "192.0.2.0/33", 10, &["no prefix"]),
    ];
    each_is_found(SWITCH, mistakes);
}

/// Mutated files: parts of valid files are cut, doubled, swapped and damaged. Each file must be accepted, or rejected with an existing
/// line. The parser runs as root, so it must not panic.
#[test]
fn no_file_is_too_bad() {
    let pieces: Vec<&str> = GOOD.split_inclusive([' ', '\n', '"', '/', '.', ':']).collect();
    let odd =
        ["", "\"", "[", "]]", "=", "-1", "9e999", "\u{0}", "é", "\\", "/999", "::", "#", "\r", "true", "{ }"];
    // xorshift64 (Marsaglia 2003) produces the same files in every run.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as usize % n
    };
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut file = pieces.clone();
        for _ in 0..=below(3) {
            let at = below(file.len());
            match below(4) {
                0 => drop(file.remove(at)),
                1 => file.insert(at, file[below(file.len())]),
                2 => file[at] = odd[below(odd.len())],
                _ => file.insert(at, odd[below(odd.len())]),
            }
        }
        let text = file.concat();
        match parse(&text) {
            Ok(_) => good += 1,
            Err(problems) => {
                bad += 1;
                let lines = text.lines().count().max(1);
                let located = problems.iter().all(|p| (1..=lines).contains(&p.line));
                assert!(!problems.is_empty() && located, "{problems:#?} in {lines} lines:\n{text}");
            }
        }
    }
    assert!(good > 100 && bad > 1_000, "{good} good, {bad} bad");
}

/// As code, as a section, or in a line of a file that sets it.
#[test]
fn each_key_is_in_the_manual() {
    let manual = [
        include_str!("../../../../docs/nat64.md"),
        include_str!("../../../../docs/stateful.md"),
        include_str!("../../../../docs/clat.md"),
        include_str!("../../../../docs/device-mode.md"),
        include_str!("../../../../docs/p4runtime.md"),
    ]
    .concat();
    let is_set = |line: &str, key: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let is_there = |key: &&&str| {
        manual.contains(&format!("`{key}"))
            || manual.contains(&format!("[{key}]"))
            || manual.contains(&format!("{{ {key} = "))
            || manual.lines().any(|line| is_set(line, key))
    };
    let of_sections = [&stateful::POOL_KEYS[..], &attach::KNOWN, &binding::BINDING_KEYS, &clat::KEYS];
    let of_switch = [&switch::KEYS[..], &switch::ROUTE_KEYS];
    let keys = [&KEYS[..], &of_sections.concat(), &of_switch.concat()].concat();
    let missing: Vec<_> = keys.iter().filter(|key| !is_there(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
