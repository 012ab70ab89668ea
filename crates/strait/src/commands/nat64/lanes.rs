//! Lanes: on which interfaces a configuration wants them, how they differ from those that are there, and what would be lost on them.

use control::nat64::{Config, Lanes, XdpMode as Wanted};
use io::bpf::{self, Hook, XdpMode};
use io::ebpf::{KernelProgram, Lane, XdpOptions, xdp_mode};
use io::link::{Link, sysctl};

use super::conflicts::Present;
use super::owner::Owner;
use super::wiring::{Ground, Step};
use super::{DIRECT_PORT, ROUTED_PORT};

/// A lane as a configuration wants it. The interface that it goes past is the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub index: u32,
    pub name: String,
    /// Where the program is attached if it is not yet.
    pub hook: Hook,
    lanes: Lanes,
    mac: [u8; 6],
}

impl Way {
    pub fn lane(&self, past: u32) -> Lane {
        let direct = self.lanes != Lanes::Routed;
        Lane {
            port: if direct { DIRECT_PORT } else { ROUTED_PORT },
            past,
            direct,
            mac: if self.is_xdp() { self.mac } else { [0; 6] },
        }
    }

    pub fn is_xdp(&self) -> bool {
        matches!(self.hook, Hook::Xdp(_))
    }

    /// Whether the program may stay where it is.
    fn fits(&self, hook: Hook) -> bool {
        match (self.lanes, hook) {
            (Lanes::Xdp { mode: None, .. }, Hook::Xdp(_)) => true,
            (Lanes::Xdp { mode: Some(wanted), .. }, Hook::Xdp(mode)) => is_mode(wanted, mode),
            (Lanes::Routed | Lanes::Direct, Hook::Ingress) => true,
            _ => false,
        }
    }

    /// What the lane is, for people.
    pub fn describe(&self) -> String {
        match self.lanes {
            Lanes::Routed => self.name.clone(),
            Lanes::Direct => format!("{}, past netfilter", self.name),
            Lanes::Xdp { .. } => format!("{}, at the XDP hook ({})", self.name, hook_mode(self.hook)),
        }
    }
}

/// The name of the mode of an XDP hook; empty for others.
pub fn hook_mode(hook: Hook) -> &'static str {
    match hook {
        Hook::Xdp(mode) => mode.name(),
        Hook::Ingress | Hook::Egress => "",
    }
}

fn is_mode(wanted: Wanted, mode: XdpMode) -> bool {
    (wanted == Wanted::Native) == (mode == XdpMode::Native)
}

/// The lanes that a configuration wants.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    pub ways: Vec<Way>,
    /// The interfaces that do not exist.
    pub missing: Vec<String>,
    /// Why native mode is not possible, if it is not.
    pub generic: Option<String>,
    /// Why XDP would lose packets on one of the interfaces.
    pub unfit: Option<String>,
}

/// The lanes of a configuration. An interface that cannot have a lane is an error.
pub fn ways(config: &Config, all: &[Link], attached: &[(u32, Hook)]) -> anyhow::Result<Ways> {
    let mut found = Ways::default();
    let key = if config.attach.lanes == Lanes::Routed { "express" } else { "attach" };
    let mut links = Vec::new();
    for name in &config.attach.interfaces {
        let Some(link) = all.iter().find(|l| l.name == *name) else {
            found.missing.push(name.clone());
            continue;
        };
        if link.loopback || link.mac.len() != 6 {
            anyhow::bail!(
                "`{key}` names `{name}`, which has no Ethernet headers: its packets take the way through the device; nothing was changed"
            );
        }
        links.push(link);
    }
    let hook = match config.attach.lanes {
        Lanes::Routed | Lanes::Direct => Hook::Ingress,
        Lanes::Xdp { mode, trust_checksums } => {
            let names: Vec<_> = links.iter().map(|l| l.name.clone()).collect();
            let there = attached.iter().find_map(|(index, hook)| match hook {
                Hook::Xdp(mode) if links.iter().any(|l| l.index == *index) => Some(*mode),
                _ => None,
            });
            let wanted = mode.map(|mode| match mode {
                Wanted::Native => XdpMode::Native,
                Wanted::Generic => XdpMode::Generic,
            });
            // Frames that a driver redirects must arrive at a driver, so all lanes have one mode: that of those which are there.
            let options = XdpOptions { mode: wanted.or(there), trust_checksums };
            match xdp_mode(&names, options) {
                Ok((mode, why)) => {
                    found.generic = why;
                    Hook::Xdp(mode)
                }
                Err(error) => {
                    found.unfit = Some(error.to_string());
                    Hook::Xdp(options.mode.unwrap_or(XdpMode::Native))
                }
            }
        }
    };
    found.ways = links
        .into_iter()
        .map(|link| Way {
            index: link.index,
            name: link.name.clone(),
            hook,
            lanes: config.attach.lanes,
            mac: link.mac.as_slice().try_into().unwrap_or_default(),
        })
        .collect();
    Ok(found)
}

impl Ground<'_> {
    /// Where the lanes' programs are attached.
    pub fn attached(&self) -> Vec<(u32, Hook)> {
        let instance = io::bpf::Instance::open(&self.site.instance).ok();
        let all = instance.and_then(|instance| instance.attachments().ok()).unwrap_or_default();
        // The device has two programs of its own: one at its egress hook, and one at the other end.
        all.into_iter().filter(|(index, hook)| *hook != Hook::Egress && !self.is_peer(*index)).collect()
    }

    /// The steps to the lanes. `program` is the one that runs, if one does.
    pub fn lane_steps(&self, ways: &[Way], program: Option<&mut KernelProgram>) -> anyhow::Result<Vec<Step>> {
        let past = match &self.owner {
            Owner::Us { device, .. } => device.index,
            _ => 0,
        };
        let mut laid = Vec::new();
        if let Some(program) = program {
            for (index, hook) in self.attached() {
                let works = program.instance().is_attached(index, hook)?;
                laid.push((index, hook, program.lane(index)?, works));
            }
        }
        let mut steps = Vec::new();
        for (index, hook, lane, _) in &laid {
            if ways.iter().any(|way| way.index == *index && way.fits(*hook)) {
                continue;
            }
            let name =
                self.all.iter().find(|l| l.index == *index).map(|l| l.name.clone()).unwrap_or_default();
            steps.push(Step::Lift { index: *index, name, hook: *hook, from: *lane });
        }
        for way in ways {
            let found = laid.iter().find(|(index, hook, ..)| *index == way.index && way.fits(*hook));
            match found {
                Some((_, _, Some(lane), true)) if *lane == way.lane(past) => {}
                Some((_, hook, lane, true)) => {
                    steps.push(Step::Lay { way: Way { hook: *hook, ..way.clone() }, from: *lane });
                }
                _ => steps.push(Step::Lay { way: way.clone(), from: None }),
            }
        }
        Ok(steps)
    }

    /// An XDP program of somebody else on an interface that is to get ours, with the cure.
    pub fn foreign(&self, ways: &[Way]) -> Option<(String, String)> {
        let attached = self.attached();
        ways.iter().filter(|way| way.is_xdp()).find_map(|way| {
            let is_ours = attached.iter().any(|(index, hook)| {
                *index == way.index && matches!(hook, Hook::Xdp(_)) && self.has_program(*index, *hook)
            });
            let id = self.all.iter().find(|l| l.index == way.index)?.xdp.filter(|_| !is_ours)?;
            let name = bpf::attached(id).map(|program| program.name).unwrap_or_default();
            Some((
                format!("`{}` has an XDP program of somebody else already: `{name}` (id {id})", way.name),
                format!(
                    "`ip link set {} xdp off` removes it if nothing holds it; `hook = \"tc\"` needs no XDP",
                    way.name
                ),
            ))
        })
    }
}

/// Why an interface drops packets whose source is routed to another interface, as a translated packet's is on a lane; `None` if it does not.
/// The second text is the cure.
///
/// The kernel uses the larger of two values (Documentation/networking/ip-sysctl.rst): 1 is the strict mode of RFC 3704, 2 the loose one. On an
/// interface without an IPv4 address the loose mode drops such packets, too (`no_addr` in net/ipv4/fib_frontend.c). That holds for lanes past
/// netfilter as well: the kernel gets the packets whose next hop it has not resolved.
pub fn filter(name: &str, present: &Present) -> Option<(String, String)> {
    let value = |scope: &str| {
        let value = sysctl::get(&format!("net/ipv4/conf/{scope}/rp_filter")).ok()?;
        value.parse::<u8>().ok()
    };
    let (all, own) = (value("all").unwrap_or(0), value(name).unwrap_or(0));
    let has_address = present.addresses.iter().any(|(n, a)| n == name && a.address.is_ipv4());
    let off = match all {
        0 => format!("sysctl -w net.ipv4.conf.{name}.rp_filter=0"),
        _ => format!("sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.{name}.rp_filter=0"),
    };
    match (all.max(own), has_address) {
        (1, true) => Some((
            format!("`{name}` filters by reverse path strictly"),
            format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2"),
        )),
        (1, false) => Some((format!("`{name}` filters by reverse path strictly"), off)),
        (2, false) => Some((format!("`{name}` filters by reverse path and has no IPv4 address"), off)),
        _ => None,
    }
}
