//! What the program in the kernel holds of stateful NAT64, read from its tables while packets change them, and removed from there.
//!
//! `lists`: sessions and bindings. `usage`: pools and subscribers. `removal`: what removes entries.

pub(crate) mod lists;
pub(crate) mod removal;
mod usage;

use std::fmt;

use anyhow::{Context, bail};
use io::bpf::{self, Lock};
use io::ebpf::KernelProgram;
use nat64::Stateful;
use nat64::flows::{Binding, Flows, Session};

pub use self::lists::{BindingRow, SessionRow, bindings, sessions};
pub use self::removal::{Flushed, flush};
pub use self::usage::{PoolUse, Subscriber, pools, top};
use crate::bundle::Bundle;
use crate::host::need_root;
use crate::owner::Site;
use crate::record::Record;
use crate::select::Select;

/// A running translator with sessions.
pub struct Running {
    /// The device that packets are routed into.
    pub device: String,
    /// What of the configuration its sessions need.
    pub stateful: Stateful,
    pub(crate) program: KernelProgram,
    pub(crate) flows: Flows,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({})", self.device)
    }
}

impl Running {
    /// The one that is meant.
    pub fn open(select: &Select) -> anyhow::Result<Self> {
        need_root()?;
        Self::of(&select.site()?)
    }

    /// Like [`Running::open`], with the lock: nobody else removes entries, or replaces the program.
    pub(crate) fn alone(select: &Select) -> anyhow::Result<(Self, Lock)> {
        need_root()?;
        let site = select.site()?;
        is_up(&site)?;
        let lock = bpf::lock(&site.instance)?;
        Ok((Self::of(&site)?, lock))
    }

    fn of(site: &Site) -> anyhow::Result<Self> {
        is_up(site)?;
        let device = site.device.clone();
        let down = || is_down(&device);
        let bundle = Bundle::at(&site.instance)
            .with_context(|| format!("{device} runs the program of another version of Strait"))?;
        let program = bundle.running(&site.instance).with_context(down)?;
        let config = Record::of(program.instance()).and_then(|record| record.config()).with_context(down)?;
        let flows = Flows::of(program.manifest());
        let (Some(flows), Some(stateful)) = (flows, config.stateful) else {
            bail!("{device} translates without sessions (mode \"stateless\")");
        };
        Ok(Self { device, program, flows, stateful })
    }

    /// That of an instance; `None` if it does not run, or has no sessions.
    fn at(instance: &str, stateful: &Stateful) -> Option<Self> {
        let program = Bundle::at(instance)?.running(instance)?;
        let flows = Flows::of(program.manifest())?;
        Some(Self { device: String::new(), program, flows, stateful: stateful.clone() })
    }

    /// Calls `f` with each binding, until it fails. None is kept: there may be millions.
    pub fn each_binding(&mut self, mut f: impl FnMut(Binding) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut result = Ok(());
        self.program.each_learnt(self.flows.bib4, |learnt| {
            if result.is_ok()
                && let Some(binding) = Binding::read(&learnt.entry, learnt.register, learnt.timer)
            {
                result = f(binding);
            }
        })?;
        result
    }

    /// Calls `f` with each session, until it fails.
    pub fn each_session(&mut self, mut f: impl FnMut(Session) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut result = Ok(());
        self.program.each_learnt(self.flows.sessions, |learnt| {
            if result.is_ok()
                && let Some(session) = Session::read(&learnt.entry, learnt.register, learnt.timer)
            {
                result = f(session);
            }
        })?;
        result
    }
}

fn is_up(site: &Site) -> anyhow::Result<()> {
    match bpf::Instance::exists(&site.instance) {
        true => Ok(()),
        false => Err(is_down(&site.device)),
    }
}

fn is_down(device: &str) -> anyhow::Error {
    anyhow::anyhow!("{device} is not up in the kernel; hint: `strait nat64 up`, or `run`")
}
