//! Loading an object, and everything that its pins stand for.

use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use aya::programs::{Program as AyaProgram, ProgramError};
use aya::{Ebpf, EbpfLoader};

use super::{Map, Program};
use crate::error::Context;
use crate::{Error, Result, sys};

/// A loaded program with its maps, known by its pins. Dropping the value leaves them.
#[derive(Debug, Clone)]
pub struct Instance {
    path: PathBuf,
}

/// What may differ from what the object says.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Capacities of maps, by name.
    pub max_entries: Vec<(String, u32)>,
}

impl Instance {
    /// Loads the program `entry` of an ELF object and pins it with its maps under a name of letters, digits, `-` and `_`.
    /// On failure nothing is left behind.
    pub fn load(name: &str, object: &[u8], entry: &str, options: &LoadOptions) -> Result<Self> {
        super::fs::ensure()?;
        let instance = Self { path: path_of(name)? };
        if instance.path.exists() {
            return Err(Error::Exists(instance.path));
        }
        let mut loader = EbpfLoader::new();
        for (map, size) in &options.max_entries {
            loader.set_max_entries(map, *size);
        }
        // A copy: the loader wants the object aligned, as what an allocator gives is and embedded bytes are not.
        let aligned = object.to_vec();
        let mut loaded = loader.load(&aligned).map_err(object_error)?;
        load_program(&mut loaded, entry)?;
        let pinned = instance.mark(object).and_then(|()| instance.pin_all(&mut loaded, entry));
        if pinned.is_err() {
            let _ = instance.clone().remove();
        }
        pinned.map(|()| instance)
    }

    /// Finds one by its pins.
    pub fn open(name: &str) -> Result<Self> {
        let path = path_of(name)?;
        match path.join("prog").exists() {
            true => Ok(Self { path }),
            false => Err(Error::NotFound(format!("loaded program `{name}`"))),
        }
    }

    /// Names of all instances, whole or broken, in order.
    pub fn all() -> Result<Vec<String>> {
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        Ok(list(&super::fs::directory())?.into_iter().filter_map(name).collect())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the program.
    pub fn program(&self) -> Result<Program> {
        let path = self.path.join("prog");
        let fd = sys::open_pin(&path).context(|| format!("open {}", path.display()))?;
        Ok(Program { fd })
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

    /// Names of its maps, in order.
    pub fn maps(&self) -> Result<Vec<String>> {
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        Ok(list(&self.path.join("maps"))?.into_iter().filter_map(name).collect())
    }

    /// Detaches the program and removes every pin. What is half there (after a kill in the middle of loading) goes as well.
    pub fn remove(self) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        for mark in list(&self.path)?.iter().filter(|p| file_name(p).starts_with(OBJECT)) {
            remove_if_there(fs::remove_dir(mark), mark)?;
        }
        let program = self.path.join("prog");
        remove_if_there(fs::remove_file(&program), &program)?;
        for pin in list(&self.path.join("maps"))? {
            remove_if_there(fs::remove_file(&pin), &pin)?;
        }
        // Links last: by them a removal that is killed half way is known for one, see `sweep`.
        self.detach_all()?;
        for dir in ["maps", "links"] {
            let dir = self.path.join(dir);
            remove_if_there(fs::remove_dir(&dir), &dir)?;
        }
        remove_if_there(fs::remove_dir(&self.path), &self.path)?;
        // The common directory goes with its last instance; with others inside, it stays.
        let _ = fs::remove_dir(super::fs::directory());
        Ok(())
    }

    /// Removes whatever stands under a name, if anything does.
    pub fn remove_by_name(name: &str) -> Result<()> {
        Self { path: path_of(name)? }.remove()
    }

    /// Whether it was loaded from this very object: another version of it may name its maps otherwise.
    pub fn is_of(&self, object: &[u8]) -> bool {
        self.path.join(mark_of(object)).exists()
    }

    /// Leaves the object's mark: an empty directory, which is all that a BPF file system takes besides pins.
    fn mark(&self, object: &[u8]) -> Result<()> {
        let mark = self.path.join(mark_of(object));
        fs::create_dir_all(&mark).context(|| format!("make {}", mark.display()))
    }

    /// Removes instances of which nothing is left but pins: those whose interfaces have all gone, with their namespace
    /// perhaps. Returns their names. (Links tell; what is attached by clsact filters stays until somebody names it.)
    pub fn sweep() -> Result<Vec<String>> {
        let mut dead = Vec::new();
        for name in Self::all()? {
            let instance = Self { path: path_of(&name)? };
            let links = list(&instance.path.join("links"))?;
            let gone = |link: &PathBuf| {
                let link = (!link.is_dir()).then(|| sys::open_pin(link).ok()).flatten();
                link.and_then(|link| sys::link_ifindex(link.as_fd()).ok()) == Some(0)
            };
            if !links.is_empty() && links.iter().all(gone) {
                instance.remove()?;
                dead.push(name);
            }
        }
        Ok(dead)
    }

    fn pin_all(&self, loaded: &mut Ebpf, entry: &str) -> Result<()> {
        for dir in ["maps", "links"] {
            let dir = self.path.join(dir);
            fs::create_dir_all(&dir).context(|| format!("make {}", dir.display()))?;
        }
        for (name, map) in loaded.maps() {
            // .rodata and .bss: the BPF file system takes no dots, and nobody outside needs them.
            if !name.starts_with('.') {
                map.pin(self.path.join("maps").join(name)).map_err(|e| pin_error(name, e))?;
            }
        }
        // The program comes last: its pin means that the instance is whole.
        let path = self.path.join("prog");
        match loaded.program_mut(entry) {
            Some(program) => program.pin(path).map_err(|e| pin_error(entry, e)),
            None => Err(Error::Object(format!("there is no program `{entry}`"))),
        }
    }
}

/// What marks of objects begin with.
const OBJECT: &str = "object-";

fn mark_of(object: &[u8]) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    object.hash(&mut hasher);
    format!("{OBJECT}{:016x}", hasher.finish())
}

/// A path's last part.
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

/// The end of the verifier's log, which is where the reason stands.
fn tail(log: &str) -> String {
    const LINES: usize = 24;
    let lines: Vec<_> = log.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// aya hides the kernel's answer deep in its errors; dig the error number out, for it decides on the hint.
fn object_error(error: aya::EbpfError) -> Error {
    let what = format!("load the eBPF object ({})", chain(&error));
    match os_error(&error) {
        Some(source) => Error::System { what, source },
        None => Error::Object(chain(&error)),
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

/// An error with its causes, on a line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in std::iter::successors(Some(error), |e| e.source()) {
        let text = part.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

fn path_of(name: &str) -> Result<PathBuf> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= 64 && name.chars().all(fine) {
        true => Ok(super::fs::directory().join(name)),
        false => Err(Error::NotFound(format!("instance `{name}`: names have letters, digits, - and _"))),
    }
}

/// The paths in a directory, in order; none if it is not there.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context(|| format!("read {}", dir.display()))?,
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Somebody else may be removing the same: a second `down`, or a sweep.
pub(super) fn remove_if_there(result: std::io::Result<()>, path: &Path) -> Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.context(|| format!("remove {}", path.display())),
    }
}
