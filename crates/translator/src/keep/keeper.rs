//! Keeps a translator as a file says.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use io::bpf::{self, Claim, Held, Instance};
use io::link::{Handle, Prefix};
use nat64::{Config, Found};

use super::{Options, service};
use crate::clat::{self, Follower};
use crate::configured::{described, device};
use crate::log::Log;
use crate::owner::{PROTOCOL, Site};
use crate::record::{File, Record};
use crate::{up, wiring};

/// The interval of checks without a notification: the kernel says nothing of a program that is detached. Only what is cheap is looked at.
const EVERY: Duration = Duration::from_millis(500);
/// The interval of checks of everything: all tables, and all of the machine's routes.
const ALL: Duration = Duration::from_secs(60);
/// The same while something is in the way.
const TROUBLED: Duration = Duration::from_secs(2);
/// The time until a change of the network that could not be applied is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// The time until what another process's change has kept this one from is tried again. Nothing is waited for, so that a signal is heard.
pub const BUSY: Duration = Duration::from_millis(100);
/// Two repairs of the same within this time have the same cause.
const SOON: Duration = Duration::from_secs(30);
/// So many repairs of the same are made at once. Then each one waits for twice as long as the last one.
const AT_ONCE: u32 = 5;
/// The longest time between two repairs.
const LONGEST: Duration = Duration::from_secs(60);

/// The translator that this process keeps.
pub struct Keeper {
    site: Site,
    file: File,
    config: Config,
    /// What follows the network of a CLAT.
    follower: Option<Follower>,
    /// Why the last change of the network could not be applied, and when.
    failed: Option<(String, Instant)>,
    options: Options,
    claim: Option<Claim>,
    log: Log,
    /// The program that runs with all that it has, so that nobody can take it away.
    held: Held,
    /// Whether the program that runs is another version's.
    foreign: bool,
    /// Whether this process has taken over what another one has applied.
    followed: bool,
    /// Whether another process changed the translator when this one last wanted to.
    busy: bool,
    /// Since when the file is to be read again, and could not be, because another process changes the translator.
    hangup: Option<Instant>,
    /// The prefixes of the routes into the device.
    prefixes: BTreeSet<Prefix>,
    /// When everything is looked at next.
    all: Instant,
    /// Whether something waits for its next repair.
    delayed: bool,
    /// What was repaired, how often, and when last.
    repairs: BTreeMap<String, (u32, Instant)>,
    /// What was said last about what cannot be repaired.
    trouble: Vec<String>,
}

impl Keeper {
    /// Applies the file. `claim` is taken if that succeeds.
    pub fn start(
        file: &File,
        config: &Config,
        options: &Options,
        claim: &mut Option<Claim>,
        log: &Log,
    ) -> anyhow::Result<Self> {
        let before = Instance::open(&Site::new(device(config))?.instance).ok();
        let before = before.and_then(|instance| Record::of(&instance)).and_then(|record| record.found);
        let (config, follower) = follow(config.clone(), before)?;
        let (site, _alone) = up::apply(file, &config, options.force, log, Duration::ZERO)?;
        up::ready_for_xdp(&site, &config)?;
        Ok(Self {
            held: Held::open(&Instance::open(&site.instance)?)?,
            site,
            file: file.clone(),
            config,
            follower,
            failed: None,
            options: options.clone(),
            claim: claim.take(),
            log: log.clone(),
            foreign: false,
            followed: false,
            busy: false,
            hangup: None,
            prefixes: BTreeSet::new(),
            // A check follows at once: something may have changed since the file was applied.
            all: Instant::now(),
            delayed: false,
            repairs: BTreeMap::new(),
            trouble: Vec::new(),
        })
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether another process has changed what runs: its program, or its configuration.
    pub fn is_changed_beside(&self) -> bool {
        self.foreign || self.followed
    }

    /// Whether a route is one that the translator has, or in its way.
    pub fn has_route(&self, to: Prefix, protocol: u8) -> bool {
        // The uplink of a CLAT is where the default route leads.
        let uplink = self.follower.is_some() && to.len == 0;
        uplink || protocol == PROTOCOL || self.prefixes.contains(&to)
    }

    /// When the next check is due, if nothing happens before.
    pub fn deadline(&self) -> Instant {
        let next = Instant::now() + if self.busy || self.hangup.is_some() { BUSY } else { EVERY };
        self.follower.as_ref().and_then(Follower::deadline).map_or(next, |at| at.min(next))
    }

    /// What becomes readable when the network says something.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.follower.as_ref().and_then(Follower::descriptor)
    }

    /// Looks what has become of a CLAT's network, and makes the translator follow it.
    pub fn network(&mut self) {
        let (before, said) = (self.found(), self.network_trouble());
        let Some(follower) = &mut self.follower else { return };
        let found = match Handle::open() {
            Ok(links) => follower.turn(&links),
            Err(_) => return,
        };
        let waits = self.failed.as_ref().is_some_and(|(_, at)| at.elapsed() < AGAIN);
        if found != before && !waits {
            let failed = self.adapt(before.as_ref(), found).err();
            self.busy = failed.as_ref().is_some_and(is_locked);
            let failed = failed.filter(|error| !is_locked(error));
            self.failed = failed.map(|error| (abi::text::chain(&*error), Instant::now()));
        }
        if self.network_trouble() != said {
            // The next check tells it.
            self.all = Instant::now();
        }
    }

    /// Why a CLAT does not translate.
    fn network_trouble(&self) -> Vec<String> {
        let network = self.follower.as_ref().and_then(Follower::trouble).map(str::to_owned);
        network.into_iter().chain(self.failed.iter().map(|(why, _)| why.clone())).collect()
    }

    /// What the configuration of a CLAT follows from.
    fn found(&self) -> Option<Found> {
        self.config.clat.as_ref().and_then(|clat| clat.found.clone())
    }

    fn adapt(&mut self, before: Option<&Found>, found: Option<Found>) -> anyhow::Result<()> {
        let _alone = up::alone(&self.site, &self.file, Duration::ZERO)?;
        if !self.has_record().unwrap_or(false) {
            // Another process has applied a file, or its pins are gone. The next check takes that over, or makes them again.
            self.all = Instant::now();
            return Ok(());
        }
        let change = clat::change(before, found.as_ref());
        let base = self.file.config()?;
        let config = found.clone().map_or(base.clone(), |found| base.with(found));
        match (&change, &found) {
            (None, Some(found)) => clat::note(&self.site, found)?,
            _ => up::apply_to(&self.site, &self.file, &config, self.options.force, &self.log)?,
        }
        self.held = Held::open(&Instance::open(&self.site.instance)?)?;
        self.config = config;
        if let Some(change) = change {
            self.repairs.clear();
            self.log.info(&format!("{}: {change}", self.site.device));
            service::status(&self.status());
        }
        Ok(())
    }

    /// One line about the translator.
    pub fn status(&self) -> String {
        let config = &self.config;
        let state = match self.trouble.first() {
            None => String::new(),
            Some(trouble) => format!("; {}", trouble.lines().next().unwrap_or_default()),
        };
        format!("{} is up: {}{state}", self.site.device, described(config))
    }

    /// Reads the file again and applies it. A file that is not good changes nothing. While another process changes the translator, it is tried
    /// again with each event.
    pub fn reload(&mut self) {
        let path = self.options.file.clone();
        let since = *self.hangup.get_or_insert_with(Instant::now);
        let result = File::read(&path).and_then(|file| {
            let config = file.config()?;
            self.apply(file, config)
        });
        if let Err(error) = &result
            && is_locked(error)
            && since.elapsed() < bpf::PATIENCE
        {
            return;
        }
        self.hangup = None;
        match result {
            Ok(()) => self.log.info(&format!("{} was read again and applied", path.display())),
            Err(error) => self.log.error(&abi::text::chain(&*error)),
        }
    }

    /// Whether the file is still to be read again.
    pub fn is_to_reload(&self) -> bool {
        self.hangup.is_some()
    }

    /// Makes the translator what another configuration says: the whole of it or nothing.
    fn apply(&mut self, file: File, config: Config) -> anyhow::Result<()> {
        let next = Site::new(device(&config))?;
        let claim = match next.device == self.site.device {
            true => None,
            false => Some(super::claim(&next)?),
        };
        let (config, follower) = follow(config, self.found())?;
        let (site, _alone) = up::apply(&file, &config, self.options.force, &self.log, Duration::ZERO)?;
        self.site = site;
        self.held = Held::open(&Instance::open(&self.site.instance)?)?;
        self.follower = follower;
        if claim.is_some() {
            self.claim = claim;
        }
        (self.file, self.config) = (file, config);
        self.all = Instant::now();
        self.repairs.clear();
        self.trouble.clear();
        Ok(())
    }

    /// Looks for what no notification tells: whether the programs are attached, and whether another process has applied a file.
    pub fn look_closer(&mut self) {
        if self.busy || Instant::now() >= self.all || !self.is_in_place().unwrap_or(false) {
            self.check();
        }
    }

    fn is_in_place(&self) -> anyhow::Result<bool> {
        let instance = Instance::open(&self.site.instance)?;
        for (index, hook) in instance.attachments()? {
            if !instance.is_attached(index, hook)? {
                return Ok(false);
            }
        }
        Ok(!self.held.is_lost() && !self.held.is_replaced() && self.has_record()?)
    }

    /// Whether what runs was made from the file that is kept.
    fn has_record(&self) -> anyhow::Result<bool> {
        let instance = Instance::open(&self.site.instance)?;
        let same = |record: Record| record.text == self.file.text && record.file == self.file.path;
        Ok(Record::of(&instance).is_some_and(same))
    }

    /// Looks whether the translator is as the file says, and repairs what is not.
    pub fn check(&mut self) {
        let before = self.trouble.clone();
        let mut found = self.look();
        if found.is_err() && self.held.is_lost() {
            // Pins went while it looked.
            found = self.look();
        }
        self.busy = found.as_ref().is_err_and(is_locked);
        match found {
            Ok(trouble) => self.trouble = trouble,
            // What another process applies at the moment is finished first, and then it is what is kept.
            Err(_) if self.busy => return,
            Err(error) => self.trouble = vec![abi::text::chain(&*error)],
        }
        for trouble in self.trouble.iter().filter(|trouble| !before.contains(trouble)) {
            self.log.warning(trouble);
        }
        self.all = Instant::now()
            + match (self.delayed, self.trouble.is_empty()) {
                (true, _) => EVERY,
                (false, false) => TROUBLED,
                (false, true) => ALL,
            };
        if self.trouble != before {
            if self.trouble.is_empty() {
                self.log.info(&format!("{} is as its file says again", self.site.device));
            }
            service::status(&self.status());
        }
    }

    /// Repairs what is not as the file says, and returns what cannot be repaired.
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        let alone = up::alone(&self.site, &self.file, Duration::ZERO)?;
        self.foreign = false;
        up::resume(&self.site)?;
        if self.held.is_lost() {
            if self.follow_device()? {
                // The locks are those of the other device.
                drop(alone);
                return self.look();
            }
            self.held.restore()?;
            self.repaired(&["pins of its program were gone".to_string()]);
        }
        self.follow()?;
        let repairs = &self.repairs;
        // What has lost its pin meanwhile is still attached: its pin is made again, not the program attached once more.
        let held = &self.held;
        let due = |complaints: &[String]| {
            !held.is_lost() && complaints.iter().any(|complaint| !waits(repairs, complaint))
        };
        let repair = up::repair(&self.file, &self.config, self.options.force, &self.log, due)?;
        if !repair.done && repair.foreign.is_none() && self.held.is_lost() {
            // The next look follows soon, because not all is in its place.
            return Ok(self.trouble.clone());
        }
        if let Some(version) = repair.foreign {
            self.foreign = true;
            return Ok(vec![format!(
                "the program that runs is that of another strait (version {version}), which is left as it is\n  \
                 hint: start this process again with that strait"
            )]);
        }
        self.delayed = !repair.done && !repair.complaints.is_empty();
        self.prefixes =
            wiring::routes(&self.config, &self.site.device).iter().map(|route| route.to).collect();
        if repair.done || self.held.is_replaced() {
            self.held = Held::open(&Instance::open(&self.site.instance)?)?;
        }
        if repair.done {
            self.repaired(&repair.complaints);
        }
        Ok(repair.trouble)
    }

    /// Counts a repair, and says it.
    fn repaired(&mut self, complaints: &[String]) {
        let now = Instant::now();
        let mut most = 0;
        for complaint in complaints {
            let (count, last) = self.repairs.entry(complaint.clone()).or_insert((0, now));
            *count = if now.duration_since(*last) < SOON + wait_after(*count) { *count + 1 } else { 1 };
            *last = now;
            most = most.max(*count);
        }
        let (device, complaints) = (&self.site.device, complaints.join("; "));
        match wait_after(most) {
            Duration::ZERO => self.log.info(&format!("repaired {device}: {complaints}")),
            wait => self.log.warning(&format!(
                "repaired {device} {most} times: {complaints}\n  hint: another program changes this; it is repaired again after {} s",
                wait.as_secs()
            )),
        }
    }

    /// Takes over a device of another name that `up` or `reload` has made from the same file, in the place of this one.
    fn follow_device(&mut self) -> anyhow::Result<bool> {
        let records = Record::all()?;
        let Some(next) = records.iter().find(|r| r.file == self.file.path && r.device != self.site.device)
        else {
            return Ok(false);
        };
        let site = Site::new(&next.device)?;
        self.claim = Some(super::claim(&site)?);
        self.held = Held::open(&Instance::open(&site.instance)?)?;
        self.site = site;
        Ok(true)
    }

    /// Takes over what `up` or `reload` has applied beside this process.
    fn follow(&mut self) -> anyhow::Result<()> {
        let instance = Instance::open(&self.site.instance)?;
        let Some(record) = Record::of(&instance) else { return Ok(()) };
        if record.text == self.file.text && record.file == self.file.path {
            return Ok(());
        }
        let Some(config) = record.config() else { return Ok(()) };
        self.held = Held::open(&instance)?;
        self.file = File { path: record.file.clone(), text: record.text.clone() };
        let base = self.file.config().ok();
        // The address of the router that the record has is chosen again with each repair.
        let error_source4 = base.as_ref().and_then(|base| base.error_source4);
        self.follower = base.and_then(|base| Follower::new(&base, record.found.clone()));
        self.config = Config { error_source4, ..config };
        self.followed = true;
        self.repairs.clear();
        self.log.info(&format!("{} was applied by another process, and is kept now", record.file.display()));
        service::status(&self.status());
        Ok(())
    }
}

/// A configuration as the network lets it be now, and what follows the network.
fn follow(config: Config, before: Option<Found>) -> anyhow::Result<(Config, Option<Follower>)> {
    let mut follower = Follower::new(&config, before);
    let found = match &mut follower {
        Some(follower) => follower.turn(&Handle::open()?),
        None => None,
    };
    Ok((found.map_or(config.clone(), |found| config.with(found)), follower))
}

/// Whether something failed only because another process changes the translator at the moment.
pub fn is_locked(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(io::Error::Locked { .. }))
}

/// How long the next repair waits after so many of the same.
fn wait_after(count: u32) -> Duration {
    match count.checked_sub(AT_ONCE) {
        None => Duration::ZERO,
        Some(more) => Duration::from_secs(1 << more.min(6)).min(LONGEST),
    }
}

/// Whether a repair of this is not due yet.
fn waits(repairs: &BTreeMap<String, (u32, Instant)>, complaint: &str) -> bool {
    repairs.get(complaint).is_some_and(|(count, last)| last.elapsed() < wait_after(*count))
}
