//! The mode `clat` (RFC 6877): what the section `[clat]` says, and the configuration that follows from what is found on a link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::config::{Attach, Config, Map, Reader, Value, is_interface_name};
use super::discovery::Origin;
use super::ranges::{unroutable, untranslatable};

/// The customer-side translator of a host, as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clat {
    /// The interface towards the IPv6 network. Without it, the one of the IPv6 default route is taken.
    pub uplink: Option<String>,
    /// The host's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// The IPv6 address that `ipv4` becomes. Without it, one of the uplink's network is made.
    pub ipv6: Option<Ipv6Addr>,
    /// The resolvers that are asked for the prefix. Without them, those of /etc/resolv.conf.
    pub dns: Vec<IpAddr>,
    /// The metric of the IPv4 default route.
    pub metric: u32,
    /// Whether the file has an `ipv6-mtu`, which counts more than that of the uplink.
    pub fixed_mtu: bool,
    /// What the configuration follows from, if it is complete. A file alone never is.
    pub found: Option<Found>,
}

/// What a CLAT must know of its network before it can translate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The prefix of the network's NAT64.
    pub prefix: Ipv6Net,
    /// Where the prefix comes from.
    pub origin: Origin,
    /// When it ends to be valid, in seconds since 1970; `None` if it does not.
    pub until: Option<u64>,
    /// The interface towards the IPv6 network.
    pub uplink: String,
    /// The IPv6 address of the translator.
    pub ipv6: Ipv6Addr,
    /// Whether that address is of the uplink's network, so that its neighbours look for it there.
    pub on_link: bool,
    /// The MTU of the uplink.
    pub mtu: u32,
}

/// The first address of RFC 7335's range, which other CLATs use too.
const IPV4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Behind the metrics of DHCP clients and network managers, so that native IPv4 comes first.
const METRIC: u32 = 2048;
/// The device, if the file names none.
pub(super) const DEVICE: &str = "clat";
/// The keys of the section.
pub(super) const KEYS: [&str; 5] = ["uplink", "ipv4", "ipv6", "dns", "metric"];

impl Default for Clat {
    fn default() -> Self {
        let (uplink, ipv6, dns, found) = (None, None, Vec::new(), None);
        Self { uplink, ipv4: IPV4, ipv6, dns, metric: METRIC, fixed_mtu: false, found }
    }
}

impl Config {
    /// The configuration of a CLAT in a network, without which it translates nothing. Of other modes nothing changes.
    pub fn with(mut self, found: Found) -> Self {
        let Some(clat) = &mut self.clat else { return self };
        self.prefix = Some(found.prefix);
        self.maps.insert(0, Map { ipv4: Ipv4Net::from(clat.ipv4), ipv6: Ipv6Net::from(found.ipv6) });
        if !clat.fixed_mtu {
            self.ipv6_mtu = Some(found.mtu.clamp(1280, super::config::LARGEST_MTU as u32) as u16);
        }
        clat.found = Some(found);
        self
    }
}

impl<'a> Reader<'a> {
    /// Reads the section `[clat]`, which may be absent.
    pub(super) fn clat(&mut self, value: Option<&Value<'a>>, nat64: &DeTable<'a>) -> Clat {
        let mut clat = Clat { fixed_mtu: nat64.get("ipv6-mtu").is_some(), ..Clat::default() };
        if let Some(routes) = nat64.get("routes") {
            self.problem(routes.span(), "`routes` has no meaning in mode \"clat\"", "remove it");
        }
        let Some(value) = value else { return clat };
        let Some(table) = value.get_ref().as_table() else {
            self.problem(value.span(), "`clat` is not a section", "write `[clat]` on a line of its own");
            return clat;
        };
        for (key, _) in table.iter().filter(|(k, _)| !KEYS.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &KEYS);
        }
        clat.uplink = table.get("uplink").and_then(|v| self.uplink(v));
        clat.ipv4 = table.get("ipv4").and_then(|v| self.own_ipv4(v)).unwrap_or(IPV4);
        clat.ipv6 = table.get("ipv6").and_then(|v| self.own_ipv6(v));
        clat.dns = table.get("dns").map(|v| self.dns(v)).unwrap_or_default();
        let metric = table.get("metric").and_then(|v| self.integer(v, "metric", 1..=u32::MAX.into()));
        clat.metric = metric.map_or(METRIC, |n| n as u32);
        clat
    }

    /// Reports what a CLAT cannot have beside the rest of the file.
    pub(super) fn clat_beside(
        &mut self,
        clat: &Clat,
        prefix: Option<Ipv6Net>,
        nat64: &DeTable<'a>,
        attach: &Attach,
    ) {
        let has_lanes = !attach.interfaces.is_empty();
        if let (true, Some(at)) = (has_lanes, nat64.get("attach")) {
            self.problem(
                at.span(),
                "lanes are for routers: a CLAT's packets end on this host",
                "write `attach = { device = \"clat\" }`, or nothing",
            );
        }
        if let (Some(ipv6), Some(prefix), Some(at)) = (clat.ipv6, prefix, nat64.get("prefix"))
            && prefix.contains(&ipv6)
        {
            let hint = "the prefix is the IPv4 Internet; the CLAT's address is of this host's own network";
            self.problem(at.span(), format!("the CLAT's address {ipv6} is inside {prefix}"), hint);
        }
    }

    fn uplink(&mut self, value: &Value<'a>) -> Option<String> {
        let name = self.string(value, "uplink", "eth0")?;
        if !is_interface_name(name, 15) {
            let hint = "up to 15 letters, digits, `-`, `_` or `.`";
            self.problem(value.span(), format!("`{name}` is not a name of an interface"), hint);
            return None;
        }
        Some(name.to_string())
    }

    fn own_ipv4(&mut self, value: &Value<'a>) -> Option<Ipv4Addr> {
        let text = self.string(value, "ipv4", "192.0.0.1")?;
        let hint = "192.0.0.1 to 192.0.0.6 are for this (RFC 7335)";
        let Ok(address) = text.parse::<Ipv4Addr>() else {
            self.problem(value.span(), format!("`{text}` is not an IPv4 address"), hint);
            return None;
        };
        match untranslatable(address.into()) {
            None => Some(address),
            Some(what) => {
                self.problem(value.span(), format!("{address} {what}, which is never translated"), hint);
                None
            }
        }
    }

    fn own_ipv6(&mut self, value: &Value<'a>) -> Option<Ipv6Addr> {
        let text = self.string(value, "ipv6", "2001:db8:1::c1a7")?;
        let hint = "write an address that nobody else has and that is routed to this host, such as one of the uplink's /64";
        let Ok(address) = text.parse::<Ipv6Addr>() else {
            self.problem(value.span(), format!("`{text}` is not an IPv6 address"), hint);
            return None;
        };
        match unroutable(address.into()) {
            None => Some(address),
            Some(what) => {
                self.problem(value.span(), format!("{address} {what}, which no router forwards"), hint);
                None
            }
        }
    }

    fn dns(&mut self, value: &Value<'a>) -> Vec<IpAddr> {
        let hint = "write `dns = [\"2001:db8::53\"]`";
        let Some(array) = value.get_ref().as_array() else {
            self.problem(value.span(), "`dns` is not a list of addresses", hint);
            return Vec::new();
        };
        if array.is_empty() {
            self.problem(
                value.span(),
                "`dns` names no resolver",
                "without the key, those of /etc/resolv.conf are asked",
            );
        }
        let mut all = Vec::new();
        for item in array.iter() {
            let Some(text) = self.string(item, "dns", "2001:db8::53") else { continue };
            match text.parse::<IpAddr>() {
                Ok(address) => all.push(address),
                Err(_) => self.problem(item.span(), format!("`{text}` is not an address"), hint),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const GOOD: &str = "\
[nat64]
mode = \"clat\"
attach = { device = \"clat\" }

[clat]
uplink = \"eth0\"
ipv4 = \"192.0.0.2\"
ipv6 = \"2001:db8:1::c1a7\"
dns = [\"2001:db8::53\", \"192.0.2.53\"]
metric = 4096
";

    fn found() -> Found {
        Found {
            prefix: "2001:db8:64::/96".parse().expect("a prefix"),
            origin: Origin::File,
            until: None,
            uplink: "eth0".into(),
            ipv6: "2001:db8:1::c1a7".parse().expect("an address"),
            on_link: true,
            mtu: 1400,
        }
    }

    #[test]
    fn a_file_is_read_as_it_says() {
        let config = parse(GOOD).expect("is good");
        let clat = config.clat.as_ref().expect("the mode");
        assert_eq!(clat.uplink.as_deref(), Some("eth0"));
        assert_eq!((clat.ipv4, clat.metric, clat.dns.len()), (Ipv4Addr::new(192, 0, 0, 2), 4096, 2));
        assert_eq!((config.prefix, config.maps.len()), (None, 0));
        let least = parse("[nat64]\nmode = \"clat\"\n").expect("everything else is found");
        let name = &least.attach.device;
        assert_eq!((name.as_str(), least.clat), ("clat", Some(Clat::default())));
    }

    #[test]
    fn what_is_found_makes_it_complete() {
        let config = parse(GOOD).expect("is good").with(found());
        assert_eq!(config.prefix, Some(found().prefix));
        assert_eq!(config.maps[0].ipv4.to_string(), "192.0.0.2/32");
        assert_eq!(config.maps[0].ipv6.to_string(), "2001:db8:1::c1a7/128");
        assert_eq!(config.ipv6_mtu, Some(1400));
        let fixed = parse(&GOOD.replace("\n\n", "\nipv6-mtu = 1300\n\n")).expect("is good").with(found());
        assert_eq!(fixed.ipv6_mtu, Some(1300));
    }

    /// Each row has: text that replaces a valid line, the line of the problem, and words of the message and of the hint.
    #[test]
    fn each_mistake_is_found_on_its_line() {
        for (from, to, line, words) in [
            ("\"eth0\"", "\"eth 0\"", 6, "not a name"),
            ("192.0.0.2", "127.0.0.2", 7, "is loopback"),
            ("192.0.0.2\"", "192.0.0.2/29\"", 7, "RFC 7335"),
            ("2001:db8:1::c1a7", "fe80::1", 8, "link-local"),
            ("[\"2001:db8::53\", \"192.0.2.53\"]", "[]", 9, "resolv.conf"),
            ("192.0.2.53", "resolver", 9, "not an address"),
            ("4096", "0", 10, "1 to"),
            ("metric", "metrik", 10, "did you mean `metric`"),
            ("\"clat\" }", "\"clat\", express = [\"eth0\"] }", 3, "lanes are for routers"),
            ("attach", "routes = [\"192.0.2.0/24\"]\nattach", 3, "no meaning"),
            ("attach", "prefix = \"2001:db8:1::/96\"\nattach", 3, "is inside 2001:db8:1::/96"),
            ("\"clat\"\n", "\"stateless\"\nprefix = \"64:ff9b::/96\"\n", 6, "belongs to mode \"clat\""),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let problems = parse(&text).expect_err(to);
            let hit = problems.iter().any(|p| p.line == line && p.to_string().contains(words));
            assert!(hit, "{to}: line {line} with {words:?} expected in {problems:#?}");
        }
    }
}
