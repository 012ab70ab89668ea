//! Shared objects of native programs. They are compiled by this machine's C compiler or prepared on another machine, and cached by a digest
//! of their input.
//!
//! An [`Object`] is an open file that only root and this user can have written. The same descriptor is checked and loaded, so another user
//! cannot replace the file in between.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::native::C_FLAGS;
use sha2::{Digest, Sha256};

use crate::compiler::{self, Cancel};
use crate::error::Context;
use crate::workdir::{self, WorkDir};
use crate::{Error, Result};

/// The compiler flag for this machine's processor. Objects run on the machine that compiles them.
const PROCESSOR: &str = "-march=native";

/// A compiled program as an open file.
#[derive(Debug)]
pub struct Object {
    file: File,
    name: String,
}

impl Object {
    /// Compiles C, or returns the object from the cache if the same C was compiled before.
    pub fn make(c: &str) -> Result<Object> {
        Object::make_with(c, &[])
    }

    /// Like [`Object::make`], with more flags for the compiler.
    pub fn make_with(c: &str, more: &[String]) -> Result<Object> {
        Object::make_until(c, more, &Cancel::default())
    }

    /// Like [`Object::make_with`], for work that may be cancelled.
    pub fn make_until(c: &str, more: &[String], cancel: &Cancel) -> Result<Object> {
        let name = name_of(c, more)?;
        let cache = match Cache::open() {
            Ok(cache) => cache,
            Err(why) => {
                static TOLD: Once = Once::new();
                TOLD.call_once(|| eprintln!("warning: compiled programs are not kept: {why}"));
                None
            }
        };
        if let Some(object) = cache.as_ref().and_then(|cache| cache.find(&name)) {
            return Ok(object);
        }
        let object = compile(c, more, &name, cancel)?;
        // If the object cannot be cached, it can still be used.
        if let Some(cache) = &cache {
            let _ = object.bytes().map(|bytes| cache.keep(&name, &bytes));
        }
        Ok(object)
    }

    /// Like [`Object::make`]; but if there is no C compiler, returns the first prepared object that runs on this processor.
    pub fn make_or(c: &str, prepared: &[Prepared]) -> Result<Object> {
        match prepared.iter().find(|p| p.suits()) {
            Some(prepared) if !has_compiler() => prepared.object(),
            _ => Object::make(c),
        }
    }

    /// The contents of the shared object.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let what = || format!("read the object {}", self.name);
        let size = self.file.metadata().context(what)?.len();
        let mut bytes = vec![0; size as usize];
        self.file.read_exact_at(&mut bytes, 0).context(what)?;
        Ok(bytes)
    }

    /// The name of the object, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Copies the object to a file in memory, and returns it with a path for the loader. The caller must keep the descriptor open as long as
    /// the library is loaded. The loader identifies libraries by path and by file. If one file were loaded twice, both loads would share
    /// the library under the path of the first, and later another descriptor could get that path. Each copy is therefore a file of its own.
    pub(crate) fn handle(&self) -> Result<(File, PathBuf)> {
        let what = || format!("copy the object {}", self.name);
        let file = File::from(crate::sys::memory_file(c"strait-object").context(what)?);
        file.write_all_at(&self.bytes()?, 0).context(what)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok((file, path))
    }
}

/// An object that was compiled on another machine.
pub struct Prepared {
    /// The processors that the object runs on, as gcc's `-march` names them; empty for all processors of the architecture.
    pub processor: &'static str,
    /// The contents of the shared object; empty if there was no compiler when Strait was built.
    pub object: &'static [u8],
}

impl Prepared {
    /// Whether the object runs on this processor.
    pub fn suits(&self) -> bool {
        !self.object.is_empty() && suits(self.processor)
    }

    /// Writes the object to a file, so that it can be loaded.
    pub fn object(&self) -> Result<Object> {
        let dir = WorkDir::new()?;
        dir.write("prepared.so", self.object)?;
        Ok(Object { file: dir.open("prepared.so")?, name: format!("prepared for {:?}", self.processor) })
    }
}

/// Whether this processor has the features of a level of the x86-64 psABI.
#[cfg(target_arch = "x86_64")]
fn suits(processor: &str) -> bool {
    use std::arch::is_x86_feature_detected as has;
    let third = || {
        has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("fma")
            && has!("f16c")
            && has!("lzcnt")
            && has!("movbe")
    };
    match processor {
        "" => true,
        "x86-64-v3" => third(),
        "x86-64-v4" => {
            third()
                && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512cd")
                && has!("avx512dq")
                && has!("avx512vl")
        }
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn suits(processor: &str) -> bool {
    processor.is_empty()
}

/// The name of the C compiler: `$CC`, or `cc`.
pub(crate) fn compiler() -> OsString {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Whether there is a C compiler.
pub fn has_compiler() -> bool {
    Command::new(compiler()).arg("--version").output().is_ok_and(|run| run.status.success())
}

/// The name of an object in the cache: a digest of the C, the flags, the compiler and its version, and the processor's features.
fn name_of(c: &str, more: &[String]) -> Result<String> {
    let compiler = compiler();
    let version = Command::new(&compiler).arg("--version").output();
    let version = version.map_err(|e| {
        let name = compiler.to_string_lossy();
        Error::Compiler(format!("the native target needs a C compiler ({name}: {e}): apt-get install gcc"))
    })?;
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
    let mut digest = Sha256::new();
    let said = C_FLAGS.join(" ") + PROCESSOR + &more.join(" ");
    // The name of the compiler counts too, because a script that adds flags to a compiler reports the same version.
    let name = compiler.as_encoded_bytes();
    for part in [c.as_bytes(), name, &version.stdout, said.as_bytes(), flags.unwrap_or("").as_bytes()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    Ok(digest.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect())
}

/// Compiles an object. The object is in a file that the compiler cannot write.
fn compile(c: &str, more: &[String], name: &str, cancel: &Cancel) -> Result<Object> {
    let flags = C_FLAGS.iter().copied().chain([PROCESSOR]).chain(more.iter().map(String::as_str));
    let arguments: Vec<&OsStr> = flags.map(OsStr::new).collect();
    let bytes = compiler::compile(&compiler(), &arguments, c, cancel)?;
    let dir = WorkDir::new()?;
    dir.write("program.so", &bytes)?;
    Ok(Object { file: dir.open("program.so")?, name: name.to_owned() })
}

/// The directory of the cache: the first of `$STRAIT_CACHE`, `$XDG_CACHE_HOME/strait` and `~/.cache/strait` whose variable is set.
fn place() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    var("STRAIT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("strait")))
        .or_else(|| var("HOME").map(|home| home.join(".cache/strait")))
}

/// A cache directory that only root and this user can write. This must be checked because sudo may keep an environment variable that names
/// a directory of another user.
struct Cache {
    /// The descriptor of the directory that was checked. A path could be replaced later.
    directory: File,
}

impl Cache {
    /// Opens the cache directory, and creates it if it does not exist. Returns `None` if the environment names no directory.
    fn open() -> std::result::Result<Option<Cache>, String> {
        let Some(place) = place() else { return Ok(None) };
        let problem = |why: &dyn std::fmt::Display| format!("{}: {why}", place.display());
        // The check comes first, so that nothing is created in a directory that another user controls.
        let there = place.ancestors().find(|dir| dir.symlink_metadata().is_ok());
        workdir::trusted_place(there.unwrap_or(Path::new("/")))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&place).map_err(|e| problem(&e))?;
        let real = workdir::trusted_place(&place)?;
        let directory = workdir::open(&real).map_err(|e| problem(&e))?;
        let found = directory.metadata().map_err(|e| problem(&e))?;
        workdir::trusted(&found).map_err(|why| problem(&format!("it {why}")))?;
        Ok(Some(Cache { directory }))
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()))
    }

    /// Returns an object from the cache, if it exists and only root and this user can have written it.
    fn find(&self, name: &str) -> Option<Object> {
        let file = workdir::open(&self.path(&format!("{name}.so"))).ok()?;
        let found = file.metadata().ok()?;
        (found.is_file() && workdir::trusted(&found).is_ok()).then(|| Object { file, name: name.to_owned() })
    }

    /// Adds an object to the cache. The function writes a file with a unique name and renames it when it is complete, because other
    /// processes may add the same object at the same time.
    fn keep(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let own = self.path(&format!("{name}.{}.{turn}.part", std::process::id()));
        let kept = workdir::create(&own, bytes);
        let kept = kept.and_then(|()| std::fs::rename(&own, self.path(&format!("{name}.so"))));
        kept.inspect_err(|_| drop(std::fs::remove_file(&own)))
    }
}
