//! An instance that a process holds open: its program, maps, links and note stay in the kernel also without their pins, and can be pinned again.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::Instance;
use super::instance::{PROGRAM, file_name, list};
use crate::error::Context;
use crate::{Result, sys};

/// Open descriptors of everything that an instance has pinned.
#[derive(Debug)]
pub struct Held {
    instance: Instance,
    /// The pins by their paths, and those of the program last, as for a new instance.
    pins: Vec<(PathBuf, OwnedFd)>,
    /// The directories: some are marks.
    directories: Vec<PathBuf>,
}

impl Held {
    /// Opens all pins of an instance. Pins that go meanwhile are left out.
    pub fn open(instance: &Instance) -> Result<Self> {
        let mut held = Self { instance: instance.clone(), pins: Vec::new(), directories: Vec::new() };
        held.collect(instance.path())?;
        // Whoever sees the program's pin takes the instance to be complete.
        let of = |path: &Path| (path.parent() == Some(instance.path()), path.ends_with(PROGRAM));
        held.pins.sort_by_key(|(path, _)| of(path));
        Ok(held)
    }

    fn collect(&mut self, directory: &Path) -> Result<()> {
        self.directories.push(directory.to_owned());
        for path in list(directory)? {
            match path.is_dir() {
                true => self.collect(&path)?,
                false => self.pins.extend(sys::open_pin(&path).ok().map(|fd| (path, fd))),
            }
        }
        Ok(())
    }

    /// The pins that somebody has removed: all of them if the program's is gone, otherwise those of links that are attached without one.
    fn lost(&self) -> Vec<&(PathBuf, OwnedFd)> {
        let gone = self.pins.iter().filter(|(path, _)| !path.exists());
        if !self.is_complete() {
            return gone.collect();
        }
        let links = self.instance.path().join("links");
        let attached = |fd: &OwnedFd| sys::link_ifindex(fd.as_fd()).is_ok_and(|index| index > 0);
        gone.filter(|(path, fd)| path.parent() == Some(&links) && attached(fd)).collect()
    }

    fn is_complete(&self) -> bool {
        Instance::open(file_name(self.instance.path())).is_ok()
    }

    /// Whether somebody has removed pins. Whoever detaches a program means it, and has not only removed a pin.
    pub fn is_lost(&self) -> bool {
        !self.lost().is_empty()
    }

    /// Whether another program has taken the instance's place, as an upgrade does.
    pub fn is_replaced(&self) -> bool {
        let number = |fd: BorrowedFd<'_>| sys::program_info(fd).map(|info| info.id).ok();
        let held = self.pins.last().and_then(|(_, fd)| number(fd.as_fd()));
        let now = self.instance.program().ok().and_then(|program| number(program.fd.as_fd()));
        held != now
    }

    /// Pins again what has lost its pin. What is attached has stayed attached.
    pub fn restore(&self) -> Result<()> {
        let lost = self.lost();
        let complete = self.is_complete();
        if !complete {
            self.instance.make_directories(&[])?;
        }
        for directory in self.directories.iter().filter(|_| !complete) {
            fs::create_dir_all(directory).context(|| format!("make {}", directory.display()))?;
        }
        for (path, fd) in lost {
            sys::pin(fd.as_fd(), path).context(|| format!("pin {}", path.display()))?;
        }
        Ok(())
    }
}
