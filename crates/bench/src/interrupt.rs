//! Turns Ctrl-C and SIGTERM into an ordinary error, so that every destructor runs and nothing remains.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Set by the signal handler, and read by every loop that waits.
static STOP: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C, SIGTERM and SIGHUP set the flag that [`check`] reads. Calling it again does nothing.
///
/// A failure to install the handler is not fatal. A signal then ends the process at once, and the next run removes what this one leaves, as
/// after a SIGKILL.
pub fn install() {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    INSTALLED.get_or_init(|| io::signals::at_end(|| STOP.store(true, Ordering::Relaxed)).is_ok());
}

/// Whether a signal has asked the process to stop.
pub fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Returns [`Error::Interrupted`] if a signal has asked the process to stop.
pub fn check() -> Result<()> {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}
