//! `sessions`, `bindings`, `pool`, `top` and `flush`: what the program in the kernel holds of stateful NAT64, read from its tables while packets
//! change them, and removed from there.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use abi::id::TableId;
use anyhow::{Context, bail};
use dataplane::device::{Device as _, EntryKey, Key, Update};
use io::bpf::{self, Lock};
use io::ebpf::KernelProgram;
use ipnet::{Ipv4Net, Ipv6Net};
use nat64::flows::{Binding, Filter, Flows, STATES, Session, Timer, time_of};
use nat64::{Protocol, Shares, Stateful, StaticBinding, Timeouts, shares};
use serde_json::{Value, json};

use super::bundle::Bundle;
use super::down::selected;
use super::need_root;
use super::owner::Site;
use super::record::Record;
use crate::cli::{FilterArgs, FlowArgs, FlushArgs, SelectArgs, TopArgs};

/// The number of bytes that are printed at once.
const CHUNK: usize = 64 * 1024;
/// The number of entries that are removed in one batch.
const BATCH: usize = 1024;

/// A running translator with sessions.
pub struct Running {
    pub device: String,
    pub program: KernelProgram,
    pub flows: Flows,
    pub stateful: Stateful,
}

impl Running {
    /// That of the arguments. There must be one.
    pub fn open(args: &SelectArgs) -> anyhow::Result<Self> {
        need_root()?;
        Self::of(&one_site(args)?)
    }

    /// Like [`Running::open`], with the lock: nobody else removes entries, or replaces the program.
    pub fn alone(args: &SelectArgs) -> anyhow::Result<(Self, Lock)> {
        need_root()?;
        let site = one_site(args)?;
        is_up(&site)?;
        let lock = bpf::lock(&site.instance)?;
        Ok((Self::of(&site)?, lock))
    }

    fn of(site: &Site) -> anyhow::Result<Self> {
        is_up(site)?;
        let device = site.device.clone();
        let down = || is_down(&device);
        let bundle = Bundle::at(&site.instance)
            .with_context(|| format!("{device} runs the program of another version of Strait"))?;
        let program = bundle.running(&site.instance).with_context(down)?;
        let config = Record::of(program.instance()).and_then(|record| record.config()).with_context(down)?;
        let flows = Flows::of(program.manifest());
        let (Some(flows), Some(stateful)) = (flows, config.stateful) else {
            bail!("{device} translates without sessions (mode \"stateless\")");
        };
        Ok(Self { device, program, flows, stateful })
    }

    /// That of an instance; `None` if it does not run, or has no sessions.
    fn at(instance: &str, stateful: &Stateful) -> Option<Self> {
        let program = Bundle::at(instance)?.running(instance)?;
        let flows = Flows::of(program.manifest())?;
        Some(Self { device: String::new(), program, flows, stateful: stateful.clone() })
    }

    /// Calls `f` with each binding.
    pub fn each_binding(&mut self, mut f: impl FnMut(Binding)) -> anyhow::Result<()> {
        self.program.each_learnt(self.flows.bib4, |learnt| {
            if let Some(binding) = Binding::read(&learnt.entry, learnt.register, learnt.timer) {
                f(binding);
            }
        })?;
        Ok(())
    }

    /// Calls `f` with each session.
    pub fn each_session(&mut self, mut f: impl FnMut(Session)) -> anyhow::Result<()> {
        self.program.each_learnt(self.flows.sessions, |learnt| {
            if let Some(session) = Session::read(&learnt.entry, learnt.register, learnt.timer) {
                f(session);
            }
        })?;
        Ok(())
    }
}

/// The one site that the arguments mean.
fn one_site(args: &SelectArgs) -> anyhow::Result<Site> {
    let sites = selected(args)?;
    let [site] = &sites[..] else {
        let names: Vec<_> = sites.iter().map(|site| site.device.as_str()).collect();
        bail!("this needs one translator, and there are {}: {}", names.len(), names.join(", "));
    };
    Ok(site.clone())
}

fn is_up(site: &Site) -> anyhow::Result<()> {
    match bpf::Instance::exists(&site.instance) {
        true => Ok(()),
        false => Err(is_down(&site.device)),
    }
}

fn is_down(device: &str) -> anyhow::Error {
    anyhow::anyhow!("{device} is not up in the kernel; hint: `strait nat64 up`, or `run`")
}

/// The seconds until a timer ends, if it does.
fn left(timer: Timer, timeouts: &Timeouts, now: u64) -> Option<u64> {
    let (profile, since) = timer?;
    let time = time_of(profile, timeouts)?;
    Some(time.saturating_sub(now.saturating_sub(since) / 1_000_000))
}

/// Reads a filter.
pub fn filter(args: &FilterArgs) -> anyhow::Result<Filter> {
    let net4 = |text: &Option<String>, key: &str| {
        let parse =
            |text: &String| text.parse::<Ipv4Net>().or_else(|_| text.parse::<Ipv4Addr>().map(Ipv4Net::from));
        let wrong = || format!("--{key}: not an IPv4 address or prefix");
        text.as_ref().map(|text| parse(text).with_context(wrong)).transpose()
    };
    let host =
        |text: &String| text.parse::<Ipv6Net>().or_else(|_| text.parse::<Ipv6Addr>().map(Ipv6Net::from));
    let state = |name: &String| {
        let found = STATES.iter().position(|state| state == name && !name.is_empty());
        found
            .map(|at| at as u8)
            .with_context(|| format!("--state: the states are {}", STATES[1..].join(", ")))
    };
    Ok(Filter {
        protocol: args.protocol.as_deref().map(protocol).transpose()?,
        host: args
            .host
            .as_ref()
            .map(|text| host(text).context("--host: not an IPv6 address or prefix"))
            .transpose()?,
        host_port: args.host_port,
        address: net4(&args.address, "address")?,
        port: args.port,
        remote: net4(&args.remote, "remote")?,
        remote_port: args.remote_port,
        state: args.state.as_ref().map(state).transpose()?,
    })
}

/// The protocol with a name.
pub fn protocol(name: &str) -> anyhow::Result<Protocol> {
    Protocol::named(name).context("--protocol: tcp, udp or icmp")
}

fn end6((address, port): (Ipv6Addr, u16)) -> SocketAddrV6 {
    SocketAddrV6::new(address, port, 0, 0)
}

/// Lines that are printed in chunks.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{text}");
        if self.0.len() >= CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        print!("{}", self.0);
        self.0.clear();
    }
}

/// Prints sessions: a line each, or an object each.
pub fn sessions(args: &FlowArgs) -> anyhow::Result<()> {
    let filter = filter(&args.filter)?;
    let mut running = Running::open(&args.of)?;
    let (now, mut lines, mut count) = (KernelProgram::now(), Lines::default(), 0u64);
    let timeouts = running.stateful.timeouts;
    running.each_session(|session| {
        if !filter.has_session(&session) {
            return;
        }
        count += 1;
        if args.count {
            return;
        }
        let (host, address) = (end6(session.host), SocketAddrV4::new(session.address.0, session.address.1));
        let remote = SocketAddrV4::new(session.remote.0, session.remote.1);
        let (name, state, left) =
            (session.protocol.name(), session.state_name(), left(session.timer, &timeouts, now));
        match args.of.json {
            true => lines.line(format_args!(
                "{}",
                json!({"protocol": name, "host": host.to_string(), "address": address.to_string(),
                       "remote": remote.to_string(), "state": state, "expires": left})
            )),
            false => {
                let left = left.map_or("-".to_string(), |left| format!("{left} s"));
                lines.line(format_args!("{name:<4} {host} > {address} > {remote} {state} {left}"));
            }
        }
    })?;
    lines.flush();
    print_count(args, count);
    Ok(())
}

fn print_count(args: &FlowArgs, count: u64) {
    match (args.count, args.of.json) {
        (true, true) => println!("{}", json!({"count": count})),
        (true, false) => println!("{count}"),
        (false, _) => {}
    }
}

/// Prints bindings: a line each, or an object each.
pub fn bindings(args: &FlowArgs) -> anyhow::Result<()> {
    let filter = filter(&args.filter)?;
    anyhow::ensure!(
        filter.is_of_bindings(),
        "--remote, --remote-port and --state are of sessions, and a binding has many"
    );
    let mut running = Running::open(&args.of)?;
    let (now, mut lines, mut count) = (KernelProgram::now(), Lines::default(), 0u64);
    let timeouts = running.stateful.timeouts;
    for host in running.stateful.hosts.iter().filter(|host| filter.has_host(host)) {
        count += 1;
        match (args.count, args.of.json) {
            (true, _) => {}
            (false, true) => lines.line(format_args!(
                "{}",
                json!({"protocol": null, "host": host.ipv6.to_string(), "address": host.ipv4.to_string(), "static": true})
            )),
            (false, false) => lines.line(format_args!("all  {} > {} static", host.ipv6, host.ipv4)),
        }
    }
    running.each_binding(|binding| {
        if !filter.has_binding(&binding) {
            return;
        }
        count += 1;
        if args.count {
            return;
        }
        let (host, address) = (end6(binding.host), SocketAddrV4::new(binding.address.0, binding.address.1));
        let (name, left) = (binding.protocol.name(), left(binding.timer, &timeouts, now));
        match args.of.json {
            true => lines.line(format_args!(
                "{}",
                json!({"protocol": name, "host": host.to_string(), "address": address.to_string(),
                       "static": binding.timer.is_none(), "established": binding.established, "expires": left})
            )),
            false => {
                let left = left.map_or("static".to_string(), |left| format!("{left} s"));
                lines.line(format_args!("{name:<4} {host} > {address} {left}"));
            }
        }
    })?;
    lines.flush();
    print_count(args, count);
    Ok(())
}

/// Prints the pools, and how many of their ports have bindings.
pub fn pool(args: &SelectArgs) -> anyhow::Result<()> {
    let mut running = Running::open(args)?;
    let pools = running.stateful.pools.clone();
    let mut used: Vec<HashMap<&str, u64>> = vec![HashMap::new(); pools.len()];
    running.each_binding(|binding| {
        let own = pools.iter().enumerate().filter(|(_, pool)| pool.hosts.contains(&binding.host.0));
        if let Some((at, _)) = own.max_by_key(|(_, pool)| pool.hosts.prefix_len()) {
            *used[at].entry(binding.protocol.name()).or_default() += 1;
        }
    })?;
    let mut all = Vec::new();
    for (pool, used) in pools.iter().zip(&used) {
        let ports = pool.count() * u64::from(pool.ports_of_address());
        let used = |name| used.get(name).copied().unwrap_or(0);
        let nets: Vec<_> = pool.addresses.iter().map(ToString::to_string).collect();
        let each: Vec<_> = Protocol::ALL.map(|protocol| (protocol.name(), used(protocol.name()))).to_vec();
        if args.json {
            let bindings: serde_json::Map<_, _> =
                each.iter().map(|(name, n)| (name.to_string(), json!(n))).collect();
            all.push(json!({
                "hosts": pool.hosts.to_string(), "addresses": nets, "ports": [pool.ports.start(), pool.ports.end()],
                "block": pool.block, "subscriber": pool.subscriber, "capacity": ports, "bindings": bindings,
            }));
            continue;
        }
        println!("pool of {}: {}", pool.hosts, nets.join(" and "));
        for (name, used) in each {
            println!("  {name:<4} {used:>10} of {ports} ports ({:.1} %)", 100.0 * used as f64 / ports as f64);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&Value::Array(all))?);
    }
    Ok(())
}

/// What hosts of a prefix have.
#[derive(Default)]
struct Used {
    bindings: u64,
    sessions: u64,
    /// The subscribers whose hosts they are.
    subscribers: BTreeSet<u64>,
}

/// Prints the subscribers with the most bindings.
pub fn top(args: &TopArgs) -> anyhow::Result<()> {
    let mut running = Running::open(&args.of)?;
    let share = Shares::of(&running.stateful);
    let prefix = |host: Ipv6Addr| Ipv6Net::new(host, args.subscriber).unwrap_or_default().trunc();
    let mut found: HashMap<Ipv6Net, Used> = HashMap::new();
    running.each_binding(|binding| {
        let used = found.entry(prefix(binding.host.0)).or_default();
        used.bindings += 1;
        used.subscribers.insert(share.subscriber(binding.host.0));
    })?;
    running.each_session(|session| found.entry(prefix(session.host.0)).or_default().sessions += 1)?;
    let mut all: Vec<_> = found.into_iter().collect();
    all.sort_by_key(|(net, used)| (std::cmp::Reverse((used.bindings, used.sessions)), *net));
    all.truncate(args.lines);
    // What was refused is counted by subscriber.
    let is_counted = args.subscriber <= share.length;
    let mut lines = Vec::new();
    for (net, used) in all {
        let mut refused = 0;
        for subscriber in used.subscribers.iter().filter(|_| is_counted) {
            refused +=
                shares::refused(&running.stateful, *subscriber, &mut running.program)?.iter().sum::<u64>();
        }
        lines.push((net, used, is_counted.then_some(refused)));
    }
    if args.of.json {
        let object = |(net, used, refused): &(Ipv6Net, Used, Option<u64>)| json!({"subscriber": net.to_string(), "bindings": used.bindings, "sessions": used.sessions, "refused": refused});
        println!("{}", serde_json::to_string_pretty(&lines.iter().map(object).collect::<Vec<_>>())?);
        return Ok(());
    }
    println!("{:>10} {:>10} {:>10}  subscriber", "bindings", "sessions", "refused");
    for (net, used, refused) in &lines {
        let refused = refused.map_or("-".to_string(), |n| n.to_string());
        println!("{:>10} {:>10} {refused:>10}  {net}", used.bindings, used.sessions);
    }
    Ok(())
}

/// Removes what a filter selects: sessions, and the bindings, if the filter names nothing that only sessions have. Static bindings stay.
pub fn flush(args: &FlushArgs) -> anyhow::Result<()> {
    let filter = filter(&args.filter)?;
    anyhow::ensure!(
        args.all != (filter != Filter::default()),
        "name what is removed by filters such as `--host`, or everything by `--all`, and not both"
    );
    let (mut running, _alone) = Running::alone(&args.of)?;
    let (bindings, sessions) = remove(&mut running, |b| filter.has_binding(b), |s| filter.has_session(s))?;
    match args.of.json {
        true => println!("{}", json!({"device": running.device, "bindings": bindings, "sessions": sessions})),
        false => println!("{}: {bindings} bindings and {sessions} sessions are removed", running.device),
    }
    Ok(())
}

/// Removes what packets have added in the places of static bindings, before these are written: as entries of packets, they would end. The caller has
/// the lock ([`bpf::lock`]).
pub fn make_way(instance: &str, stateful: &Stateful) -> anyhow::Result<()> {
    let Some(mut running) = Running::at(instance, stateful) else { return Ok(()) };
    let fixed = |protocol, host, address| {
        let same = |b: &StaticBinding| b.protocol == protocol && (b.ipv6 == host || b.ipv4 == address);
        stateful.bindings.iter().any(same)
    };
    if !stateful.bindings.is_empty() {
        remove(&mut running, |b| fixed(b.protocol, b.host, b.address), |_| false)?;
    }
    Ok(())
}

/// Removes the bindings and sessions that a configuration does not allow: their addresses are in no pool of their hosts any more. Returns how many. The caller
/// has the lock ([`bpf::lock`]).
pub fn keep_allowed(instance: &str, stateful: &Stateful) -> anyhow::Result<(u64, u64)> {
    let Some(mut running) = Running::at(instance, stateful) else { return Ok((0, 0)) };
    let allows = |protocol, host: (Ipv6Addr, u16), address: (Ipv4Addr, u16)| {
        stateful.allows(protocol, host.0, address.0, address.1)
    };
    remove(
        &mut running,
        |binding| !allows(binding.protocol, binding.host, binding.address),
        |session| !allows(session.protocol, session.host, session.address),
    )
}

/// Removes bindings and sessions, with what belongs to the bindings. The caller has the lock ([`bpf::lock`]).
pub fn remove(
    running: &mut Running,
    of_bindings: impl Fn(&Binding) -> bool,
    of_sessions: impl Fn(&Session) -> bool,
) -> anyhow::Result<(u64, u64)> {
    let (manifest, flows) = (running.program.manifest().clone(), running.flows);
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    running.each_session(|session| {
        if of_sessions(&session) {
            found.push(session);
        }
    })?;
    let sessions = found.len() as u64;
    let key = |table: TableId, entry: abi::Entry| Key::Entry(EntryKey::of(table, &entry));
    gone.extend(found.iter().filter_map(|s| Some(key(flows.sessions, s.entry(&manifest, &flows)?))));
    let mut found = Vec::new();
    running.each_binding(|binding| {
        if binding.timer.is_some() && of_bindings(&binding) {
            found.push(binding);
        }
    })?;
    let bindings = found.len() as u64;
    // The binding by its host goes first: without the other one, a packet of the host gives up its port, and with it, the port goes to nobody else.
    gone.extend(found.iter().filter_map(|b| Some(key(flows.bib6, b.entry6(&manifest, &flows)?))));
    gone.extend(found.iter().filter_map(|b| Some(key(flows.bib4, b.entry4(&manifest, &flows)?))));
    let removed: std::collections::HashSet<_> = found.iter().map(|b| (b.protocol, b.address)).collect();
    let mut peers = Vec::new();
    running.program.each_learnt(flows.peers, |learnt| {
        let value = |at: usize| match learnt.entry.matches.get(at) {
            Some(abi::MatchValue::Exact(bits)) => bits.to_u128().unwrap_or(0),
            _ => 0,
        };
        let address = (Ipv4Addr::from(value(1) as u32), value(2) as u16);
        let known = Protocol::numbered(value(0) as u8).is_some_and(|p| removed.contains(&(p, address)));
        if known {
            peers.push(learnt.entry);
        }
    })?;
    gone.extend(peers.into_iter().map(|entry| key(flows.peers, entry)));
    let updates: Vec<Update> = gone.into_iter().map(Update::Unset).collect();
    for batch in updates.chunks(BATCH) {
        running.program.write(batch).map_err(|refused| refused.error)?;
    }
    running.program.free_all_retired()?;
    Ok((bindings, sessions))
}
