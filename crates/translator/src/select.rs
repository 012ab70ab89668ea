//! Which translators are meant.

use std::path::{Path, PathBuf};

use anyhow::bail;
use io::bpf::Instance;

use crate::configured::device;
use crate::owner::Site;
use crate::record::{File, Record, absolute};

/// Which translators are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// That of a device.
    Device(String),
    /// Those that were made from a file, or that of the file's device.
    File(PathBuf),
}

impl Select {
    /// The sites that are meant.
    pub(crate) fn sites(&self) -> anyhow::Result<Vec<Site>> {
        match self {
            Select::Device(device) => Ok(vec![Site::new(device)?]),
            Select::File(file) => of_file(file),
        }
    }

    /// The one site that is meant.
    pub(crate) fn site(&self) -> anyhow::Result<Site> {
        let sites = self.sites()?;
        let [site] = &sites[..] else {
            let names: Vec<_> = sites.iter().map(|site| site.device.as_str()).collect();
            bail!("this needs one translator, and there are {}: {}", names.len(), names.join(", "));
        };
        Ok(site.clone())
    }
}

fn of_file(file: &Path) -> anyhow::Result<Vec<Site>> {
    let config = File::read(file).and_then(|file| file.config());
    let named = config.as_ref().ok().map(|config| Site::new(device(config))).transpose()?;
    let path = absolute(file);
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
                abi::text::chain(&*error)
            )
        }
        _ => Ok(sites),
    }
}
