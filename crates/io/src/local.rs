//! Where a running switch can be found and asked by commands of the same user on this machine: a Unix socket for each process, named after its
//! number, in a directory that no other user can enter. Both ends also check who the other one is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::Context;
use crate::port::socket::peer_user;
use crate::workdir::{is_private, trusted_place};
use crate::{Error, Result, sys};

/// The directory of root's switches. Other users have theirs in `$XDG_RUNTIME_DIR`.
const ROOTS: &str = "/run/strait";

/// Takes the commands for this process.
#[derive(Debug)]
pub struct Listener(UnixListener);

/// The socket of this process. It is removed when the value is dropped.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Listener {
    /// Makes the socket, and the directory if it is missing.
    pub fn open() -> Result<(Listener, Place)> {
        let path = made()?.join(std::process::id().to_string());
        // Processes that were killed have left theirs. One with our number is of such a process, too.
        processes()?;
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).context(|| format!("listen on {}", path.display()))?;
        Ok((Listener(listener), Place(path)))
    }

    /// Waits for the next command. One of another user is refused.
    pub fn accept(&self) -> Result<UnixStream> {
        loop {
            let (stream, _) = self.0.accept().context(|| "listen for commands".to_string())?;
            if peer_user(&stream).is_ok_and(|user| user == 0 || user == sys::euid()) {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The numbers of the processes that can be asked, in order. Sockets of processes that have ended are removed.
pub fn processes() -> Result<Vec<u32>> {
    let dir = directory()?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why).context(|| format!("read {}", dir.display())),
    };
    let dir = checked(&dir)?;
    let number = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok();
    let mut all: Vec<u32> = entries.flatten().filter_map(|entry| number(entry.file_name())).collect();
    all.retain(|process| match UnixStream::connect(dir.join(process.to_string())) {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(dir.join(process.to_string()));
            false
        }
        _ => true,
    });
    all.sort_unstable();
    Ok(all)
}

/// Connects to a process. One of another user is refused.
pub fn connect(process: u32) -> Result<UnixStream> {
    let path = checked(&directory()?)?.join(process.to_string());
    let stream = UnixStream::connect(&path).context(|| format!("ask process {process}"))?;
    let user = peer_user(&stream).context(|| format!("ask process {process}"))?;
    match user == 0 || user == sys::euid() {
        true => Ok(stream),
        false => Err(Error::Untrusted { path, why: "another user listens there".to_string() }),
    }
}

/// Waits until no other process has this lock, and holds it until the value is dropped or the process ends: for the moment in which something is
/// made that there must be once. It is a file beside the sockets, which no other user can open.
pub(crate) fn lock(name: &str) -> Result<File> {
    let path = made()?.join(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path).context(|| format!("open {}", path.display()))?;
    file.lock().context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

/// The directory of this user's sockets, which is made if it is missing.
fn made() -> Result<PathBuf> {
    let dir = directory()?;
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => {
            Err(why).context(|| format!("make {}", dir.display()))
        }
        _ => checked(&dir),
    }
}

/// The directory of this user's sockets.
fn directory() -> Result<PathBuf> {
    if sys::euid() == 0 {
        return Ok(PathBuf::from(ROOTS));
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if Path::new(&dir).is_absolute() => Ok(Path::new(&dir).join("strait")),
        _ => {
            let why =
                "it is root's, and XDG_RUNTIME_DIR, where other users have theirs, is not set".to_string();
            Err(Error::Untrusted { path: ROOTS.into(), why })
        }
    }
}

/// A directory that no other user can enter or replace.
fn checked(dir: &Path) -> Result<PathBuf> {
    let untrusted = |why: String| Error::Untrusted { path: dir.to_path_buf(), why };
    let above = dir.parent().unwrap_or(dir);
    trusted_place(above).map_err(untrusted)?;
    match is_private(dir) {
        true => Ok(dir.to_path_buf()),
        false => Err(untrusted("other users can enter it, or it belongs to one of them".to_string())),
    }
}
