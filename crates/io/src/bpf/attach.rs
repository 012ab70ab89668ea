//! Attaches a program to an interface: to a tc hook with tcx if the kernel has it, otherwise as a clsact filter; to the XDP hook by a link, in
//! the driver if it can, otherwise in the kernel's stack.
//!
//! tcx (Linux 6.6) attaches by a link. A pinned link survives the process that made it, and no other program can displace it by accident. A
//! clsact filter survives by itself, but whoever replaces the qdisc removes it.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use aya::programs::tc::{
    self, NlOptions, SchedClassifier, SchedClassifierLink, TcAttachOptions, TcAttachType,
};

use super::Instance;
use super::instance::{file_name, remove_if_there};
use crate::error::Context;
use crate::{Error, Result, link, sys};

/// The direction of the packets on a hook, as the stack sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Packets that the interface received.
    Ingress,
    /// Packets that the stack sends.
    Egress,
    /// Frames as the driver received them.
    Xdp(XdpMode),
}

/// Who runs an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XdpMode {
    /// The driver, before the kernel has made an skb of the frame.
    Native,
    /// The kernel's stack, for drivers that cannot: slower.
    Generic,
}

impl XdpMode {
    /// The name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Hook::Ingress => "ingress",
            Hook::Egress => "egress",
            Hook::Xdp(mode) => mode.name(),
        }
    }

    /// The kernel's number of the attach type, and the flags.
    fn link(self) -> (u32, u32) {
        match self {
            Hook::Ingress => (sys::ATTACH_TCX_INGRESS, 0),
            Hook::Egress => (sys::ATTACH_TCX_EGRESS, 0),
            Hook::Xdp(XdpMode::Native) => (sys::ATTACH_XDP, sys::XDP_NATIVE),
            Hook::Xdp(XdpMode::Generic) => (sys::ATTACH_XDP, sys::XDP_GENERIC),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Hook::Ingress | Hook::Egress => "tcx",
            Hook::Xdp(_) => "xdp",
        }
    }

    fn clsact(self) -> TcAttachType {
        match self {
            Hook::Egress => TcAttachType::Egress,
            Hook::Ingress | Hook::Xdp(_) => TcAttachType::Ingress,
        }
    }
}

impl Instance {
    /// Attaches the program, or the second one if the instance has one and the hook is one of tc. It is no error if it is attached already. The interface belongs to the calling thread's namespace.
    pub fn attach(&self, interface: &str, hook: Hook) -> Result<()> {
        let ifindex = link::index_of(interface)?;
        let links = self.path().join("links");
        if self.is_attached(ifindex, hook)? {
            return Ok(());
        }
        // The pin of a link that somebody has detached, or that belonged to another interface of this number.
        self.detach_index(ifindex, hook)?;
        let pin = links.join(format!("{}-{ifindex}-{}", hook.kind(), hook.name()));
        let (attach_type, mut flags) = hook.link();
        if matches!(hook, Hook::Ingress | Hook::Egress) && self.has_beside() {
            // No other program at the hook is to see frames that the first program has prepared for the second one.
            flags = sys::BEFORE_OTHERS;
        }
        match sys::link_create_with(self.program_at(hook)?.as_fd(), ifindex, attach_type, flags) {
            Ok(link) => sys::pin(link.as_fd(), &pin).context(|| format!("pin the link to {interface}")),
            Err(error) if matches!(hook, Hook::Xdp(_)) => match error.raw_os_error() {
                // EEXIST: the other program runs in the other mode.
                Some(libc::EBUSY | libc::EEXIST) => Err(Error::Occupied { interface: interface.to_owned() }),
                _ => Err(error).context(|| format!("attach to {interface} in {} mode", hook.name())),
            },
            // Kernels before 6.6 do not know the attach type.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.attach_clsact(interface, hook),
            Err(error) => Err(error).context(|| format!("attach to the {} of {interface}", hook.name())),
        }
    }

    /// Detaches the program from one hook. It is no error if it is not attached. (Our clsact qdisc stays until [`Instance::detach_all`].)
    pub fn detach(&self, interface: &str, hook: Hook) -> Result<()> {
        self.detach_index(link::index_of(interface)?, hook)
    }

    /// Detaches the program from a hook of an interface that may no longer exist.
    pub fn detach_index(&self, ifindex: u32, hook: Hook) -> Result<()> {
        let suffix = format!("-{ifindex}-{}", hook.name());
        for pin in self.links()?.into_iter().filter(|pin| file_name(pin).ends_with(&suffix)) {
            remove_link(&pin)?;
        }
        Ok(())
    }

    /// The hooks where the program is attached, with the interface indexes. Interfaces that no longer exist are included until they are
    /// detached.
    pub fn attachments(&self) -> Result<Vec<(u32, Hook)>> {
        let mut found: Vec<_> =
            self.links()?.iter().filter_map(|pin| parse(pin)).map(|p| (p.1, p.2)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Whether the program is attached to a hook, as far as the kernel tells: a link may have lost its interface, or may have been detached.
    pub fn is_attached(&self, ifindex: u32, hook: Hook) -> Result<bool> {
        let pins = self.links()?;
        let Some(pin) = pins.iter().find(|pin| parse(pin).is_some_and(|p| (p.1, p.2) == (ifindex, hook)))
        else {
            return Ok(false);
        };
        if pin.is_dir() {
            return link::has_filter(ifindex, hook == Hook::Ingress, PRIORITY);
        }
        let link = sys::open_pin(pin).context(|| format!("open {}", pin.display()))?;
        let at = sys::link_ifindex(link.as_fd()).context(|| format!("inspect {}", pin.display()))?;
        Ok(at == ifindex)
    }

    /// Takes over the hooks of another instance. Packets meet the one program or the other, and never none. The other instance has no links
    /// afterwards. If this is interrupted, it can be repeated.
    pub fn take_over(&self, other: &Instance) -> Result<()> {
        for pin in other.links()? {
            let to = self.path().join("links").join(file_name(&pin));
            match parse(&pin) {
                // A mark of our clsact qdisc, which stays.
                None => fs::rename(&pin, &to).context(|| format!("rename {}", pin.display()))?,
                Some((_, ifindex, hook)) if other.is_attached(ifindex, hook)? => {
                    self.replace_at(&pin, ifindex, hook)?;
                    fs::rename(&pin, &to).context(|| format!("rename {}", pin.display()))?;
                }
                Some(_) => remove_link(&pin)?,
            }
        }
        Ok(())
    }

    fn replace_at(&self, pin: &Path, ifindex: u32, hook: Hook) -> Result<()> {
        let what = || format!("replace the program at the {} of interface {ifindex}", hook.name());
        if !pin.is_dir() {
            let link = sys::open_pin(pin).context(|| format!("open {}", pin.display()))?;
            return sys::link_update(link.as_fd(), self.program_at(hook)?.as_fd()).context(what);
        }
        let failed = |error: String| Error::System { what: what(), source: std::io::Error::other(error) };
        let links = link::Handle::open()?.links()?;
        let interface = links.into_iter().find(|l| l.index == ifindex).map(|l| l.name).unwrap_or_default();
        let mut program =
            SchedClassifier::from_pin(self.program_path(hook)).map_err(|e| failed(e.to_string()))?;
        let old = SchedClassifierLink::attached(&interface, hook.clsact(), PRIORITY, 1).context(what)?;
        let link = program
            .attach_to_link(old)
            .and_then(|id| program.take_link(id))
            .map_err(|e| failed(e.to_string()))?;
        std::mem::forget(link);
        Ok(())
    }

    /// Detaches the program from every hook: from the XDP hooks first, because a second program at tc sends what passes them.
    pub fn detach_all(&self) -> Result<()> {
        let mut pins = self.links()?;
        pins.sort_by_key(|pin| !file_name(pin).starts_with("xdp"));
        pins.iter().try_for_each(|pin| remove_link(pin))
    }

    fn links(&self) -> Result<Vec<PathBuf>> {
        super::instance::list(&self.path().join("links"))
    }

    /// Attaches the program as a clsact filter. [`Instance::attach`] does this if the kernel has no tcx.
    pub fn attach_clsact(&self, interface: &str, hook: Hook) -> Result<()> {
        let ifindex = link::index_of(interface)?;
        if self.is_attached(ifindex, hook)? {
            return Ok(());
        }
        let failed = |error: String| Error::System {
            what: format!("attach a filter to the {} of {interface}", hook.name()),
            source: std::io::Error::other(error),
        };
        match tc::qdisc_add_clsact(interface) {
            // A separate mark records that this instance created the qdisc and may delete it.
            Ok(()) => self.remember(&format!("qdisc-{ifindex}-both"))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => other.context(|| format!("add a clsact qdisc to {interface}"))?,
        }
        remove_lost_filter(ifindex, hook)?;
        // Before the filter is there: another process removes one that no instance remembers.
        let mark = format!("clsact-{ifindex}-{}", hook.name());
        self.remember(&mark)?;
        let forget = |error: String| {
            let _ = fs::remove_dir(self.path().join("links").join(&mark));
            failed(error)
        };
        let mut program =
            SchedClassifier::from_pin(self.program_path(hook)).map_err(|e| forget(e.to_string()))?;
        let options = TcAttachOptions::Netlink(NlOptions { priority: PRIORITY, handle: 1 });
        let link = program
            .attach_with_options(interface, hook.clsact(), options)
            .and_then(|id| program.take_link(id))
            .map_err(|e| forget(e.to_string()))?;
        // Dropping the link would detach the filter.
        std::mem::forget(link);
        Ok(())
    }

    /// Leaves a mark among the links: an empty directory. A BPF file system allows nothing else besides pins.
    fn remember(&self, mark: &str) -> Result<()> {
        let path = self.path().join("links").join(mark);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other.context(|| format!("make {}", path.display())),
        }
    }
}

/// A program at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The kernel's number of the program.
    pub id: u32,
    /// Its name, of which the kernel keeps 15 characters.
    pub name: String,
}

/// The programs at a tcx hook of an interface, whoever attached them; none on kernels without tcx.
pub fn at(ifindex: u32, hook: Hook) -> Result<Vec<Attached>> {
    let ids = match sys::programs_at(ifindex, hook.link().0) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Vec::new(),
        other => {
            other.context(|| format!("list the programs at the {} of interface {ifindex}", hook.name()))?
        }
    };
    // A program may go while they are listed.
    Ok(ids.into_iter().filter_map(attached).collect())
}

/// A program of Strait where packets come into an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The name of its instance.
    pub instance: String,
    /// Where it is attached.
    pub hook: Hook,
    /// What the kernel says of the program.
    pub program: Attached,
}

/// The programs of Strait that get what comes into an interface of the calling thread's network namespace.
pub fn ours(ifindex: u32) -> Result<Vec<Ours>> {
    let links = link::Handle::open()?.links()?;
    let xdp = links.iter().find(|link| link.index == ifindex).and_then(|link| link.xdp);
    let there: Vec<u32> = at(ifindex, Hook::Ingress)?.iter().map(|program| program.id).collect();
    let mut found = Vec::new();
    for name in Instance::all()? {
        let instance = Instance::unseen(&name)?;
        // Indexes are those of a namespace, so what counts is which program the kernel has at this one.
        let of_interface = |(index, hook): &(u32, Hook)| *index == ifindex && *hook != Hook::Egress;
        for (_, hook) in instance.attachments()?.into_iter().filter(of_interface) {
            // It may go while they are listed.
            let Ok(id) = instance.program_at(hook).and_then(|program| program.number()) else { continue };
            let is_there = match hook {
                Hook::Xdp(mode) => xdp.is_some_and(|xdp| (xdp.mode, xdp.program) == (mode, id)),
                Hook::Ingress | Hook::Egress => {
                    there.contains(&id) || (there.is_empty() && has_filter(ifindex, hook))
                }
            };
            let program = attached(id).filter(|_| is_there);
            found.extend(program.map(|program| Ours { instance: name.clone(), hook, program }));
        }
    }
    Ok(found)
}

/// Whether a clsact filter of ours is at a hook of tc, whatever its program. The kernel tells the numbers of programs at [`at`] only.
pub fn has_filter(ifindex: u32, hook: Hook) -> bool {
    link::has_filter(ifindex, hook == Hook::Ingress, PRIORITY).unwrap_or(false)
}

/// The program with a number of the kernel; `None` if there is none.
pub fn attached(id: u32) -> Option<Attached> {
    let info = sys::program_info(sys::program_by_id(id).ok()?.as_fd()).ok()?;
    let name = info.name.iter().take_while(|b| **b != 0).map(|b| char::from(*b)).collect();
    Some(Attached { id: info.id, name })
}

/// The priority of our clsact filters. It is unusual, so that our filters can be recognised.
const PRIORITY: u16 = 46_464;

/// The kind, the interface index and the hook in a pin's name.
fn parse(pin: &Path) -> Option<(&str, u32, Hook)> {
    let mut parts = file_name(pin).split('-');
    let kind = parts.next()?;
    let ifindex = parts.next()?.parse().ok()?;
    let hook = match parts.next()? {
        "ingress" => Hook::Ingress,
        "egress" => Hook::Egress,
        "native" => Hook::Xdp(XdpMode::Native),
        "generic" => Hook::Xdp(XdpMode::Generic),
        _ => return None,
    };
    Some((kind, ifindex, hook))
}

/// Removes a filter of ours that no instance remembers: it has stayed when somebody removed the pins. Indexes are those of a namespace, so an instance of
/// another one may keep it.
fn remove_lost_filter(ifindex: u32, hook: Hook) -> Result<()> {
    let mark = format!("clsact-{ifindex}-{}", hook.name());
    let remembers = |name: &String| {
        Instance::unseen(name).is_ok_and(|instance| instance.path().join("links").join(&mark).exists())
    };
    match Instance::all()?.iter().any(remembers) {
        true => Ok(()),
        false => link::delete_filters(ifindex, hook == Hook::Ingress, PRIORITY),
    }
}

fn remove_link(pin: &Path) -> Result<()> {
    if pin.is_dir() {
        let ifindex = file_name(pin).split('-').nth(1).and_then(|part| part.parse().ok()).unwrap_or(0);
        // If an interface no longer exists, its filters do not exist either.
        if link::Handle::open()?.links()?.iter().any(|l| l.index == ifindex) {
            match parse(pin) {
                Some((_, _, hook)) => link::delete_filters(ifindex, hook == Hook::Ingress, PRIORITY)?,
                None => link::delete_clsact(ifindex)?,
            }
        }
        return remove_if_there(fs::remove_dir(pin), pin);
    }
    if let Ok(link) = sys::open_pin(pin) {
        // Detaching a link fails if its interface no longer exists. Then nothing needs to be done.
        let _ = sys::link_detach(link.as_fd());
    }
    remove_if_there(fs::remove_file(pin), pin)
}
