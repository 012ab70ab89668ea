//! The routes of the main table.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Rtnl};

use super::{Handle, Prefix};
use crate::Result;
use crate::error::Context;

/// A route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination prefix.
    pub to: Prefix,
    /// The name of the outgoing interface; `None` if the kernel finds it by the gateway.
    pub interface: Option<String>,
    /// The next hop, if there is one.
    pub via: Option<IpAddr>,
    /// The source address of packets that the host itself sends.
    pub source: Option<IpAddr>,
    /// The MTU of the route in bytes.
    pub mtu: Option<u32>,
    /// The metric. The route with the smallest metric wins.
    pub priority: Option<u32>,
    /// The kernel's number of who made it: 2 is the kernel itself, 4 an administrator (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// What happens to its packets.
    pub kind: Kind,
}

/// What happens to the packets of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They are sent on.
    Unicast,
    /// They are dropped, with or without an answer. This is the kernel's number (RTN_BLACKHOLE and others).
    Other(u8),
}

/// Where the kernel sends packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Out of this interface.
    Interface(String),
    /// The kernel has no route, or one that refuses the packet.
    Nowhere,
}

/// What a new route does about those of the same prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// It is refused if there is one with the same metric.
    Nothing,
    /// It stands in front of IPv4 routes with the same metric, which stay. Among IPv6 routes with the same metric the kernel chooses.
    Others,
}

/// What the kernel says of an address without a route that leads somewhere: that of no route, and those of the kinds `unreachable`, `blackhole` and
/// `prohibit`.
const UNREACHED: [i32; 4] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL, libc::EACCES];

/// The protocol numbers of the kernel itself, and of administrators (linux/rtnetlink.h).
pub const BY_KERNEL: u8 = 2;
/// See [`BY_KERNEL`].
pub const BY_ADMINISTRATOR: u8 = 4;

impl Route {
    /// A route to an interface without a next hop.
    pub fn dev(to: Prefix, interface: &str) -> Self {
        Self { interface: Some(interface.into()), ..Self::bare(to) }
    }

    /// A route over a next hop.
    pub fn via(to: Prefix, gateway: impl Into<IpAddr>) -> Self {
        Self { via: Some(gateway.into()), ..Self::bare(to) }
    }

    /// The same route with this MTU.
    pub fn mtu(self, mtu: u32) -> Self {
        Self { mtu: Some(mtu), ..self }
    }

    /// The same route, made by this protocol.
    pub fn by(self, protocol: u8) -> Self {
        Self { protocol, ..self }
    }

    /// The metric that decides: IPv6 routes without one get 1024 (IP6_RT_PRIO_USER), IPv4 routes 0.
    pub fn metric(&self) -> u32 {
        self.priority.unwrap_or(if self.to.address.is_ipv4() { 0 } else { 1024 })
    }

    fn bare(to: Prefix) -> Self {
        let (protocol, kind) = (BY_ADMINISTRATOR, Kind::Unicast);
        Self { to, interface: None, via: None, source: None, mtu: None, priority: None, protocol, kind }
    }
}

impl fmt::Display for Route {
    /// As iproute2 prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Kind::Other(number) = self.kind {
            match number {
                6 => write!(f, "blackhole ")?,
                7 => write!(f, "unreachable ")?,
                8 => write!(f, "prohibit ")?,
                9 => write!(f, "throw ")?,
                other => write!(f, "type {other} ")?,
            }
        }
        match self.to.len {
            0 => write!(f, "default")?,
            _ => write!(f, "{}", self.to)?,
        }
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(interface) = &self.interface {
            write!(f, " dev {interface}")?;
        }
        match self.protocol {
            1 => write!(f, " proto redirect")?,
            BY_KERNEL => write!(f, " proto kernel")?,
            3 => write!(f, " proto boot")?,
            BY_ADMINISTRATOR => write!(f, " proto static")?,
            9 => write!(f, " proto ra")?,
            11 => write!(f, " proto zebra")?,
            12 => write!(f, " proto bird")?,
            16 => write!(f, " proto dhcp")?,
            other => write!(f, " proto {other}")?,
        }
        if self.metric() != 0 {
            write!(f, " metric {}", self.metric())?;
        }
        self.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {mtu}"))
    }
}

impl Handle {
    /// The routes of the main table.
    pub fn routes(&self) -> Result<Vec<Route>> {
        let links = self.links()?;
        let name = |index: u32| links.iter().find(|l| l.index == index).map(|l| l.name.clone());
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.dump(Rtnl::GetRoute(message)).context(|| "list the routes".into())?;
            found.extend(answers.into_iter().filter_map(|answer| match answer {
                Rtnl::NewRoute(message) => read(&message, &name),
                _ => None,
            }));
        }
        Ok(found)
    }

    /// Asks the kernel where it sends packets of its own to an address.
    pub fn reached(&self, address: IpAddr) -> Result<Reached> {
        let mut message = RouteMessage::default();
        let host = Prefix::new(address, if address.is_ipv4() { 32 } else { 128 });
        message.header.address_family = host.family();
        message.header.destination_prefix_length = host.len;
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let answers = match self.ask(Rtnl::GetRoute(message)) {
            Err(error) if UNREACHED.contains(&error.raw_os_error().unwrap_or(0)) => {
                return Ok(Reached::Nowhere);
            }
            other => other.context(|| format!("look up the route to {address}"))?,
        };
        let index = answers.iter().find_map(|answer| match answer {
            Rtnl::NewRoute(message) if message.header.kind == RouteType::Unicast => {
                message.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(index) => Some(*index),
                    _ => None,
                })
            }
            _ => None,
        });
        let links = self.links()?;
        let link = index.and_then(|index| links.into_iter().find(|link| link.index == index));
        Ok(link.map_or(Reached::Nowhere, |link| Reached::Interface(link.name)))
    }

    /// Sets a route. It replaces an existing route with the same prefix and metric.
    pub fn set_route(&self, route: &Route) -> Result<()> {
        let message = self.route_message(route)?;
        self.act(Rtnl::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .context(|| format!("set the route to {}", route.to))
    }

    /// Adds a route. No other route is replaced. Returns `false` if exactly this route exists beside others.
    pub fn add_route(&self, route: &Route, beside: Beside) -> Result<bool> {
        let message = self.route_message(route)?;
        let exclusive = if beside == Beside::Nothing { NLM_F_EXCL } else { 0 };
        match self.act(Rtnl::NewRoute(message), NLM_F_CREATE | exclusive) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) && beside == Beside::Others => Ok(false),
            other => other.map(|()| true).context(|| format!("add the route {route}")),
        }
    }

    /// Removes a route: the one with this interface, metric, protocol and, for IPv4, MTU. Returns `false` if it does not exist.
    pub fn remove_route(&self, route: &Route) -> Result<bool> {
        let message = self.route_message(route)?;
        match self.act(Rtnl::DelRoute(message), 0) {
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            other => other.map(|()| true).context(|| format!("remove the route to {}", route.to)),
        }
    }

    fn route_message(&self, route: &Route) -> Result<RouteMessage> {
        let mut message = RouteMessage::default();
        message.header.address_family = route.to.family();
        message.header.destination_prefix_length = route.to.len;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::from(route.protocol);
        message.header.kind = match route.kind {
            Kind::Unicast => RouteType::Unicast,
            Kind::Other(number) => RouteType::from(number),
        };
        // An IPv4 route without a gateway needs the scope of the link.
        let on_link = route.via.is_none() && route.kind == Kind::Unicast;
        message.header.scope = match on_link && route.to.address.is_ipv4() {
            true => RouteScope::Link,
            false => RouteScope::Universe,
        };
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Destination(route.to.address.into()));
        if let Some(interface) = &route.interface {
            attributes.push(RouteAttribute::Oif(self.index(interface)?));
        }
        attributes.extend(route.via.map(|via| RouteAttribute::Gateway(via.into())));
        attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
        attributes.extend(route.mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
        attributes.extend(route.priority.map(RouteAttribute::Priority));
        Ok(message)
    }
}

fn read(message: &RouteMessage, name: &dyn Fn(u32) -> Option<String>) -> Option<Route> {
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let mut route = Route::bare(destination(message)?);
    route.protocol = header.protocol.into();
    if header.kind != RouteType::Unicast {
        route.kind = Kind::Other(header.kind.into());
    }
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => route.interface = name(*index),
            RouteAttribute::Gateway(via) => route.via = ip(via),
            RouteAttribute::PrefSource(source) => route.source = ip(source),
            RouteAttribute::Priority(priority) => route.priority = Some(*priority),
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some(route)
}

/// The prefix of a route in a message. A default route has none in it.
pub(super) fn destination(message: &RouteMessage) -> Option<Prefix> {
    let any: IpAddr = match message.header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let to = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(to) => Some(ip(to)),
        _ => None,
    });
    Some(Prefix::new(to.unwrap_or(Some(any))?, message.header.destination_prefix_length))
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}
