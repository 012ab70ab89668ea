//! The BPF file system: where the pins are, and how to find it.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Context;
use crate::{Error, Result, sys, workdir};

const OWN: &str = "/sys/fs/bpf";

/// The BPF file system that [`hold`] has opened.
static HELD: OnceLock<(fs::File, PathBuf)> = OnceLock::new();

/// The directory of all instances.
pub fn directory() -> PathBuf {
    mounted().unwrap_or_else(|| PathBuf::from(OWN)).join("strait")
}

/// Ensures that there is a BPF file system, and mounts one if necessary.
pub fn ensure() -> Result<()> {
    if mounted().is_some() {
        return Ok(());
    }
    if outside().is_some() {
        return Err(Error::NotFound(
            "BPF file system (this is a mount namespace of its own, as `ip netns exec` makes, whose mounts end with it; \
             run `mount -t bpf bpf /sys/fs/bpf` outside of it first)"
                .to_owned(),
        ));
    }
    // Of two processes that find none, one mounts it: a second one would hide the pins of the first.
    let place = fs::File::open(OWN).context(|| format!("open {OWN}"))?;
    place.lock().context(|| format!("lock {OWN}"))?;
    if mounted().is_some() {
        return Ok(());
    }
    sys::mount_bpffs().context(|| format!("mount the BPF file system on {OWN}"))
}

/// Opens the BPF file system for the rest of the process's life. A process that gives up privileges loses the view of that of its caller.
pub fn hold() -> Result<()> {
    ensure()?;
    if let Some(root) = mounted().filter(|root| root != Path::new(OWN)) {
        let file = fs::File::open(&root).context(|| format!("open {}", root.display()))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let _ = HELD.set((file, path));
    }
    Ok(())
}

/// Whether a BPF file system is visible to this process.
pub fn visible() -> bool {
    mounted().is_some()
}

/// Whether the directory of all instances is out of the reach of other users; that it is not there yet is fine. Some systems let
/// everybody make directories in the BPF file system.
pub fn trusted() -> Result<()> {
    let path = directory();
    let untrusted = |why: &str| Error::Untrusted { path: path.clone(), why: format!("it {why}") };
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.is_dir() => Err(untrusted("is no directory")),
        Ok(found) => workdir::trusted(&found).map_err(untrusted),
        Err(_) => Ok(()),
    }
}

/// Waits until no other process holds the lock, and holds it until the value is dropped or the process ends: for changes
/// that must not meet each other. What is locked is the root of the BPF file system, so that no file is left.
pub fn lock() -> Result<fs::File> {
    ensure()?;
    let root = mounted().unwrap_or_else(|| PathBuf::from(OWN));
    let file = fs::File::open(&root).context(|| format!("open {}", root.display()))?;
    file.lock().context(|| format!("lock {}", root.display()))?;
    Ok(file)
}

/// The mount point. `ip netns exec` hides the host's BPF file system below its own /sys. Pins in a file system that is mounted there would
/// end with the command, so the one that the caller outside sees has precedence.
fn mounted() -> Option<PathBuf> {
    if let Some((_, path)) = HELD.get() {
        return Some(path.clone());
    }
    let found = |path: PathBuf| sys::is_bpffs(&path).unwrap_or(false).then_some(path);
    let own = found(PathBuf::from(OWN));
    let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
    match (own, outside().and_then(|root| found(root.join("sys/fs/bpf")))) {
        (Some(own), Some(theirs)) if device(&own) != device(&theirs) => Some(theirs),
        (own, theirs) => own.or(theirs),
    }
}

/// The root directory of the nearest ancestor process in another mount namespace: the caller outside.
fn outside() -> Option<PathBuf> {
    let space = |process: &str| fs::metadata(format!("/proc/{process}/ns/mnt")).map(|m| m.ino()).ok();
    let own = space("self")?;
    let mut process = parent("self")?;
    while process != "0" {
        if space(&process)? != own {
            return Some(PathBuf::from(format!("/proc/{process}/root")));
        }
        process = parent(&process)?;
    }
    None
}

/// The parent process: the fourth field of /proc/PID/stat. The second field, the name, may contain anything (proc_pid_stat(5)).
fn parent(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let behind_name = stat.rsplit_once(')')?.1;
    behind_name.split_whitespace().nth(1).map(str::to_owned)
}
