//! Ctrl-C and SIGTERM as an ordinary error, so that every owner's `Drop` runs and nothing stays behind.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Set by the signal handler, read by everything that waits.
static STOP: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C, SIGTERM and SIGHUP raise the flag that [`check`] reads. Calling it again does nothing.
///
/// A failure to install the handler is not fatal: then a signal ends the process at once and the next run removes
/// what it left, as after a SIGKILL.
pub fn install() {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    INSTALLED.get_or_init(|| ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)).is_ok());
}

/// Whether the person at the terminal, or the system, wants this to stop.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// [`Error::Interrupted`] when [`requested`].
pub fn check() -> Result<()> {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}
