//! Reads and checks `nat64.toml`, the operator's configuration.
//!
//! A file is accepted or rejected as a whole. Every problem is reported with its line, an explanation and a hint. Each key has one
//! function, and all these functions have the same form.

mod attach;
mod binding;
mod stateful;
mod switch;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::str::FromStr;

use ipnet::{Ipv4Net, Ipv6Net};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::clat::{self, Clat};
use super::ranges::{Mappings, NOT_GLOBAL, PRIVATE, asymmetric, overlap, unroutable, untranslatable};

pub use control::problem::Problem;
use control::problem::near;

pub use attach::{Attach, Lanes, XdpMode};
pub use binding::{HostBinding, StaticBinding};
pub use stateful::{Filtering, Log, LogTarget, Pool, Protocol, Stateful, Timeouts};
pub use switch::{NextHop, Switch};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The translation prefix (RFC 6052), if there is one.
    pub prefix: Option<Ipv6Net>,
    /// The explicit address mappings (RFC 7757), in the order of the file.
    pub maps: Vec<Map>,
    /// How packets reach the translator.
    pub attach: Attach,
    /// The IPv4 prefixes of IPv6 hosts that are reached by their RFC 6052 address. They are routed into the device, like the prefixes of
    /// `maps`.
    pub routes: Vec<Ipv4Net>,
    /// How the TOS octet is translated.
    pub tos: Tos,
    /// What happens to UDP datagrams over IPv4 without a checksum (RFC 7915 section 4.5).
    pub udp_zero_checksum: UdpZeroChecksum,
    /// Whether the MSS option of TCP SYN packets is lowered so that segments fit the path.
    pub clamp_mss: bool,
    /// The MTU of the IPv6 side in bytes, at least 1280, if it is given.
    pub ipv6_mtu: Option<u16>,
    /// The greatest size of IPv6 packets that are made of IPv4 packets with DF clear. Longer ones are fragmented (RFC 7915 section 4).
    pub lowest_ipv6_mtu: u16,
    /// What is allowed, and may not be what the operator wants.
    pub warnings: Vec<Problem>,
    /// The pool of IPv4 sources for ICMP errors whose IPv6 source has no IPv4 address (RFC 6791).
    pub error_pool4: Option<Ipv4Net>,
    /// The IPv6 source of ICMP errors whose IPv4 source has no IPv6 address.
    pub error_source6: Option<Ipv6Addr>,
    /// The IPv4 source of ICMP errors that the translator sends.
    pub error_source4: Option<Ipv4Addr>,
    /// How packets between two hosts with mappings are translated.
    pub hairpin: Hairpin,
    /// How many ICMP errors a second the translator sends to one host; 0 is none.
    pub error_rate: u16,
    /// The odd number from which follows which hosts share a bucket of that rate. Strangers must not know it, so it is chosen and never written.
    pub error_key: Option<u32>,
    /// Pools and what else sessions need, in mode `stateful`.
    pub stateful: Option<Stateful>,
    /// What makes it a CLAT (RFC 6877), in mode `clat`.
    pub clat: Option<Clat>,
    /// The switch whose sessions a controller writes. What runs in a device has none.
    pub switch: Option<Switch>,
}

/// How packets are translated that one host with a mapping sends to the RFC 6052 address of another (RFC 7757 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hairpin {
    /// Twice, and the kernel routes them in between.
    Simple,
    /// Twice at once, in two rounds of the program.
    Intrinsic,
}

/// An explicit address mapping (RFC 7757 section 3.2): addresses with equal suffixes correspond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The IPv4 prefix.
    pub ipv4: Ipv4Net,
    /// The IPv6 prefix. Its suffix is at least as long as the IPv4 suffix.
    pub ipv6: Ipv6Net,
}

/// How the TOS octet or traffic class of a translated packet is set (RFC 7915 sections 4.1 and 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tos {
    /// The octet is copied, in both directions.
    Copy,
    /// The octet is set to this value, in both directions.
    Fixed(u8),
}

/// What happens to an unfragmented UDP datagram over IPv4 without a checksum, which IPv6 forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpZeroChecksum {
    /// The checksum is computed.
    Compute,
    /// The packet is dropped and counted.
    Drop,
}

const SECTIONS: [&str; 6] = ["nat64", "map", "pool", "binding", "clat", "switch"];

/// The keys of the section `nat64`.
pub const KEYS: [&str; 27] = [
    "mode",
    "prefix",
    "pool",
    "ports",
    "filtering",
    "adopt-connections",
    "timeouts",
    "max-sessions",
    "new-sessions",
    "subscriber-sessions",
    "subscriber-bindings",
    "outside-sessions",
    "secret",
    "log",
    "log-to",
    "attach",
    "routes",
    "tos",
    "udp-zero-checksum",
    "clamp-mss",
    "ipv6-mtu",
    "lowest-ipv6-mtu",
    "error-pool4",
    "error-source4",
    "error-source6",
    "error-rate",
    "hairpin",
];

/// What RFC 4443 section 2.4 (f) names for a small or mid-size device.
const ERROR_RATE: u16 = 10;

/// Parses and checks a configuration. Reports all problems.
pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader { text, problems: Vec::new(), warnings: Vec::new() };
    let config = reader.document();
    if reader.problems.is_empty() {
        let warnings = reader.warnings;
        // If there is no problem, every required part is present.
        return config.map(|config| Config { warnings, ..config }).ok_or_else(Vec::new);
    }
    reader.problems.sort_by_key(|p| (p.line, p.column));
    Err(reader.problems)
}

/// What the translator is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It translates without sessions, on a router.
    Stateless,
    /// It translates with sessions, on a router (RFC 6146).
    Stateful,
    /// It gives a host of an IPv6-only network IPv4.
    Clat,
}

/// The sections beside `[nat64]` that belong to one mode.
struct Extra<'v, 'a> {
    clat: Option<&'v Value<'a>>,
    pools: Option<&'v Value<'a>>,
    bindings: Option<&'v Value<'a>>,
}

pub(super) struct Reader<'a> {
    text: &'a str,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Reader<'a> {
    pub(super) fn problem(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let problem = self.located(span, message.into(), hint.into());
        self.problems.push(problem);
    }

    fn warning(&mut self, span: Range<usize>, message: String, hint: &str) {
        let warning = self.located(span, message, hint.into());
        self.warnings.push(warning);
    }

    fn located(&self, span: Range<usize>, message: String, hint: String) -> Problem {
        Problem::at(self.text, span, message, hint)
    }

    fn document(&mut self) -> Option<Config> {
        let root = match DeTable::parse(self.text) {
            Ok(root) => root,
            Err(error) => {
                self.problem(
                    error.span().unwrap_or(0..0),
                    error.message().to_string(),
                    "this is not TOML: see toml.io",
                );
                return None;
            }
        };
        let whole = root.span();
        let root = root.into_inner();
        for (key, _) in root.iter().filter(|(k, _)| !SECTIONS.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &SECTIONS);
        }
        let maps = self.maps(root.get("map"));
        let switch = root.get("switch").and_then(|section| self.switch(section));
        let extra = Extra { clat: root.get("clat"), pools: root.get("pool"), bindings: root.get("binding") };
        let Some(section) = root.get("nat64") else {
            self.problem(
                whole.start..whole.start,
                "there is no [nat64] section",
                "begin with `[nat64]` and `mode = \"stateless\"`",
            );
            return None;
        };
        let Some(table) = section.get_ref().as_table() else {
            self.problem(section.span(), "`nat64` is not a section", "write `[nat64]` on a line of its own");
            return None;
        };
        let config = self.section(table, section.span(), maps, extra)?;
        if let (Some(section), None) = (root.get("switch"), &config.stateful) {
            self.belongs(section.span(), "the section `[switch]`", "stateful");
        }
        Some(Config { switch, ..config })
    }

    fn section(
        &mut self,
        table: &DeTable<'a>,
        span: Range<usize>,
        maps: Vec<Map>,
        extra: Extra<'_, 'a>,
    ) -> Option<Config> {
        for (key, _) in table.iter().filter(|(k, _)| !KEYS.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &KEYS);
        }
        let mode = self.mode(table.get("mode"), span.clone());
        let clat = match (mode, extra.clat) {
            (Some(Mode::Clat), section) => Some(self.clat(section, table)),
            (Some(_), Some(section)) => {
                self.belongs(section.span(), "the section `[clat]`", "clat");
                None
            }
            _ => None,
        };
        let stateful = match mode {
            Some(Mode::Stateful) => Some(self.stateful(table, extra.pools, extra.bindings, span.clone())),
            Some(_) => {
                self.stateless(table, &extra);
                None
            }
            None => None,
        };
        if let (Some(_), Some(map)) = (&stateful, maps.first()) {
            let hint = "its hosts have addresses of a pool; a second translator with `mode = \"stateless\"` has mappings";
            let message = format!("`[[map]]` ({}) does not belong to mode \"stateful\"", map.ipv4);
            self.problem(span.clone(), message, hint);
        }
        let prefix = table.get("prefix").and_then(|v| self.prefix(v));
        if let (Some(_), None) = (&stateful, table.get("prefix")) {
            let hint = "add `prefix = \"64:ff9b::/96\"`";
            self.problem(span.clone(), "mode \"stateful\" without a `prefix`", hint);
        }
        if clat.is_none() && maps.is_empty() && table.get("prefix").is_none() && self.problems.is_empty() {
            let hint = "add `prefix = \"64:ff9b::/96\"`, a `[[map]]`, or both";
            self.problem(span, "there is nothing to translate by", hint);
        }
        let routes = self.routes(table.get("routes"), prefix);
        if let (Some(at), None, None) = (table.get("routes"), prefix, &clat)
            && table.get("prefix").is_none()
        {
            self.problem(
                at.span(),
                "`routes` without a `prefix`",
                "they name IPv6 hosts by their RFC 6052 address",
            );
        }
        let attach = self.attach(table.get("attach"), if clat.is_some() { clat::DEVICE } else { "nat64" });
        if let Some(clat) = &clat {
            self.clat_beside(clat, prefix, table, &attach);
        }
        Some(Config {
            prefix,
            maps,
            attach,
            routes,
            tos: self.tos(table.get("tos")),
            udp_zero_checksum: self.udp_zero(table.get("udp-zero-checksum")),
            clamp_mss: table.get("clamp-mss").is_none_or(|v| self.boolean(v, "clamp-mss")),
            ipv6_mtu: self.mtu(table.get("ipv6-mtu")),
            lowest_ipv6_mtu: self.lowest_mtu(table.get("lowest-ipv6-mtu")),
            warnings: Vec::new(),
            error_pool4: table.get("error-pool4").and_then(|v| self.error_pool4(v)),
            error_source6: table.get("error-source6").and_then(|v| self.error_source6(v)),
            error_source4: table.get("error-source4").and_then(|v| self.error_source4(v)),
            hairpin: table.get("hairpin").map_or(Hairpin::Simple, |v| self.hairpin(v)),
            error_rate: self.error_rate(table.get("error-rate")),
            error_key: None,
            stateful,
            clat,
            switch: None,
        })
    }

    pub(super) fn unknown(&mut self, span: Range<usize>, key: &str, known: &[&str]) {
        let hint = match near(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys here are {}", known.join(", ")),
        };
        self.problem(span, format!("unknown key `{key}`"), hint);
    }

    fn mode(&mut self, value: Option<&Value<'a>>, section: Range<usize>) -> Option<Mode> {
        let hint = "write `mode = \"stateful\"` or \"stateless\", or \"clat\" on a host";
        match value.map(|v| (v.get_ref().as_str(), v.span())) {
            None => self.problem(section, "`mode` is missing", hint),
            Some((Some("stateless"), _)) => return Some(Mode::Stateless),
            Some((Some("stateful"), _)) => return Some(Mode::Stateful),
            Some((Some("clat"), _)) => return Some(Mode::Clat),
            Some((_, span)) => {
                self.problem(span, "`mode` is neither \"stateless\", \"clat\" nor \"stateful\"", hint)
            }
        }
        None
    }

    /// Refuses what only mode `stateful` has.
    fn stateless(&mut self, table: &DeTable<'a>, extra: &Extra<'_, 'a>) {
        for key in stateful::KEYS {
            if let Some(value) = table.get(key) {
                self.belongs(value.span(), &format!("`{key}`"), "stateful");
            }
        }
        for (value, name) in [(extra.pools, "pool"), (extra.bindings, "binding")] {
            if let Some(value) = value {
                self.belongs(value.span(), &format!("`[[{name}]]`"), "stateful");
            }
        }
    }

    fn belongs(&mut self, span: Range<usize>, what: &str, mode: &str) {
        let hint = format!("remove it, or write `mode = \"{mode}\"`");
        self.problem(span, format!("{what} belongs to mode \"{mode}\""), hint);
    }

    pub(super) fn string<'v>(&mut self, value: &'v Value<'a>, what: &str, example: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problem(
                value.span(),
                format!("`{what}` is not a string"),
                format!("write `{what} = \"{example}\"`"),
            );
        }
        text
    }

    fn boolean(&mut self, value: &Value<'a>, what: &str) -> bool {
        value.get_ref().as_bool().unwrap_or_else(|| {
            self.problem(value.span(), format!("`{what}` is neither true nor false"), "");
            false
        })
    }

    pub(super) fn integer(
        &mut self,
        value: &Value<'a>,
        what: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let number =
            value.get_ref().as_integer().and_then(|i| i64::from_str_radix(i.as_str(), i.radix()).ok());
        let good = number.filter(|n| range.contains(n));
        if good.is_none() {
            let message = format!("`{what}` is not a number from {} to {}", range.start(), range.end());
            self.problem(value.span(), message, "");
        }
        good
    }

    /// The translation prefix, with one of the lengths of RFC 6052 section 2.2.
    fn prefix(&mut self, value: &Value<'a>) -> Option<Ipv6Net> {
        let text = self.string(value, "prefix", "64:ff9b::/96")?;
        let net = self.ipv6_net(text, value.span())?;
        if ![32, 40, 48, 56, 64, 96].contains(&net.prefix_len()) {
            let message = format!("a /{} cannot carry IPv4 addresses", net.prefix_len());
            self.problem(
                value.span(),
                message,
                "RFC 6052 section 2.2 allows /32, /40, /48, /56, /64 and /96",
            );
            return None;
        }
        if net.prefix_len() == 96 && net.addr().octets()[8] != 0 {
            let hint = "bits 64 to 71 of the prefix must be zero (RFC 6052 section 2.2)";
            self.problem(value.span(), format!("{net} has a non-zero u octet"), hint);
            return None;
        }
        match unroutable(net) {
            None => Some(net),
            Some(what) => {
                let message = format!("{net} {what}, which no router forwards");
                self.problem(value.span(), message, "use 64:ff9b::/96 or one of your own");
                None
            }
        }
    }

    fn error_pool4(&mut self, value: &Value<'a>) -> Option<Ipv4Net> {
        let text = self.string(value, "error-pool4", "192.0.2.64/28")?;
        let net = self.ipv4_net(text, value.span())?;
        let wrong = net.addr().is_multicast() || net.addr().is_loopback() || net.addr().octets()[0] == 0;
        if wrong || net.prefix_len() < 8 {
            let hint = "write addresses that are routed to this translator, such as `192.0.2.64/28`";
            self.problem(value.span(), format!("{net} cannot be the sources of ICMP errors"), hint);
            return None;
        }
        if let Some(range) = overlap(net, PRIVATE) {
            let message = format!("{net} overlaps {range}, which is private");
            let hint = "reverse path filters drop errors from such sources (RFC 6791 section 3.1)";
            self.warning(value.span(), message, hint);
        }
        Some(net)
    }

    fn error_source4(&mut self, value: &Value<'a>) -> Option<Ipv4Addr> {
        let wrong =
            |a: &Ipv4Addr| a.octets()[0] == 0 || a.octets()[0] >= 224 || a.is_loopback() || a.is_link_local();
        self.source(value, "error-source4", "IPv4", "192.0.2.1", wrong)
    }

    fn error_source6(&mut self, value: &Value<'a>) -> Option<Ipv6Addr> {
        let wrong = |a: &Ipv6Addr| {
            a.is_multicast() || a.is_loopback() || a.is_unspecified() || a.is_unicast_link_local()
        };
        self.source(value, "error-source6", "IPv6", "2001:db8::1", wrong)
    }

    /// An address of the router, from which errors may come.
    fn source<A: FromStr + fmt::Display>(
        &mut self,
        value: &Value<'a>,
        key: &str,
        protocol: &str,
        example: &str,
        wrong: impl Fn(&A) -> bool,
    ) -> Option<A> {
        let text = self.string(value, key, example)?;
        let message = match text.parse::<A>() {
            Ok(address) if wrong(&address) => format!("{address} cannot be the source of ICMP errors"),
            Ok(address) => return Some(address),
            Err(_) => format!("`{text}` is not an {protocol} address"),
        };
        self.problem(value.span(), message, format!("write an address of this router, such as `{example}`"));
        None
    }

    fn hairpin(&mut self, value: &Value<'a>) -> Hairpin {
        match self.string(value, "hairpin", "simple") {
            Some("intrinsic") => return Hairpin::Intrinsic,
            Some("simple") | None => {}
            Some(other) => {
                let hint = "write \"simple\" or \"intrinsic\" (RFC 7757 section 4.2)";
                self.problem(value.span(), format!("`{other}` is no kind of hairpinning"), hint);
            }
        }
        Hairpin::Simple
    }

    fn error_rate(&mut self, value: Option<&Value<'a>>) -> u16 {
        let rate = value.and_then(|v| self.integer(v, "error-rate", 0..=u16::MAX.into()));
        rate.map_or(ERROR_RATE, |n| n as u16)
    }

    fn ipv6_net(&mut self, text: &str, span: Range<usize>) -> Option<Ipv6Net> {
        match text.parse::<Ipv6Net>() {
            Ok(net) if net.addr() == net.network() => Some(net),
            Ok(net) => {
                let hint = format!("did you mean `{}`?", net.trunc());
                self.problem(span, format!("`{text}` has bits after its prefix"), hint);
                None
            }
            Err(_) => {
                let hint = "write address/length, such as `2001:db8:100::/120`";
                self.problem(span, format!("`{text}` is not an IPv6 prefix"), hint);
                None
            }
        }
    }

    fn ipv4_net(&mut self, text: &str, span: Range<usize>) -> Option<Ipv4Net> {
        match text.parse::<Ipv4Net>() {
            Ok(net) if net.addr() == net.network() => Some(net),
            Ok(net) => {
                let hint = format!("did you mean `{}`?", net.trunc());
                self.problem(span, format!("`{text}` has bits after its prefix"), hint);
                None
            }
            Err(_) => {
                let hint = "write address/length, such as `198.51.100.0/24`";
                self.problem(span, format!("`{text}` is not an IPv4 prefix"), hint);
                None
            }
        }
    }

    fn maps(&mut self, value: Option<&Value<'a>>) -> Vec<Map> {
        let Some(value) = value else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.problem(
                value.span(),
                "`map` is not a list of sections",
                "write `[[map]]`, with two brackets",
            );
            return Vec::new();
        };
        let mut maps = Mappings::default();
        for item in array.iter() {
            let Some(map) = self.map(item) else { continue };
            let twice = maps.overlapping(&map).any(|m| m.ipv4 == map.ipv4 || m.ipv6 == map.ipv6);
            if twice {
                let hint = "an address would have two translations; remove one";
                self.problem(item.span(), format!("{} or {} is mapped twice", map.ipv4, map.ipv6), hint);
            } else if let Some(warning) = maps.overlapping(&map).find_map(|other| asymmetric(other, &map)) {
                let hint = "RFC 7757 allows it: the longest match wins, in each direction by itself";
                self.warning(item.span(), warning, hint);
            }
            maps.push(map);
        }
        maps.all
    }

    fn map(&mut self, item: &Value<'a>) -> Option<Map> {
        let Some(table) = item.get_ref().as_table() else {
            self.problem(
                item.span(),
                "a `map` is not a section",
                "write `[[map]]`, then `ipv4 = …` and `ipv6 = …`",
            );
            return None;
        };
        for (key, _) in table.iter().filter(|(k, _)| !["ipv4", "ipv6"].contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &["ipv4", "ipv6"]);
        }
        let missing = ["ipv4", "ipv6"].into_iter().find(|k| table.get(*k).is_none());
        if let Some(key) = missing {
            self.problem(
                item.span(),
                format!("a `[[map]]` without `{key}`"),
                "it needs both `ipv4` and `ipv6`",
            );
            return None;
        }
        let (v4, v6) = (table.get("ipv4")?, table.get("ipv6")?);
        let ipv4 = self
            .string(v4, "ipv4", "198.51.100.0/24")
            .and_then(|t| self.ipv4_net(&with_length(t, 32), v4.span()));
        let ipv6 = self
            .string(v6, "ipv6", "2001:db8:100::/120")
            .and_then(|t| self.ipv6_net(&with_length(t, 128), v6.span()));
        let (ipv4, ipv6) = (ipv4?, ipv6?);
        if let Some(what) = untranslatable(ipv4) {
            let message = format!("{ipv4} {what}, which is never translated");
            self.problem(v4.span(), message, "RFC 7915 section 4.1");
            return None;
        }
        if let Some(what) = unroutable(ipv6) {
            self.problem(v6.span(), format!("{ipv6} {what}, which no router forwards"), "");
            return None;
        }
        let (suffix4, suffix6) = (32 - ipv4.prefix_len(), 128 - ipv6.prefix_len());
        if suffix4 > suffix6 {
            let message = format!("{ipv6} has {suffix6} suffix bits, too few for the {suffix4} of {ipv4}");
            let hint = format!("an IPv6 prefix of /{} or shorter fits (RFC 7757 section 3.2)", 128 - suffix4);
            self.problem(v6.span(), message, hint);
            return None;
        }
        Some(Map { ipv4, ipv6 })
    }

    fn routes(&mut self, value: Option<&Value<'a>>, prefix: Option<Ipv6Net>) -> Vec<Ipv4Net> {
        let Some(value) = value else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.problem(value.span(), "`routes` is not a list", "write `routes = [\"198.51.100.0/24\"]`");
            return Vec::new();
        };
        let mut nets = Vec::new();
        for item in array.iter() {
            let text = self.string(item, "routes", "198.51.100.0/24");
            let Some(net) = text.and_then(|t| self.ipv4_net(t, item.span())) else { continue };
            self.route(net, item.span(), prefix);
            if nets.contains(&net) {
                self.problem(item.span(), format!("{net} is named twice"), "");
            }
            nets.push(net);
        }
        nets
    }

    /// Reports an IPv4 prefix that cannot be that of IPv6 hosts.
    fn route(&mut self, net: Ipv4Net, span: Range<usize>, prefix: Option<Ipv6Net>) {
        if net.prefix_len() == 0 {
            let hint = "name the IPv4 prefixes of your IPv6 hosts";
            let message = "the default route would bring back what was translated to IPv4, until it expires";
            self.problem(span, message, hint);
        } else if let Some(what) = untranslatable(net) {
            self.problem(span, format!("{net} {what}, which is never translated"), "RFC 7915 section 4.1");
        } else if let Some(range) = overlap(net, NOT_GLOBAL).filter(|_| prefix.is_some_and(is_well_known)) {
            let message = format!("{net} overlaps {range}, which the well-known prefix must not carry");
            let hint = "RFC 6052 section 3.1: use a `prefix` of your own, or a `[[map]]`";
            self.problem(span, message, hint);
        }
    }

    fn tos(&mut self, value: Option<&Value<'a>>) -> Tos {
        let Some(value) = value else { return Tos::Copy };
        match value.get_ref().as_str() {
            Some("copy") => Tos::Copy,
            Some(_) => {
                self.problem(
                    value.span(),
                    "`tos` is neither \"copy\" nor a number",
                    "`tos = 0` is the other common choice",
                );
                Tos::Copy
            }
            None => self.integer(value, "tos", 0..=255).map_or(Tos::Copy, |n| Tos::Fixed(n as u8)),
        }
    }

    fn udp_zero(&mut self, value: Option<&Value<'a>>) -> UdpZeroChecksum {
        let Some(value) = value else { return UdpZeroChecksum::Compute };
        match value.get_ref().as_str() {
            Some("compute") => UdpZeroChecksum::Compute,
            Some("drop") => UdpZeroChecksum::Drop,
            _ => {
                self.problem(
                    value.span(),
                    "`udp-zero-checksum` is neither \"compute\" nor \"drop\"",
                    "RFC 7915 section 4.5",
                );
                UdpZeroChecksum::Compute
            }
        }
    }

    fn mtu(&mut self, value: Option<&Value<'a>>) -> Option<u16> {
        let number = value.map(|v| self.integer(v, "ipv6-mtu", 1280..=LARGEST_MTU));
        number.flatten().map(|n| n as u16)
    }

    fn lowest_mtu(&mut self, value: Option<&Value<'a>>) -> u16 {
        let number = value.map(|v| self.integer(v, "lowest-ipv6-mtu", 1280..=LARGEST_FRAGMENT));
        number.flatten().map_or(1280, |n| n as u16)
    }
}

/// Adds the full prefix length to an address without one.
fn with_length(text: &str, length: u8) -> String {
    if text.contains('/') { text.to_string() } else { format!("{text}/{length}") }
}

/// Whether a text is a valid interface name. The kernel allows more characters, but no network needs them.
pub(super) fn is_interface_name(name: &str, longest: usize) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    (1..=longest).contains(&name.len()) && name.chars().all(good) && name != "." && name != ".."
}

/// Names that no interface can have: the kernel has directories of sysctls with the first two, and each namespace has a `lo`.
const RESERVED: [&str; 3] = ["all", "default", "lo"];

/// The device is a veth, whose MTU is at most 65535, and has room for a fragment header of 8 bytes more than a packet.
pub(super) const LARGEST_MTU: i64 = 65_535 - 8;
/// The largest fragments that the program in the kernel makes.
const LARGEST_FRAGMENT: i64 = 9_264;

fn is_well_known(prefix: Ipv6Net) -> bool {
    super::entries::WELL_KNOWN.parse() == Ok(prefix)
}

#[cfg(test)]
mod tests;
