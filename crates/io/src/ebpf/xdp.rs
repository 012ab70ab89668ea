//! Attaches a program at the XDP hook to its ports, after it has made sure of what the program cannot see.
//!
//! * A packet may arrive with a checksum that a card was to complete: only the sum of the pseudo-header. The kernel knows that about an skb, but an
//!   XDP program sees a frame, and would send it with that sum. So the interface must not receive such packets, see [`Arrivals`].
//! * A frame that the driver redirects to an interface is lost if that interface takes none. A veth takes frames if its peer polls: with an XDP
//!   program, or with GRO.

use crate::bpf::{Hook, XdpMode};
use crate::error::cure;
use crate::link::{Handle, Link, Peer, features, peer_of};
use crate::{Error, Result};

use super::KernelProgram;

/// What an operator asks of the ports at the XDP hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpOptions {
    /// Who runs the program; `None` chooses the driver if all ports can, and the kernel's stack otherwise.
    pub mode: Option<XdpMode>,
    /// Whether an interface is used although it is unknown if the checksums of its packets are complete.
    pub trust_checksums: bool,
    /// The interface of the controller's port, by index. This process sends complete packets into it.
    pub controller: Option<u32>,
}

/// Whether the checksums of the packets that arrive at an interface are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Arrivals {
    Complete,
    /// The other end of the veth pair leaves them incomplete.
    Incomplete(Peer),
    /// It cannot be known, for this reason.
    Unknown(&'static str),
}

impl Arrivals {
    fn of(link: &Link, peer: Option<&Peer>, mode: XdpMode) -> Arrivals {
        match (link.kind.as_str(), peer) {
            ("veth", Some(peer)) if peer.tx_checksum => Arrivals::Incomplete(peer.clone()),
            ("veth", Some(_)) => Arrivals::Complete,
            ("veth", None) => {
                Arrivals::Unknown("the other end of the veth pair is in a namespace that cannot be found")
            }
            ("tun", _) => Arrivals::Unknown("the process behind it may leave them incomplete"),
            ("", _) if link.loopback => Arrivals::Unknown("the loopback leaves them incomplete"),
            ("", _) => match (features::driver(&link.name).as_str(), mode) {
                // With a program in the driver, the kernel asks the host to complete them.
                ("virtio_net", XdpMode::Native) => Arrivals::Complete,
                ("virtio_net" | "vif" | "hv_netvsc" | "vmxnet3", _) => {
                    Arrivals::Unknown("the host of this virtual machine may leave them incomplete")
                }
                _ => Arrivals::Complete,
            },
            _ => Arrivals::Unknown("its packets may come from this machine, which leaves them incomplete"),
        }
    }
}

impl KernelProgram {
    /// Attaches a program for the XDP hook to interfaces, in one mode for all: frames that a driver redirects must arrive at a driver. Returns the
    /// mode, and why it is not the faster one. After an error the program may be attached to some of them.
    pub fn attach_xdp(
        &self,
        interfaces: &[String],
        options: XdpOptions,
    ) -> Result<(XdpMode, Option<String>)> {
        let ports = ports(interfaces)?;
        let XdpChoice { mode, generic, refused } = choose(&ports, options);
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        match self.attach_all(interfaces, mode) {
            Ok(()) => Ok((mode, generic)),
            Err(error) if options.mode.is_some() || mode == XdpMode::Generic => Err(error),
            Err(error @ Error::Occupied { .. }) => Err(error),
            Err(error) => {
                for name in interfaces {
                    self.detach(name, Hook::Xdp(mode))?;
                }
                let options = XdpOptions { mode: Some(XdpMode::Generic), ..options };
                if let Some(error) = choose(&ports, options).refused.into_iter().next() {
                    return Err(error);
                }
                self.attach_all(interfaces, XdpMode::Generic)?;
                Ok((XdpMode::Generic, Some(error.to_string())))
            }
        }
    }

    fn attach_all(&self, interfaces: &[String], mode: XdpMode) -> Result<()> {
        interfaces.iter().try_for_each(|name| self.attach(name, Hook::Xdp(mode)))
    }
}

/// Interfaces with the other ends of their veth pairs.
type Ports = Vec<(Link, Option<Peer>)>;

fn ports(interfaces: &[String]) -> Result<Ports> {
    let links = Handle::open()?;
    let mut ports = Vec::new();
    for name in interfaces {
        let link = links.link(name)?.ok_or_else(|| Error::NotFound(format!("interface `{name}`")))?;
        let peer = if link.kind == "veth" { peer_of(&link)? } else { None };
        ports.push((link, peer));
    }
    Ok(ports)
}

/// How a program can be attached to interfaces, as far as that is known before it is tried.
#[derive(Debug)]
pub struct XdpChoice {
    /// The mode of all interfaces.
    pub mode: XdpMode,
    /// Why it is not the faster one, although the options leave it open.
    pub generic: Option<String>,
    /// What is wrong with the interfaces that cannot have a program: one [`Error::Port`] for each.
    pub refused: Vec<Error>,
}

/// Chooses the mode for interfaces.
pub fn xdp_choice(interfaces: &[String], options: XdpOptions) -> Result<XdpChoice> {
    Ok(choose(&ports(interfaces)?, options))
}

fn choose(ports: &Ports, options: XdpOptions) -> XdpChoice {
    let silent_one = ports.iter().find_map(|(link, peer)| silent(link, peer.as_ref()));
    let (mode, generic) = match (options.mode, silent_one) {
        (Some(mode), _) => (mode, None),
        (None, Some(Problem { interface, problem, hint })) => {
            (XdpMode::Generic, Some(format!("{interface} {problem}{}", cure(hint.as_ref()))))
        }
        (None, None) => (XdpMode::Native, None),
    };
    let refused = ports.iter().filter_map(|(link, peer)| {
        let peer = peer.as_ref();
        let silent = if mode == XdpMode::Native { silent(link, peer) } else { None };
        silent.or_else(|| refusal(link, peer, mode, options))
    });
    XdpChoice { mode, generic, refused: refused.map(Error::from).collect() }
}

/// What is wrong with an interface: the fields of [`Error::Port`].
struct Problem {
    interface: String,
    problem: String,
    hint: Option<String>,
}

impl From<Problem> for Error {
    fn from(Problem { interface, problem, hint }: Problem) -> Self {
        Error::Port { interface, problem, hint }
    }
}

/// Why frames that a driver redirects to an interface would be lost.
fn silent(link: &Link, peer: Option<&Peer>) -> Option<Problem> {
    let (problem, hint) = match peer {
        _ if link.kind != "veth" => return None,
        Some(peer) if peer.gro => return None,
        Some(peer) => (
            "takes no frames from drivers, because its peer does not poll",
            Some(format!("`{}`", peer.ethtool("gro on"))),
        ),
        None => ("may take no frames from drivers, because its peer may not poll and cannot be found", None),
    };
    Some(Problem { interface: link.name.clone(), problem: problem.into(), hint })
}

/// Why an interface cannot be a port.
fn refusal(link: &Link, peer: Option<&Peer>, mode: XdpMode, options: XdpOptions) -> Option<Problem> {
    if options.controller == Some(link.index) {
        return None;
    }
    let (problem, hint) = match Arrivals::of(link, peer, mode) {
        Arrivals::Complete => return None,
        Arrivals::Unknown(_) if options.trust_checksums => return None,
        Arrivals::Unknown(why) => (
            format!("may receive packets whose checksums are incomplete: {why}"),
            "if they are complete, say so with --trust-checksums (`trust-checksums = true`)".to_string(),
        ),
        Arrivals::Incomplete(peer) => (
            format!(
                "receives incomplete TCP and UDP checksums from its other end, {}, and XDP cannot complete them",
                peer.name
            ),
            format!("`{}`", peer.ethtool("tx off")),
        ),
    };
    Some(Problem { interface: link.name.clone(), problem, hint: Some(hint) })
}
