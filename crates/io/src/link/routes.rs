//! The routes of the main table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
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
}

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

    fn bare(to: Prefix) -> Self {
        Self { to, interface: None, via: None, source: None, mtu: None, priority: None }
    }
}

impl Handle {
    /// The unicast routes of the main table.
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

    /// Sets a route. It replaces an existing route with the same prefix and metric.
    pub fn set_route(&self, route: &Route) -> Result<()> {
        let message = self.route_message(route)?;
        self.act(Rtnl::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .context(|| format!("set the route to {}", route.to))
    }

    /// Removes a route. Returns `false` if it does not exist.
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
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        // An IPv4 route without a gateway needs the scope of the link.
        message.header.scope = match route.via.is_none() && route.to.address.is_ipv4() {
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
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let mut route = Route::bare(Prefix::new(any, header.destination_prefix_length));
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => route.to.address = ip(to)?,
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

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}
