//! Private directories for what is compiled, and the rule for directories that are trusted.
//!
//! What root compiles or loads must be out of the reach of everybody else. A [`WorkDir`] is new, has mode 0700 and a name that
//! nobody can foretell, and lies where no other user can put another directory in its place. Files in it are made, never found.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Context;
use crate::{Error, Result, sys};

/// A directory of this process alone, which is removed with the value.
#[derive(Debug)]
pub struct WorkDir(TempDir);

impl WorkDir {
    /// Makes one below `$TMPDIR`, or below /tmp where another user controls that.
    pub fn new() -> Result<WorkDir> {
        WorkDir::named("strait-")
    }

    /// As [`WorkDir::new`], with a name that begins so.
    pub fn named(prefix: &str) -> Result<WorkDir> {
        let wanted = std::env::temp_dir();
        let base = trusted_place(&wanted).or_else(|why| trusted_place(Path::new("/tmp")).map_err(|_| why));
        let base = base.map_err(|why| Error::Untrusted { path: wanted, why })?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).rand_bytes(16).permissions(Permissions::from_mode(0o700));
        let made = builder.tempdir_in(&base).context(|| format!("make a directory in {}", base.display()))?;
        Ok(WorkDir(made))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes a file, which must not be there, and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path().join(name);
        create(&path, bytes).context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Opens a file that a compiler has made here.
    pub fn open(&self, name: &str) -> Result<File> {
        let path = self.path().join(name);
        open(&path).context(|| format!("open {}", path.display()))
    }

    /// The bytes of a file that a compiler has made here.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(name)?.read_to_end(&mut bytes).context(|| format!("read {name}"))?;
        Ok(bytes)
    }
}

/// Whether this is a directory of this user's that nobody else can enter, as a [`WorkDir`] that a killed process has left.
pub fn is_private(dir: &Path) -> bool {
    dir.symlink_metadata().is_ok_and(|d| d.is_dir() && d.uid() == sys::euid() && d.mode() & 0o077 == 0)
}

/// Makes a file, which must not be there in any form.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)?.write_all(bytes)
}

/// Opens a file, and no link to one.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// The same directory without links in its path, if no other user can replace it or a directory above it; else why not.
pub(crate) fn trusted_place(dir: &Path) -> std::result::Result<PathBuf, String> {
    let real = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
    for above in real.ancestors() {
        let found = above.symlink_metadata().map_err(|e| format!("{}: {e}", above.display()))?;
        // In a sticky directory others can make entries, and neither remove nor rename those that are not theirs.
        let is_sticky = found.mode() & 0o1000 != 0;
        let problem = match () {
            () if !found.is_dir() => "is no directory",
            () if !is_owner_trusted(&found) => "belongs to another user",
            () if is_writable_by_others(&found) && !is_sticky => "can be written by other users",
            () => continue,
        };
        return Err(format!("{} {problem}", above.display()));
    }
    Ok(real)
}

/// Whether only root and this user can write what an open descriptor leads to; else why not.
pub(crate) fn trusted(found: &Metadata) -> std::result::Result<(), &'static str> {
    match () {
        () if found.uid() != 0 && found.uid() != sys::euid() => Err("belongs to another user"),
        () if is_writable_by_others(found) => Err("can be written by other users"),
        () => Ok(()),
    }
}

fn is_writable_by_others(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}

/// Root and this user. In a user namespace without the host's root, the host's directories belong to nobody: such a process has no
/// more rights than the user who made the namespace.
fn is_owner_trusted(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == sys::euid() || (found.uid() == NOBODY && is_host_root_absent())
}

/// The owner of everything whose owner a user namespace does not map (/proc/sys/kernel/overflowuid).
const NOBODY: u32 = 65_534;

/// Whether this is a user namespace that does not map the host's users one to one.
fn is_host_root_absent() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}
