//! A process's claim to an instance: that it alone keeps the instance as it shall be.
//!
//! A claim is a lock on a directory in the BPF file system, so that those who see the same pins see the same claims, and a process that is killed
//! has none. The directory is not in the instance, which an upgrade replaces.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::instance::remove_if_there;
use crate::Result;
use crate::error::Context;

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
        fs::create_dir_all(&path).context(|| format!("make {}", path.display()))?;
        let Some(file) = open(&path)? else { continue };
        match lock(&file) {
            Ok(()) if is_at(&file, &path) => return Ok(Ok(Claim { file, path })),
            // The last holder has removed the directory after it was opened.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => match process_of(&file) {
                Some(process) => return Ok(Err(Holder::Process(process))),
                None if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
                None => return Ok(Err(Holder::Elsewhere)),
            },
            Err(TryLockError::Error(error)) => {
                return Err(error).context(|| format!("lock {}", path.display()));
            }
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
        // Before the lock goes: whoever locks the removed directory looks whether it is there.
        let _ = remove_if_there(fs::remove_dir(&self.path), &self.path);
        if let Some(all) = self.path.parent() {
            let _ = fs::remove_dir(all);
        }
        let _ = self.file.unlock();
    }
}

fn path_of(name: &str) -> Result<PathBuf> {
    let instance = super::instance::path_of(name)?;
    Ok(directory().join(super::instance::file_name(&instance)))
}

/// The directory of all claims.
fn directory() -> PathBuf {
    super::fs::directory().with_file_name("strait-run")
}

fn open(path: &PathBuf) -> Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).context(|| format!("open {}", path.display())),
    }
}

/// Whether an open directory is the one that has this path now.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(now)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (open.dev(), open.ino()) == (now.dev(), now.ino())
}

/// The process that has locked a file, if this PID namespace has a number for it, by proc_locks(5):
/// `1: FLOCK ADVISORY WRITE 1234 00:1f:5678 0 EOF`.
fn process_of(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    let of = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, "WRITE", process, file, ..] if file == of => process.parse().ok().filter(|p| *p > 0),
        _ => None,
    })
}
