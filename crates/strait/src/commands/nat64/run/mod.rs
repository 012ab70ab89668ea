//! `run`: a process that keeps a translator as its file says.
//!
//! Packets do not need it: they are translated by the kernel, also while this process is dead. It applies the file with the same code as `up`,
//! and then waits for events (`events`): signals, notifications of the kernel, time. What is not as it shall be is repaired
//! (`keeper`). Of a CLAT it follows the network ([`super::clat`]). If `up` or `reload` applies another file beside it, it keeps that one; if a new
//! version of Strait has done so, the process continues as that version.

mod events;
mod keeper;
mod service;

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use io::bpf::{self, Claim};
use io::privileges::{self, Need};
use nat64::Config;
use serde_json::json;

use super::ageing::Ageing;
use super::down::take_down;
use super::log::Log;
use super::outlet;
use super::owner::Site;
use super::record::File;
use super::{described, device, need_root};
use crate::cli::KeepArgs;

use self::events::{Event, Events};
use self::keeper::{BUSY, Keeper, is_locked};

/// How long the end waits for another process that changes the translator. The translation goes on if that takes longer.
const AT_END: Duration = Duration::from_millis(700);

/// Translates until it is told to end.
pub fn run(args: &KeepArgs) -> ExitCode {
    let log = Log::new();
    let code = match keep(args, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.error(&abi::text::chain(&error));
            ExitCode::FAILURE
        }
    };
    outlet::finish();
    code
}

fn keep(args: &KeepArgs, log: Log) -> anyhow::Result<()> {
    need_root()?;
    let mut events = Events::listen()?;
    let file = File::read(&args.apply.of.config)?;
    let config = file.config()?;
    let site = Site::new(device(&config))?;
    bpf::hold()?;
    let claim = claim(&site)?;
    privileges::keep(Need::Loading)?;
    let Some(mut keeper) = start(&file, &config, args, claim, log, &mut events)? else { return Ok(()) };
    privileges::keep(Need::Network)?;
    // Not before: a thread has the privileges of the one that starts it, for as long as it lives.
    outlet::start();
    let ageing = Ageing::start(keeper.site(), log);
    said_up(&keeper, args);
    service::ready(&keeper.status());
    loop {
        let next = events
            .next(keeper.deadline(), keeper.descriptor(), |to, protocol| keeper.has_route(to, protocol));
        match next {
            Event::Stop => break,
            Event::Reload => {
                service::reloading();
                reload(&mut keeper, args);
            }
            _ if keeper.is_to_reload() => reload(&mut keeper, args),
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
            outlet::finish();
            return Err(Command::new(&program).args(std::env::args_os().skip(1)).exec().into());
        }
        ageing.follow(keeper.site());
        service::alive();
    }
    drop(ageing);
    service::stopping();
    stop(keeper, args)
}

/// Applies the file as soon as no other process changes the translator; `None` if this one is told to end before. Nothing is waited for without
/// hearing that.
fn start(
    file: &File,
    config: &Config,
    args: &KeepArgs,
    claim: Claim,
    log: Log,
    events: &mut Events,
) -> anyhow::Result<Option<Keeper>> {
    let (begun, mut claim) = (Instant::now(), Some(claim));
    loop {
        match Keeper::start(file, config, args, &mut claim, log) {
            Err(error) if is_locked(&error) && begun.elapsed() < bpf::PATIENCE => {}
            other => return other.map(Some),
        }
        // A hangup is of no use: the file is applied in a moment.
        if events.next(Instant::now() + BUSY, None, |_, _| false) == Event::Stop {
            return Ok(None);
        }
    }
}

fn reload(keeper: &mut Keeper, args: &KeepArgs) {
    keeper.reload(args);
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

fn said_up(keeper: &Keeper, args: &KeepArgs) {
    let (name, config) = (&keeper.site().device, keeper.config());
    match args.apply.of.json {
        true => outlet::print(&json!({"device": name, "up": true}).to_string()),
        false => outlet::print(&format!("{name} is up: {}", described(config))),
    }
}

/// Ends the translation, or leaves it to the kernel.
fn stop(keeper: Keeper, args: &KeepArgs) -> anyhow::Result<()> {
    let name = keeper.site().device.clone();
    if !args.keep {
        // Whoever wants this process to end waits for it.
        let _alone = bpf::lock_within(&keeper.site().instance, AT_END)?;
        take_down(keeper.site(), &io::link::Handle::open()?)?;
    }
    match (args.apply.of.json, args.keep) {
        (true, up) => outlet::print(&json!({"device": name, "up": up}).to_string()),
        (false, true) => outlet::print(&format!("{name} goes on without this process")),
        (false, false) => outlet::print(&format!("{name} is down")),
    }
    Ok(())
}
