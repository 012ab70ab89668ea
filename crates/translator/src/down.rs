//! `down`: removes what `up` made, and nothing else. It needs no valid file: what runs has a record of its own.

use std::time::{Duration, Instant};

use anyhow::bail;
use io::bpf::{self, Claim, Holder, Instance};
use io::link::Handle;
use io::signals::{self, Signal};

use crate::host::need_root;
use crate::log::Log;
use crate::owner::{self, Owner, Site};
use crate::record::Record;
use crate::select::Select;

/// How long `down` waits for a `run` to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes translators. Processes that keep one of them running are told to end first. `each` learns the device of each one that is gone.
pub fn down(select: &Select, log: &Log, each: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    need_root()?;
    let sites = select.sites()?;
    // Nobody makes again what is removed.
    let _claims = sites.iter().map(end).collect::<anyhow::Result<Vec<_>>>()?;
    let links = Handle::open()?;
    for site in sites {
        // Without a BPF file system nobody else can have the lock.
        let _alone = if bpf::visible() { Some(bpf::lock(&site.instance)?) } else { None };
        take_down(&site, &links, log)?;
        each(&site.device);
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

/// Removes the device and the program of a site, if they are ours.
pub(crate) fn take_down(site: &Site, links: &Handle, log: &Log) -> anyhow::Result<()> {
    let had_program = Instance::exists(&site.instance);
    let (record, proxies) = (Record::find(site), crate::clat::proxies(site, links)?);
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
    crate::loops::remove(site, links)?;
    for proxy in &proxies {
        links.remove_proxy(proxy)?;
    }
    crate::clat::restore(record.as_ref(), log);
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
