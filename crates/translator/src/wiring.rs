//! What a translator needs outside of its tables: the device, routes and lanes. The difference between what is there and what a configuration
//! wants is a list of steps. A step says what it does, can be done, and can be undone.

use std::collections::BTreeSet;
use std::fmt;

use io::bpf::{Hook, Instance, XdpMode};
use io::ebpf::{EgressPort, KernelProgram, Lane};
use io::link::{Beside, Change, Handle, Link, Prefix, Proxy, Route, features, sysctl};
use nat64::{Config, Stateful};
use serde::Serialize;

use crate::bundle::Bundle;
use crate::conflicts::{self, Present, Routing, Whose};
use crate::lanes::Way;
use crate::owner::{self, Owner, PROTOCOL, Site};

/// The P4 ports of packets that arrive through the device, through a lane from which the kernel routes them on, and through one that sends them to the
/// next hop itself.
const PORT: u32 = 0;
pub const ROUTED_PORT: u32 = 1;
pub const DIRECT_PORT: u32 = 2;
/// That of packets which come to the device out of a translator, and that of the device of a process, which cannot tell these.
const AGAIN_PORT: u32 = 4;
pub const BLIND_PORT: u32 = 5;

/// The MTU of the device. It is no limit: the kernel compares translated packets with the MTU of the interface where they leave, and the sender of
/// one that is too large gets the error of its protocol.
pub const DEVICE_MTU: u32 = 65_535;

/// The smallest MTU with which the kernel has IPv6 on an interface (RFC 8200 section 5).
const IPV6_LEAST: u32 = 1280;

/// The properties of one end of the pair that a translator relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub up: bool,
    pub noarp: bool,
    pub multicast: bool,
    pub mtu: u32,
    pub alias: String,
    /// Whether the end leaves checksums to a network card, and GSO packets whole. Packets that are to leave as fragments pass from one end to
    /// the other first, and come out complete and one by one.
    pub offload: bool,
}

/// One change outside of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The veth pair is made.
    Make { device: String, peer: String },
    /// The device gets its program.
    Attach { device: String },
    /// An end of the pair is changed. `from` is `None` for a new one.
    Set { name: String, from: Option<Settings>, to: Settings },
    /// A sysctl is changed.
    Sysctl { key: String, from: String, to: String },
    /// The device gets an address, or loses it.
    Address { device: String, address: Prefix, add: bool },
    /// The kernel begins or ends to answer neighbour solicitations for an address.
    Proxy { proxy: Proxy, add: bool },
    /// A route is added, changed or removed.
    Route(conflicts::Step),
    /// A lane is laid or changed.
    Lay { way: Way, from: Option<Lane> },
    /// A lane is removed. The name is empty if the interface is gone.
    Lift { index: u32, name: String, hook: Hook, from: Option<Lane> },
}

/// Whether a step adds, changes or removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Something is made that is not there.
    Add,
    /// Something that is there becomes another.
    Change,
    /// Something that is there goes.
    Remove,
}

impl Step {
    pub fn sort(&self) -> Sort {
        match self {
            Step::Make { .. } | Step::Attach { .. } | Step::Set { from: None, .. } => Sort::Add,
            Step::Set { .. } | Step::Sysctl { .. } => Sort::Change,
            Step::Address { add, .. } | Step::Proxy { add, .. } => {
                if *add {
                    Sort::Add
                } else {
                    Sort::Remove
                }
            }
            Step::Route(conflicts::Step::Add { .. }) | Step::Lay { from: None, .. } => Sort::Add,
            Step::Route(conflicts::Step::Change { .. }) | Step::Lay { .. } => Sort::Change,
            Step::Route(conflicts::Step::Remove(_)) | Step::Lift { .. } => Sort::Remove,
        }
    }

    /// What is wrong with a running translator for which this step would be necessary.
    pub fn complaint(&self) -> String {
        match self {
            Step::Make { device, .. } => format!("the interface `{device}` is gone"),
            Step::Attach { device } => format!("no program is attached to `{device}`"),
            Step::Set { name, from: None, .. } => format!("`{name}` is not set up"),
            Step::Set { name, from: Some(from), to } => complaint(name, from, to),
            Step::Sysctl { key, from, to } => {
                format!("{} is {from}, and must be {to}", key.replace('/', "."))
            }
            Step::Address { device, address, add: true } => format!("`{device}` lacks its address {address}"),
            Step::Address { device, address, .. } => {
                format!("`{device}` has an address {address} that is left over")
            }
            Step::Proxy { proxy, add: true } => {
                format!(
                    "nobody answers neighbour solicitations for {} on `{}`",
                    proxy.address, proxy.interface
                )
            }
            Step::Proxy { proxy, .. } => {
                format!("the proxy neighbour {} on `{}` is left over", proxy.address, proxy.interface)
            }
            Step::Route(conflicts::Step::Add { route, beside: false }) => {
                format!("the route `{route}` is missing")
            }
            Step::Route(conflicts::Step::Add { route, beside: true }) => {
                format!("the route `{route}` is missing, or another one takes its packets")
            }
            Step::Route(conflicts::Step::Change { from, to }) => format!("the route `{from}` must be `{to}`"),
            Step::Route(conflicts::Step::Remove(route)) => format!("the route `{route}` is left over"),
            Step::Lay { way, from: None } => {
                format!("no program is attached to `{}`, which shall have a lane", way.name)
            }
            Step::Lay { way, from: Some(_) } => {
                format!("the lane on `{}` is not what the file says", way.name)
            }
            Step::Lift { .. } => format!("a lane {self} is left over"),
        }
    }

    /// What a reader of a plan calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Step::Make { .. } | Step::Set { .. } => "interface",
            Step::Attach { .. } => "program",
            Step::Sysctl { .. } => "sysctl",
            Step::Address { .. } => "address",
            Step::Proxy { .. } => "neighbour",
            Step::Route(_) => "route",
            Step::Lay { .. } | Step::Lift { .. } => "lane",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Make { device, peer } => write!(f, "{device} (a veth, with {peer} as its other end)"),
            Step::Attach { device } => write!(f, "on {device}"),
            Step::Set { name, from, to } => write!(f, "{name}: {}", changes(from.as_ref(), to)),
            Step::Sysctl { key, from, to } => write!(f, "{}: {from} becomes {to}", key.replace('/', ".")),
            Step::Address { device, address, .. } => write!(f, "{address} of {device}"),
            Step::Proxy { proxy, .. } => write!(f, "proxy {} on {}", proxy.address, proxy.interface),
            Step::Route(conflicts::Step::Add { route, .. } | conflicts::Step::Remove(route)) => {
                write!(f, "{route}")
            }
            Step::Route(conflicts::Step::Change { from, to }) => write!(f, "{from} becomes {to}"),
            Step::Lay { way, .. } => write!(f, "on {}", way.describe()),
            Step::Lift { index, name, .. } if name.is_empty() => {
                write!(f, "on interface {index}, which is gone")
            }
            Step::Lift { name, .. } => write!(f, "on {name}"),
        }
    }
}

/// The properties that differ, in words.
fn changes(from: Option<&Settings>, to: &Settings) -> String {
    let Some(from) = from else { return format!("MTU {}", to.mtu) };
    let mut all = Vec::new();
    if from.mtu != to.mtu {
        all.push(format!("MTU {} becomes {}", from.mtu, to.mtu));
    }
    if from.up != to.up {
        all.push(if to.up { "down becomes up".to_string() } else { "up becomes down".to_string() });
    }
    if from.noarp != to.noarp {
        all.push("ARP goes off".into());
    }
    if from.multicast != to.multicast {
        all.push("multicast goes off".into());
    }
    if from.alias != to.alias {
        all.push(format!("alias `{}`", to.alias));
    }
    if from.offload != to.offload {
        all.push("checksum offload goes off".into());
    }
    all.join(", ")
}

/// What is wrong with the properties of an end.
fn complaint(name: &str, from: &Settings, to: &Settings) -> String {
    let mut all = Vec::new();
    if from.up != to.up {
        all.push("is down".to_string());
    }
    if from.mtu != to.mtu {
        all.push(format!("has MTU {} and needs {}", from.mtu, to.mtu));
    }
    if from.noarp != to.noarp {
        all.push("has ARP on".into());
    }
    if from.multicast != to.multicast {
        all.push("has multicast on".into());
    }
    if from.alias != to.alias {
        all.push(format!("does not have the alias `{}`", to.alias));
    }
    if from.offload != to.offload {
        all.push("has checksum offload (`tx`) on".into());
    }
    format!("`{name}` {}", all.join(", "))
}

/// What is there now, and who owns it.
pub struct Ground<'a> {
    pub site: &'a Site,
    pub links: &'a Handle,
    pub owner: Owner,
    pub all: Vec<Link>,
    pub present: Present,
    /// Devices that this one takes the place of.
    pub moved: Vec<String>,
    /// Whether an older release made the device, whose routes look like an administrator's.
    pub old: bool,
    /// Whether a prefix for which something of others is in the way is left as it is.
    pub yields: bool,
    /// The kernel's numbers of our programs, if their pins are not visible here.
    pub programs: Vec<u32>,
}

impl<'a> Ground<'a> {
    pub fn survey(site: &'a Site, links: &'a Handle, moved: Vec<String>) -> anyhow::Result<Self> {
        let owner = site.owner(links)?;
        let all = links.links()?;
        let mut present = present(links, &all)?;
        if let Owner::Us { device, peer: None } = &owner {
            // It is made again, and its routes go with it.
            present.routes.retain(|route| route.interface.as_ref() != Some(&device.name));
        }
        let old = matches!(&owner, Owner::Us { device, .. } if device.alias.is_empty());
        Ok(Self { site, links, owner, present, all, moved, old, yields: false, programs: Vec::new() })
    }

    /// The routes that a configuration wants, compared with those that are there.
    pub fn routing(&self, config: &Config) -> Routing {
        let (moved, old, yields) = (&self.moved, self.old, self.yields);
        let whose = Whose { device: &self.site.device, moved, old, yields };
        let mut routing = conflicts::plan(&routes(config, &self.site.device), &self.present, whose);
        crate::loops::plan(config, self.site, &self.present, &mut routing);
        routing
    }

    /// Whether an interface is the other end of the device.
    pub fn is_peer(&self, index: u32) -> bool {
        matches!(&self.owner, Owner::Us { peer: Some(peer), .. } if peer.index == index)
    }

    /// The steps to the device, its settings and sysctls.
    pub fn device_steps(&self, config: &Config) -> Vec<Step> {
        let (device, peer) = (&self.site.device, &self.site.peer);
        let to = Settings {
            up: true,
            noarp: true,
            multicast: false,
            mtu: DEVICE_MTU,
            alias: self.site.alias(),
            offload: false,
        };
        let Owner::Us { device: link, peer: Some(other) } = &self.owner else {
            let set = |name: &String| Step::Set { name: name.clone(), from: None, to: to.clone() };
            let mut steps = vec![
                Step::Make { device: device.clone(), peer: peer.clone() },
                set(device),
                set(peer),
                Step::Attach { device: device.clone() },
            ];
            steps.extend(source_checks(device, "default", config));
            steps.extend(crate::clat::steps(self, config));
            return steps;
        };
        let mut steps = Vec::new();
        for link in [link, other] {
            let from = Settings {
                up: link.up,
                noarp: link.noarp,
                multicast: link.multicast,
                mtu: link.mtu,
                alias: link.alias.clone(),
                offload: features::tx_checksum(&link.name).unwrap_or(false),
            };
            if from != to {
                steps.push(Step::Set { name: link.name.clone(), from: Some(from), to: to.clone() });
            }
        }
        for (name, value) in [(&link.name, "0"), (&other.name, "1")] {
            let key = format!("net/ipv6/conf/{name}/disable_ipv6");
            // With a small MTU an interface has no IPv6, and no such sysctl.
            let from = sysctl::get(&key).unwrap_or_else(|_| value.into());
            if from != value {
                steps.push(Step::Sysctl { key, from, to: value.into() });
            }
        }
        steps.extend(source_checks(&link.name, &link.name, config));
        if !self.has_program(link.index, Hook::Egress) || !self.has_program(other.index, Hook::Ingress) {
            steps.push(Step::Attach { device: device.clone() });
        }
        steps.extend(crate::clat::steps(self, config));
        steps
    }

    /// Whether our program is at a hook. Where its pins are not visible and its number is not known, a program of any number counts.
    pub fn has_program(&self, index: u32, hook: Hook) -> bool {
        if let Ok(instance) = Instance::open(&self.site.instance) {
            return instance.is_attached(index, hook).unwrap_or(false);
        }
        let is_ours = |number: &u32| self.programs.is_empty() || self.programs.contains(number);
        match hook {
            Hook::Xdp(mode) => {
                let link = self.all.iter().find(|link| link.index == index);
                link.and_then(|link| link.xdp).is_some_and(|xdp| xdp.mode == mode && is_ours(&xdp.program))
            }
            Hook::Ingress | Hook::Egress => {
                let programs = io::bpf::at(index, hook).unwrap_or_default();
                // Without tcx the kernel tells no number, and our filter is known by its priority.
                let has_filter = || !self.programs.is_empty() && io::bpf::has_filter(index, hook);
                programs.iter().any(|program| is_ours(&program.id)) || has_filter()
            }
        }
    }
}

/// The steps to what the kernel asks of the source addresses of IPv4 packets from the device (Documentation/networking/ip-sysctl.rst). Those of the
/// translator's own ICMP errors may be the router's, and need not lead to the device. `now` is the interface whose values it has.
pub fn source_checks(device: &str, now: &str, config: &Config) -> Vec<Step> {
    let value = |scope: &str, name: &str| sysctl::get(&format!("net/ipv4/conf/{scope}/{name}"));
    let strict = value("all", "rp_filter").is_ok_and(|v| v == "1");
    let own = config.error_rate > 0 && config.error_source4.is_some();
    // The larger value of the interface and of `all` counts, and 2 is the looser check.
    let wanted =
        [("rp_filter", if strict { "2" } else { "0" }), ("accept_local", if own { "1" } else { "0" })];
    let step = |(name, to): (&str, &str)| {
        let from = value(now, name).ok().filter(|from| from != to)?;
        Some(Step::Sysctl { key: format!("net/ipv4/conf/{device}/{name}"), from, to: to.into() })
    };
    wanted.into_iter().filter_map(step).collect()
}

fn present(links: &Handle, all: &[Link]) -> anyhow::Result<Present> {
    let mut addresses = Vec::new();
    for link in all {
        addresses.extend(links.addresses(&link.name)?.into_iter().map(|a| (link.name.clone(), a)));
    }
    Ok(Present { routes: links.routes()?, addresses, proxies: links.proxies()? })
}

/// The routes into the device.
pub fn routes(config: &Config, device: &str) -> Vec<Route> {
    if let Some(clat) = &config.clat {
        return crate::clat::routes(config, clat, device);
    }
    let pools = config.stateful.iter().flat_map(Stateful::prefixes);
    let v4 = config.maps.iter().map(|m| m.ipv4).chain(config.routes.iter().copied()).chain(pools);
    let v4 = v4.map(|net| Route::dev(Prefix::new(net.network(), net.prefix_len()), device));
    let v6 = config.prefix.map(|net| Route::dev(Prefix::new(net.network(), net.prefix_len()), device));
    // `routes` may repeat the prefix of a mapping.
    let mut seen = BTreeSet::new();
    v4.chain(v6).filter(|route| seen.insert(route.to)).map(|route| route.by(PROTOCOL)).collect()
}

/// Does steps, and can undo those that were done, the last one first.
pub struct Transaction<'a> {
    site: &'a Site,
    links: &'a Handle,
    done: Vec<Step>,
}

impl<'a> Transaction<'a> {
    pub fn new(site: &'a Site, links: &'a Handle) -> Self {
        Self { site, links, done: Vec::new() }
    }

    /// Does a step.
    pub fn act(&mut self, step: &Step, program: Option<&mut KernelProgram>) -> anyhow::Result<()> {
        // It is undone also if it fails in the middle.
        self.done.push(step.clone());
        match step {
            Step::Make { .. } => self.make()?,
            Step::Attach { .. } => self.attach(program)?,
            Step::Set { name, to, .. } => self.set(name, to)?,
            Step::Sysctl { key, to, .. } => sysctl::set(key, to)?,
            Step::Address { device, address, add } => give(self.links, device, *address, *add)?,
            Step::Proxy { proxy, add } => answer(self.links, proxy, *add)?,
            Step::Route(step) => route(self.links, step)?,
            Step::Lay { way, .. } => {
                let past = self.links.index(&self.site.device)?;
                if let Some(program) = program {
                    lay(program, way, past)?;
                }
            }
            Step::Lift { index, hook, .. } => {
                if let Some(program) = program {
                    program.detach_index(*index, *hook)?;
                    program.forget_ingress(*index)?;
                }
            }
        }
        Ok(())
    }

    fn make(&self) -> anyhow::Result<()> {
        let [mac, peer_mac] = self.site.addresses();
        let ends = [(&*self.site.device, mac), (&*self.site.peer, peer_mac)];
        // It has no IPv6 before it has no multicast; see `begin_ipv6`.
        Ok(self.links.add_new_veth(ends, IPV6_LEAST - 1)?)
    }

    fn attach(&self, program: Option<&mut KernelProgram>) -> anyhow::Result<()> {
        let Some(program) = program else { return Ok(()) };
        // The other end may have another name meanwhile.
        let Owner::Us { device, peer: Some(peer) } = self.site.owner(self.links)? else { return Ok(()) };
        connect(program, device.index, peer.index)?;
        program.attach(&peer.name, Hook::Ingress)?;
        Ok(program.attach(&device.name, Hook::Egress)?)
    }

    /// Sets the properties of an end of the pair. Only routed packets shall reach the device, so it has no neighbour discovery, no automatic
    /// addresses and no multicast.
    fn set(&self, name: &str, to: &Settings) -> anyhow::Result<()> {
        let before = self.links.link(name)?.map_or(0, |link| link.mtu);
        if before < IPV6_LEAST && to.mtu >= IPV6_LEAST {
            self.begin_ipv6(name, to)?;
        }
        let change = Change {
            up: Some(to.up),
            noarp: Some(to.noarp),
            multicast: Some(to.multicast),
            mtu: Some(to.mtu),
            alias: Some(to.alias.clone()),
            no_link_local: to.mtu >= IPV6_LEAST,
            ..Change::default()
        };
        self.links.change(name, &change)?;
        Ok(features::set_tx_checksum(name, to.offload)?)
    }

    /// Gives an end of the pair IPv6, which the kernel begins with a sufficient MTU. An interface that has multicast then joins the groups of routers,
    /// and tells them whenever it comes up: packets without a source address, which the translator would drop and count.
    fn begin_ipv6(&self, name: &str, to: &Settings) -> anyhow::Result<()> {
        let down = Change { up: Some(false), multicast: Some(to.multicast), ..Change::default() };
        self.links.change(name, &down)?;
        self.links.change(name, &Change { mtu: Some(to.mtu), ..Change::default() })?;
        // The other end needs no IPv6, and the device needs it also where new interfaces have none.
        let (key, value) =
            (format!("net/ipv6/conf/{name}/disable_ipv6"), if name == self.site.peer { "1" } else { "0" });
        match sysctl::get(&key) {
            Ok(found) if found != value => Ok(sysctl::set(&key, value)?),
            _ => Ok(()),
        }
    }

    /// Keeps what was done.
    pub fn commit(mut self) {
        self.done.clear();
    }

    /// Undoes what was done, as far as it can be undone. Returns what could not be. The last step may have been done in part only, so it is no
    /// trouble if it cannot be undone.
    pub fn undo(mut self, mut program: Option<&mut KernelProgram>) -> Vec<anyhow::Error> {
        let done = std::mem::take(&mut self.done);
        let mut left = Vec::new();
        for (at, step) in done.iter().enumerate().rev() {
            let undone = self.undo_one(step, program.as_deref_mut());
            left.extend(undone.err().filter(|_| at + 1 < done.len()));
        }
        left
    }

    fn undo_one(&self, step: &Step, program: Option<&mut KernelProgram>) -> anyhow::Result<()> {
        match step {
            // Whoever made the device removes it.
            Step::Make { .. } | Step::Attach { .. } | Step::Set { from: None, .. } => {}
            Step::Set { name, from: Some(from), .. } => self.set(name, from)?,
            Step::Sysctl { key, from, .. } => sysctl::set(key, from)?,
            Step::Address { device, address, add } => give(self.links, device, *address, !add)?,
            Step::Proxy { proxy, add } => answer(self.links, proxy, !add)?,
            Step::Route(step) => route(self.links, &inverse(step))?,
            Step::Lay { way, from } => {
                if let Some(program) = program {
                    match from {
                        Some(lane) => program.set_lane(way.index, *lane)?,
                        None => {
                            program.detach_index(way.index, way.hook)?;
                            program.forget_ingress(way.index)?;
                        }
                    }
                }
            }
            Step::Lift { index, name, hook, from } => {
                if let (Some(program), Some(lane), false) = (program, from, name.is_empty()) {
                    program.set_lane(*index, *lane)?;
                    program.attach(name, *hook)?;
                }
            }
        }
        Ok(())
    }
}

fn give(links: &Handle, device: &str, address: Prefix, add: bool) -> anyhow::Result<()> {
    match add {
        true => links.add_address(device, address)?,
        false => drop(links.remove_address(device, address)?),
    }
    Ok(())
}

fn answer(links: &Handle, proxy: &Proxy, add: bool) -> anyhow::Result<()> {
    match add {
        true => links.add_proxy(proxy)?,
        false => drop(links.remove_proxy(proxy)?),
    }
    Ok(())
}

/// An interface whose driver does not take the program.
#[derive(Debug)]
pub struct NoDriver {
    pub interface: String,
    pub why: String,
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NoDriver {}

/// Makes both ends of the pair the port of the program. What it sends, the device receives. A packet that is to leave as fragments goes on from
/// the device to its peer, where its checksum is complete and GSO packets are segmented. What comes out of this device or another translator's
/// and goes into it is told apart, so that a packet ends that routes lead round and round.
pub fn connect(program: &mut KernelProgram, device: u32, peer: u32) -> anyhow::Result<()> {
    program.set_device_port(device, PORT, AGAIN_PORT)?;
    let links = Handle::open()?.links()?;
    for other in links.iter().filter(|link| ![device, peer].contains(&link.index) && owner::translates(link))
    {
        program.set_source(other.index)?;
    }
    program.set_ingress_port(peer, PORT)?;
    Ok(program.set_egress_port(PORT, EgressPort { ifindex: device, flags: EgressPort::INGRESS })?)
}

fn lay(program: &mut KernelProgram, way: &Way, past: u32) -> anyhow::Result<()> {
    if way.is_xdp() {
        let bundle = Bundle::loaded(program.instance());
        program.load_xdp_lanes(bundle.map_or(&[], |bundle| bundle.xdp))?;
    }
    program.set_lane(way.index, way.lane(past))?;
    match program.attach(&way.name, way.hook) {
        Err(error @ io::Error::System { .. }) if way.hook == Hook::Xdp(XdpMode::Native) => {
            Err(NoDriver { interface: way.name.clone(), why: error.to_string() }.into())
        }
        other => Ok(other?),
    }
}

fn inverse(step: &conflicts::Step) -> conflicts::Step {
    match step {
        conflicts::Step::Add { route, .. } => conflicts::Step::Remove(route.clone()),
        conflicts::Step::Change { from, to } => {
            conflicts::Step::Change { from: to.clone(), to: from.clone() }
        }
        conflicts::Step::Remove(route) => conflicts::Step::Add { route: route.clone(), beside: true },
    }
}

fn route(links: &Handle, step: &conflicts::Step) -> anyhow::Result<()> {
    match step {
        conflicts::Step::Add { route, beside } => {
            links.add_route(route, if *beside { Beside::Others } else { Beside::Nothing })?;
        }
        // The kernel replaces the first IPv4 route of a metric, whoever made it. So the new one comes first, and then the old one goes.
        conflicts::Step::Change { from, to } if to.to.address.is_ipv4() => {
            links.add_route(to, Beside::Others)?;
            links.remove_route(from)?;
        }
        // No other IPv6 route has this metric: the plan chose it so.
        conflicts::Step::Change { to, .. } => links.set_route(to)?,
        conflicts::Step::Remove(route) => {
            links.remove_route(route)?;
        }
    }
    Ok(())
}
