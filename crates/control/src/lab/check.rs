//! Makes a [`Topology`] of a draft, and finds all that is wrong with it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;

use super::draft::{Delay, Draft, HostDraft, LinkDraft, Rate, SwitchDraft, Word};
use super::{Conditions, End, Form, Grpc, Host, Link, Switch, Topology, words};
use crate::problem::{Problem, near};

/// The targets of `strait run`.
const TARGETS: [&str; 4] = ["interp", "native", "tc", "xdp"];
/// The P4Runtime ports of switches without one of their own, and the number of the first device: those that controllers of each form expect.
const OWN: (u16, u64) = (9559, 1);
const P4LANG: (u16, u64) = (50051, 0);
/// The most characters of a node's name. Names of namespaces contain it.
const LONGEST: usize = 32;

/// Checks a draft. All problems are returned, in the order of the file.
pub fn check(text: &str, draft: Draft) -> Result<Topology, Vec<Problem>> {
    let mut checker = Checker { text, problems: Vec::new() };
    let topology = checker.topology(draft);
    checker.problems.sort_by_key(|p| (p.line, p.column));
    if checker.problems.is_empty() { Ok(topology) } else { Err(checker.problems) }
}

struct Checker<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

/// The kinds of nodes.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Host,
    Switch,
}

impl Checker<'_> {
    fn problem(&mut self, at: Range<usize>, message: String, hint: impl Into<String>) {
        self.problems.push(Problem::at(self.text, at, message, hint.into()));
    }

    fn topology(&mut self, mut draft: Draft) -> Topology {
        draft.hosts.sort_by(|a, b| words::natural(a.name.get_ref(), b.name.get_ref()));
        draft.switches.sort_by(|a, b| words::natural(a.name.get_ref(), b.name.get_ref()));
        let kinds = self.nodes(&draft);
        let links = self.links(&draft.links, &kinds);
        self.grpc(&draft.switches);
        let (port, device) = if draft.form == Form::Own { OWN } else { P4LANG };
        let hosts: Vec<Host> = draft.hosts.iter().map(|host| self.host(host, &links)).collect();
        let switches = draft.switches.iter().enumerate().map(|(at, switch)| {
            let usual = Grpc::Usual(port.saturating_add(at as u16));
            self.switch(switch, &links, usual, device + at as u64)
        });
        Topology { form: draft.form, switches: switches.collect(), hosts, links }
    }

    /// The kind of each node. Names are checked.
    fn nodes(&mut self, draft: &Draft) -> BTreeMap<String, Kind> {
        let hosts = draft.hosts.iter().map(|host| (&host.name, Kind::Host));
        let switches = draft.switches.iter().map(|switch| (&switch.name, Kind::Switch));
        let mut kinds = BTreeMap::new();
        for (name, kind) in hosts.chain(switches) {
            let text = name.get_ref();
            let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if text.is_empty() || text.len() > LONGEST || !text.chars().all(good) {
                let message = format!("`{text}` cannot be the name of a node");
                self.problem(name.span(), message, format!("up to {LONGEST} letters, digits, `-` and `_`"));
            }
            if super::command::RESERVED.contains(&text.as_str()) {
                let message = format!("`{text}` cannot be the name of a node");
                self.problem(name.span(), message, "it is a command of the lab");
            }
            if kinds.insert(text.clone(), kind).is_some() {
                let message = format!("`{text}` is the name of a host and of a switch");
                self.problem(name.span(), message, "");
            }
        }
        if kinds.is_empty() {
            self.problem(0..0, "the topology has no nodes".to_string(), "add `[host.h1]` and `[switch.s1]`");
        }
        kinds
    }

    fn links(&mut self, drafts: &[LinkDraft], kinds: &BTreeMap<String, Kind>) -> Vec<Link> {
        let mut used: BTreeMap<(String, u32), usize> = BTreeMap::new();
        let mut links = Vec::new();
        for draft in drafts {
            let [a, b] = draft.ends.as_slice() else {
                let message = format!("a link has two ends, not {}", draft.ends.len());
                self.problem(draft.place.clone(), message, "such as `ends = [\"h1\", \"s1:1\"]`");
                continue;
            };
            let ends = [self.end(a, kinds), self.end(b, kinds)];
            for (end, word) in ends.iter().zip([a, b]) {
                let Some(end) = end else { continue };
                let line = self.text[..word.span().start].matches('\n').count() + 1;
                if let Some(first) = used.insert((end.node.clone(), end.port), line) {
                    let message = format!("port {} of {} is used twice", end.port, end.node);
                    self.problem(word.span(), message, format!("it has the link of line {first} already"));
                }
            }
            let conditions = self.conditions(draft);
            if let [Some(a), Some(b)] = ends {
                links.push(Link { ends: [a, b], conditions });
            }
        }
        links
    }

    fn end(&mut self, word: &Word, kinds: &BTreeMap<String, Kind>) -> Option<End> {
        let (node, port) = match word.get_ref().split_once(':') {
            Some((node, port)) => (node, Some(port)),
            None => (word.get_ref().as_str(), None),
        };
        let Some(kind) = kinds.get(node).copied() else {
            let hint = match near(node, kinds.keys().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", kinds.keys().cloned().collect::<Vec<_>>().join(", ")),
            };
            self.problem(word.span(), format!("there is no node `{node}`"), hint);
            return None;
        };
        let number = match (kind, port) {
            (Kind::Host, None) => Some(0),
            (Kind::Switch, None) => {
                let message = format!("`{node}` is a switch, and its port is missing");
                self.problem(word.span(), message, format!("write `{node}:1`"));
                return None;
            }
            (Kind::Host, Some(port)) => port.parse().ok().filter(|n| *n < 64),
            (Kind::Switch, Some(port)) => port.parse().ok().filter(|n| *n < abi::DROP_PORT),
        };
        if number.is_none() {
            let what = if kind == Kind::Host { "an interface" } else { "a port" };
            let message = format!("`{}` is not the number of {what}", port.unwrap_or_default());
            self.problem(word.span(), message, "");
        }
        Some(End { node: node.to_string(), port: number? })
    }

    fn conditions(&mut self, draft: &LinkDraft) -> Conditions {
        let delay = match &draft.delay {
            Delay::Is(delay) => Some(*delay),
            Delay::Word(word) => self.value(word.as_ref(), words::time, "a time", "10ms"),
        };
        let rate = match &draft.rate {
            Rate::Is(rate) => Some(*rate),
            Rate::Word(word) => self.value(word.as_ref(), words::rate, "a rate", "10mbit"),
        };
        Conditions {
            delay: delay.filter(|delay| !delay.is_zero()),
            loss: self.value(draft.loss.as_ref(), words::percent, "a share", "1%").filter(|loss| *loss > 0.0),
            rate,
            queue: draft.queue,
        }
    }

    /// Reads a word that may be missing.
    fn value<T>(
        &mut self,
        word: Option<&Word>,
        read: impl Fn(&str) -> Option<T>,
        what: &str,
        example: &str,
    ) -> Option<T> {
        let word = word?;
        let value = read(word.get_ref());
        if value.is_none() {
            let message = format!("`{}` is not {what}", word.get_ref());
            self.problem(word.span(), message, format!("such as `{example}`"));
        }
        value
    }

    fn host(&mut self, draft: &HostDraft, links: &[Link]) -> Host {
        let name = draft.name.get_ref();
        let net = |text: &str| text.parse::<IpNet>().ok();
        let address = |text: &str| text.parse::<IpAddr>().ok();
        let addresses: Vec<IpNet> =
            self.all(&draft.addresses, net, "an address with its prefix length", "192.0.2.1/24");
        let has_link = links.iter().flat_map(|link| &link.ends).any(|end| end.node == *name && end.port == 0);
        if !has_link && !addresses.is_empty() {
            let message = format!("the host `{name}` has addresses, and no link");
            self.problem(draft.name.span(), message, format!("add `[[link]]` with `ends = [\"{name}\", …]`"));
        }
        let gateways = self.all(&draft.gateways, address, "an address", "192.0.2.254");
        for (at, gateway) in gateways.iter().enumerate() {
            let span = draft.gateways.get(at).map_or(0..0, Word::span);
            if gateways[..at].iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
                let message = format!("`{gateway}` is a second gateway of the same IP version");
                self.problem(span, message, "");
            } else if !addresses.iter().any(|net| net.contains(gateway)) {
                let message = format!("`{gateway}` is in no network of `{name}`");
                self.problem(span, message, "a gateway is a neighbour: give an address of its network");
            }
        }
        let neighbour = |(address_word, mac_word): &(Word, Word)| {
            let address = self.value(Some(address_word), address, "an address", "192.0.2.254");
            address.zip(self.value(Some(mac_word), words::mac, "a link-layer address", "02:00:00:00:00:01"))
        };
        let neighbours = draft.neighbours.iter().filter_map(neighbour).collect();
        Host {
            name: name.clone(),
            addresses,
            mac: self.value(draft.mac.as_ref(), words::mac, "a link-layer address", "02:00:00:00:00:01"),
            gateways,
            routes: self.all(&draft.routes, route, "a route", "198.51.100.0/24 via 192.0.2.254"),
            neighbours,
            commands: draft.commands.clone(),
            offloads: draft.offloads,
        }
    }

    fn all<T>(
        &mut self,
        list: &[Word],
        read: impl Fn(&str) -> Option<T>,
        what: &str,
        example: &str,
    ) -> Vec<T> {
        list.iter().filter_map(|word| self.value(Some(word), &read, what, example)).collect()
    }

    fn switch(&mut self, draft: &SwitchDraft, links: &[Link], usual: Grpc, device: u64) -> Switch {
        let name = draft.name.get_ref();
        let target = |text: &str| TARGETS.contains(&text).then(|| text.to_string());
        if let Some(port) = &draft.cpu_port {
            let number = *port.get_ref();
            let at = links.iter().flat_map(|link| &link.ends);
            if at.clone().any(|end| end.node == *name && end.port == number) {
                let message = format!("port {number} of {name} has a link, and is the controller's");
                self.problem(port.span(), message, "");
            }
            if number >= abi::DROP_PORT {
                let message = format!("port {number} is beyond {}, the last one", abi::DROP_PORT - 1);
                self.problem(port.span(), message, "");
            }
        }
        Switch {
            name: name.clone(),
            program: draft.program.clone(),
            target: self.value(draft.target.as_ref(), target, "a target", "native"),
            entries: draft.entries.clone(),
            grpc: draft.grpc.as_ref().map_or(usual, |port| Grpc::Fixed(*port.get_ref())),
            device,
            cpu_port: draft.cpu_port.as_ref().map(|port| *port.get_ref()),
            workers: draft.workers,
            controller: draft.controller.clone(),
        }
    }

    /// Two servers cannot have one port.
    fn grpc(&mut self, switches: &[SwitchDraft]) {
        let mut used = BTreeMap::new();
        for switch in switches {
            let Some(port) = &switch.grpc else { continue };
            if let Some(first) = used.insert(*port.get_ref(), switch.name.get_ref()) {
                let message = format!("port {} is that of {first} already", port.get_ref());
                self.problem(port.span(), message, "each switch has a P4Runtime server of its own");
            }
        }
    }
}

/// `PREFIX via ADDRESS`.
fn route(text: &str) -> Option<(IpNet, IpAddr)> {
    let (to, via) = text.split_once(" via ")?;
    let to: IpNet = to.trim().parse().ok()?;
    let via: IpAddr = via.trim().parse().ok()?;
    (to.addr().is_ipv4() == via.is_ipv4()).then_some((to.trunc(), via))
}
