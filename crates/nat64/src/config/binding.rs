//! The sections `binding`: forwarded ports, and hosts with an address for themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::stateful::{Pool, Protocol};
use super::{Reader, Value};
use crate::ranges::{unroutable, untranslatable};

/// A binding that is always there (RFC 6146 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticBinding {
    /// What it is of.
    pub protocol: Protocol,
    /// The IPv4 address and port; of ICMP the identifier.
    pub ipv4: (Ipv4Addr, u16),
    /// The host's address and port.
    pub ipv6: (Ipv6Addr, u16),
}

/// A host with an IPv4 address for itself: all ports and all protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBinding {
    /// The IPv4 address that nobody else has.
    pub ipv4: Ipv4Addr,
    /// The host that has it.
    pub ipv6: Ipv6Addr,
}

/// What a section `binding` says: a port, or a whole address.
pub(super) enum Bound {
    Port(StaticBinding),
    Host(HostBinding),
}

impl Bound {
    /// Whether two sections contradict each other.
    fn is_against(&self, other: &Bound) -> bool {
        match (self, other) {
            (Bound::Port(a), Bound::Port(b)) => {
                a.protocol == b.protocol && (a.ipv4 == b.ipv4 || a.ipv6 == b.ipv6)
            }
            (Bound::Host(a), Bound::Host(b)) => a.ipv4 == b.ipv4 || a.ipv6 == b.ipv6,
            (Bound::Host(host), Bound::Port(port)) | (Bound::Port(port), Bound::Host(host)) => {
                host.ipv4 == port.ipv4.0 || host.ipv6 == port.ipv6.0
            }
        }
    }
}

pub(super) const BINDING_KEYS: [&str; 3] = ["protocol", "ipv4", "ipv6"];
/// The largest number of hosts with an address for themselves.
const HOSTS: usize = 4096;

impl<'a> Reader<'a> {
    pub(super) fn binding(&mut self, item: &Value<'a>) -> Option<Bound> {
        let table = self.section_of(item, "binding", &BINDING_KEYS)?;
        if let Some(key) = ["ipv4", "ipv6"].into_iter().find(|key| table.get(*key).is_none()) {
            let hint = "it needs `protocol`, `ipv4` and `ipv6`; without `protocol` it is of a whole address";
            self.problem(item.span(), format!("a `[[binding]]` without `{key}`"), hint);
            return None;
        }
        let (v4, v6) = (table.get("ipv4")?, table.get("ipv6")?);
        let Some(protocol) = table.get("protocol") else { return self.host(item, v4, v6).map(Bound::Host) };
        let name = self.string(protocol, "protocol", "tcp")?;
        let known = Protocol::named(name);
        if known.is_none() {
            let message = format!("`{name}` has no bindings");
            self.problem(protocol.span(), message, "write \"tcp\", \"udp\" or \"icmp\"");
        }
        let ipv4 = self.endpoint(v4, "ipv4", "203.0.113.7:443");
        let ipv6 = self.endpoint(v6, "ipv6", "[2001:db8::7]:443");
        let (ipv4, ipv6) = (ipv4?, ipv6?);
        let (IpAddr::V4(from), IpAddr::V6(to)) = (ipv4.ip(), ipv6.ip()) else {
            let hint = "`ipv4 = \"203.0.113.7:443\"` leads to `ipv6 = \"[2001:db8::7]:443\"`";
            self.problem(item.span(), "the addresses of a `[[binding]]` are of the wrong protocols", hint);
            return None;
        };
        let wrong = untranslatable(from.into()).or_else(|| unroutable(to.into()));
        if let Some(what) = wrong {
            self.problem(item.span(), format!("an address of this `[[binding]]` {what}"), "");
            return None;
        }
        let (ipv4, ipv6) = ((from, ipv4.port()), (to, ipv6.port()));
        Some(Bound::Port(StaticBinding { protocol: known?, ipv4, ipv6 }))
    }

    /// A host with an address for itself.
    fn host(&mut self, item: &Value<'a>, v4: &Value<'a>, v6: &Value<'a>) -> Option<HostBinding> {
        let example =
            "`ipv4 = \"203.0.113.9\"` leads to `ipv6 = \"2001:db8::9\"`; with ports it needs a `protocol`";
        let (text4, text6) =
            (self.string(v4, "ipv4", "203.0.113.9")?, self.string(v6, "ipv6", "2001:db8::9")?);
        let (Ok(ipv4), Ok(ipv6)) = (text4.parse::<Ipv4Addr>(), text6.parse::<Ipv6Addr>()) else {
            self.problem(item.span(), "a `[[binding]]` without `protocol` is not of two addresses", example);
            return None;
        };
        if let Some(what) = untranslatable(ipv4.into()).or_else(|| unroutable(ipv6.into())) {
            self.problem(item.span(), format!("an address of this `[[binding]]` {what}"), "");
            return None;
        }
        Some(HostBinding { ipv4, ipv6 })
    }

    /// Refuses hosts whose address others share.
    pub(super) fn outside(
        &mut self,
        bindings: &[(Bound, std::ops::Range<usize>)],
        pools: &[(Pool, std::ops::Range<usize>)],
    ) {
        let hosts = bindings.iter().filter_map(|(bound, span)| match bound {
            Bound::Host(host) => Some((host, span)),
            Bound::Port(_) => None,
        });
        for (count, (host, span)) in hosts.enumerate() {
            let mut nets = pools.iter().flat_map(|(pool, _)| &pool.addresses);
            if let Some(net) = nets.find(|net| net.contains(&host.ipv4)) {
                let message = format!("{} is an address of the pool {net}, which hosts share", host.ipv4);
                self.problem(
                    span.clone(),
                    message,
                    "take an address that is in no pool, or bind ports of it",
                );
            } else if count == HOSTS {
                let message = format!("more than {HOSTS} hosts with an address for themselves");
                self.problem(span.clone(), message, "the stateless mode translates prefixes");
            }
        }
    }

    fn endpoint(&mut self, value: &Value<'a>, key: &str, example: &str) -> Option<SocketAddr> {
        let text = self.string(value, key, example)?;
        let found = text.parse().ok();
        if found.is_none() {
            let message = format!("`{text}` is not an address with a port");
            self.problem(value.span(), message, format!("write `{key} = \"{example}\"`"));
        }
        found
    }

    /// Refuses bindings that contradict each other.
    pub(super) fn bound_once(&mut self, bindings: &[(Bound, std::ops::Range<usize>)]) {
        for (at, (binding, span)) in bindings.iter().enumerate() {
            if bindings[..at].iter().any(|(other, _)| binding.is_against(other)) {
                let hint = "an endpoint has one binding, in each direction";
                self.problem(span.clone(), "an endpoint of this `[[binding]]` is bound twice", hint);
            }
        }
    }
}
