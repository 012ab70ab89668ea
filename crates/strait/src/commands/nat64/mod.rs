//! `strait nat64`: the bundled translator as a device of the kernel or, in [`native`], of this process.
//!
//! `up` creates a veth pair, of which only one end is used. The program is attached to its egress hook, so it processes the packets that
//! are routed into the device. A translated packet enters the kernel again as if the device had received it. All state is in the kernel, so
//! no process must keep running.
//!
//! [`owner`] proves what is ours, [`conflicts`] finds what of somebody else's is in the way, [`wiring`] says what a configuration needs
//! outside of its tables, and does and undoes it, [`loops`] keeps packets from coming back, [`lanes`] which interfaces are shortcuts past the device, [`record`] remembers which file
//! was applied. [`up`], [`down`] and [`status`] are the commands; [`run`] keeps a translator as its file says.

mod ageing;
mod bundle;
mod clat;
mod conflicts;
pub mod counting;
mod down;
mod holder;
mod lanes;
mod log;
mod logger;
mod loops;
mod native;
mod outlet;
mod owner;
mod record;
mod run;
mod sessions;
pub mod source;
mod status;
mod transfer;
mod up;
mod who;
mod wiring;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use abi::Manifest;
use anyhow::bail;
use control::plan::Desired;
use nat64::{Config, ETHERNET_MTU, wanted};

pub use self::bundle::Bundle;
use self::log::Log;
use crate::cli::{Nat64Command, Nat64Target, UpArgs};

/// The P4 ports of packets that arrive through the device, through a lane from which the kernel routes them on, and through one that sends them to the
/// next hop itself.
const PORT: u32 = 0;
const ROUTED_PORT: u32 = 1;
const DIRECT_PORT: u32 = 2;
/// That of packets which come to the device out of a translator, and that of the device of a process, which cannot tell these.
const AGAIN_PORT: u32 = 4;
const BLIND_PORT: u32 = 5;

/// The MTU of the device. It is no limit: the kernel compares translated packets with the MTU of the interface where they leave, and the sender of
/// one that is too large gets the error of its protocol.
const DEVICE_MTU: u32 = 65_535;

/// The configuration of a controller: a file, with a secret for its pools.
pub fn controlled(path: &Path) -> anyhow::Result<Config> {
    let config = record::File::read(path)?.any_config()?;
    if config.stateful.as_ref().is_some_and(|stateful| stateful.secret.is_none()) {
        eprintln!(
            "note: without `secret`, a host may get another address for new bindings when the controller starts again"
        );
    }
    source::keep_secret(config, None)
}

/// Executes a subcommand.
pub fn run(command: &Nat64Command) -> anyhow::Result<ExitCode> {
    match command {
        Nat64Command::Up(args) if args.target == Nat64Target::Native => native::up(args)?,
        Nat64Command::Up(UpArgs { workers: Some(_), .. }) => {
            bail!("--workers is for the native target; in the kernel every processor works")
        }
        Nat64Command::Up(UpArgs { apply: args, .. }) | Nat64Command::Reload(args) => up::up(args)?,
        Nat64Command::Run(args) => return Ok(run::run(args)),
        Nat64Command::Down(args) => down::down(args)?,
        Nat64Command::Status(args) => return status::status(args),
        Nat64Command::Check(args) => up::check(args)?,
        Nat64Command::Sessions(args) => sessions::sessions(args)?,
        Nat64Command::Bindings(args) => sessions::bindings(args)?,
        Nat64Command::Pool(args) => sessions::pool(args)?,
        Nat64Command::Top(args) => sessions::top(args)?,
        Nat64Command::Flush(args) => sessions::flush(args)?,
        Nat64Command::Export(args) => transfer::export(args)?,
        Nat64Command::Import(args) => transfer::import(args)?,
        Nat64Command::Who(args) => return who::who(args),
    }
    Ok(ExitCode::SUCCESS)
}

fn device(config: &Config) -> &str {
    &config.attach.device
}

fn need_root() -> anyhow::Result<()> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if root {
        Ok(())
    } else {
        bail!("this needs root: eBPF programs, interfaces and routes are the kernel's (try sudo)")
    }
}

/// What a translator translates by, in words.
fn described(config: &Config) -> String {
    let prefix = prefix_text(config);
    match &config.stateful {
        Some(stateful) => {
            let nets: Vec<_> = stateful.prefixes().iter().map(ToString::to_string).collect();
            format!("stateful, prefix {prefix}, pool {}", nets.join(" and "))
        }
        None => format!("{} mappings, prefix {prefix}", config.maps.len()),
    }
}

fn prefix_text(config: &Config) -> String {
    config.prefix.map_or("none".to_string(), |p| p.to_string())
}

/// What the tables must hold. This checks that it fits, before anything changes.
pub fn desired(config: &Config, manifest: &Manifest) -> anyhow::Result<Desired> {
    let wanted = wanted(config, manifest).map_err(anyhow::Error::msg)?;
    wanted.fits(manifest).map_err(|why| anyhow::anyhow!("{why}; nothing was changed"))?;
    Ok(wanted)
}

/// The length of the host's own IPv4 packets that fit the IPv6 side once they are translated.
fn ipv4_mtu(config: &Config) -> u32 {
    u32::from(config.ipv6_mtu.unwrap_or(ETHERNET_MTU)) - 20
}

fn warn_forwarding(config: &Config, log: Log) {
    if config.clat.is_some() {
        // It sets what it needs.
        return;
    }
    for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        if io::link::sysctl::get(&key.replace('.', "/")).is_ok_and(|v| v == "0") {
            log.warning(&format!("{key} is 0, so the kernel routes nothing on; hint: sysctl -w {key}=1"));
        }
    }
}
