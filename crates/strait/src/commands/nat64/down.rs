//! `down`: removes what `up` made, and nothing else. It needs no valid file: what runs has a record of its own.

use std::time::{Duration, Instant};

use anyhow::bail;
use io::bpf::{self, Claim, Holder, Instance};
use io::link::Handle;
use io::signals::{self, Signal};
use serde_json::json;

use super::need_root;
use super::owner::{self, Owner, Site};
use super::record::{File, Record, absolute};
use crate::cli::SelectArgs;

/// How long `down` waits for a `run` to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes the translators that the arguments mean. Processes that keep one of them running are told to end first.
pub fn down(args: &SelectArgs) -> anyhow::Result<()> {
    need_root()?;
    let sites = selected(args)?;
    // Nobody makes again what is removed.
    let _claims = sites.iter().map(end).collect::<anyhow::Result<Vec<_>>>()?;
    let links = Handle::open()?;
    for site in sites {
        // Without a BPF file system nobody else can have the lock.
        let _alone = if bpf::visible() { Some(bpf::lock(&site.instance)?) } else { None };
        take_down(&site, &links)?;
        match args.json {
            true => println!("{}", json!({"device": site.device, "up": false})),
            false => println!("{} is down", site.device),
        }
    }
    Ok(())
}

/// Ends the `run` that would make the translator again, and keeps others from beginning.
fn end(site: &Site) -> anyhow::Result<Option<Claim>> {
    let device = &site.device;
    let begun = Instant::now();
    let mut told = None;
    while bpf::visible() {
        let process = match bpf::keep_unclaimed(&site.instance)? {
            Ok(claim) => return Ok(Some(claim)),
            Err(Holder::Process(process)) => process,
            Err(Holder::Elsewhere) => bail!(
                "`strait nat64 run` keeps {device} up, in a process that is not visible here; nothing was changed\n  \
                 hint: end it where it runs"
            ),
        };
        if told != Some(process) {
            signals::send(process, Signal::Terminate)?;
            told = Some(process);
        }
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "`strait nat64 run` (process {process}) keeps {device} up and does not end; nothing was changed\n  \
             hint: `kill -9 {process}`, and this again"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

/// The sites that the arguments mean: that of the device that is named, or those that were made from the file, or that of the file's device.
pub fn selected(args: &SelectArgs) -> anyhow::Result<Vec<Site>> {
    if let Some(device) = &args.device {
        return Ok(vec![Site::new(device)?]);
    }
    let config = File::read(&args.config).and_then(|file| file.config());
    let named = config.as_ref().ok().map(|config| Site::new(super::device(config))).transpose()?;
    let path = absolute(&args.config);
    let mut sites = Vec::new();
    let records = Record::all()?;
    for record in records.iter().filter(|record| record.file == path) {
        sites.push(Site::new(&record.device)?);
    }
    if let Some(named) = named
        && !sites.iter().any(|site| site.device == named.device)
        && (sites.is_empty() || Instance::exists(&named.instance))
    {
        sites.push(named);
    }
    match config {
        Err(error) if sites.is_empty() => {
            let devices: Vec<_> = records.iter().map(|record| format!("`{}`", record.device)).collect();
            let running = match devices.is_empty() {
                true => "no device was made here".to_string(),
                false => format!("the devices here are {}", devices.join(", ")),
            };
            bail!(
                "{}\n  hint: nothing that runs was made from this file, and {running}; `--device NAME` names one without a file",
                abi::text::chain(&error)
            )
        }
        _ => Ok(sites),
    }
}

/// Removes the device and the program of a site, if they are ours.
pub fn take_down(site: &Site, links: &Handle) -> anyhow::Result<()> {
    let had_program = Instance::exists(&site.instance);
    let (record, proxies) = (Record::find(site), super::clat::proxies(site, links)?);
    match site.owner(links)? {
        // The device goes first: it may be the program that proves whose it is.
        Owner::Us { device, .. } | Owner::Renamed(device) => links.delete_index(device.index)?,
        Owner::Nobody => {}
        Owner::Other(link) => {
            if had_program {
                Instance::remove_by_name(&site.instance)?;
            }
            let removed =
                if had_program { "; the program that was loaded for the name is removed" } else { "" };
            bail!(
                "there is an interface {}, which Strait did not make, so it is left alone{removed}{}",
                owner::described(&link),
                native_hint(&link.alias)
            );
        }
    }
    super::loops::remove(site, links)?;
    for proxy in &proxies {
        links.remove_proxy(proxy)?;
    }
    super::clat::restore(record.as_ref());
    Instance::remove_by_name(&format!("{}{}", site.instance, bpf::NEXT))?;
    Ok(Instance::remove_by_name(&site.instance)?)
}

fn native_hint(alias: &str) -> String {
    match alias.strip_prefix(owner::NATIVE) {
        Some(process) => format!(
            "\n  hint: process {process} translates there (the native target); `kill {process}` ends it"
        ),
        None => String::new(),
    }
}
