//! Loads eBPF objects, and manages their instances by their pins.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aya::programs::{Program as AyaProgram, ProgramError};
use aya::{Ebpf, EbpfLoader};
use sha2::{Digest as _, Sha256};

use super::{Hook, Map, Program};
use crate::error::Context;
use crate::{Error, Result, sys};

/// A loaded program with its maps, identified by its pins. Dropping the value does not remove the pins.
#[derive(Debug, Clone)]
pub struct Instance {
    path: PathBuf,
}

/// Options that override properties of the object.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The largest number of elements of maps, by their names.
    pub max_entries: Vec<(String, u32)>,
    /// A second program of the object: the one for the tc hooks, if the first is for the XDP hook.
    pub beside: Option<String>,
    /// Maps of another instance that this one has too, by their names. The object declares them as pinned by name, and of the same form.
    pub shared: Option<(Instance, Vec<String>)>,
}

impl Instance {
    /// Loads the program `entry` of an ELF object, and pins it with its maps. The instance's name consists of letters, digits, `-` and `_`.
    /// A failure leaves nothing in the file system.
    pub fn load(name: &str, object: &[u8], entry: &str, options: &LoadOptions) -> Result<Self> {
        super::fs::ensure()?;
        super::fs::trusted()?;
        let instance = Self { path: path_of(name)? };
        if instance.path.exists() {
            return Err(Error::Exists(instance.path));
        }
        let made = instance.make(object, entry, options);
        if made.is_err() {
            let _ = instance.clone().remove();
        }
        made.map(|()| instance)
    }

    fn make(&self, object: &[u8], entry: &str, options: &LoadOptions) -> Result<()> {
        self.make_directories(&["maps", "links"])?;
        let mut loader = EbpfLoader::new();
        loader.map_pin_path(self.path.join("maps"));
        for (map, size) in &options.max_entries {
            loader.set_max_entries(map, *size);
        }
        if let Some((other, names)) = &options.shared {
            names.iter().try_for_each(|name| self.share(other, name))?;
        }
        // The loader needs an aligned object. Allocated memory is aligned, and embedded bytes may not be.
        let aligned = object.to_vec();
        let mut loaded = loader.load(&aligned).map_err(object_error)?;
        let beside = options.beside.as_deref();
        [Some(entry), beside].into_iter().flatten().try_for_each(|name| load_program(&mut loaded, name))?;
        self.mark(object)?;
        self.pin_all(&mut loaded, entry, beside)
    }

    /// Makes the directory of the instance and those in it. Another instance may go at the same time, and the directory of all with it.
    pub(super) fn make_directories(&self, names: &[&str]) -> Result<()> {
        let private = |path: &Path| match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        };
        let begun = Instant::now();
        loop {
            super::fs::own(&super::fs::directory())?;
            match private(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound && begun.elapsed() < PATIENCE => {}
                other => break other.context(|| format!("make {}", self.path.display()))?,
            }
        }
        names
            .iter()
            .map(|name| self.path.join(name))
            .try_for_each(|path| private(&path).context(|| format!("make {}", path.display())))
    }

    /// Pins a map of another instance here as well.
    fn share(&self, other: &Instance, name: &str) -> Result<()> {
        let at = |instance: &Instance| instance.path.join("maps").join(name);
        let map = sys::open_pin(&at(other)).context(|| format!("open {}", at(other).display()))?;
        sys::pin(map.as_fd(), &at(self)).context(|| format!("pin {}", at(self).display()))
    }

    /// Loads the program for the XDP hook beside that of the instance, and pins it. Where its object declares maps by name, it gets those of the instance. It is
    /// no error if it was loaded from this object already.
    pub fn load_xdp(&self, object: &[u8], entry: &str) -> Result<()> {
        if self.has_xdp() && self.is_of(object) {
            return Ok(());
        }
        let aligned = object.to_vec();
        let mut loader = EbpfLoader::new();
        loader.map_pin_path(self.path.join("maps"));
        let mut loaded = loader.load(&aligned).map_err(object_error)?;
        load_program(&mut loaded, entry)?;
        self.mark(object)?;
        let pin = self.path.join(XDP);
        remove_if_there(fs::remove_file(&pin), &pin)?;
        let program = loaded.program_mut(entry);
        let program = program.ok_or_else(|| Error::Object(format!("there is no program `{entry}`")))?;
        program.pin(&pin).map_err(|e| pin_error(entry, e))
    }

    /// Whether the instance has a program of its own for the XDP hook.
    pub fn has_xdp(&self) -> bool {
        self.path.join(XDP).exists()
    }

    /// Opens an existing instance by its name.
    pub fn open(name: &str) -> Result<Self> {
        super::fs::trusted()?;
        let path = path_of(name)?;
        match path.join(PROGRAM).exists() {
            true => Ok(Self { path }),
            false => Err(Error::NotFound(format!("loaded program `{name}`"))),
        }
    }

    /// The names of all instances in order, including incomplete ones.
    pub fn all() -> Result<Vec<String>> {
        super::fs::trusted()?;
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        Ok(list(&super::fs::directory())?.into_iter().filter_map(name).collect())
    }

    /// The directory of the instance.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An instance whose pins may not be visible here.
    pub fn unseen(name: &str) -> Result<Self> {
        Ok(Self { path: path_of(name)? })
    }

    /// The kernel's numbers of the programs: that for the tc hooks or the only one, and that of its own for the XDP hook.
    pub fn numbers(&self) -> Result<Vec<u32>> {
        let pins = [PROGRAM, XDP].map(|pin| self.path.join(pin));
        pins.iter().filter(|pin| pin.exists()).map(|pin| open_program(pin)?.number()).collect()
    }

    /// Opens the program.
    pub fn program(&self) -> Result<Program> {
        open_program(&self.path.join(PROGRAM))
    }

    /// Opens the program for a hook.
    pub(super) fn program_at(&self, hook: Hook) -> Result<Program> {
        open_program(&self.program_path(hook))
    }

    /// The pin of the program for a hook.
    pub(super) fn program_path(&self, hook: Hook) -> PathBuf {
        let (beside, xdp) = (self.path.join(BESIDE), self.path.join(XDP));
        match hook {
            Hook::Ingress | Hook::Egress if beside.exists() => beside,
            Hook::Xdp(_) if xdp.exists() => xdp,
            _ => self.path.join(PROGRAM),
        }
    }

    /// Whether the instance has a second program, for the tc hooks.
    pub fn has_beside(&self) -> bool {
        self.path.join(BESIDE).exists()
    }

    /// Opens a map.
    pub fn map(&self, name: &str) -> Result<Map> {
        let path = self.path.join("maps").join(name);
        match sys::open_pin(&path) {
            Ok(fd) => Map::new(name, fd),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::NotFound(format!("map `{name}`")))
            }
            Err(error) => Err(error).context(|| format!("open {}", path.display())),
        }
    }

    /// The names of the maps, in order.
    pub fn maps(&self) -> Result<Vec<String>> {
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        Ok(list(&self.path.join("maps"))?.into_iter().filter_map(name).collect())
    }

    /// Detaches the program and removes every pin, also of an instance that is incomplete because loading was killed.
    pub fn remove(self) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        for mark in list(&self.path)?.iter().filter(|p| file_name(p).starts_with(OBJECT)) {
            remove_if_there(fs::remove_dir(mark), mark)?;
        }
        // All pins, because another version of Strait may have pinned more.
        for pin in list(&self.path)?.iter().filter(|p| p.is_file()) {
            remove_if_there(fs::remove_file(pin), pin)?;
        }
        for pin in list(&self.path.join("maps"))? {
            remove_if_there(fs::remove_file(&pin), &pin)?;
        }
        // Links are removed last: they show that a removal was interrupted (see `sweep`).
        self.detach_all()?;
        for dir in ["maps", "links"] {
            let dir = self.path.join(dir);
            remove_if_there(fs::remove_dir(&dir), &dir)?;
        }
        remove_if_there(fs::remove_dir(&self.path), &self.path)?;
        // The common directory is removed with its last instance. If it is not empty, this fails and it stays.
        let _ = fs::remove_dir(super::fs::directory());
        Ok(())
    }

    /// Renames the instance. An existing instance with the new name hands over its hooks first, so that no packet passes unprocessed, and is
    /// removed.
    pub fn replace(self, name: &str) -> Result<Self> {
        let path = path_of(name)?;
        let old = Self { path: path.clone() };
        self.take_over(&old)?;
        old.remove()?;
        fs::rename(&self.path, &path).context(|| format!("rename {}", self.path.display()))?;
        Ok(Self { path })
    }

    /// Completes a replacement that was interrupted: an instance that has hooks already gets the name. One without hooks was not complete,
    /// and is removed.
    pub fn resume(next: &str, name: &str) -> Result<()> {
        let next = Self { path: path_of(next)? };
        let complete = next.path.join(PROGRAM).exists() && !next.attachments()?.is_empty();
        match complete {
            true => next.replace(name).map(drop),
            false => next.remove(),
        }
    }

    /// Whether there is anything of an instance with this name.
    pub fn exists(name: &str) -> bool {
        path_of(name).is_ok_and(|path| path.exists())
    }

    /// Removes the instance with this name, if there is one.
    pub fn remove_by_name(name: &str) -> Result<()> {
        Self { path: path_of(name)? }.remove()
    }

    /// Whether the instance was loaded from exactly this object. Another version of the object may have other maps.
    pub fn is_of(&self, object: &[u8]) -> bool {
        self.path.join(mark_of(object)).exists()
    }

    /// Leaves the mark of the object: an empty directory. A BPF file system allows nothing else besides pins.
    fn mark(&self, object: &[u8]) -> Result<()> {
        let mark = self.path.join(mark_of(object));
        fs::create_dir_all(&mark).context(|| format!("make {}", mark.display()))
    }

    /// Removes instances that only have pins left: all their interfaces are gone, for example with their namespace. Returns their names.
    /// (Links show this; an instance with clsact filters stays until it is removed by name.) One that a process changes is not looked at: its
    /// interfaces may be about to be made again. Of `own`, the caller has the lock.
    pub fn sweep(own: &str) -> Result<Vec<String>> {
        let mut dead = Vec::new();
        super::lock::sweep();
        for name in Self::all()? {
            let instance = Self { path: path_of(&name)? };
            if !instance.is_dead()? {
                continue;
            }
            let alone = super::try_lock(&name)?;
            if (alone.is_some() || name == own) && instance.is_dead()? {
                instance.remove()?;
                dead.push(name);
            }
        }
        Ok(dead)
    }

    /// The process of `strait run` or `strait test` that has loaded an instance, by the instance's name; `None` if it is a translator's.
    pub fn process_of(name: &str) -> Option<u32> {
        let (kind, number) = (name.split_once('-')?.0, name.rsplit_once('-')?.1);
        let process = number.parse().ok()?;
        ["run", "test"].contains(&kind).then_some(process)
    }

    /// Whether all interfaces of an instance that had some are gone.
    fn is_dead(&self) -> Result<bool> {
        let links = list(&self.path.join("links"))?;
        let gone = |link: &PathBuf| {
            let link = (!link.is_dir()).then(|| sys::open_pin(link).ok()).flatten();
            link.and_then(|link| sys::link_ifindex(link.as_fd()).ok()) == Some(0)
        };
        Ok(!links.is_empty() && links.iter().all(gone))
    }

    fn pin_all(&self, loaded: &mut Ebpf, entry: &str, beside: Option<&str>) -> Result<()> {
        for (name, map) in loaded.maps() {
            let pin = self.path.join("maps").join(name);
            // The maps .rodata and .bss are not pinned: the BPF file system allows no dots in names, and nobody else needs these maps. The loader has
            // pinned those that are pinned by name.
            if !name.starts_with('.') && !pin.exists() {
                map.pin(pin).map_err(|e| pin_error(name, e))?;
            }
        }
        // The program is pinned last: its pin shows that the instance is complete.
        let programs = [(beside, BESIDE), (Some(entry), PROGRAM)];
        for (name, pin) in programs.into_iter().filter_map(|(name, pin)| Some((name?, pin))) {
            let program = loaded.program_mut(name);
            let program = program.ok_or_else(|| Error::Object(format!("there is no program `{name}`")))?;
            program.pin(self.path.join(pin)).map_err(|e| pin_error(name, e))?;
        }
        Ok(())
    }
}

/// How long the directory of all instances is made again while others remove it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The names of the programs' pins.
pub(super) const PROGRAM: &str = "prog";
const BESIDE: &str = "beside";
const XDP: &str = "xdp";

fn open_program(path: &Path) -> Result<Program> {
    let fd = sys::open_pin(path).context(|| format!("open {}", path.display()))?;
    Ok(Program { fd })
}

/// The prefix of the names of object marks.
const OBJECT: &str = "object-";

fn mark_of(object: &[u8]) -> String {
    let digest: String = Sha256::digest(object).iter().take(16).map(|b| format!("{b:02x}")).collect();
    format!("{OBJECT}{digest}")
}

/// The last component of a path.
pub(super) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

fn load_program(loaded: &mut Ebpf, entry: &str) -> Result<()> {
    let known = loaded.programs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(", ");
    let program = loaded
        .program_mut(entry)
        .ok_or_else(|| Error::Object(format!("there is no program `{entry}` (there is: {known})")))?;
    let result = match program {
        AyaProgram::SchedClassifier(program) => program.load(),
        AyaProgram::Xdp(program) => program.load(),
        _ => return Err(Error::Object(format!("`{entry}` is neither a tc nor an XDP program"))),
    };
    result.map_err(|error| match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            Error::Rejected { program: entry.into(), source: io_error, log: tail(&verifier_log.to_string()) }
        }
        other => Error::Object(chain(&other)),
    })
}

/// The end of the verifier's log, which contains the reason.
fn tail(log: &str) -> String {
    const LINES: usize = 24;
    let lines: Vec<_> = log.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Finds the kernel's error number in aya's nested errors. The hint depends on it.
fn object_error(error: aya::EbpfError) -> Error {
    let what = chain(&error);
    match os_error(&error) {
        Some(source) => {
            let what = what.strip_suffix(&format!(": {source}")).unwrap_or(&what);
            Error::System { what: format!("load the eBPF object ({what})"), source }
        }
        None => Error::Object(what),
    }
}

fn pin_error(name: &str, error: aya::pin::PinError) -> Error {
    match os_error(&error) {
        Some(source) => Error::System { what: format!("pin `{name}`"), source },
        None => Error::Object(chain(&error)),
    }
}

fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<std::io::Error> {
    std::iter::successors(Some(error), |e| e.source())
        .find_map(|e| e.downcast_ref::<std::io::Error>()?.raw_os_error())
        .map(std::io::Error::from_raw_os_error)
}

/// An error with its causes in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in std::iter::successors(Some(error), |e| e.source()) {
        let text = part.to_string();
        // Some of aya's errors repeat their cause.
        if parts.last().is_none_or(|last| !last.ends_with(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

pub(super) fn path_of(name: &str) -> Result<PathBuf> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= 64 && name.chars().all(fine) {
        true => Ok(super::fs::directory().join(name)),
        false => Err(Error::NotFound(format!("instance `{name}`: names have letters, digits, - and _"))),
    }
}

/// The paths in a directory, in order; empty if the directory does not exist.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context(|| format!("read {}", dir.display()))?,
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Accepts that the path does not exist: a second `down` or a sweep may remove it at the same time.
pub(super) fn remove_if_there(result: std::io::Result<()>, path: &Path) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.context(|| format!("remove {}", path.display())),
    }
}
