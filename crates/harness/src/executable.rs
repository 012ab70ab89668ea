//! Copies of programs that tests start.

use std::path::Path;
use std::process::Command;

/// Copies a program. A process of its own does it: if this one had the copy open for writing while another thread forks, the child would hold it open,
/// and starting it would fail (ETXTBSY).
///
/// # Panics
/// If it cannot be copied.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "{} is copied to {}", from.display(), to.display());
}
