//! Locks that processes have on instances: one for each instance, so that nobody waits for the change of another one.
//!
//! A lock is on a directory `strait-lock/INSTANCE` in the BPF file system, so that those who see the same pins see the same locks, in whatever
//! container they are, and a process that is killed has none. It lies in a directory that only its owner can enter: whoever may open a file
//! may lock it (flock(2)). The directory is not in the instance, which an upgrade replaces. It goes with the last lock on an instance that is gone.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::instance::{self, Instance};
use crate::error::Context;
use crate::{Error, Result};

/// How long [`lock`] waits for a process that changes the instance.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which a lock is tried.
const AGAIN: Duration = Duration::from_millis(5);

/// The lock of this process on an instance, for changes that must not meet each other. Dropping it gives it up.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    instance: String,
}

/// Waits until no other process has the lock of an instance, and takes it. A process that has it for very long is named in the error.
pub fn lock(instance: &str) -> Result<Lock> {
    lock_within(instance, PATIENCE)
}

/// Like [`lock`], with another time to wait.
pub fn lock_within(instance: &str, patience: Duration) -> Result<Lock> {
    let begun = Instant::now();
    loop {
        let holder = match take(instance)? {
            Ok(lock) => return Ok(lock),
            Err(holder) => holder,
        };
        if begun.elapsed() >= patience {
            let instance = of_site(instance).to_owned();
            return Err(Error::Locked { instance, waited: begun.elapsed(), holder: process_of(&holder) });
        }
        std::thread::sleep(AGAIN);
    }
}

/// Takes the lock of an instance if no other process has it. Nothing is waited for.
pub fn try_lock(instance: &str) -> Result<Option<Lock>> {
    Ok(take(instance)?.ok())
}

fn take(instance: &str) -> Result<std::result::Result<Lock, File>> {
    super::fs::ensure()?;
    super::fs::trusted()?;
    let instance = of_site(instance);
    let path = path_of(instance)?;
    let taken = attempt(&path, File::try_lock)?;
    Ok(taken.map(|file| Lock { file, path, instance: instance.to_owned() }))
}

/// The name by which an instance is locked: one that is made to take the place of another one belongs to that.
fn of_site(instance: &str) -> &str {
    instance.strip_suffix(NEXT).unwrap_or(instance)
}

/// What the name of an instance ends in that is made to take the place of another one.
pub const NEXT: &str = "-next";

fn path_of(instance: &str) -> Result<PathBuf> {
    let instance = instance::path_of(instance)?;
    Ok(directory().join(instance::file_name(&instance)))
}

/// The directory of all locks.
fn directory() -> PathBuf {
    super::fs::directory().with_file_name("strait-lock")
}

impl Drop for Lock {
    fn drop(&mut self) {
        let name = &self.instance;
        if !Instance::exists(name) && !Instance::exists(&format!("{name}{NEXT}")) {
            remove(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Removes the directories of locks of instances that are gone, whose processes were killed.
pub(super) fn sweep() {
    for path in instance::list(&directory()).unwrap_or_default() {
        let name = instance::file_name(&path);
        if !Instance::exists(name) {
            // Its drop removes it.
            drop(try_lock(name));
        }
    }
}

/// Locks a directory, which is made if it is missing, in a directory of Strait's own. `Err` in the result is the directory that somebody else has
/// locked.
pub(super) fn attempt(
    path: &Path,
    lock: fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<std::result::Result<File, File>> {
    loop {
        super::fs::own(path.parent().unwrap_or(path))?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // The last lock in its parent has just gone.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.context(|| format!("make {}", path.display()))?,
        }
        let Some(file) = open(path)? else { continue };
        match lock(&file) {
            Ok(()) if is_at(&file, path) => return Ok(Ok(file)),
            // The last holder has removed the directory after it was opened.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(file)),
            Err(TryLockError::Error(error)) => {
                return Err(error).context(|| format!("lock {}", path.display()));
            }
        }
    }
}

/// Removes a directory that this process has locked alone, and its parent if it is empty. Whoever waits for the lock looks whether the directory is
/// there.
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_dir(path);
    if let Some(all) = path.parent() {
        let _ = fs::remove_dir(all);
    }
}

/// Opens a directory; `None` if there is none.
pub(super) fn open(path: &Path) -> Result<Option<File>> {
    let mut options = OpenOptions::new();
    match options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some).context(|| format!("open {}", path.display())),
    }
}

/// Whether an open directory is the one that has this path now.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(now)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (open.dev(), open.ino()) == (now.dev(), now.ino())
}

/// The process that has locked a file, if this PID namespace has a number for it, by proc_locks(5):
/// `1: FLOCK ADVISORY WRITE 1234 00:1f:5678 0 EOF`.
pub(super) fn process_of(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (major, minor) = (libc::major(found.dev()), libc::minor(found.dev()));
    let of = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, "WRITE", process, file, ..] if file == of => process.parse().ok().filter(|p| *p > 0),
        _ => None,
    })
}
