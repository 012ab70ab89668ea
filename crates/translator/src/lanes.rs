//! Lanes: on which interfaces a configuration wants them, how they differ from those that are there, and what would be lost on them.

use io::bpf::{self, Hook, XdpMode};
use io::ebpf::{KernelProgram, Lane, XdpChoice, XdpOptions};
use io::link::{Link, sysctl};
use nat64::{Config, Lanes, XdpMode as Wanted};

use crate::conflicts::Present;
use crate::owner::Owner;
use crate::wiring::{DIRECT_PORT, Ground, ROUTED_PORT, Step};

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
    /// Those that lose no packets.
    pub ways: Vec<Way>,
    /// Those that would lose packets.
    pub unfit: Vec<Unfit>,
    /// The interfaces that do not exist.
    pub missing: Vec<String>,
    /// Why native mode is not possible, if it is not.
    pub generic: Option<String>,
}

/// A lane that would lose packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub way: Way,
    /// The reason, and what helps.
    pub why: String,
    pub cure: String,
}

impl Unfit {
    /// The reason why a translator runs without the lane.
    pub fn left_out(&self) -> String {
        format!("{}; it has no lane meanwhile, and its packets take the device", self.why)
    }
}

impl Ground<'_> {
    /// The lanes of a configuration. An interface that can never have a lane is an error.
    pub fn ways(&self, config: &Config) -> anyhow::Result<Ways> {
        let mut found = Ways::default();
        let key = if config.attach.lanes == Lanes::Routed { "express" } else { "attach" };
        let mut links = Vec::new();
        for name in &config.attach.interfaces {
            let Some(link) = self.all.iter().find(|l| l.name == *name) else {
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
        let (hook, mut refused) = match config.attach.lanes {
            Lanes::Routed | Lanes::Direct => (Hook::Ingress, Vec::new()),
            Lanes::Xdp { mode, trust_checksums } => {
                let choice = xdp_choice(&links, &self.attached(), mode, trust_checksums)?;
                found.generic = choice.generic;
                (Hook::Xdp(choice.mode), choice.refused)
            }
        };
        for link in links {
            let mac = link.mac.as_slice().try_into().unwrap_or_default();
            let way =
                Way { index: link.index, name: link.name.clone(), hook, lanes: config.attach.lanes, mac };
            let at_xdp = refused
                .iter()
                .position(
                    |error| matches!(error, io::Error::Port { interface, .. } if *interface == way.name),
                )
                .map(|at| refused.swap_remove(at));
            match filter(&way.name, &self.present)
                .or_else(|| at_xdp.map(described))
                .or_else(|| self.foreign(&way))
            {
                None => found.ways.push(way),
                Some((why, cure)) => found.unfit.push(Unfit { way, why, cure }),
            }
        }
        Ok(found)
    }

    /// Where the lanes' programs are attached.
    pub fn attached(&self) -> Vec<(u32, Hook)> {
        let all = match io::bpf::Instance::open(&self.site.instance) {
            Ok(instance) => instance.attachments().unwrap_or_default(),
            Err(_) if self.programs.is_empty() => Vec::new(),
            Err(_) => {
                let hooks = [Hook::Ingress, Hook::Xdp(XdpMode::Native), Hook::Xdp(XdpMode::Generic)];
                let at = |index: u32| hooks.map(|hook| (index, hook));
                let all = self.all.iter().flat_map(|link| at(link.index));
                all.filter(|(index, hook)| self.has_program(*index, *hook)).collect()
            }
        };
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
                let works = self.has_program(index, hook);
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

    /// A program that would take all packets of an interface that is to get ours, with the cure: one of `strait run`, or an XDP program of somebody
    /// else.
    fn foreign(&self, way: &Way) -> Option<(String, String)> {
        let all = bpf::ours(way.index).unwrap_or_default();
        let run = all.iter().find_map(|found| Some((found, bpf::Instance::process_of(&found.instance)?)));
        if let Some((found, process)) = run {
            return Some((
                format!(
                    "`{}` is a port of `strait run` (process {process}), whose program `{}` takes all its packets",
                    way.name, found.program.name
                ),
                "end that one first".to_string(),
            ));
        }
        let ours = |(index, hook): &(u32, Hook)| {
            *index == way.index && matches!(hook, Hook::Xdp(_)) && self.has_program(*index, *hook)
        };
        if !way.is_xdp() || self.attached().iter().any(ours) {
            return None;
        }
        let id = self.all.iter().find(|l| l.index == way.index)?.xdp?.program;
        let name = bpf::attached(id).map(|program| program.name).unwrap_or_default();
        Some((
            format!("`{}` has an XDP program of somebody else already: `{name}` (id {id})", way.name),
            format!(
                "`ip link set {} xdp off` removes it if nothing holds it; `hook = \"tc\"` needs no XDP",
                way.name
            ),
        ))
    }
}

/// How lanes at the XDP hook can be attached. Frames that a driver redirects must arrive at a driver, so all have one mode: that of those which are
/// there already, if the file leaves it open.
fn xdp_choice(
    links: &[&Link],
    attached: &[(u32, Hook)],
    wanted: Option<Wanted>,
    trust_checksums: bool,
) -> io::Result<XdpChoice> {
    let names: Vec<_> = links.iter().map(|l| l.name.clone()).collect();
    let there = attached.iter().find_map(|(index, hook)| match hook {
        Hook::Xdp(mode) if links.iter().any(|l| l.index == *index) => Some(*mode),
        _ => None,
    });
    let wanted = wanted.map(|mode| match mode {
        Wanted::Native => XdpMode::Native,
        Wanted::Generic => XdpMode::Generic,
    });
    io::ebpf::xdp_choice(
        &names,
        XdpOptions { mode: wanted.or(there), trust_checksums, ..XdpOptions::default() },
    )
}

/// What the loader says of an interface that cannot have a lane at the XDP hook, and the cure.
fn described(error: io::Error) -> (String, String) {
    match error {
        io::Error::Port { interface, problem, hint } => (
            format!("`{interface}` {problem}"),
            hint.unwrap_or_else(|| "`hook = \"tc\"` needs no XDP".into()),
        ),
        other => (other.to_string(), "`hook = \"tc\"` needs no XDP".into()),
    }
}

/// Why an interface would drop what its lane translates, because the source is routed to another interface; `None` if it does not.
/// The second text is the cure.
///
/// The kernel uses the larger of two values (Documentation/networking/ip-sysctl.rst): 1 is the strict mode of RFC 3704, 2 the loose one. On an
/// interface without an IPv4 address the loose mode drops such packets, too (`no_addr` in net/ipv4/fib_frontend.c). That holds for lanes past
/// netfilter as well: the kernel gets the packets whose next hop it has not resolved.
fn filter(name: &str, present: &Present) -> Option<(String, String)> {
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
            format!("`{name}` filters by reverse path strictly, which drops what a lane translates"),
            format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2"),
        )),
        (1, false) => Some((
            format!("`{name}` filters by reverse path strictly, which drops what a lane translates"),
            off,
        )),
        (2, false) => Some((
            format!(
                "`{name}` filters by reverse path and has no IPv4 address, which drops what a lane translates"
            ),
            off,
        )),
        _ => None,
    }
}
