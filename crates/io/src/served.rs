//! Unix sockets on which a switch serves controllers of this machine. Root's are in a directory that others can enter and nobody else can write;
//! the mode of the socket says who may connect: this user, and a group if one is named.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::Context;
use crate::workdir::trusted_place;
use crate::{Error, Result, sys};

/// The directory of root's sockets. Other users have theirs in `$XDG_RUNTIME_DIR`.
const ROOTS: &str = "/run/strait-grpc";

/// A socket's file. It is removed when the value is dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    inode: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Another server may have taken the place of a socket that was removed by hand.
        if self.path.symlink_metadata().is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Where this user's switch with this number serves, unless it is told otherwise. The directory is made.
pub fn place(device: u64) -> Result<PathBuf> {
    let dir = own_directory().ok_or_else(|| {
        let why =
            "it is root's, and XDG_RUNTIME_DIR, where other users have theirs, is not set: name a socket (unix:PATH) or a port";
        Error::Untrusted { path: ROOTS.into(), why: why.to_string() }
    })?;
    let mode = if sys::euid() == 0 { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&dir) {
        Err(why) if why.kind() != ErrorKind::AlreadyExists => {
            return Err(why).context(|| format!("make {}", dir.display()));
        }
        Ok(()) => {
            let open = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&dir, open).context(|| format!("make {}", dir.display()))?;
        }
        Err(_) => {}
    }
    Ok(dir.join(name(device)))
}

/// Where a switch with this number may serve: this user's own, then root's.
pub fn places(device: u64) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = own_directory().into_iter().collect();
    if !dirs.iter().any(|dir| dir == Path::new(ROOTS)) {
        dirs.push(ROOTS.into());
    }
    dirs.into_iter().map(|dir| dir.join(name(device))).collect()
}

fn name(device: u64) -> String {
    format!("device-{device}.sock")
}

fn own_directory() -> Option<PathBuf> {
    if sys::euid() == 0 {
        return Some(ROOTS.into());
    }
    let dir = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    dir.is_absolute().then(|| dir.join("strait-grpc"))
}

/// Whether somebody listens on a socket.
pub fn is_served(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Listens on a socket of this user (0600), or of this user and a group (0660). A file that a dead server has left is replaced; nothing else is.
pub fn listen(path: &Path, group: Option<&str>) -> Result<(UnixListener, Place)> {
    let untrusted = |why: String| Error::Untrusted { path: path.to_path_buf(), why };
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = trusted_place(parent).map_err(untrusted)?;
    let file = path.file_name().ok_or_else(|| untrusted("it names no file".to_string()))?;
    let path = dir.join(file);
    check_old(&path)?;
    // The socket gets its owner and its mode where nobody else can enter, so that nobody connects before.
    let private = dir.join(format!(".strait-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&private);
    DirBuilder::new().mode(0o700).create(&private).context(|| format!("make {}", private.display()))?;
    let made = make(&private.join("s"), group).and_then(|(listener, inode)| {
        let moved = std::fs::rename(private.join("s"), &path);
        moved.context(|| format!("listen on {}", path.display()))?;
        Ok((listener, Place { path: path.clone(), inode }))
    });
    let _ = std::fs::remove_dir_all(&private);
    made
}

/// Whether the file at a path, if there is one, may be replaced.
fn check_old(path: &Path) -> Result<()> {
    let untrusted = |why: &str| Error::Untrusted { path: path.to_path_buf(), why: why.to_string() };
    let found = match path.symlink_metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(why).context(|| format!("look at {}", path.display())),
        Ok(found) => found,
    };
    if !found.file_type().is_socket() {
        return Err(untrusted("it is there, and is no socket"));
    }
    if found.uid() != sys::euid() && found.uid() != 0 {
        return Err(untrusted("it belongs to another user"));
    }
    match UnixStream::connect(path) {
        Err(why) if why.kind() == ErrorKind::ConnectionRefused => Ok(()),
        _ => Err(untrusted("another server listens there")),
    }
}

fn make(path: &Path, group: Option<&str>) -> Result<(UnixListener, u64)> {
    let listener = UnixListener::bind(path).context(|| format!("listen on {}", path.display()))?;
    if let Some(group) = group {
        chown(path, None, Some(group_id(group)?)).context(|| format!("give the socket to `{group}`"))?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).context(|| format!("set the mode of {}", path.display()))?;
    let inode = path.symlink_metadata().context(|| format!("look at {}", path.display()))?.ino();
    Ok((listener, inode))
}

/// The number of a group, which is a name of /etc/group or a number.
fn group_id(group: &str) -> Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string("/etc/group").context(|| "read /etc/group".to_string())?;
    let number = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let why = || Error::Untrusted { path: "/etc/group".into(), why: format!("it has no group `{group}`") };
    text.lines().find_map(number).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workdir::WorkDir;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = WorkDir::named("st-served-").expect("a directory");
        let path = dir.path().join("grpc.sock");
        let (first, place) = listen(&path, None).expect("it listens");
        assert_eq!(path.metadata().expect("a file").mode() & 0o777, 0o600);
        let why = listen(&path, None).expect_err("a server is there").to_string();
        assert!(why.contains("another server listens"), "{why}");
        // A server that was killed leaves its file.
        std::mem::forget(place);
        drop(first);
        let (_second, place) = listen(&path, Some("0")).expect("the file is stale");
        assert_eq!(path.metadata().expect("a file").mode() & 0o777, 0o660);
        assert!(is_served(&path));
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let dir = WorkDir::named("st-served-").expect("a directory");
        let path = dir.path().join("grpc.sock");
        std::fs::write(&path, "text").expect("a file");
        assert!(listen(&path, None).is_err(), "it is no socket");
        std::fs::remove_file(&path).expect("a file");
        std::os::unix::fs::symlink("/nowhere", &path).expect("a link");
        assert!(listen(&path, None).is_err(), "it is a link");
        let open = dir.path().join("open");
        DirBuilder::new().create(&open).expect("a directory");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).expect("a mode");
        let why = listen(&open.join("grpc.sock"), None).expect_err("others can write").to_string();
        assert!(why.contains("can be written by other users"), "{why}");
    }
}
