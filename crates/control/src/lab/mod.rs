//! The topology of a laboratory: hosts, switches and links, as `strait lab` builds them.
//!
//! * [`parse`] reads a file: `own` is Strait's form (TOML), `p4lang` is `topology.json` of p4lang's tutorials. Both become a `draft`.
//! * `check` makes a [`Topology`] of a draft, or a list of all problems with their places. `words` has the forms of values.
//! * [`command`] is what people type: `h1 ping h2`.

mod check;
pub mod command;
mod draft;
mod own;
mod p4lang;
mod words;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::problem::Problem;

/// A laboratory. Hosts and switches are in the natural order of their names: `s2` stands before `s10`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The form of the file.
    pub form: Form,
    /// The hosts, each a network namespace.
    pub hosts: Vec<Host>,
    /// The switches, each a `strait run` of its own.
    pub switches: Vec<Switch>,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
}

/// The forms of a topology's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// TOML with the keys of docs/lab.md.
    Own,
    /// `topology.json` of p4lang's tutorials.
    P4lang,
}

/// A host: a network namespace with addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// What the prompt and other parts of the file call it.
    pub name: String,
    /// The addresses of its first interface, `eth0`, with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// The link-layer address of `eth0`.
    pub mac: Option<String>,
    /// Default gateways, at most one of each IP version.
    pub gateways: Vec<IpAddr>,
    /// Further routes: prefix and next hop.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// Neighbours that are not asked for: address and link-layer address.
    pub neighbours: Vec<(IpAddr, String)>,
    /// Commands for a shell of the host, when all switches run.
    pub commands: Vec<String>,
    /// Whether checksums and segmentation are left to the interface.
    pub offloads: bool,
}

impl Host {
    /// Whether it has an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        self.addresses.iter().any(|net| net.addr().is_ipv6())
    }
}

/// A switch: a program that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// What the prompt and other parts of the file call it.
    pub name: String,
    /// The file of its program; without one, a controller pushes the program.
    pub program: Option<String>,
    /// The target's name, if it is given.
    pub target: Option<String>,
    /// Files with entries: lines of `strait table dump`, BMv2's `runtime.json`, or commands of simple_switch_CLI.
    pub entries: Vec<String>,
    /// The port of its P4Runtime server.
    pub grpc: Grpc,
    /// The number of the device for controllers.
    pub device: u64,
    /// The number of the controller's port.
    pub cpu_port: Option<u32>,
    /// The number of worker threads.
    pub workers: Option<usize>,
    /// The built-in control plane that it runs, as `strait run --controller` names it.
    pub controller: Option<String>,
}

/// The TCP port of a P4Runtime server, on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grpc {
    /// The file demands this one.
    Fixed(u16),
    /// This one, or another if it is in use.
    Usual(u16),
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The interfaces that it joins.
    pub ends: [End; 2],
    /// What it does to packets, in each direction.
    pub conditions: Conditions,
}

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The name of the host or switch.
    pub node: String,
    /// The number of a switch's port, or of a host's interface.
    pub port: u32,
}

impl End {
    /// The name of the interface inside of the node's namespace.
    pub fn interface(&self) -> String {
        format!("eth{}", self.port)
    }
}

/// What a link does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// How long a packet takes.
    pub delay: Option<Duration>,
    /// The share of packets that are lost, in percent.
    pub loss: Option<f64>,
    /// Bits per second.
    pub rate: Option<u64>,
    /// The most packets that wait.
    pub queue: Option<u32>,
}

impl Conditions {
    /// What is left for the link if the sender keeps to its rate.
    pub fn without_rate(self) -> Conditions {
        Conditions { rate: None, queue: None, ..self }
    }

    /// Whether packets pass at once, and all of them.
    pub fn is_ideal(&self) -> bool {
        *self == Conditions::default()
    }
}

impl Topology {
    /// The host with this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// The switch with this name.
    pub fn switch(&self, name: &str) -> Option<&Switch> {
        self.switches.iter().find(|switch| switch.name == name)
    }

    /// The names of all nodes: hosts, then switches.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        hosts.chain(self.switches.iter().map(|switch| switch.name.as_str()))
    }

    /// The ends of links at a node, with the link of each.
    pub fn ends_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a End, &'a Link)> {
        let ends = self.links.iter().flat_map(|link| link.ends.iter().map(move |end| (end, link)));
        ends.filter(move |(end, _)| end.node == node)
    }
}

/// Reads a topology of either form. All problems are returned.
pub fn parse(text: &str) -> Result<Topology, Vec<Problem>> {
    let is_json = text.trim_start().starts_with('{');
    let draft = if is_json { p4lang::read(text) } else { own::read(text) };
    check::check(text, draft.map_err(|problem| vec![problem])?)
}
