//! `strait nat64`: the bundled translator as a device of the kernel or, in [`native`], of this process.
//!
//! `up` creates a veth pair, of which only one end is used. The program is attached to its egress hook, so it processes the packets that
//! are routed into the device. A translated packet enters the kernel again as if the device had received it. All state is in the kernel, so
//! no process must keep running. `up` updates whatever exists to match the file: nothing, or an older state.

mod native;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use abi::Manifest;
use abi::manifest::DropReason;
use anyhow::{Context, bail};
use control::nat64::{Attach, Config, config, entries, wanted};
use control::plan::{self, Desired};
use dataplane::Count;
use dataplane::device::{Device, Entity, Query};
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
    let wanted = desired(&config, &manifest()?)?;
    for name in Instance::sweep()? {
        eprintln!("removed {name}: its interfaces are gone");
    }
    let fresh = links.link(&name)?.is_none();
    let result = bring_up(&config, &wanted, &name, &links, &lanes, fresh);
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

fn bring_up(
    config: &Config,
    wanted: &Desired,
    name: &str,
    links: &Handle,
    lanes: &[Link],
    fresh: bool,
) -> anyhow::Result<()> {
    let peer = format!("{name}-");
    match links.link(name)? {
        None => links.add_veth(name, &peer, None)?,
        Some(link) if link.kind == "veth" && links.link(&peer)?.is_some() => {}
        Some(link) => bail!("there is an interface `{name}` already, a {}; name another device", link.kind),
    }
    let mut program = open_or_load(name, wanted, fresh)?;
    let past = links.index(name)?;
    let lane = Lane { past, direct: express(config).1, ipv4_mtu: ipv4_mtu(config) };
    reconfigure(&mut program, wanted, name, links, |program| {
        quiet(name, &peer, links, config)?;
        program.set_ingress_port(past, PORT)?;
        program.set_egress_port(PORT, EgressPort { ifindex: past, flags: EgressPort::INGRESS })?;
        program.attach(name, Hook::Egress)?;
        set_routes(links, name, &routes(config, name))?;
        lay_lanes(program, lanes, lane)
    })
}

/// What the tables must hold. This checks that it fits, before anything changes.
fn desired(config: &Config, manifest: &Manifest) -> anyhow::Result<Desired> {
    let wanted = wanted(config, manifest).map_err(anyhow::Error::msg)?;
    wanted.fits(manifest).map_err(|why| anyhow::anyhow!("{why}; nothing was changed"))?;
    Ok(wanted)
}

/// Makes a running translator follow a configuration: first its tables, as one batch, then what `connect` does to interfaces and routes. If
/// either fails, tables and routes are as they were before.
fn reconfigure<D: Device>(
    device: &mut D,
    wanted: &Desired,
    name: &str,
    links: &Handle,
    connect: impl FnOnce(&mut D) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (tables, routes) = (plan::present(device, wanted)?, routes_of(links, name)?);
    plan::apply(device, wanted)?;
    connect(device).inspect_err(|_| {
        let _ = plan::apply(device, &tables);
        let _ = set_routes(links, name, &routes);
    })
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
fn open_or_load(name: &str, wanted: &Desired, fresh: bool) -> anyhow::Result<KernelProgram> {
    let (instance, manifest) = (instance(name)?, manifest()?);
    if !fresh && let Some(program) = KernelProgram::open_same(&manifest, &instance, OBJECT) {
        return Ok(program);
    }
    // The running program is removed only after the new one has been loaded and its tables have been filled.
    let next = format!("{instance}-next");
    Instance::remove_by_name(&next)?;
    let mut program = KernelProgram::load(OBJECT, &manifest, &next)?;
    let replaced = plan::apply(&mut program, wanted).map_err(anyhow::Error::from);
    let replaced = replaced.and_then(|_| Ok(program.replace(&instance)?));
    replaced.inspect_err(|_| {
        let _ = Instance::remove_by_name(&next);
    })
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

/// The IPv4 MTU for packets that still fit the IPv6 side after they have grown by the larger header and a fragment header.
fn ipv4_mtu(config: &Config) -> u32 {
    (config.ipv6_mtu - entries::FRAGMENT_GROWTH).into()
}

/// The routes into the device.
fn routes(config: &Config, name: &str) -> Vec<Route> {
    let v4 = config.maps.iter().map(|m| m.ipv4).chain(config.routes.iter().copied());
    let v4 =
        v4.map(|net| Route::dev(Prefix::new(net.network(), net.prefix_len()), name).mtu(ipv4_mtu(config)));
    let v6 = config.prefix.map(|net| Route::dev(Prefix::new(net.network(), net.prefix_len()), name));
    v4.chain(v6).collect()
}

/// The routes into the device that exist.
fn routes_of(links: &Handle, name: &str) -> anyhow::Result<Vec<Route>> {
    Ok(links.routes()?.into_iter().filter(|r| r.interface.as_deref() == Some(name)).collect())
}

/// Adds or changes these routes into the device, and removes all others.
fn set_routes(links: &Handle, name: &str, wanted: &[Route]) -> anyhow::Result<()> {
    for route in routes_of(links, name)? {
        if !wanted.iter().any(|w| w.to == route.to) {
            links.remove_route(&route)?;
        }
    }
    Ok(wanted.iter().try_for_each(|route| links.set_route(route))?)
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
    // Each of the program's counters has one cell.
    let counts = program.read(&Query::Counters(None))?;
    let names = manifest.counters.iter().map(|c| c.name.strip_prefix("Nat64.").unwrap_or(&c.name));
    let counts = counts.iter().filter_map(Entity::count);
    let counters: Vec<_> = names.zip(counts).map(|(n, c)| (n.to_string(), c.packets, c.bytes)).collect();
    let drops: Vec<Count> = program.drops()?;
    let laid = laid_lanes(&program, &links)?;
    if args.json {
        let counter = |(n, p, b): &(String, u64, u64)| json!({"name": n, "packets": p, "bytes": b});
        let drop = |(c, d): (&Count, &DropReason)| json!({"reason": d.name, "packets": c.packets, "bytes": c.bytes, "help": d.help, "at": d.location});
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
    for (count, reason) in drops.iter().zip(&manifest.drops).filter(|(count, _)| count.packets > 0) {
        println!("  dropped: {:<35} {:>12} packets {:>16} bytes", reason.name, count.packets, count.bytes);
    }
    Ok(())
}
