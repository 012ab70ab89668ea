//! Addresses for which the kernel answers neighbour solicitations on behalf of others (proxy NDP).

use std::net::Ipv6Addr;

use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Rtnl};

use super::Handle;
use crate::Result;
use crate::error::Context;

/// An IPv6 address for which an interface answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The interface whose link is asked.
    pub interface: String,
    /// The address for which this machine answers.
    pub address: Ipv6Addr,
    /// The kernel's number of who made it, as of [`super::Route`]; 0 if nobody said.
    pub protocol: u8,
}

impl Handle {
    /// All of them.
    pub fn proxies(&self) -> Result<Vec<Proxy>> {
        let links = self.links()?;
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet6;
        message.header.flags = NeighbourFlags::Proxy;
        let answers = self.dump(Rtnl::GetNeighbour(message)).context(|| "list proxy neighbours".into())?;
        let found = answers.into_iter().filter_map(|answer| match answer {
            Rtnl::NewNeighbour(message) if message.header.flags.contains(NeighbourFlags::Proxy) => {
                let interface = links.iter().find(|l| l.index == message.header.ifindex)?.name.clone();
                read(&message, interface)
            }
            _ => None,
        });
        Ok(found.collect())
    }

    /// Adds one. It is no error if it exists.
    pub fn add_proxy(&self, proxy: &Proxy) -> Result<()> {
        self.act(Rtnl::NewNeighbour(self.proxy_message(proxy)?), NLM_F_CREATE)
            .context(|| format!("answer for {} on {}", proxy.address, proxy.interface))
    }

    /// Removes one. Returns `false` if it does not exist.
    pub fn remove_proxy(&self, proxy: &Proxy) -> Result<bool> {
        match self.act(Rtnl::DelNeighbour(self.proxy_message(proxy)?), 0) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            other => other
                .map(|()| true)
                .context(|| format!("no longer answer for {} on {}", proxy.address, proxy.interface)),
        }
    }

    fn proxy_message(&self, proxy: &Proxy) -> Result<NeighbourMessage> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet6;
        message.header.ifindex = self.index(&proxy.interface)?;
        message.header.flags = NeighbourFlags::Proxy;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(proxy.address)),
            NeighbourAttribute::Protocol(RouteProtocol::from(proxy.protocol)),
        ];
        Ok(message)
    }
}

fn read(message: &NeighbourMessage, interface: String) -> Option<Proxy> {
    let (mut address, mut protocol) = (None, 0);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(*v6),
            NeighbourAttribute::Protocol(number) => protocol = u8::from(*number),
            _ => {}
        }
    }
    Some(Proxy { interface, address: address?, protocol })
}
