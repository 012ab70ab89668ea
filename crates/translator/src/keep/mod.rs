//! A process that keeps a translator as its file says.
//!
//! Packets do not need it: they are translated by the kernel, also while this process is dead. It applies the file with the same code as `up`,
//! and then waits for events (`events`): signals, notifications of the kernel, time. What is not as it shall be is repaired
//! (`keeper`). Of a CLAT it follows the network. If `up` or `reload` applies another file beside it, it keeps that one; if a new
//! version of its program has done so, that is to go on in its place.

mod events;
mod keeper;
mod service;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io::bpf::{self, Claim};
use io::privileges::{self, Need};
use nat64::Config;

use self::events::{Event, Events};
use self::keeper::{BUSY, Keeper, is_locked};
use crate::ageing::Ageing;
use crate::configured::device;
use crate::down::take_down;
use crate::host::need_root;
use crate::log::Log;
use crate::owner::Site;
use crate::record::File;
use crate::up::Up;

/// How long the end waits for another process that changes the translator. The translation goes on if that takes longer.
const AT_END: Duration = Duration::from_millis(700);

/// How a translator is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file, which is read again at SIGHUP.
    pub file: PathBuf,
    /// Whether routes are put before those of others.
    pub force: bool,
    /// Whether the translator is left to the kernel at the end.
    pub keep: bool,
}

/// How keeping a translator ended.
pub enum Ended {
    /// The process was told to end before the file was applied.
    Early,
    /// The translator of this device is taken down.
    Down(String),
    /// The translator of this device goes on without the process.
    Left(String),
    /// The translator goes on, and a new version of the process's program is to keep it.
    Replaced(Box<Replaced>),
}

/// A new version of the process's program, which is to be executed in its place. While this value lives, the translator is kept from others: signals
/// wait, and its sessions end in time.
pub struct Replaced {
    /// The file of the program.
    pub program: PathBuf,
    _kept: (Keeper, Ageing, Events),
}

/// Translates until the process is told to end, by SIGTERM or SIGINT. It tells a service manager what it does (sd_notify(3)). From its start on, the
/// process has only the privileges that it needs. When the file is applied, `up` is called; threads may be started from then on.
pub fn keep(options: &Options, log: &Log, up: &mut dyn FnMut(&Up)) -> anyhow::Result<Ended> {
    need_root()?;
    let mut events = Events::listen()?;
    let file = File::read(&options.file)?;
    let config = file.config()?;
    let site = Site::new(device(&config))?;
    bpf::hold()?;
    let claim = claim(&site)?;
    privileges::keep(Need::Loading)?;
    let Some(mut keeper) = start(&file, &config, options, claim, log, &mut events)? else {
        return Ok(Ended::Early);
    };
    // A thread has the privileges of the one that starts it, for as long as it lives.
    privileges::keep(Need::Network)?;
    up(&Up { device: keeper.site().device.clone(), config: keeper.config().clone() });
    let ageing = Ageing::start(keeper.site(), log);
    service::ready(&keeper.status());
    loop {
        let next = events
            .next(keeper.deadline(), keeper.descriptor(), |to, protocol| keeper.has_route(to, protocol));
        match next {
            Event::Stop => break,
            Event::Reload => {
                service::reloading();
                reload(&mut keeper);
            }
            _ if keeper.is_to_reload() => reload(&mut keeper),
            Event::Arrived => keeper.network(),
            Event::Changed => {
                keeper.network();
                keeper.check();
            }
            Event::Time => {
                keeper.network();
                keeper.look_closer();
            }
        }
        if keeper.is_changed_beside()
            && let Some(program) = newer()
        {
            log.info(&format!("{} is a new version, which goes on here", program.display()));
            service::reloading();
            let replaced = Replaced { program, _kept: (keeper, ageing, events) };
            return Ok(Ended::Replaced(Box::new(replaced)));
        }
        ageing.follow(keeper.site());
        service::alive();
    }
    drop(ageing);
    service::stopping();
    stop(&keeper, options.keep, log)
}

/// Applies the file as soon as no other process changes the translator; `None` if this one is told to end before. Nothing is waited for without
/// hearing that.
fn start(
    file: &File,
    config: &Config,
    options: &Options,
    claim: Claim,
    log: &Log,
    events: &mut Events,
) -> anyhow::Result<Option<Keeper>> {
    let (begun, mut claim) = (Instant::now(), Some(claim));
    loop {
        match Keeper::start(file, config, options, &mut claim, log) {
            Err(error) if is_locked(&error) && begun.elapsed() < bpf::PATIENCE => {}
            other => return other.map(Some),
        }
        // A hangup is of no use: the file is applied in a moment.
        if events.next(Instant::now() + BUSY, None, |_, _| false) == Event::Stop {
            return Ok(None);
        }
    }
}

fn reload(keeper: &mut Keeper) {
    keeper.reload();
    if !keeper.is_to_reload() {
        service::ready(&keeper.status());
    }
}

/// The file of this program, if it has been replaced since this process began.
fn newer() -> Option<PathBuf> {
    let own = std::fs::read_link("/proc/self/exe").ok()?;
    // proc_pid_exe(5): what has no name any more is called so.
    let path = PathBuf::from(own.to_str()?.trim_end_matches(" (deleted)"));
    let file = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    (file(&path)? != file(Path::new("/proc/self/exe"))?).then_some(path)
}

/// Refuses to keep what another process keeps.
fn claim(site: &Site) -> anyhow::Result<Claim> {
    bpf::claim(&site.instance)?.map_err(|holder| {
        anyhow::anyhow!(
            "{holder} keeps `{}` up already (`strait nat64 run`); nothing was changed\n  \
             hint: `strait nat64 reload` changes what it keeps; `strait nat64 down --device {}` ends it",
            site.device,
            site.device
        )
    })
}

/// Ends the translation, or leaves it to the kernel.
fn stop(keeper: &Keeper, keep: bool, log: &Log) -> anyhow::Result<Ended> {
    let device = keeper.site().device.clone();
    if keep {
        return Ok(Ended::Left(device));
    }
    // Whoever wants this process to end waits for it.
    let _alone = bpf::lock_within(&keeper.site().instance, AT_END)?;
    take_down(keeper.site(), &io::link::Handle::open()?, log)?;
    Ok(Ended::Down(device))
}
