//! `strait nat64`: the bundled translator as a device of the kernel or, in [`native`], of this process.
//!
//! `up` creates a veth pair, of which only one end is used. The program is attached to its egress hook, so it processes the packets that
//! are routed into the device. A translated packet enters the kernel again as if the device had received it. All state is in the kernel, so
//! no process must keep running. `up` updates whatever exists to match the file: nothing, or an older state.

mod native;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use abi::Manifest;
use anyhow::{Context, bail};
use control::nat64::{Attach, Config, config, entries, wanted};
use io::bpf::{Hook, Instance};
use io::ebpf::{EgressPort, KernelProgram, Lane};
use io::link::{Change, Handle, Link, Prefix, Route};
use serde_json::json;

use crate::cli::{ConfigArgs, Nat64Command, Nat64Target, UpArgs};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nat64.o"));
static MANIFEST: &str = include_str!(concat!(env!("OUT_DIR"), "/nat64.json"));

/// The P4 port of the device.
const PORT: u32 = 0;

/// Executes a subcommand.
pub fn run(command: &Nat64Command) -> anyhow::Result<()> {
    match command {
        Nat64Command::Up(args) if args.target == Nat64Target::Native => native::up(args),
        Nat64Command::Up(UpArgs { workers: Some(_), .. }) => {
            bail!("--workers is for the native target; in the kernel every processor works")
        }
        Nat64Command::Up(UpArgs { of: args, .. }) | Nat64Command::Reload(args) => up(args),
        Nat64Command::Down(args) => down(args),
        Nat64Command::Status(args) => status(args),
        Nat64Command::Check(args) => {
            let checked = read(&args.config);
            match (&checked, args.json) {
                (_, true) => {
                    let problem = checked.as_ref().err().map(|error| format!("{error:#}"));
                    println!(
                        "{}",
                        serde_json::json!({"file": args.config, "good": problem.is_none(), "problem": problem})
                    );
                }
                (Ok(_), false) => println!("{} is good", args.config.display()),
                (Err(_), false) => {}
            }
            checked.map(drop)
        }
        Nat64Command::Sessions(_) => bail!("sessions belong to stateful NAT64, which is not in this release"),
    }
}

fn read(file: &Path) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    config::parse(&text).map_err(|problems| {
        let all: Vec<_> = problems.iter().map(|p| format!("{}: {p}", file.display())).collect();
        anyhow::anyhow!("{}\nnothing was changed", all.join("\n"))
    })
}

fn device(config: &Config) -> &str {
    let Attach::Device { name, .. } = &config.attach;
    name
}

fn express(config: &Config) -> (&[String], bool) {
    let Attach::Device { express, bypass_netfilter, .. } = &config.attach;
    (express, *bypass_netfilter)
}

fn need_root() -> anyhow::Result<()> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if root {
        Ok(())
    } else {
        bail!("this needs root: eBPF programs, interfaces and routes are the kernel's (try sudo)")
    }
}

fn manifest() -> anyhow::Result<Manifest> {
    serde_json::from_str(MANIFEST).context("the bundled manifest is damaged")
}

fn up(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = read(&args.config)?;
    need_root()?;
    if OBJECT.is_empty() {
        bail!("this strait was built without clang and holds no program: install clang and build again");
    }
    let name = device(&config).to_string();
    let _alone = io::bpf::lock()?;
    let links = Handle::open()?;
    let lanes = lanes(&config, &links)?;
    fits(&config)?;
    for name in Instance::sweep()? {
        eprintln!("removed {name}: its interfaces are gone");
    }
    let fresh = links.link(&name)?.is_none();
    let result = bring_up(&config, &name, &links, &lanes, fresh);
    if result.is_err() && fresh {
        // After an error, what this run created is removed, and what existed before is kept.
        let _ = take_down(&name, &links);
    }
    result?;
    warn_forwarding();
    match args.json {
        true => println!("{}", json!({"device": name, "up": true})),
        false => println!("{name} is up: {} mappings, prefix {}", config.maps.len(), prefix_text(&config)),
    }
    Ok(())
}

fn prefix_text(config: &Config) -> String {
    config.prefix.map_or("none".to_string(), |p| p.to_string())
}

fn bring_up(config: &Config, name: &str, links: &Handle, lanes: &[Link], fresh: bool) -> anyhow::Result<()> {
    let peer = format!("{name}-");
    match links.link(name)? {
        None => links.add_veth(name, &peer, None)?,
        Some(link) if link.kind == "veth" && links.link(&peer)?.is_some() => {}
        Some(link) => bail!("there is an interface `{name}` already, a {}; name another device", link.kind),
    }
    let mut program = open_or_load(name, fresh)?;
    fill(&mut program, config)?;
    quiet(name, &peer, links, config)?;
    program.set_ingress_port(links.index(name)?, PORT)?;
    let egress = EgressPort { ifindex: links.index(name)?, flags: EgressPort::INGRESS };
    program.set_egress_port(PORT, egress)?;
    program.attach(name, Hook::Egress)?;
    routes(config, name, links)?;
    let past = links.index(name)?;
    let lane = Lane { past, direct: express(config).1, ipv4_mtu: ipv4_mtu(config) };
    lay_lanes(&mut program, lanes, lane)
}

/// The interfaces in `express`. This checks that each of them can be a lane, before anything changes.
fn lanes(config: &Config, links: &Handle) -> anyhow::Result<Vec<Link>> {
    express(config).0.iter().map(|name| lane(name, links)).collect()
}

fn lane(name: &str, links: &Handle) -> anyhow::Result<Link> {
    let Some(link) = links.link(name)? else {
        bail!("`express` names `{name}`, and there is no such interface; nothing was changed")
    };
    if link.loopback || link.mac.len() != 6 {
        bail!(
            "`express` names `{name}`, which has no Ethernet headers: its packets take the way through the device; nothing was changed"
        );
    }
    // The kernel uses the larger of the two values (Documentation/networking/ip-sysctl.rst). 1 is the strict mode of RFC 3704. In this mode
    // the kernel drops a translated packet here, because the route to its source leads to the device.
    let filter = |scope: &str| {
        let value = io::link::sysctl::get(&format!("net/ipv4/conf/{scope}/rp_filter")).ok()?;
        value.parse::<u8>().ok()
    };
    if filter("all").max(filter(name)) == Some(1) {
        bail!(
            "`{name}` filters by reverse path strictly, which would drop what an express lane translates; nothing was changed\n\
             hint: sysctl -w net.ipv4.conf.{name}.rp_filter=2, or leave `{name}` out of `express`"
        );
    }
    Ok(link)
}

/// Sets the lanes of the file, and removes those that are not in it.
fn lay_lanes(program: &mut KernelProgram, lanes: &[Link], way: Lane) -> anyhow::Result<()> {
    for (ifindex, hook) in program.instance().attachments()? {
        if hook == Hook::Ingress && !lanes.iter().any(|l| l.index == ifindex) {
            program.detach_index(ifindex, hook)?;
            program.forget_ingress(ifindex)?;
        }
    }
    for lane in lanes {
        program.set_lane(lane.index, PORT, way)?;
        program.attach(&lane.name, Hook::Ingress)?;
    }
    Ok(())
}

/// The running program if it can be kept, or a new one. A new one is needed if there is none, if the device was created again, or if the
/// running one is from another version.
fn open_or_load(name: &str, fresh: bool) -> anyhow::Result<KernelProgram> {
    let (instance, manifest) = (instance(name)?, manifest()?);
    if !fresh && let Some(program) = KernelProgram::open_same(&manifest, &instance, OBJECT) {
        return Ok(program);
    }
    // The running program is removed only after the new one has been loaded.
    let next = format!("{instance}-next");
    Instance::remove_by_name(&next)?;
    let program = KernelProgram::load(OBJECT, &manifest, &next)?;
    let replaced = program.replace(&instance);
    if replaced.is_err() {
        let _ = Instance::remove_by_name(&next);
    }
    Ok(replaced?)
}

/// The instance name of the program. It identifies the namespace, because pins belong to the host and devices to a namespace.
fn instance(name: &str) -> anyhow::Result<String> {
    Ok(format!("{name}-{}", io::netns::id()?))
}

/// Switches off neighbour discovery, automatic addresses and multicast, so that only routed packets reach the device.
fn quiet(name: &str, peer: &str, links: &Handle, config: &Config) -> anyhow::Result<()> {
    let _ = io::link::sysctl::set(&format!("net/ipv6/conf/{peer}/disable_ipv6"), "1");
    let silent =
        Change { noarp: Some(true), multicast: Some(false), no_link_local: true, ..Change::default() };
    // A packet that arrives by IPv6 may have a fragment header, which the IPv4 packet does not have.
    let mtu = config.ipv6_mtu as u32 + 8;
    for end in [name, peer] {
        links.change(end, &Change { up: Some(true), mtu: Some(mtu), ..silent.clone() })?;
    }
    Ok(())
}

/// Checks that all mappings fit into their tables, before anything changes.
fn fits(config: &Config) -> anyhow::Result<()> {
    let wanted = wanted(config);
    for table in &manifest()?.tables {
        let entries = wanted.entries.iter().filter(|(t, _)| *t == table.name).count() as u64;
        if entries > table.size {
            bail!("{entries} mappings, and there is room for {}; nothing was changed", table.size);
        }
    }
    Ok(())
}

/// Updates the tables to match the file: removes entries that are not in it, and adds the missing ones.
fn fill(program: &mut KernelProgram, config: &Config) -> anyhow::Result<()> {
    let wanted = wanted(config);
    let tables: Vec<String> = program.manifest().tables.iter().map(|t| t.name.clone()).collect();
    for table in tables.iter().filter(|t| t.ends_with(".eam4") || t.ends_with(".eam6")) {
        for listed in program.list(table)? {
            let keep = wanted.entries.iter().any(|(t, e)| t == table && e.matches == listed.entry.matches);
            if !keep {
                program.delete(table, &listed.entry)?;
            }
        }
    }
    for (table, call) in &wanted.defaults {
        program.set_default(table, call)?;
    }
    for (table, entry) in &wanted.entries {
        program.upsert(table, entry)?;
    }
    Ok(())
}

/// The IPv4 MTU for packets that still fit the IPv6 side after they have grown by the larger header and a fragment header.
fn ipv4_mtu(config: &Config) -> u32 {
    (config.ipv6_mtu - entries::FRAGMENT_GROWTH).into()
}

fn routes(config: &Config, name: &str, links: &Handle) -> anyhow::Result<()> {
    let mut wanted = Vec::new();
    let v4 = config.maps.iter().map(|m| m.ipv4).chain(config.routes.iter().copied());
    for net in v4 {
        let to = Prefix::new(net.network(), net.prefix_len());
        wanted.push(Route::dev(to, name).mtu(ipv4_mtu(config)));
    }
    if let Some(net) = config.prefix {
        wanted.push(Route::dev(Prefix::new(net.network(), net.prefix_len()), name));
    }
    for route in links.routes()?.into_iter().filter(|r| r.interface.as_deref() == Some(name)) {
        if !wanted.iter().any(|w| w.to == route.to) {
            links.remove_route(&route)?;
        }
    }
    for route in &wanted {
        links.set_route(route)?;
    }
    Ok(())
}

fn warn_forwarding() {
    for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        if io::link::sysctl::get(&key.replace('.', "/")).is_ok_and(|v| v == "0") {
            eprintln!("warning: {key} is 0, so the kernel routes nothing on; hint: sysctl -w {key}=1");
        }
    }
}

fn take_down(name: &str, links: &Handle) -> anyhow::Result<()> {
    Instance::remove_by_name(&instance(name)?)?;
    links.delete_link(name)?;
    Ok(())
}

fn down(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = read(&args.config)?;
    need_root()?;
    let name = device(&config);
    let _alone = io::bpf::lock()?;
    let links = Handle::open()?;
    take_down(name, &links)?;
    match args.json {
        true => println!("{}", json!({"device": name, "up": false})),
        false => println!("{name} is down"),
    }
    Ok(())
}

/// The device and its program, if they exist and are from this version.
fn running(name: &str, links: &Handle, manifest: &Manifest) -> anyhow::Result<Option<(Link, KernelProgram)>> {
    let instance = instance(name)?;
    let (Some(link), Ok(program)) = (links.link(name)?, KernelProgram::open(manifest, &instance)) else {
        return Ok(None);
    };
    if !program.instance().is_of(OBJECT) {
        bail!("the running program is another version's; hint: `strait nat64 up` replaces it");
    }
    Ok(Some((link, program)))
}

/// The names of the interfaces that have a lane.
fn laid_lanes(program: &KernelProgram, links: &Handle) -> anyhow::Result<Vec<String>> {
    let attached = program.instance().attachments()?;
    let has = |link: &Link| attached.contains(&(link.index, Hook::Ingress));
    Ok(links.links()?.into_iter().filter(has).map(|l| l.name).collect())
}

fn status(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = read(&args.config)?;
    need_root()?;
    let name = device(&config);
    let manifest = manifest()?;
    let links = Handle::open()?;
    let Some((link, mut program)) = running(name, &links, &manifest)? else {
        match args.json {
            true => println!("{}", json!({"device": name, "up": false})),
            false => println!("{name} is not up; start it with `strait nat64 up`"),
        }
        return Ok(());
    };
    let mut counters = Vec::new();
    for counter in &manifest.counters {
        let count = program.counter(&counter.name, 0)?;
        let short = counter.name.strip_prefix("Nat64.").unwrap_or(&counter.name).to_string();
        counters.push((short, count.packets, count.bytes));
    }
    let drops = program.drops()?;
    let laid = laid_lanes(&program, &links)?;
    if args.json {
        let counter = |(n, p, b): &(String, u64, u64)| json!({"name": n, "packets": p, "bytes": b});
        let drop = |(d, m): (&io::ebpf::Drop, &abi::manifest::DropReason)| json!({"reason": d.name, "packets": d.count.packets, "bytes": d.count.bytes, "help": m.help, "at": m.location});
        let maps: Vec<_> = config
            .maps
            .iter()
            .map(|m| json!({"ipv4": m.ipv4.to_string(), "ipv6": m.ipv6.to_string()}))
            .collect();
        let all = json!({
            "device": name,
            "up": link.up,
            "express": laid,
            "prefix": config.prefix.map(|p| p.to_string()),
            "maps": maps,
            "counters": counters.iter().map(counter).collect::<Vec<_>>(),
            "drops": drops.iter().zip(&manifest.drops).map(drop).collect::<Vec<_>>(),
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!("{name} is up, prefix {}, {} mappings", prefix_text(&config), config.maps.len());
    if !laid.is_empty() {
        println!("  express lanes on {}", laid.join(", "));
    }
    for (counter, packets, bytes) in counters {
        println!("  {counter:<44} {packets:>12} packets {bytes:>16} bytes");
    }
    for drop in drops.iter().filter(|d| d.count.packets > 0) {
        println!(
            "  dropped: {:<35} {:>12} packets {:>16} bytes",
            drop.name, drop.count.packets, drop.count.bytes
        );
    }
    Ok(())
}
