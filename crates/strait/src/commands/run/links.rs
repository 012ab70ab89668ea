//! Which ports have a link. Members of action profiles can watch them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use io::link::{Handle, Monitor};

use super::ports;
use crate::cli::{RunArgs, RunTarget};

/// The ports of a run, and what tells that their links change.
pub struct Links {
    handle: Handle,
    monitor: Monitor,
    /// The interface of each port. Ports without one, such as captures, always have a link.
    ports: Vec<(u32, Option<String>)>,
    /// Whether nobody has asked yet.
    fresh: bool,
    /// When the server is told again, after it could not follow a change.
    again: Option<Instant>,
}

/// The time until the server is told again.
const AGAIN: Duration = Duration::from_secs(1);

impl Links {
    /// Subscribes to the changes of interfaces in the calling thread's namespace.
    pub fn open(args: &RunArgs) -> anyhow::Result<Links> {
        let mut all = match args.target {
            RunTarget::Tc | RunTarget::Xdp => ports(args, |what| {
                let name = what.strip_prefix("tc:").or(what.strip_prefix("xdp:")).unwrap_or(what);
                Ok(Some(name.to_string()))
            })?,
            RunTarget::Native | RunTarget::Interp => {
                ports(args, |what| Ok(super::driver(what)?.interface().map(str::to_string)))?
            }
        };
        all.extend(args.cpu_port.map(|number| (number, None)));
        Ok(Links { handle: Handle::open()?, monitor: Monitor::open()?, ports: all, fresh: true, again: None })
    }

    /// Whether each port has a link, if that may have changed since the last call.
    pub fn changed(&mut self) -> anyhow::Result<Option<BTreeMap<u32, bool>>> {
        let again = self.again.is_some_and(|again| again <= Instant::now());
        if !(self.monitor.take(|_, _| false) || std::mem::take(&mut self.fresh) || again) {
            return Ok(None);
        }
        let links = self.handle.links().context("the links of the ports")?;
        let up =
            |interface: &String| links.iter().any(|link| link.name == *interface && link.up && link.carrier);
        Ok(Some(
            self.ports.iter().map(|(port, interface)| (*port, interface.as_ref().is_none_or(up))).collect(),
        ))
    }

    /// The server has followed the last change, or it has not: then it is told again. Returns whether it has just begun to fail.
    pub fn followed(&mut self, done: bool) -> bool {
        let failed_before = self.again.is_some();
        self.again = (!done).then(|| Instant::now() + AGAIN);
        !done && !failed_before
    }
}
