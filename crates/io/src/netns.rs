//! Working inside another network namespace.
//!
//! A door for `unsafe`: `setns`, which std does not have.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

/// Runs a function in the network namespace that `file` stands for (such as `/run/netns/NAME`), on a thread of its
/// own: a namespace belongs to a thread, and the caller keeps its own. A socket that the function makes stays in the
/// namespace, wherever it is used later.
pub fn run_in<T: Send>(file: &Path, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(file)?;
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            // SAFETY: no pointers are passed, and the descriptor is open.
            let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            if result == 0 { Ok(act()) } else { Err(io::Error::last_os_error()) }
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there() {
        let error = run_in(Path::new("/run/netns/st-io-none"), || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
