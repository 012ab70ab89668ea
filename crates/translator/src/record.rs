//! What `up` writes down about a running translator, in the note of its instance: which file it was made from, and when. So `status` can compare the
//! file with what runs, and `down` needs no file.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abi::manifest::Table;
use anyhow::Context;
use io::bpf::Instance;
use io::ebpf::KernelProgram;
use nat64::{Config, Found, config};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bundle::Bundle;
use crate::owner::Site;

/// The note of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the instance, for readers that see the map and not its pin.
    pub instance: String,
    /// The name of the device that packets are routed into.
    pub device: String,
    /// The path of the configuration file.
    pub file: PathBuf,
    /// The hash of its text.
    pub sha256: String,
    /// The version of Strait that applied it.
    pub version: String,
    /// When translation began, in seconds since 1970.
    pub since: u64,
    /// When the file was applied, in seconds since 1970.
    pub applied: u64,
    /// The text of the file.
    pub text: String,
    /// What a CLAT found in its network, from which its configuration follows.
    #[serde(default)]
    pub found: Option<Found>,
    /// The IPv4 source of the ICMP errors that it sends, if that is an address.
    #[serde(default)]
    pub error_source4: Option<Ipv4Addr>,
    /// The secret of its pools, if the file has none.
    #[serde(default)]
    pub secret: Option<[u64; 2]>,
    /// The key of the rates of ICMP errors.
    #[serde(default)]
    pub error_key: Option<u32>,
    /// The sysctls that `up` changed and that do not vanish with the device.
    #[serde(default)]
    pub sysctls: Vec<Changed>,
    /// What runs, for readers that do not see its pins.
    #[serde(default)]
    pub kernel: Numbers,
}

/// The kernel's numbers of a program and its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// The hash of the object from which the program was loaded: readers must know the layout of its maps.
    pub object: String,
    /// Those of its programs.
    pub programs: Vec<u32>,
    /// Those of its maps, by their names.
    pub maps: BTreeMap<String, u32>,
    /// The tables that learn, and the hash of what their entries are like: a new version keeps the entries of those that are the same.
    #[serde(default)]
    pub learning: BTreeMap<String, String>,
}

/// The hash of what entries of a table are like.
pub(crate) fn form(table: &Table) -> String {
    let parts = serde_json::to_vec(&(&table.keys, &table.actions, &table.layout, table.size));
    hash(&parts.unwrap_or_default())
}

impl Numbers {
    /// Those of a program that was loaded from an object of this version.
    pub(crate) fn of(bundle: &Bundle, program: &mut KernelProgram) -> anyhow::Result<Self> {
        let manifest = program.manifest().clone();
        let learns = |table: &&Table| table.layout.as_ref().is_some_and(|layout| layout.learning.is_some());
        let learning = manifest.tables.iter().filter(learns);
        Ok(Self {
            object: hash(bundle.object),
            programs: program.instance().numbers()?,
            maps: program.map_numbers()?,
            learning: learning.map(|table| (table.name.clone(), form(table))).collect(),
        })
    }
}

/// A sysctl that `up` changed, and `down` sets back if nobody else has changed it since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Its path below /proc/sys.
    pub key: String,
    /// The value that it had.
    pub from: String,
    /// The value that `up` gave it.
    pub to: String,
}

/// The text of a configuration file, and where it is.
#[derive(Clone, Debug)]
pub struct File {
    /// The path by which it is recognised again. Nothing is read from there.
    pub path: PathBuf,
    /// What the file said when it was read.
    pub text: String,
}

impl File {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path: absolute(path), text })
    }

    /// Parses and checks the text, for a translator that is a device.
    pub fn config(&self) -> anyhow::Result<Config> {
        let config = self.any_config()?;
        anyhow::ensure!(
            config.switch.is_none(),
            "{}: the section `[switch]` is for `strait controller nat64`; nothing was changed",
            self.path.display()
        );
        Ok(config)
    }

    /// Parses and checks the text, also that for a switch.
    pub fn any_config(&self) -> anyhow::Result<Config> {
        config::parse(&self.text).map_err(|problems| {
            let all: Vec<_> = problems.iter().map(|p| format!("{}: {p}", self.path.display())).collect();
            anyhow::anyhow!("{}\nnothing was changed", all.join("\n"))
        })
    }
}

/// The path by which a file is recognised again: without links, if the file exists.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

impl Record {
    /// The record of a file that is applied now. Translation goes on if `before` is the record of the same site.
    pub(crate) fn new(site: &Site, file: &File, config: &Config, before: Option<&Record>) -> Self {
        let now = now();
        Self {
            instance: site.instance.clone(),
            device: site.device.clone(),
            file: file.path.clone(),
            sha256: hash(file.text.as_bytes()),
            version: env!("CARGO_PKG_VERSION").into(),
            since: before.map_or(now, |b| b.since),
            applied: match before {
                Some(b) if b.text == file.text => b.applied,
                _ => now,
            },
            text: file.text.clone(),
            error_source4: config.error_source4,
            secret: config.stateful.as_ref().and_then(|stateful| stateful.secret),
            error_key: config.error_key,
            found: config.clat.as_ref().and_then(|clat| clat.found.clone()),
            sysctls: before.map_or_else(Vec::new, |b| b.sysctls.clone()),
            kernel: Numbers::default(),
        }
    }

    /// The record in the note of an instance; `None` if there is none that this version understands.
    pub(crate) fn of(instance: &Instance) -> Option<Self> {
        serde_json::from_str(&instance.note().ok()??).ok()
    }

    /// The record of a site, also if its pins are not visible here.
    pub(crate) fn find(site: &Site) -> Option<Self> {
        if let Ok(instance) = Instance::open(&site.instance) {
            return Self::of(&instance);
        }
        let notes = io::bpf::notes().unwrap_or_default();
        let records = notes.iter().filter_map(|note| serde_json::from_str::<Record>(note).ok());
        // The last one that was made is the one that counts.
        records.rev().find(|record| record.instance == site.instance)
    }

    /// The records of all sites of this namespace, also of those whose pins are not visible here.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        let instances = Site::all()?.into_iter().filter_map(|site| Instance::open(&site.instance).ok());
        let mut all: Vec<Self> = instances.filter_map(|instance| Self::of(&instance)).collect();
        let suffix = format!("-{}", io::netns::id()?);
        let notes = io::bpf::notes().unwrap_or_default();
        for record in notes.iter().filter_map(|note| serde_json::from_str::<Self>(note).ok()) {
            let known = all.iter().any(|r| r.instance == record.instance);
            // The map of a note that was replaced may be there for another moment.
            if record.instance.ends_with(&suffix) && !known && !io::bpf::visible() {
                all.push(record);
            }
        }
        Ok(all)
    }

    pub(crate) fn write(&self, instance: &Instance) -> anyhow::Result<()> {
        let text = serde_json::to_string(self)?;
        Ok(instance.set_note(&text)?)
    }

    /// The configuration that runs.
    pub fn config(&self) -> Option<Config> {
        let mut config = config::parse(&self.text).ok()?;
        config.error_source4 = config.error_source4.or(self.error_source4);
        config.error_key = self.error_key;
        if let Some(stateful) = &mut config.stateful {
            stateful.secret = stateful.secret.or(self.secret);
        }
        Some(match &self.found {
            Some(found) => config.with(found.clone()),
            None => config,
        })
    }

    /// The program of a site whose pins are not visible here, for reading; `None` if it is that of another version or gone.
    pub(crate) fn program(&self) -> Option<KernelProgram> {
        let bundle = Bundle::all().into_iter().find(|bundle| self.kernel.object == hash(bundle.object))?;
        KernelProgram::unseen(&bundle.manifest().ok()?, &self.instance, &self.kernel.maps).ok()
    }

    /// What the file says now, compared with what was applied.
    pub fn drift(&self) -> Drift {
        match std::fs::read_to_string(&self.file) {
            Ok(text) if hash(text.as_bytes()) == self.sha256 => Drift::Same,
            Ok(_) => Drift::Differs,
            Err(_) => Drift::Missing,
        }
    }
}

/// Whether a file is still what was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It says what was applied.
    Same,
    /// It says something else now.
    Differs,
    /// It cannot be read.
    Missing,
}

/// A SHA-256 in hexadecimal digits, as sha256sum(1) prints it.
fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// A time in UTC, such as `2026-11-22 09:30:00 UTC`.
pub fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.unwrap_or_default().strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_date_prints_them() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_305_600, "2026-11-22 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
