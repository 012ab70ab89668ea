//! Namespaces, links and addresses, built with iproute2. An interface is called `eth` and its number, as in p4lang's tutorials.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use control::lab::{Conditions, End, Host, Link, Topology};
use io::link::{features, sysctl};
use io::netns::Namespace;

use super::owner::Lab;

/// The namespace through which links with conditions lead. No node can have this name.
///
/// The conditions are not at the interfaces of the nodes, because packets of the native target and of XDP pass no queueing discipline there.
const WIRES: &str = "+wires";

/// The namespaces of a lab.
pub struct Network {
    nodes: BTreeMap<String, Namespace>,
    /// What each link does to packets beyond what switches do, in the direction from each of its ends.
    conditions: Vec<[Conditions; 2]>,
}

/// What matters here of the programs of switches.
pub struct Programs {
    /// Whether one is on XDP, which makes demands on the interfaces at the other ends of its links.
    pub has_xdp: bool,
    /// The switches that keep to the rate of a link by themselves.
    pub shaping: BTreeSet<String>,
}

impl Network {
    /// Builds all of a topology but the programs of its switches.
    pub fn build(lab: &Lab, topology: &Topology, programs: &Programs) -> anyhow::Result<Network> {
        let has_xdp = programs.has_xdp;
        let from = |link: &Link, end: &End| match programs.shaping.contains(&end.node) {
            true => link.conditions.without_rate(),
            false => link.conditions,
        };
        let conditions = topology.links.iter().map(|link| link.ends.each_ref().map(|end| from(link, end)));
        let mut network = Network { nodes: BTreeMap::new(), conditions: conditions.collect() };
        for node in topology.nodes() {
            network.add(lab, node, topology.host(node).is_some_and(Host::has_ipv6))?;
        }
        if (0..topology.links.len()).any(|number| !network.is_ideal(number)) {
            network.add(lab, WIRES, false)?;
        }
        for (number, link) in topology.links.iter().enumerate() {
            network.join(number, link)?;
        }
        for host in &topology.hosts {
            network.address(host, topology.ends_of(&host.name).map(|(end, _)| end.interface()))?;
        }
        for (end, _) in topology.nodes().flat_map(|node| topology.ends_of(node)) {
            let keeps = topology.host(&end.node).is_none_or(|host| host.offloads);
            network.offloads(&end.node, &end.interface(), keeps && !has_xdp, has_xdp)?;
        }
        for number in (0..topology.links.len()).filter(|number| has_xdp && !network.is_ideal(*number)) {
            for wire in wire_ends(number) {
                network.offloads(WIRES, &wire, false, true)?;
            }
        }
        Ok(network)
    }

    /// The namespace of a node.
    pub fn node(&self, name: &str) -> anyhow::Result<&Namespace> {
        self.nodes.get(name).with_context(|| format!("there is no node `{name}`"))
    }

    /// Whether the ends of a link are one veth pair.
    fn is_ideal(&self, number: usize) -> bool {
        self.conditions[number].iter().all(Conditions::is_ideal)
    }

    /// The two interfaces of a veth pair at an end of a link: the end's own, and the one opposite.
    pub fn wire(&self, number: usize, link: &Link, end: &End) -> anyhow::Result<[(&Namespace, String); 2]> {
        let own = (self.node(&end.node)?, end.interface());
        let first = link.ends[0] == *end;
        let far = match self.is_ideal(number) {
            true => {
                let far = &link.ends[usize::from(first)];
                (self.node(&far.node)?, far.interface())
            }
            false => (self.node(WIRES)?, wire_ends(number)[usize::from(!first)].clone()),
        };
        Ok([own, far])
    }

    /// Makes a namespace. Without IPv6, no interface sends anything by itself.
    fn add(&mut self, lab: &Lab, node: &str, has_ipv6: bool) -> anyhow::Result<()> {
        let namespace = lab.namespace(node)?;
        namespace.run(|| {
            if !has_ipv6 {
                for all in ["all", "default"] {
                    // A kernel without IPv6 has no such sysctl.
                    let _ = sysctl::set(&format!("net/ipv6/conf/{all}/disable_ipv6"), "1");
                }
            }
            sysctl::set("net/ipv4/ping_group_range", "0 2147483647")
        })??;
        self.nodes.insert(node.to_string(), namespace);
        Ok(())
    }

    /// Makes a link: a veth pair, or two with the conditions between them.
    fn join(&self, number: usize, link: &Link) -> anyhow::Result<()> {
        let [a, b] = &link.ends;
        let ends = [(self.node(&a.node)?, a.interface()), (self.node(&b.node)?, b.interface())];
        if self.is_ideal(number) {
            let [(space, name), (far, peer)] = ends;
            ip(
                space,
                &format!(
                    "link add {name} type veth peer name {peer} netns {}\nlink set {name} up\n",
                    far.name()
                ),
            )?;
            return ip(far, &format!("link set {peer} up\n"));
        }
        let wires = self.node(WIRES)?;
        let inside = wire_ends(number);
        for (wire, (space, name)) in inside.iter().zip(&ends) {
            ip(
                wires,
                &format!(
                    "link add {wire} type veth peer name {name} netns {}\nlink set {wire} up\n",
                    space.name()
                ),
            )?;
            ip(space, &format!("link set {name} up\n"))?;
        }
        let [a, b] = &inside;
        for ((from, to), conditions) in [(a, b), (b, a)].into_iter().zip(&self.conditions[number]) {
            carry(wires, from, to, conditions)?;
        }
        Ok(())
    }

    /// Sets the addresses and routes of a host.
    fn address(&self, host: &Host, interfaces: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let interfaces: Vec<String> = interfaces.collect();
        if !interfaces.iter().any(|name| name == "eth0") {
            return Ok(());
        }
        let mut batch = String::new();
        if let Some(mac) = &host.mac {
            batch += &format!("link set eth0 address {mac}\n");
        }
        for address in &host.addresses {
            let nodad = if address.addr().is_ipv6() { " nodad" } else { "" };
            batch += &format!("addr add {address} dev eth0{nodad}\n");
        }
        for (address, mac) in &host.neighbours {
            batch += &format!("neigh replace {address} lladdr {mac} dev eth0 nud permanent\n");
        }
        for gateway in &host.gateways {
            let all = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            batch += &format!("route add {all} via {gateway}\n");
        }
        for (to, via) in &host.routes {
            batch += &format!("route add {to} via {via}\n");
        }
        ip(self.node(&host.name)?, &batch).with_context(|| format!("the host {}", host.name))
    }

    /// Decides whether packets leave an interface with complete checksums, and whether it has what XDP needs at the other end of a veth pair.
    fn offloads(&self, node: &str, name: &str, keep: bool, has_xdp: bool) -> anyhow::Result<()> {
        let set = || {
            if !keep {
                features::set_tx_checksum(name, false)?;
            }
            if has_xdp {
                features::set_gro(name, true)?;
            }
            Ok::<_, io::Error>(())
        };
        Ok(self.node(node)?.run(set)??)
    }
}

/// The interfaces of a link with conditions in the namespace of wires, each opposite one end.
fn wire_ends(number: usize) -> [String; 2] {
    [format!("w{number}a"), format!("w{number}b")]
}

/// Carries what arrives at one interface to the other, which sends it with a link's conditions.
fn carry(wires: &Namespace, from: &str, to: &str, conditions: &Conditions) -> anyhow::Result<()> {
    let lacks = "this kernel cannot give a link delay, loss or rate (modprobe -a sch_netem sch_ingress cls_matchall act_mirred); --ideal-links builds it without";
    let netem = format!("qdisc add dev {to} root netem{}", netem(conditions));
    let lines = [
        netem.as_str(),
        &format!("qdisc add dev {from} ingress"),
        &format!("filter add dev {from} ingress matchall action mirred egress redirect dev {to}"),
    ];
    lines.iter().try_for_each(|line| batch("tc", wires, line)).context(lacks)
}

/// The arguments of tc-netem(8).
fn netem(conditions: &Conditions) -> String {
    let mut text = String::new();
    if let Some(queue) = conditions.queue {
        text += &format!(" limit {queue}");
    }
    if let Some(delay) = conditions.delay {
        text += &format!(" delay {}us", delay.as_micros());
    }
    if let Some(loss) = conditions.loss {
        text += &format!(" loss {loss}%");
    }
    if let Some(rate) = conditions.rate {
        text += &format!(" rate {rate}bit");
    }
    text
}

/// Runs commands of `ip` in a namespace, one a line.
fn ip(namespace: &Namespace, lines: &str) -> anyhow::Result<()> {
    batch("ip", namespace, lines)
}

fn batch(tool: &str, namespace: &Namespace, lines: &str) -> anyhow::Result<()> {
    let mut command = Command::new(tool);
    command.args(["-n", namespace.name(), "-batch", "-"]);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = started.with_context(|| format!("cannot run `{tool}` (apt-get install iproute2)"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the tool ends early, its exit status says why.
        let _ = stdin.write_all(lines.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{tool} -n {}: {}", namespace.name(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
