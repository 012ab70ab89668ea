//! A process's claim: to an instance, that it alone keeps the instance as it shall be; or to an interface, that its program alone gets the packets.
//!
//! A claim is a lock on a directory in the BPF file system, so that those who see the same pins see the same claims, and a process that is killed
//! has none. The directory is not in the instance, which an upgrade replaces.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::lock::{self, attempt, is_at, open, process_of};
use crate::Result;

/// The claim of this process. Dropping it gives it up.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
}

/// The holder of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The process with this number.
    Process(u32),
    /// A process of another PID namespace.
    Elsewhere,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(process) => write!(f, "process {process}"),
            Holder::Elsewhere => f.write_str("a process that is not visible here"),
        }
    }
}

/// How long a claim is tried for while no process is visible that holds it. It may be about to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Claims an instance for this process. `Err` in the result has the process that holds it.
pub fn claim(name: &str) -> Result<std::result::Result<Claim, Holder>> {
    take(name, File::try_lock)
}

/// Keeps others from claiming an instance. Several processes may do this at the same time.
pub fn keep_unclaimed(name: &str) -> Result<std::result::Result<Claim, Holder>> {
    take(name, File::try_lock_shared)
}

fn take(
    name: &str,
    lock: fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<std::result::Result<Claim, Holder>> {
    super::fs::ensure()?;
    let (path, begun) = (path_of(name)?, Instant::now());
    sweep();
    loop {
        let holder = match attempt(&path, lock)? {
            Ok(file) => return Ok(Ok(Claim { file, path })),
            Err(holder) => holder,
        };
        match process_of(&holder) {
            Some(process) => return Ok(Err(Holder::Process(process))),
            None if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            None => return Ok(Err(Holder::Elsewhere)),
        }
    }
}

/// Whether a process has claimed an instance. Nothing is waited for, and nobody is kept from claiming it.
pub fn is_claimed(name: &str) -> Result<bool> {
    let Some(file) = open(&path_of(name)?)? else { return Ok(false) };
    // A shared lock, which is given up at once with the file.
    Ok(matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Removes the directories of claims that nobody has any more, because their processes were killed.
fn sweep() {
    let all = super::instance::list(&directory()).unwrap_or_default();
    for path in all {
        // Whoever wants the claim meanwhile waits for the end of a shared lock.
        if let Ok(Some(file)) = open(&path)
            && file.try_lock_shared().is_ok()
            && is_at(&file, &path)
        {
            let _ = fs::remove_dir(&path);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Others that keep it unclaimed have it too, and need it. It is removed before the lock goes: whoever locks the removed directory looks
        // whether it is there.
        if self.file.try_lock().is_ok() {
            lock::remove(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// The name under which an interface of the calling thread's network namespace is claimed.
pub fn of_interface(index: u32) -> Result<String> {
    Ok(format!("port-{index}-{}", crate::netns::id()?))
}

fn path_of(name: &str) -> Result<PathBuf> {
    let instance = super::instance::path_of(name)?;
    Ok(directory().join(super::instance::file_name(&instance)))
}

/// The directory of all claims.
fn directory() -> PathBuf {
    super::fs::directory().with_file_name("strait-run")
}
