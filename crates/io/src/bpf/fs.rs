//! The BPF file system: where the pins are, and how to find it.

use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Context;
use crate::{Error, Result, local, native, sys, workdir};

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
    let _alone = local::lock("mount")?;
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
    is_ours(&directory()).map(drop)
}

/// Makes a directory in the root of the BPF file system, which no other user can enter. One of another user is refused.
pub(super) fn own(path: &Path) -> Result<()> {
    let found = match is_ours(path)? {
        Some(found) => found,
        None => match DirBuilder::new().mode(0o700).create(path) {
            // Another process may have made it meanwhile, or another user.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return own(path),
            other => return other.context(|| format!("make {}", path.display())),
        },
    };
    // An older release let everybody open it, and thus lock it.
    if found.mode() & 0o077 != 0 && found.uid() == sys::euid() {
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        closed.context(|| format!("close {} for other users", path.display()))?;
    }
    Ok(())
}

/// A directory in the root of the BPF file system, if it is there. It is an error if another user can replace it, or what is in it. What another user
/// has made in its place is put aside.
fn is_ours(path: &Path) -> Result<Option<Metadata>> {
    let untrusted = |path: &Path, why: String| Err(Error::Untrusted { path: path.to_owned(), why });
    let root = path.parent().unwrap_or(path);
    match fs::metadata(root) {
        Ok(found) => {
            if let Err(why) = workdir::trusted_above(&found) {
                return untrusted(root, format!("it {why}"));
            }
        }
        Err(_) => return Ok(None),
    }
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(_) => return Ok(None),
    };
    if !workdir::is_owner_trusted(&found) && put_aside(path, found.uid()) {
        return is_ours(path);
    }
    let cure = format!("; Strait makes it itself, so remove it: `rm -r {}`", path.display());
    match workdir::trusted(&found) {
        _ if !found.is_dir() => {
            untrusted(path, format!("it is no directory, and {} made it{cure}", workdir::user(found.uid())))
        }
        Err(why) if workdir::is_owner_trusted(&found) => untrusted(path, format!("it {why}{cure}")),
        Err(_) => untrusted(path, format!("{} made it{cure}", workdir::user(found.uid()))),
        Ok(()) => Ok(Some(found)),
    }
}

/// Gives what another user has made another name, beside it and still his: he could keep Strait from working otherwise, where everybody may make
/// directories. Both names change at once, so he cannot make it again in between. Returns whether it was possible.
fn put_aside(path: &Path, owner: u32) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("of-{owner}-{name}-{:016x}", native::random()));
    if DirBuilder::new().mode(0o700).create(&aside).is_err() {
        return false;
    }
    let done = renameat_with(CWD, &aside, CWD, path, RenameFlags::EXCHANGE).is_ok();
    if done {
        let (user, path) = (workdir::user(owner), path.display());
        eprintln!("warning: {user} has made {path}, which is Strait's; it is {} now", aside.display());
    } else {
        let _ = fs::remove_dir(&aside);
    }
    done
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
