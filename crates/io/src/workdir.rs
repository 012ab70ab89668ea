//! Private directories for compilation, and the checks that decide whether a directory can be trusted.
//!
//! No other user may be able to change what root compiles or loads. A [`WorkDir`] is a new directory with mode 0700 and an unpredictable
//! name, and no other user can replace it or a directory above it. Writing a file in it fails if the file already exists.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Context;
use crate::{Error, Result, sys};

/// A private directory of this process. It is removed when the value is dropped.
#[derive(Debug)]
pub struct WorkDir(TempDir);

impl WorkDir {
    /// Creates a directory in `$TMPDIR`; or in /tmp if another user could replace `$TMPDIR`.
    pub fn new() -> Result<WorkDir> {
        WorkDir::named("strait-")
    }

    /// Creates a directory like [`WorkDir::new`], with a name that begins with `prefix`.
    pub fn named(prefix: &str) -> Result<WorkDir> {
        let wanted = std::env::temp_dir();
        let base = trusted_place(&wanted).or_else(|why| trusted_place(Path::new("/tmp")).map_err(|_| why));
        let base = base.map_err(|why| Error::Untrusted { path: wanted, why })?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).rand_bytes(16).permissions(Permissions::from_mode(0o700));
        let made = builder.tempdir_in(&base).context(|| format!("make a directory in {}", base.display()))?;
        Ok(WorkDir(made))
    }

    /// The path of the directory, without symbolic links.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Creates a file, which must not exist, and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path().join(name);
        create(&path, bytes).context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Opens a file that a compiler created in the directory.
    pub fn open(&self, name: &str) -> Result<File> {
        let path = self.path().join(name);
        open(&path).context(|| format!("open {}", path.display()))
    }

    /// Reads a file that a compiler created in the directory.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(name)?.read_to_end(&mut bytes).context(|| format!("read {name}"))?;
        Ok(bytes)
    }
}

/// Whether a directory belongs to this user and no other user can enter it. This holds for a [`WorkDir`] that a killed process left behind.
pub fn is_private(dir: &Path) -> bool {
    dir.symlink_metadata().is_ok_and(|d| d.is_dir() && d.uid() == sys::euid() && d.mode() & 0o077 == 0)
}

/// Creates a file with mode 0600. Fails if anything exists at the path, including a symbolic link.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)?.write_all(bytes)
}

/// Opens a file for reading. Fails if the path is a symbolic link.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// The path of a directory without symbolic links, if no other user can replace it or a directory above it; otherwise the reason.
pub(crate) fn trusted_place(dir: &Path) -> std::result::Result<PathBuf, String> {
    let real = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
    for above in real.ancestors() {
        let found = above.symlink_metadata().map_err(|e| format!("{}: {e}", above.display()))?;
        trusted_above(&found).map_err(|problem| format!("{} {problem}", above.display()))?;
    }
    Ok(real)
}

/// Checks that only root and this user can write an open file or directory. Returns the reason if others can.
pub(crate) fn trusted(found: &Metadata) -> std::result::Result<(), &'static str> {
    match () {
        () if found.uid() != 0 && found.uid() != sys::euid() => Err("belongs to another user"),
        () if is_writable_by_others(found) => Err("can be written by other users"),
        () => Ok(()),
    }
}

/// Checks a directory for what is directly in it: that no other user can remove or rename that. Returns the reason if others can.
pub(crate) fn trusted_above(found: &Metadata) -> std::result::Result<(), &'static str> {
    // In a sticky directory other users can create entries, but cannot remove or rename entries that are not theirs.
    let is_sticky = found.mode() & 0o1000 != 0;
    match () {
        () if !found.is_dir() => Err("is no directory"),
        () if !is_owner_trusted(found) => Err("belongs to another user"),
        () if is_writable_by_others(found) && !is_sticky => Err("can be written by other users"),
        () => Ok(()),
    }
}

/// A user for messages: the number, and the name if /etc/passwd has one.
pub(crate) fn user(number: u32) -> String {
    let all = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    });
    match name {
        Some(name) => format!("the user `{name}` ({number})"),
        None => format!("the user {number}"),
    }
}

fn is_writable_by_others(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}

/// Whether the owner is root or this user. In a user namespace that does not map the host's root, the host's directories seem to belong to
/// [`NOBODY`], who is trusted there: such a process has no more rights than the user who created the namespace.
pub(crate) fn is_owner_trusted(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == sys::euid() || (found.uid() == NOBODY && is_host_root_absent())
}

/// The user that appears as the owner of a file whose owner the user namespace does not map (/proc/sys/kernel/overflowuid).
const NOBODY: u32 = 65_534;

/// Whether this process is in a user namespace that does not map all users of the host to themselves.
fn is_host_root_absent() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}
