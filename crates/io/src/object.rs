//! Machine code as files: compiled by the machine's own C compiler, or prepared elsewhere, and kept by content.
//!
//! An [`Object`] is an open file that nobody but root and this user could have written. What is checked and what is loaded are the
//! same descriptor, so nothing can be exchanged in between.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::native::C_FLAGS;
use sha2::{Digest, Sha256};

use crate::error::Context;
use crate::workdir::{self, WorkDir};
use crate::{Error, Result};

/// For this machine's processor: objects are made where they run.
const PROCESSOR: &str = "-march=native";

/// A compiled program.
#[derive(Debug)]
pub struct Object {
    file: File,
    name: String,
}

impl Object {
    /// Compiles C, unless the same was compiled before.
    pub fn make(c: &str) -> Result<Object> {
        Object::make_with(c, &[])
    }

    /// As [`Object::make`], with more flags for the compiler.
    pub fn make_with(c: &str, more: &[String]) -> Result<Object> {
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
        let object = compile(c, more, &name)?;
        // Without a copy for the next time, this one is as good.
        if let Some(cache) = &cache {
            let _ = object.bytes().map(|bytes| cache.keep(&name, &bytes));
        }
        Ok(object)
    }

    /// As [`Object::make`], or, where there is no C compiler, the first of those prepared that runs on this processor.
    pub fn make_or(c: &str, prepared: &[Prepared]) -> Result<Object> {
        match prepared.iter().find(|p| p.suits()) {
            Some(prepared) if !has_compiler() => prepared.object(),
            _ => Object::make(c),
        }
    }

    /// The shared object itself.
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

    /// A copy of the object in memory, and a path to it. Whoever loads the copy must keep its descriptor: the loader identifies libraries
    /// by their paths, and by their files. Two loads of one file would share one library under the path of the first, which a later
    /// descriptor of the same number would then name; each copy is a file of its own.
    pub(crate) fn handle(&self) -> Result<(File, PathBuf)> {
        let what = || format!("copy the object {}", self.name);
        let file = File::from(crate::sys::memory_file(c"strait-object").context(what)?);
        file.write_all_at(&self.bytes()?, 0).context(what)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok((file, path))
    }
}

/// An object that was made elsewhere.
pub struct Prepared {
    /// What gcc calls the processors that it is for (`-march`); empty for all of this kind.
    pub processor: &'static str,
    /// The shared object; empty where there was no compiler.
    pub object: &'static [u8],
}

impl Prepared {
    /// Whether it runs on this processor. The levels are those of the x86-64 psABI.
    pub fn suits(&self) -> bool {
        !self.object.is_empty() && suits(self.processor)
    }

    /// As an object that can be loaded.
    pub fn object(&self) -> Result<Object> {
        let dir = WorkDir::new()?;
        dir.write("prepared.so", self.object)?;
        Ok(Object { file: dir.open("prepared.so")?, name: format!("prepared for {:?}", self.processor) })
    }
}

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

/// `$CC`, or the machine's `cc`.
pub(crate) fn compiler() -> OsString {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Whether there is one.
pub fn has_compiler() -> bool {
    Command::new(compiler()).arg("--version").output().is_ok_and(|run| run.status.success())
}

/// What an object is kept as: a digest of all that it is made of.
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
    // A script that calls the same compiler with other flags says the same version.
    let name = compiler.as_encoded_bytes();
    for part in [c.as_bytes(), name, &version.stdout, said.as_bytes(), flags.unwrap_or("").as_bytes()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    Ok(digest.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect())
}

/// Compiles in a directory that is gone afterwards; the open file stays.
fn compile(c: &str, more: &[String], name: &str) -> Result<Object> {
    let dir = WorkDir::new()?;
    let source = dir.write("program.c", c.as_bytes())?;
    let compiler = compiler();
    let run = Command::new(&compiler)
        .args(C_FLAGS)
        .arg(PROCESSOR)
        .arg("-o")
        .arg(dir.path().join("program.so"))
        .arg(&source)
        .args(more)
        .output();
    let run = run.map_err(|e| Error::Compiler(format!("cannot run {}: {e}", compiler.to_string_lossy())))?;
    if !run.status.success() {
        let log = String::from_utf8_lossy(&run.stderr);
        return Err(Error::Compiler(format!("the C compiler does not take the program:\n{log}")));
    }
    Ok(Object { file: dir.open("program.so")?, name: name.to_owned() })
}

/// Where objects are kept: `$STRAIT_CACHE`, `$XDG_CACHE_HOME/strait`, `~/.cache/strait`.
fn place() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    var("STRAIT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("strait")))
        .or_else(|| var("HOME").map(|home| home.join(".cache/strait")))
}

/// A directory of objects that only root and this user can write, wherever the environment says that it is: sudo may keep a variable
/// that leads into another user's home.
struct Cache {
    /// By descriptor, so that it stays the directory that was checked.
    directory: File,
}

impl Cache {
    /// Opens it, and makes it if need be. `None` where the environment names none.
    fn open() -> std::result::Result<Option<Cache>, String> {
        let Some(place) = place() else { return Ok(None) };
        let problem = |why: &dyn std::fmt::Display| format!("{}: {why}", place.display());
        // Nothing is created in a directory that another user could have prepared.
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

    /// An object that was kept, if it can be trusted.
    fn find(&self, name: &str) -> Option<Object> {
        let file = workdir::open(&self.path(&format!("{name}.so"))).ok()?;
        let found = file.metadata().ok()?;
        (found.is_file() && workdir::trusted(&found).is_ok()).then(|| Object { file, name: name.to_owned() })
    }

    /// Keeps an object. It is written under a name of its own until it is whole: others may keep the same.
    fn keep(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let own = self.path(&format!("{name}.{}.{turn}.part", std::process::id()));
        let kept = workdir::create(&own, bytes);
        let kept = kept.and_then(|()| std::fs::rename(&own, self.path(&format!("{name}.so"))));
        kept.inspect_err(|_| drop(std::fs::remove_file(&own)))
    }
}
