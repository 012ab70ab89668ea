//! Network interfaces: list, create, delete, change.

use std::fs::File;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage as Rtnl;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkLayerType, LinkMessage, LinkXdp,
};

use super::Handle;
use crate::bpf::XdpMode;
use crate::error::Context;
use crate::{Error, Result};

/// The properties of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The interface index.
    pub index: u32,
    /// The interface name.
    pub name: String,
    /// The kind of a virtual interface, such as `veth` or `bridge`; empty for hardware and loopback.
    pub kind: String,
    /// The alias, which is a text for people and programs (IFLA_IFALIAS); empty if there is none.
    pub alias: String,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The link-layer address.
    pub mac: Vec<u8>,
    /// Whether the interface is administratively up.
    pub up: bool,
    /// Whether the interface can carry packets: a cable is in, the other end is up.
    pub carrier: bool,
    /// Whether the interface has no link-layer address resolution.
    pub noarp: bool,
    /// Whether the interface takes part in multicast.
    pub multicast: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Whether its frames begin with an Ethernet header. Those of TUN interfaces and tunnels do not.
    pub ethernet: bool,
    /// The index of the other end (veth) or of the lower device, if there is one.
    pub peer: Option<u32>,
    /// What is at the XDP hook.
    pub xdp: Option<Xdp>,
    /// The kernel's number of the other end's namespace, if that is another one.
    pub peer_namespace: Option<i32>,
}

/// A program at the XDP hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xdp {
    /// The kernel's number of the program.
    pub program: u32,
    /// Who runs it.
    pub mode: XdpMode,
}

/// Changes to an interface. `None` and `false` leave a property unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Sets the interface up or down.
    pub up: Option<bool>,
    /// Switches ARP and neighbour discovery off or on. Without them, every destination has the interface's own link-layer address.
    pub noarp: Option<bool>,
    /// Switches multicast on or off. Without it the interface sends no MLD messages and router solicitations.
    pub multicast: Option<bool>,
    /// The MTU in bytes.
    pub mtu: Option<u32>,
    /// The number of packets that the interface's queue holds.
    pub queue: Option<u32>,
    /// The link-layer address.
    pub mac: Option<[u8; 6]>,
    /// The alias; an empty one removes it.
    pub alias: Option<String>,
    /// Keeps the kernel from adding an IPv6 link-local address.
    pub no_link_local: bool,
}

impl Handle {
    /// All interfaces, by index.
    pub fn links(&self) -> Result<Vec<Link>> {
        let answers =
            self.dump(Rtnl::GetLink(LinkMessage::default())).context(|| "list the interfaces".into())?;
        let mut links: Vec<_> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Rtnl::NewLink(message) => Some(read(message)),
                _ => None,
            })
            .collect();
        links.sort_by_key(|l| l.index);
        Ok(links)
    }

    /// The interface with this name.
    pub fn link(&self, name: &str) -> Result<Option<Link>> {
        Ok(self.links()?.into_iter().find(|l| l.name == name))
    }

    /// The index of an interface that must exist.
    pub fn index(&self, name: &str) -> Result<u32> {
        self.link(name)?.map(|l| l.index).ok_or_else(|| Error::NotFound(format!("interface `{name}`")))
    }

    /// Creates a veth pair. The other end is in another namespace if its file is given. An existing veth with this name and this peer is
    /// left unchanged.
    pub fn add_veth(&self, name: &str, peer: &str, peer_namespace: Option<&File>) -> Result<()> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.into()));
        if let Some(namespace) = peer_namespace {
            other.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        }
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
            ]),
        ];
        match self.act(Rtnl::NewLink(message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) && self.is_pair(name, peer)? => Ok(()),
            other => other.context(|| format!("make the veth pair {name} and {peer}")),
        }
    }

    /// Creates a veth pair whose ends have these link-layer addresses and this MTU from the beginning. It is an error if one of the names is taken.
    pub fn add_new_veth(&self, ends: [(&str, [u8; 6]); 2], mtu: u32) -> Result<()> {
        let attributes = |(name, mac): (&str, [u8; 6])| {
            vec![
                LinkAttribute::IfName(name.into()),
                LinkAttribute::Address(mac.to_vec()),
                LinkAttribute::Mtu(mtu),
            ]
        };
        let [(name, mac), (peer, peer_mac)] = ends;
        let mut other = LinkMessage::default();
        other.attributes = attributes((peer, peer_mac));
        let mut message = LinkMessage::default();
        message.attributes = attributes((name, mac));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.act(Rtnl::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .context(|| format!("make the veth pair {name} and {peer}"))
    }

    /// Deletes an interface. Returns `false` if it does not exist.
    pub fn delete_link(&self, name: &str) -> Result<bool> {
        let Some(link) = self.link(name)? else { return Ok(false) };
        self.delete_index(link.index).map(|()| true)
    }

    /// Deletes an interface by its index: the one that was looked at, also if another has its name by now.
    pub fn delete_index(&self, index: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.act(Rtnl::DelLink(message), 0).context(|| format!("delete interface {index}"))
    }

    /// Changes the properties of an interface.
    pub fn change(&self, name: &str, change: &Change) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(name)?;
        // The kernel applies attributes before flags, so a new interface comes up without a link-local address.
        if change.no_link_local {
            let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
            message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]));
            self.set(name, message.clone())?;
            message.attributes.clear();
        }
        message.attributes.extend(change.mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(change.queue.map(LinkAttribute::TxQueueLen));
        message.attributes.extend(change.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        message.attributes.extend(change.alias.clone().map(LinkAttribute::IfAlias));
        let flags = [
            (LinkFlags::Up, change.up),
            (LinkFlags::Noarp, change.noarp),
            (LinkFlags::Multicast, change.multicast),
        ];
        for (flag, wanted) in flags {
            if let Some(on) = wanted {
                message.header.change_mask |= flag;
                message.header.flags.set(flag, on);
            }
        }
        self.set(name, message)
    }

    fn set(&self, name: &str, message: LinkMessage) -> Result<()> {
        self.act(Rtnl::SetLink(message), 0).context(|| format!("configure the interface {name}"))
    }

    fn is_pair(&self, name: &str, peer: &str) -> Result<bool> {
        let links = self.links()?;
        let find = |wanted: &str| links.iter().find(|l| l.name == wanted && l.kind == "veth");
        Ok(match (find(name), find(peer)) {
            (Some(a), Some(b)) => a.peer == Some(b.index),
            // The peer is in another namespace, whose names are not visible here.
            (Some(_), None) => true,
            _ => false,
        })
    }
}

fn read(message: LinkMessage) -> Link {
    let has = |flag| message.header.flags.contains(flag);
    let mut link = Link {
        index: message.header.index,
        up: has(LinkFlags::Up),
        carrier: has(LinkFlags::LowerUp),
        noarp: has(LinkFlags::Noarp),
        multicast: has(LinkFlags::Multicast),
        loopback: has(LinkFlags::Loopback),
        ethernet: matches!(message.header.link_layer_type, LinkLayerType::Ether | LinkLayerType::Loopback),
        ..Link::default()
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::IfAlias(alias) => link.alias = alias,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Address(mac) => link.mac = mac,
            LinkAttribute::Link(peer) => link.peer = Some(peer),
            LinkAttribute::LinkNetNsId(number) => link.peer_namespace = Some(number),
            LinkAttribute::Xdp(all) => {
                link.xdp = all.iter().find_map(|xdp| match xdp {
                    LinkXdp::SkbProgId(program) => Some(Xdp { program: *program, mode: XdpMode::Generic }),
                    LinkXdp::DrvProgId(program) | LinkXdp::ProgId(program) => {
                        Some(Xdp { program: *program, mode: XdpMode::Native })
                    }
                    _ => None,
                });
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        link.kind = kind.to_string();
                    }
                }
            }
            _ => {}
        }
    }
    link
}
