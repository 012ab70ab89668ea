//! What is ours: the names of a device's parts, and the proof that an interface was made by `up`.
//!
//! The veth pair has link-layer addresses that are made of the instance's name. It has them from the moment when it exists, so a process that is
//! killed leaves no interface without proof. An alias says the same to people. A device of an older release has neither; there the proof is
//! that its pinned program is attached to it.

use io::bpf::{Hook, Instance};
use io::link::{Handle, Link};
use sha2::{Digest as _, Sha256};

/// The kernel's number for the origin of our routes. linux/rtnetlink.h and iproute2's rt_protos name no other program with it.
pub const PROTOCOL: u8 = 64;

/// The alias of a TUN interface of the native target, without the number of its process.
pub const NATIVE: &str = "strait nat64 native process ";

/// The names of a translator's parts in the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Site {
    /// The interface that packets are routed into.
    pub device: String,
    /// The other end of the pair, which nobody uses.
    pub peer: String,
    /// The instance of the program. It identifies the namespace, because pins belong to the host and devices to a namespace.
    pub instance: String,
}

/// Who has the device's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Nobody,
    /// The device is ours. The other end is absent if somebody moved it to another namespace.
    Us {
        device: Link,
        peer: Option<Link>,
    },
    /// The device is ours, and somebody gave it another name.
    Renamed(Link),
    /// Another interface has the name of the device or of its other end.
    Other(Link),
}

/// Whether an interface is the device of a translator, on any target.
pub fn translates(link: &Link) -> bool {
    link.alias.starts_with("strait nat64 ")
}

impl Site {
    pub fn new(device: &str) -> io::Result<Self> {
        let instance = format!("{device}-{}", io::netns::id()?);
        Ok(Self { device: device.into(), peer: format!("{device}-"), instance })
    }

    /// The sites of all instances that have pins and belong to this namespace.
    pub fn all() -> io::Result<Vec<Self>> {
        let suffix = format!("-{}", io::netns::id()?);
        let names = Instance::all()?;
        let devices = names.iter().filter_map(|name| name.strip_suffix(&suffix));
        devices.map(Self::new).collect()
    }

    /// The alias of both ends.
    pub fn alias(&self) -> String {
        format!("strait nat64 tc {}", self.instance)
    }

    /// The link-layer addresses of both ends: locally administered ones (IEEE 802).
    pub fn addresses(&self) -> [[u8; 6]; 2] {
        let digest = Sha256::digest(self.alias());
        [0, 1].map(|end| [0x02, digest[0], digest[1], digest[2], digest[3], end])
    }

    /// Whether an interface has one of the two marks.
    fn is_marked(&self, link: &Link) -> bool {
        link.kind == "veth"
            && (link.alias == self.alias() || self.addresses().iter().any(|mac| link.mac == mac))
    }

    /// Whether our program is attached to an interface: the proof of a device without marks.
    fn has_program(&self, link: &Link) -> bool {
        let attached = |instance: Instance| instance.is_attached(link.index, Hook::Egress);
        link.kind == "veth" && Instance::open(&self.instance).and_then(attached).unwrap_or(false)
    }

    /// Finds out who has the names.
    pub fn owner(&self, links: &Handle) -> io::Result<Owner> {
        let links = links.links()?;
        let named = |name: &str| links.iter().find(|l| l.name == name);
        let Some(device) = named(&self.device) else {
            let ours = |l: &&Link| l.name != self.peer && l.alias == self.alias();
            return Ok(match (links.iter().find(ours), named(&self.peer)) {
                (Some(renamed), _) if renamed.kind == "veth" => Owner::Renamed(renamed.clone()),
                (_, Some(peer)) => Owner::Other(peer.clone()),
                _ => Owner::Nobody,
            });
        };
        if !self.is_marked(device) && !self.has_program(device) {
            return Ok(Owner::Other(device.clone()));
        }
        let peer = links.iter().find(|l| device.peer_namespace.is_none() && Some(l.index) == device.peer);
        Ok(match (peer, named(&self.peer)) {
            (None, Some(foreign)) => Owner::Other(foreign.clone()),
            _ => Owner::Us { device: device.clone(), peer: peer.cloned() },
        })
    }
}

/// An interface in words, for messages.
pub fn described(link: &Link) -> String {
    let kind = match (link.kind.as_str(), link.loopback) {
        ("", true) => "the loopback interface",
        ("", false) => "an interface of the machine",
        ("tun", _) => "a TUN or TAP interface",
        ("veth", _) => "a veth of somebody else",
        (kind, _) => return format!("`{}`, a {kind}", link.name),
    };
    format!("`{}`, {kind}", link.name)
}
