//! Starts a translator, or makes a running one follow its file. The file is applied whole, or what was done is undone.
//!
//! `plan`: what is to be done, and doing it. `changes`: the same in words. [`check`]: a file that is not applied.

mod changes;
pub mod check;
mod plan;

use std::time::Duration;

use abi::Manifest;
use anyhow::bail;
use dataplane::device::Key;
use io::bpf::{self, Instance, Lock};
use io::link::Handle;
use nat64::{Config, Lanes};

pub use self::changes::Change;
use self::plan::{Plan, Program};
use crate::bundle::Bundle;
use crate::configured::{described, device};
use crate::conflicts::Conflict;
use crate::flows::removal;
use crate::host::{need_root, needs_ipv6, warn_forwarding};
use crate::log::Log;
use crate::owner::Site;
use crate::record::{File, Record};

/// A translator that was brought up.
#[derive(Clone, Debug)]
pub struct Up {
    /// The device that packets are routed into.
    pub device: String,
    /// The configuration that is applied: that of the file, with what it leaves open.
    pub config: Config,
}

impl Up {
    /// What it translates by, in words.
    pub fn described(&self) -> String {
        described(&self.config)
    }
}

/// Starts a translator, or makes a running one follow its file. `force` puts routes before those of others.
pub fn up(file: &File, force: bool, log: &Log) -> anyhow::Result<Up> {
    let config = crate::clat::complete(file.config()?, &Handle::open()?)?;
    let (site, alone) = apply(file, &config, force, log, bpf::PATIENCE)?;
    drop(alone);
    if config.stateful.is_some() && !bpf::is_claimed(&site.instance)? {
        log.warning(&format!(
            "no process removes bindings and sessions whose time has passed; hint: {}",
            crate::ageing::cure(&file.path)
        ));
    }
    Ok(Up { device: site.device, config })
}

/// Makes the machine translate as a configuration says, whole or not at all. `force` puts routes before those of others. Another process that
/// changes the translator is waited for as long as `patience` says. While the caller has the locks, nobody changes what was applied.
pub(crate) fn apply(
    file: &File,
    config: &Config,
    force: bool,
    log: &Log,
    patience: Duration,
) -> anyhow::Result<(Site, Vec<Lock>)> {
    need_root()?;
    if Bundle::of(config).object.is_empty() {
        bail!("this strait was built without clang and holds no program: install clang and build again");
    }
    needs_ipv6()?;
    let site = Site::new(device(config))?;
    let alone = alone(&site, file, patience)?;
    apply_to(&site, file, config, force, log)?;
    Ok((site, alone))
}

/// Like [`apply`]. The caller has the locks of the site ([`alone`]).
pub(crate) fn apply_to(
    site: &Site,
    file: &File,
    config: &Config,
    force: bool,
    log: &Log,
) -> anyhow::Result<()> {
    let links = Handle::open()?;
    for name in Instance::sweep(&site.instance)? {
        log.info(&format!("removed {name}: its interfaces are gone"));
    }
    Instance::resume(&next(site), &site.instance)?;
    let mut plan = Plan::make(site, file, config.clone(), &links)?;
    plan.refuse(force)?;
    for warning in &plan.warnings {
        log.warning(warning);
    }
    if let Some(stateful) = &plan.config.stateful {
        removal::make_way(&site.instance, stateful)?;
    }
    plan.execute_in_some_mode(log)?;
    if let Some(stateful) = &plan.config.stateful {
        let (bindings, sessions) = removal::keep_allowed(&site.instance, stateful)?;
        if bindings + sessions > 0 {
            log.info(&format!(
                "{bindings} bindings and {sessions} sessions are removed: the file does not allow them"
            ));
        }
    }
    warn_forwarding(config, log);
    Ok(())
}

/// The locks of a site, and of those that it takes the place of. Every process takes them in one order, so that no two wait for each other.
pub(crate) fn alone(site: &Site, file: &File, patience: Duration) -> anyhow::Result<Vec<Lock>> {
    loop {
        let mut names: Vec<_> = moved(site, file)?.into_iter().map(|site| site.instance).collect();
        names.push(site.instance.clone());
        names.sort();
        let locks: io::Result<Vec<_>> = names.iter().map(|name| bpf::lock_within(name, patience)).collect();
        let locks = locks?;
        if moved(site, file)?.iter().all(|site| names.contains(&site.instance)) {
            return Ok(locks);
        }
    }
}

/// Loads the lanes' program for the XDP hook, if it is not loaded yet: an interface may come, or a file, that needs it when this process has no
/// privilege any more to load programs.
pub(crate) fn ready_for_xdp(site: &Site, config: &Config) -> anyhow::Result<()> {
    let bundle = Bundle::of(config);
    let Some(program) = bundle.running(&site.instance) else { return Ok(()) };
    match (program.load_xdp_lanes(bundle.xdp), &config.attach.lanes) {
        (Err(error), Lanes::Xdp { .. }) => Err(error.into()),
        // Not every kernel that has tc's hooks takes programs at this one.
        _ => Ok(()),
    }
}

/// Completes or removes what a process has left that was killed while it replaced a program. The caller has the lock ([`bpf::lock`]).
pub(crate) fn resume(site: &Site) -> anyhow::Result<()> {
    Ok(Instance::resume(&next(site), &site.instance)?)
}

/// What a repair found.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// What is not as the file says, or was not.
    pub complaints: Vec<String>,
    /// What cannot be repaired: what of somebody else's is in the way, and lanes that cannot be laid.
    pub trouble: Vec<String>,
    /// Whether it is as the file says again.
    pub done: bool,
    /// The version of Strait whose program runs, if it is not this one. Nothing is repaired then.
    pub foreign: Option<String>,
}

/// Makes a running translator again what its file says, if `now` agrees when it sees what is wrong. Where something of others is in the way, it is
/// reported, and the rest is repaired; `force` is that of [`apply`]. The caller has the locks ([`alone`]).
pub(crate) fn repair(
    file: &File,
    config: &Config,
    force: bool,
    log: &Log,
    now: impl FnOnce(&[String]) -> bool,
) -> anyhow::Result<Repair> {
    let links = Handle::open()?;
    let site = Site::new(device(config))?;
    let mut plan = Plan::new(&site, file, config.clone(), &links, !force)?;
    let mut complaints = plan.complaints();
    if plan.program == Program::Replace {
        let foreign = plan.before.as_ref().map_or("unknown".to_string(), |record| record.version.clone());
        return Ok(Repair { foreign: Some(foreign), ..Repair::default() });
    }
    let mut done = !complaints.is_empty() && now(&complaints);
    if done {
        plan.execute_in_some_mode(log)?;
        complaints.retain(|complaint| !plan.refused.contains(complaint));
        done = !complaints.is_empty();
    }
    let missing =
        plan.missing.iter().map(|name| format!("`{name}` does not exist; it gets its lane when it comes"));
    let conflicts = plan.routing.conflicts.iter().filter(|_| !force).map(Conflict::to_string);
    let trouble = conflicts.chain(plan.unfit.iter().cloned()).chain(missing).collect();
    Ok(Repair { complaints, trouble, done, foreign: None })
}

/// The name of an instance while it is loaded beside the one that it replaces.
fn next(site: &Site) -> String {
    format!("{}{}", site.instance, bpf::NEXT)
}

/// The entries of static bindings that a file does not have any more.
pub(crate) fn released(before: Option<&Config>, config: &Config, manifest: &Manifest) -> Vec<Key> {
    let bindings = |config: &Config| config.stateful.as_ref().map_or_else(Vec::new, |s| s.bindings.clone());
    let now = bindings(config);
    let old = before.map_or_else(Vec::new, bindings);
    let gone = old.iter().filter(|binding| !now.contains(binding));
    gone.flat_map(|binding| nat64::binding_keys(binding, manifest)).collect()
}

/// The other sites of this namespace that were made from the same file.
fn moved(site: &Site, file: &File) -> anyhow::Result<Vec<Site>> {
    let same = |other: &Site| {
        let instance = Instance::open(&other.instance).ok();
        instance.and_then(|i| Record::of(&i)).is_some_and(|record| record.file == file.path)
    };
    Ok(Site::all()?.into_iter().filter(|other| other.device != site.device && same(other)).collect())
}
