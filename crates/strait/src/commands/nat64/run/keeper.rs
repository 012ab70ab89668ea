//! Keeps a translator as a file says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::nat64::Config;
use io::bpf::{self, Claim, Instance};

use super::super::log::Log;
use super::super::owner::Site;
use super::super::record::{File, Record};
use super::super::{device, prefix_text, up};
use super::service;
use crate::cli::KeepArgs;

/// The interval of checks without a notification: the kernel says nothing of a program that is detached.
const EVERY: Duration = Duration::from_millis(500);
/// Two repairs of the same within this time have the same cause.
const SOON: Duration = Duration::from_secs(30);
/// So many repairs of the same are made at once. Then each one waits for twice as long as the last one.
const AT_ONCE: u32 = 3;
/// The longest time between two repairs.
const LONGEST: Duration = Duration::from_secs(60);

/// The translator that this process keeps.
pub struct Keeper {
    site: Site,
    file: File,
    config: Config,
    force: bool,
    claim: Claim,
    log: Log,
    /// What was repaired, how often, and when last.
    repairs: BTreeMap<String, (u32, Instant)>,
    /// What was said last about what cannot be repaired.
    trouble: Vec<String>,
}

impl Keeper {
    /// Applies the file.
    pub fn start(
        file: File,
        config: Config,
        args: &KeepArgs,
        claim: Claim,
        log: Log,
    ) -> anyhow::Result<Self> {
        let force = args.apply.force;
        let site = up::apply(&file, &config, force, log)?;
        Ok(Self { site, file, config, force, claim, log, repairs: BTreeMap::new(), trouble: Vec::new() })
    }

    pub fn site(&self) -> &Site {
        &self.site
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When the next check is due, if nothing happens before.
    pub fn deadline(&self) -> Instant {
        Instant::now() + EVERY
    }

    /// One line about the translator.
    pub fn status(&self) -> String {
        let config = &self.config;
        let state = match self.trouble.first() {
            None => String::new(),
            Some(trouble) => format!("; {}", trouble.lines().next().unwrap_or_default()),
        };
        format!(
            "{} is up: {} mappings, prefix {}{state}",
            self.site.device,
            config.maps.len(),
            prefix_text(config)
        )
    }

    /// Reads the file again and applies it. A file that is not good changes nothing.
    pub fn reload(&mut self, args: &KeepArgs) {
        let path = &args.apply.of.config;
        let result = File::read(path).and_then(|file| {
            let config = file.config()?;
            self.apply(file, config)
        });
        match result {
            Ok(()) => self.log.info(&format!("{} was read again and applied", path.display())),
            Err(error) => self.log.error(&crate::out::chain(&error)),
        }
    }

    /// Makes the translator what another configuration says: the whole of it or nothing.
    fn apply(&mut self, file: File, config: Config) -> anyhow::Result<()> {
        let next = Site::new(device(&config))?;
        let claim = match next.device == self.site.device {
            true => None,
            false => Some(super::claim(&next)?),
        };
        self.site = up::apply(&file, &config, self.force, self.log)?;
        if let Some(claim) = claim {
            self.claim = claim;
        }
        (self.file, self.config) = (file, config);
        self.repairs.clear();
        self.trouble.clear();
        Ok(())
    }

    /// Looks whether the translator is as the file says, and repairs what is not.
    pub fn check(&mut self) {
        let before = self.trouble.clone();
        match self.look() {
            Ok(trouble) => self.trouble = trouble,
            Err(error) => self.trouble = vec![crate::out::chain(&error)],
        }
        for trouble in self.trouble.iter().filter(|trouble| !before.contains(trouble)) {
            self.log.warning(trouble);
        }
        if self.trouble != before {
            if self.trouble.is_empty() {
                self.log.info(&format!("{} is as its file says again", self.site.device));
            }
            service::status(&self.status());
        }
    }

    /// Repairs what is not as the file says, and returns what cannot be repaired.
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        // What another process applies at the moment is finished first, and then it is what is kept.
        let _alone = bpf::lock()?;
        self.follow();
        let repairs = &self.repairs;
        let due = |complaints: &[String]| complaints.iter().any(|complaint| !waits(repairs, complaint));
        let repair = up::repair(&self.file, &self.config, self.force, self.log, due)?;
        if repair.done {
            repair.complaints.iter().for_each(|complaint| self.repaired(complaint));
        }
        let missing = repair
            .missing
            .iter()
            .map(|name| format!("`{name}` does not exist; it gets its express lane when it comes"));
        Ok(repair.conflicts.iter().map(ToString::to_string).chain(missing).collect())
    }

    /// Counts a repair, and says it.
    fn repaired(&mut self, complaint: &str) {
        let now = Instant::now();
        let (count, last) = self.repairs.entry(complaint.to_owned()).or_insert((0, now));
        *count = if now.duration_since(*last) < SOON + wait_after(*count) { *count + 1 } else { 1 };
        *last = now;
        let count = *count;
        let device = &self.site.device;
        match wait_after(count) {
            Duration::ZERO => self.log.info(&format!("repaired {device}: {complaint}")),
            wait => self.log.warning(&format!(
                "repaired {device} {count} times: {complaint}\n  hint: another program changes this; it is repaired again after {} s",
                wait.as_secs()
            )),
        }
    }

    /// Takes over what `up` or `reload` has applied beside this process.
    fn follow(&mut self) {
        let Ok(instance) = Instance::open(&self.site.instance) else { return };
        let Some(record) = Record::of(&instance) else { return };
        if record.text == self.file.text && record.file == self.file.path {
            return;
        }
        let Some(config) = record.config() else { return };
        self.file = File { path: record.file.clone(), text: record.text.clone() };
        self.config = config;
        self.repairs.clear();
        self.log.info(&format!("{} was applied by another process, and is kept now", record.file.display()));
        service::status(&self.status());
    }
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
