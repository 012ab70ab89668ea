//! The addresses of interfaces, and prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Rtnl};

use super::Handle;
use crate::Result;
use crate::error::Context;

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The address; for a route the first address of the network.
    pub address: IpAddr,
    /// The prefix length in bits.
    pub len: u8,
}

impl Prefix {
    /// A prefix with this address and length.
    pub fn new(address: impl Into<IpAddr>, len: u8) -> Self {
        Self { address: address.into(), len }
    }

    /// Whether each address of the other prefix is in this one.
    pub fn contains(&self, other: &Prefix) -> bool {
        let (mine, bits) = self.number();
        let (theirs, width) = other.number();
        // A shift by all 128 bits gives nothing.
        let cut = |number: u128| number.checked_shr((bits - self.len).into()).unwrap_or(0);
        bits == width && self.len <= other.len && cut(mine) == cut(theirs)
    }

    /// The first address of the network, with the length.
    pub fn network(&self) -> Prefix {
        let (number, bits) = self.number();
        let rest = u32::from(bits - self.len);
        let first = number.checked_shr(rest).and_then(|n| n.checked_shl(rest)).unwrap_or(0);
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(first as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(first)),
        };
        Prefix { address, len: self.len }
    }

    /// The address as a number, and its width in bits.
    fn number(&self) -> (u128, u8) {
        match self.address {
            IpAddr::V4(v4) => (u32::from(v4).into(), 32),
            IpAddr::V6(v6) => (v6.into(), 128),
        }
    }

    pub(super) fn family(&self) -> AddressFamily {
        match self.address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("`{text}` is not an address with a prefix length");
        let (address, len) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let len: u8 = len.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if len <= most { Ok(Self { address, len }) } else { Err(wrong()) }
    }
}

impl Handle {
    /// The addresses of an interface, in order.
    pub fn addresses(&self, interface: &str) -> Result<Vec<Prefix>> {
        let index = self.index(interface)?;
        let answers = self
            .dump(Rtnl::GetAddress(AddressMessage::default()))
            .context(|| format!("list the addresses of {interface}"))?;
        let mut found: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Rtnl::NewAddress(message) if message.header.index == index => read(&message),
                _ => None,
            })
            .collect();
        found.sort();
        Ok(found)
    }

    /// Adds an address to an interface. It is no error if the interface has it already. IPv6 addresses skip duplicate address detection, so
    /// that they work at once.
    pub fn add_address(&self, interface: &str, prefix: Prefix) -> Result<()> {
        let message = self.address_message(interface, prefix)?;
        match self.act(Rtnl::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            other => other.context(|| format!("give {interface} the address {prefix}")),
        }
    }

    /// Removes an address. Returns `false` if the interface does not have it.
    pub fn remove_address(&self, interface: &str, prefix: Prefix) -> Result<bool> {
        let message = self.address_message(interface, prefix)?;
        match self.act(Rtnl::DelAddress(message), 0) {
            Err(e) if e.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(false),
            other => other.map(|()| true).context(|| format!("take the address {prefix} from {interface}")),
        }
    }

    fn address_message(&self, interface: &str, prefix: Prefix) -> Result<AddressMessage> {
        let mut message = AddressMessage::default();
        message.header.index = self.index(interface)?;
        message.header.family = prefix.family();
        message.header.prefix_len = prefix.len;
        if prefix.address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes =
            vec![AddressAttribute::Local(prefix.address), AddressAttribute::Address(prefix.address)];
        Ok(message)
    }
}

fn read(message: &AddressMessage) -> Option<Prefix> {
    let mut address = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(local) => address = Some(*local),
            // On a point-to-point interface this attribute is the other end. There is then also a Local attribute, which has precedence.
            AddressAttribute::Address(other) => address = address.or(Some(*other)),
            _ => {}
        }
    }
    Some(Prefix { address: address?, len: message.header.prefix_len })
}
