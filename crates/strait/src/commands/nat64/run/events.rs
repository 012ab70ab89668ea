//! What `run` waits for. A further source of events is one more descriptor in [`Events::next`], and one more kind of [`Event`].

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use io::link::{Monitor, Prefix};
use io::signals::{self, Signal, Signals};

/// Something that `run` reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// SIGTERM or SIGINT: the process shall end.
    Stop,
    /// SIGHUP: the file shall be read again.
    Reload,
    /// The kernel's interfaces, addresses, routes or rules have changed.
    Changed,
    /// The time that was asked for has come.
    Time,
}

/// The sources of events.
pub struct Events {
    signals: Signals,
    monitor: Monitor,
}

/// How long further notifications are waited for: what changes rarely changes alone.
const TOGETHER: Duration = Duration::from_millis(50);

impl Events {
    /// Listens in the calling thread's network namespace.
    pub fn listen() -> anyhow::Result<Self> {
        let signals = signals::listen(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup])?;
        Ok(Self { signals, monitor: Monitor::open()? })
    }

    /// Waits for the next event, at most until `time`. `route` says which routes matter, by prefix and protocol.
    pub fn next(&mut self, time: Instant, route: impl Fn(Prefix, u8) -> bool) -> Event {
        let mut changed = None;
        loop {
            let until = changed.map_or(time, |at: Instant| at + TOGETHER);
            let left = until.saturating_duration_since(Instant::now());
            // Waiting ends at whole milliseconds, and not before the time.
            match self.signals.wait_with(&[self.monitor.as_fd()], left + Duration::from_millis(1)) {
                Some(Signal::Hangup) => return Event::Reload,
                Some(Signal::Interrupt | Signal::Terminate) => return Event::Stop,
                None => {}
            }
            if self.monitor.take(&route) && changed.is_none() {
                changed = Some(Instant::now());
            }
            if Instant::now() >= until {
                return if changed.is_some() { Event::Changed } else { Event::Time };
            }
        }
    }
}
