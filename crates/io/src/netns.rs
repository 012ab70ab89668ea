//! Creates, enters and deletes network namespaces.
//!
//! A *thread* belongs to a namespace. Code inside a namespace therefore runs on a thread of its own, and the caller stays where it is. A
//! socket belongs to the namespace in which it was made, whichever thread uses it later. Named namespaces are those of iproute2
//! (`/run/netns/NAME`), so that `ip netns` and Strait see the same ones.
//!
//! A module with `unsafe`: std has no `setns`, `unshare`, `mount` and `umount`. The calls pass no memory except NUL-terminated paths that
//! outlive them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io, ptr, thread};

use crate::Result;
use crate::error::Context;

const DIR: &str = "/run/netns";

/// Runs a function in the network namespace of `file` (such as `/run/netns/NAME`).
pub fn run_in<T: Send>(file: &Path, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(file)?;
    on_a_thread(|| {
        // SAFETY: no pointers are passed, and the descriptor is open.
        let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
        check(result).map(|()| act())
    })
}

/// Moves the calling thread into the network namespace of `file`, with the threads that it starts from now on.
pub fn enter(file: &Path) -> Result<()> {
    let entered = File::open(file).and_then(|namespace| {
        // SAFETY: no pointers are passed, and the descriptor is open.
        check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
    });
    entered.context(|| format!("enter the network namespace {}", file.display()))
}

/// The names of all named namespaces.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(DIR).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Runs a function in a new namespace without a name. The namespace is removed with its last socket.
pub fn run_in_fresh<T: Send>(act: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_a_thread(|| unshare().map(|()| act()))
}

/// The inode number of the calling thread's namespace. Namespaces that exist at the same time have different numbers.
pub fn id() -> Result<u64> {
    let file = Path::new("/proc/thread-self/ns/net");
    let of = fs::metadata(file).context(|| format!("look at {}", file.display()))?;
    Ok(std::os::unix::fs::MetadataExt::ino(&of))
}

/// A named namespace. Dropping the value does not delete the namespace, except for a [`Namespace::temporary`] one.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    temporary: bool,
}

impl Namespace {
    /// Creates a namespace. It is an error if the name exists.
    pub fn create(name: &str) -> Result<Self> {
        Self::create_with(name, || Ok(()))
    }

    /// Creates a namespace like [`Namespace::create`]. `prepare` runs inside before the namespace has its name, so nobody finds it unprepared.
    pub fn create_with(name: &str, prepare: impl FnOnce() -> Result<()> + Send) -> Result<Self> {
        let prepared = make(name, prepare).context(|| format!("make the network namespace {name}"))?;
        prepared.map(|()| Self { name: name.to_owned(), temporary: false })
    }

    /// Creates a namespace that is deleted when the value is dropped. An existing namespace with this name is deleted first.
    pub fn temporary(name: &str) -> Result<Self> {
        if Path::new(DIR).join(name).exists() {
            Self::open(name)?.delete()?;
        }
        let mut made = Self::create(name)?;
        made.temporary = true;
        Ok(made)
    }

    /// Opens an existing namespace.
    pub fn open(name: &str) -> Result<Self> {
        let found = Self { name: name.to_owned(), temporary: false };
        fs::metadata(found.path()).context(|| format!("open the network namespace {name}"))?;
        Ok(found)
    }

    /// The name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of the namespace.
    pub fn path(&self) -> PathBuf {
        Path::new(DIR).join(&self.name)
    }

    /// Runs a function in the namespace.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        run_in(&self.path(), act).context(|| format!("enter the network namespace {}", self.name))
    }

    /// Deletes the name. Processes inside keep the namespace alive.
    pub fn delete(mut self) -> Result<()> {
        self.temporary = false;
        remove(&self.path()).context(|| format!("delete the network namespace {}", self.name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.temporary {
            // The error is ignored; the next `temporary` with this name tries again.
            let _ = remove(&self.path());
        }
    }
}

fn on_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(act).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn unshare() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

fn make(name: &str, prepare: impl FnOnce() -> Result<()> + Send) -> io::Result<Result<()>> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a namespace's name"));
    }
    share_the_directory()?;
    let path = Path::new(DIR).join(name);
    File::create_new(&path)?;
    let made = on_a_thread(|| {
        unshare()?;
        if let Err(why) = prepare() {
            return Ok(Err(why));
        }
        mount(c"/proc/thread-self/ns/net", &path, libc::MS_BIND).map(Ok)
    });
    if !matches!(made, Ok(Ok(()))) {
        let _ = fs::remove_file(&path);
    }
    made
}

/// Makes the directory a shared mount, as iproute2 does, so that deleting a name works across mount namespaces.
fn share_the_directory() -> io::Result<()> {
    let dir = Path::new(DIR);
    fs::create_dir_all(dir)?;
    if mount(c"", dir, libc::MS_SHARED | libc::MS_REC).is_ok() {
        return Ok(());
    }
    mount(c"/run/netns", dir, libc::MS_BIND | libc::MS_REC)?;
    mount(c"", dir, libc::MS_SHARED | libc::MS_REC)
}

fn mount(source: &CStr, target: &Path, flags: libc::c_ulong) -> io::Result<()> {
    let target = CString::new(target.as_os_str().as_bytes())?;
    // SAFETY: both paths are NUL-terminated and live through the call; null stands for "no type, no data".
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), c"none".as_ptr(), flags, ptr::null()) })
}

fn remove(path: &Path) -> io::Result<()> {
    let target = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated and lives through the call. A name that is not mounted only loses its file.
    unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    fs::remove_file(path)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there() {
        let error = run_in(Path::new("/run/netns/st-io-none"), || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(Namespace::open("st-io-none").is_err());
        assert!(Namespace::create("../x").is_err());
    }
}
