//! What a service manager is told (sd_notify(3)). Without one, nothing happens.

use sd_notify::NotifyState;

/// The file is applied, and what it says is translated.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// What the manager shows beside the service.
pub fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// The file is being read again.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// The process is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The process does its work: the manager ends one that does not say so in time (`WatchdogSec`).
pub fn alive() {
    if sd_notify::watchdog_enabled().is_some() {
        tell(&[NotifyState::Watchdog]);
    }
}

/// A manager that cannot be reached is not there: translation does not depend on it.
fn tell(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
