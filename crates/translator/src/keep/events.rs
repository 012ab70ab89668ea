//! What `run` waits for. A further source of events is one more descriptor in [`Events::next`], and one more kind of [`Event`].

use std::os::fd::{AsFd as _, BorrowedFd};
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
    /// Something has arrived at a descriptor of the caller.
    Arrived,
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

    /// Waits for the next event, at most until `time`. `other` is a descriptor of the caller, who reads it. `route` says which routes
    /// matter, by prefix and protocol.
    pub fn next(
        &mut self,
        time: Instant,
        other: Option<BorrowedFd<'_>>,
        route: impl Fn(Prefix, u8) -> bool,
    ) -> Event {
        let mut changed = None;
        loop {
            let until = changed.map_or(time, |at: Instant| at + TOGETHER);
            let left = until.saturating_duration_since(Instant::now());
            // Waiting ends at whole milliseconds, and not before the time.
            // What arrives there waits until changes have been collected.
            let other = other.filter(|_| changed.is_none());
            let all: Vec<_> = [self.monitor.as_fd()].into_iter().chain(other).collect();
            match self.signals.wait_with(&all, left + Duration::from_millis(1)) {
                Some(Signal::Hangup) => return Event::Reload,
                Some(Signal::Interrupt | Signal::Terminate) => return Event::Stop,
                None => {}
            }
            if self.monitor.take(&route) && changed.is_none() {
                changed = Some(Instant::now());
                continue;
            }
            if Instant::now() >= until {
                return if changed.is_some() { Event::Changed } else { Event::Time };
            }
            if other.is_some() {
                return Event::Arrived;
            }
        }
    }
}
