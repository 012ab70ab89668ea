//! The translator in this process, with a TUN interface. It needs no eBPF, and only the privileges of its own network namespace.
//!
//! It runs in the foreground until it is interrupted. Its interface and the routes into it go when the process ends for any reason; `unreachable` routes
//! (`loops`) do not depend on an interface, so those of a process that was killed are there until the next start. A hangup signal makes it read its
//! file again; an invalid file changes nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use abi::Manifest;
use control::plan::{self, Desired};
use dataplane::Device;
use dataplane::port::PortError;
use io::link::{Change, Handle};
use io::native::{NativeProgram, Object};
use io::port::Driver;
use io::signals::{self, Signal};
use io::switch::Switch;
use nat64::Config;

use crate::bundle::Bundle;
use crate::configured::{desired, device};
use crate::conflicts::{self, Conflict, Present, Whose};
use crate::counting::Counting;
use crate::host::{needs_ipv6, warn_forwarding};
use crate::log::Log;
use crate::loops;
use crate::owner::{self, Site};
use crate::record::File;
use crate::up::Up;
use crate::wiring::{self, BLIND_PORT, DEVICE_MTU, Transaction};

/// The interval of checks for signals.
const TURN: Duration = Duration::from_millis(50);

/// How a translator is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file.
    pub file: PathBuf,
    /// Whether routes are put before those of others.
    pub force: bool,
    /// The number of worker threads.
    pub workers: usize,
}

/// What a translator did until it ended.
#[derive(Debug)]
pub struct Ended {
    /// The device that is gone.
    pub device: String,
    /// The number of packets that came.
    pub received: u64,
    /// The number of packets that left.
    pub sent: u64,
    /// How many were dropped, by the reason.
    pub drops: Vec<(String, u64)>,
    /// Why it ended, if nobody told it to.
    pub broken: Option<PortError>,
}

/// Translates until the process is interrupted. `up` is called when it does.
pub fn translate(options: &Options, log: &Log, up: &mut dyn FnMut(&Up)) -> anyhow::Result<Ended> {
    let (config, bundle) = chosen(options)?;
    let mut manifest = bundle.native_manifest()?;
    nat64::resize(&config, &mut manifest);
    let links = Handle::open()?;
    let config = crate::source::complete(config, &links.links()?, &links)?;
    let mut config = crate::source::keep_secret(config, None)?;
    config.attach.blind = true;
    let wanted = in_this_process(&config, &manifest)?;
    if !config.attach.interfaces.is_empty() {
        log.info(
            "note: programs at interfaces are the kernel's; here all packets take the device, with the same answers",
        );
    }
    let workers = options.workers;
    anyhow::ensure!(workers > 0, "--workers 0: it takes at least one");
    let object = Object::make_or(bundle.c, &bundle.prepared)?;
    let program = Arc::new(NativeProgram::load(&object, &manifest, &[])?);
    plan::apply(&mut program.memory().clone(), &wanted)?;
    let signals = signals::listen(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup])?;
    let site = Site::new(device(&config))?;
    needs_ipv6()?;
    vacant(&site.device, &links)?;
    let routing = refuse(&config, &site, &links, options.force, log)?;
    let queues = Driver::Tun(site.device.clone()).open(workers)?;
    let _floors = Floors { site: &site, links: &links, log };
    lay(&site, &links, &config, &routing)?;
    let mut memory = program.memory().clone();
    let counting = |config: &Config| config.stateful.as_ref().and_then(|s| Counting::new(s, &manifest));
    let mut counts = counting(&config);
    let mut switch = Switch::start(program, vec![(BLIND_PORT, queues)], workers)?;
    let mut swept = switch.now();
    warn_forwarding(&config, log);
    up(&Up { device: site.device.clone(), config: config.clone() });
    loop {
        let signal = signals.wait(TURN);
        if config.stateful.is_some() {
            // Every row is looked at once a second.
            let now = switch.now();
            memory.expire(now, (now.saturating_sub(swept) as f64 / 1e6).min(1.0));
            swept = now;
        }
        if let Some(counts) = &mut counts {
            counts.turn(&mut memory)?;
        }
        match signal {
            _ if switch.ended() => break,
            None => {}
            Some(Signal::Hangup) => match again(options, &site, &links, &mut switch, &config, log) {
                Ok(applied) => {
                    counts = counting(&applied);
                    config = applied;
                    log.info(&format!("{} was read again", options.file.display()));
                }
                Err(error) => log.error(&abi::text::chain(&*error)),
            },
            Some(_) => break,
        }
    }
    end(&site.device, switch)
}

/// The file's configuration, if it is one for this target, and the program for it.
fn chosen(options: &Options) -> anyhow::Result<(Config, &'static Bundle)> {
    let config = File::read(&options.file)?.config()?;
    anyhow::ensure!(
        config.clat.is_none(),
        "mode \"clat\" is not for the native target; nothing was changed\n  hint: `strait nat64 up` without `--target native`"
    );
    anyhow::ensure!(
        config.stateful.as_ref().is_none_or(|stateful| stateful.log == nat64::Log::Nothing),
        "`log` is not for the native target; nothing was changed\n  hint: `strait nat64 run` reports what the kernel translates"
    );
    let bundle = Bundle::of(&config);
    Ok((config, bundle))
}

/// Takes the `unreachable` routes away when translation ends, in whatever way it does.
struct Floors<'a> {
    site: &'a Site,
    links: &'a Handle,
    log: &'a Log,
}

impl Drop for Floors<'_> {
    fn drop(&mut self) {
        if let Err(error) = loops::remove(self.site, self.links) {
            self.log.warning(&format!("routes are left: {}", abi::text::chain(&*error)));
        }
    }
}

/// The interface is made anew, so nothing may have its name.
fn vacant(name: &str, links: &Handle) -> anyhow::Result<()> {
    let Some(link) = links.link(name)? else { return Ok(()) };
    let hint = match link.alias.starts_with("strait nat64 tc ") {
        true => format!(
            "hint: `strait nat64 down --device {name}` removes it; translation stops until this command runs again"
        ),
        false => "hint: name another device in the file, or remove that interface".to_string(),
    };
    anyhow::bail!("there is an interface {} already; nothing was changed\n  {hint}", owner::described(&link))
}

/// Plans the routes into the interface, and refuses to hurt those of others.
fn refuse(
    config: &Config,
    site: &Site,
    links: &Handle,
    force: bool,
    log: &Log,
) -> anyhow::Result<Vec<conflicts::Step>> {
    let name = &site.device;
    let mut addresses = Vec::new();
    for link in links.links()? {
        addresses.extend(links.addresses(&link.name)?.into_iter().map(|a| (link.name.clone(), a)));
    }
    let present = Present { routes: links.routes()?, addresses, proxies: Vec::new() };
    let whose = Whose { device: name, moved: &[], old: false, yields: false };
    let mut routing = conflicts::plan(&wiring::routes(config, name), &present, whose);
    loops::plan(config, site, &present, &mut routing);
    if !routing.conflicts.is_empty() && !force {
        let all: Vec<_> = routing.conflicts.iter().map(Conflict::to_string).collect();
        anyhow::bail!("{}\nnothing was changed", all.join("\nerror: "));
    }
    for warning in &routing.warnings {
        log.warning(warning);
    }
    Ok(routing.steps)
}

/// Configures the interface as the file says, whole or not at all. Only routed packets reach it.
fn lay(site: &Site, links: &Handle, config: &Config, routing: &[conflicts::Step]) -> anyhow::Result<()> {
    let name = &site.device;
    let before = links.link(name)?.map(|link| link.mtu);
    let alias = format!("{}{}", owner::NATIVE, std::process::id());
    let mtu = Some(DEVICE_MTU);
    let change = Change { up: Some(true), mtu, alias: Some(alias), no_link_local: true, ..Change::default() };
    links.change(name, &change)?;
    let mut transaction = Transaction::new(site, links);
    let checks = wiring::source_checks(name, name, config);
    let routes = routing.iter().cloned().map(wiring::Step::Route);
    let result = checks.into_iter().chain(routes).try_for_each(|step| transaction.act(&step, None));
    match result {
        Ok(()) => transaction.commit(),
        Err(_) => {
            transaction.undo(None);
            let _ = links.change(name, &Change { mtu: before, ..Change::default() });
        }
    }
    result
}

/// Applies the file again: the whole file or nothing of it.
fn again(
    options: &Options,
    site: &Site,
    links: &Handle,
    switch: &mut Switch,
    running: &Config,
    log: &Log,
) -> anyhow::Result<Config> {
    let config = File::read(&options.file)?.config()?;
    anyhow::ensure!(
        config.stateful.is_some() == running.stateful.is_some(),
        "another mode needs another start; nothing was changed"
    );
    let most = |config: &Config| config.stateful.as_ref().and_then(|stateful| stateful.max_sessions);
    anyhow::ensure!(
        most(&config) == most(running),
        "another `max-sessions` needs another start; nothing was changed"
    );
    let config = crate::source::complete(config, &links.links()?, links)?;
    let mut config = crate::source::keep_secret(config, Some(running))?;
    config.attach.blind = true;
    let mut wanted = in_this_process(&config, switch.manifest())?;
    wanted.absent = crate::up::released(Some(running), &config, switch.manifest());
    anyhow::ensure!(
        device(&config) == site.device,
        "another device needs another start; nothing was changed"
    );
    let steps = refuse(&config, site, links, options.force, log)?;
    let before = plan::present(switch, &wanted)?;
    plan::apply(switch, &wanted)?;
    lay(site, links, &config, &steps).inspect_err(|_| {
        let _ = plan::apply(switch, &before);
    })?;
    Ok(config)
}

/// What the program shall hold, with the times of its expire profiles.
fn in_this_process(config: &Config, manifest: &Manifest) -> anyhow::Result<Desired> {
    let mut wanted = desired(config, manifest)?;
    wanted.entities.extend(config.stateful.iter().flat_map(nat64::expire_times));
    Ok(wanted)
}

/// Stops the workers, and reads the counters.
fn end(device: &str, mut switch: Switch) -> anyhow::Result<Ended> {
    let counts = switch.drops()?;
    let reasons = switch.manifest().drops.iter().map(|d| d.name.clone());
    let drops: Vec<_> = reasons.zip(counts.iter().map(|count| count.packets)).collect();
    let (counts, broken) = switch.stop();
    let counts = counts.first().copied().unwrap_or_default();
    let (received, sent) = (counts.received.packets, counts.sent.packets);
    Ok(Ended { device: device.to_string(), received, sent, drops, broken })
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::native::Batch;
    use nat64::config;

    const CASE: &str = include_str!("../../../apps/nat64/cases/udp-4to6.stf");
    const CONFIG: &str = r#"
        [nat64]
        mode = "stateless"
        prefix = "2001:db8:64::/96"
        attach = { device = "nat64" }
        [[map]]
        ipv4 = "198.51.100.0/24"
        ipv6 = "2001:db8:100::/120"
    "#;

    /// The offset of the hop limit in an Ethernet frame.
    const HOP_LIMIT: usize = 21;

    /// The packet in a line of a case.
    fn packet(begins: &str) -> Vec<u8> {
        let hex = CASE.lines().find_map(|line| line.strip_prefix(begins)).expect("the case has such a line");
        let hex = hex.trim_end_matches(" $").as_bytes();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
        hex.chunks(2).map(byte).collect()
    }

    #[test]
    fn objects_for_machines_without_a_compiler_translate() {
        let config = config::parse(CONFIG).expect("the configuration is good");
        let bundle = Bundle::of(&config);
        let manifest = bundle.native_manifest().expect("the manifest is");
        // The kernel around the interface takes two hops, which the case has not.
        let mut expected = packet("expect 0 ");
        expected[HOP_LIMIT] += 2;
        for prepared in bundle.prepared.iter().filter(|p| p.suits()) {
            let object = prepared.object().expect("it can be kept");
            let program = NativeProgram::load(&object, &manifest, &[]).expect("it loads");
            let wanted = desired(&config, &manifest).expect("it fits");
            plan::apply(&mut program.memory().clone(), &wanted).expect("tables are filled");
            let mut worker = program.memory().worker();
            let mut batch = Batch::new(1, 2048, 0);
            batch.push(0, &packet("packet 0 "));
            program.run(&mut worker, &mut batch);
            let sent: Vec<_> = batch.sent().map(|(port, bytes)| (port, bytes.to_vec())).collect();
            assert_eq!(sent, [(0, expected.clone())], "for {:?}", prepared.processor);
        }
        let needed = bundle.prepared.iter().filter(|p| !p.object.is_empty());
        assert!(
            needed.clone().count() == 0 || needed.filter(|p| p.suits()).count() > 0,
            "one is for this machine"
        );
    }
}
