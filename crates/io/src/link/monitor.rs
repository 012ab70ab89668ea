//! The kernel's notifications of changes to interfaces, addresses, routes and rules.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Rtnl;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::{Prefix, routes};
use crate::Result;
use crate::error::Context;

/// The groups of linux/rtnetlink.h: interfaces, then addresses, routes and rules of IPv4 and of IPv6, and sysctls such as `rp_filter`.
const GROUPS: [u32; 9] = [1, 5, 7, 8, 9, 11, 19, 24, 25];

/// A socket that becomes readable when something in its network namespace changes.
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Subscribes in the calling thread's namespace.
    pub fn open() -> Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            socket.set_non_blocking(true)?;
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            Ok(Self { socket })
        };
        open().context(|| "subscribe to the changes of interfaces and routes".into())
    }

    /// Takes all notifications that have arrived, and returns whether there was one that counts. `route` says it of a route, by its prefix and by the
    /// protocol that made it; a router with the whole Internet's routes hears of others all the time. Everything else counts, and so do
    /// notifications that the kernel could not deliver.
    pub fn take(&self, route: impl Fn(Prefix, u8) -> bool) -> bool {
        let mut any = false;
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => any = any || counts(&datagram, &route),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => any = true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return any,
            }
        }
    }
}

fn counts(mut rest: &[u8], route: &impl Fn(Prefix, u8) -> bool) -> bool {
    while rest.len() >= 16 {
        let Ok(message) = NetlinkMessage::<Rtnl>::deserialize(rest) else { return true };
        let counts = match message.payload {
            NetlinkPayload::InnerMessage(Rtnl::NewRoute(message) | Rtnl::DelRoute(message)) => {
                routes::destination(&message).is_none_or(|to| route(to, message.header.protocol.into()))
            }
            _ => true,
        };
        if counts {
            return true;
        }
        let length = (message.header.length as usize).next_multiple_of(4).max(16);
        rest = rest.get(length..).unwrap_or(&[]);
    }
    false
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkHeader;
    use netlink_packet_route::AddressFamily;
    use netlink_packet_route::link::LinkMessage;
    use netlink_packet_route::route::{RouteAttribute, RouteMessage};

    use super::*;

    fn datagram(messages: &[Rtnl]) -> Vec<u8> {
        let mut all = Vec::new();
        for message in messages {
            let mut message =
                NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message.clone()));
            message.finalize();
            let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
            message.serialize(&mut bytes);
            all.extend(bytes);
        }
        all
    }

    fn route(prefix: &str) -> Rtnl {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = prefix.len;
        message.attributes.push(RouteAttribute::Destination(prefix.address.into()));
        Rtnl::NewRoute(message)
    }

    /// Each row has: what arrives in one datagram, and whether it counts.
    #[test]
    fn routes_to_other_prefixes_do_not_count() {
        let ours: Prefix = "192.0.2.0/24".parse().expect("a prefix");
        let link = || Rtnl::NewLink(LinkMessage::default());
        for (messages, wanted) in [
            (vec![route("192.0.2.0/25"), route("198.51.100.0/24")], false),
            (vec![route("198.51.100.0/24"), route("192.0.2.0/24")], true),
            (vec![link()], true),
            (vec![route("198.51.100.0/24"), link()], true),
            (vec![], false),
        ] {
            let found = counts(&datagram(&messages), &|to, _| to == ours);
            assert_eq!(found, wanted, "{messages:?}");
        }
    }
}
