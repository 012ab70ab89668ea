//! What a file says, and what applying it would change, without applying it.

use io::link::Handle;
use nat64::{Config, Shares};

use super::changes::Change;
use super::plan::Plan;
use crate::bundle::Bundle;
use crate::configured::{desired, device};
use crate::conflicts::Conflict;
use crate::host::need_root;
use crate::owner::Site;
use crate::record::File;

/// A file that can be applied.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it says.
    pub config: Config,
    /// What the operator should know, of the file, and of routes that this machine lacks for it.
    pub warnings: Vec<String>,
    /// What a subscriber may have, if it is stateful.
    pub shares: Option<Shares>,
}

/// What applying a file would change on this machine.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The device that packets are routed into.
    pub device: String,
    /// Everything that would change, in the order in which it is done.
    pub changes: Vec<Change>,
    /// What of others is in the way.
    pub conflicts: Vec<Conflict>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Checks a file.
pub fn check(file: &File) -> anyhow::Result<Checked> {
    let config = file.config()?;
    let bundle = Bundle::of(&config);
    if !bundle.object.is_empty() && config.clat.is_none() {
        // What does not fit the tables is found before somebody applies it.
        desired(&config, &bundle.manifest()?)?;
    }
    let mut warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    warnings.extend(crate::loops::lacking(&config));
    let shares = config.stateful.as_ref().map(Shares::of);
    Ok(Checked { config, warnings, shares })
}

/// Compares what runs with what a file says.
pub fn diff(file: &File) -> anyhow::Result<Diff> {
    need_root()?;
    let links = Handle::open()?;
    let config = crate::clat::complete(file.config()?, &links)?;
    let site = Site::new(device(&config))?;
    let plan = Plan::make(&site, file, config, &links)?;
    let (changes, conflicts, warnings) = (plan.changes(), plan.routing.conflicts, plan.warnings);
    Ok(Diff { device: site.device.clone(), changes, conflicts, warnings })
}
