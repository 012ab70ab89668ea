//! A P4 program as machine code in this process: compiled by the machine's own C compiler, kept by its content, loaded, and given
//! bursts of packets.
//!
//! A door for `unsafe`: the code that is called was made by `emit::native` for the manifest that the memory was made for, and
//! touches nothing but that memory, a worker's own, and the packets' buffers with the room around them.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::native::{Burst, DROPPED, Packet, SENT};
use abi::{Bits, Manifest};
use dataplane::memory::Worker;
use dataplane::{Memory, TableError};
use libloading::Library;
use sha2::{Digest, Sha256};

use crate::error::Context;
use crate::{Error, Result};

/// Room in front of a packet for headers that a program adds.
pub const HEADROOM: usize = 256;
/// Room behind it, which is used when there is none in front.
pub const TAILROOM: usize = 256;

/// For this machine's processor: objects are made where they run.
const FLAGS: [&str; 7] =
    ["-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-fvisibility=hidden", "-w"];

/// Compiles C, unless the same was compiled before: objects stay in `cache`, named by what they were made of.
pub fn compile(c: &str, cache: &Path) -> Result<PathBuf> {
    let compiler = compiler();
    let version = Command::new(&compiler).arg("--version").output();
    let version = version.map_err(|e| {
        let name = compiler.to_string_lossy();
        Error::Compiler(format!("the native target needs a C compiler ({name}: {e}): apt-get install gcc"))
    })?;
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
    let mut digest = Sha256::new();
    for part in [c.as_bytes(), &version.stdout, FLAGS.join(" ").as_bytes(), flags.unwrap_or("").as_bytes()] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let name: String = digest.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
    let object = cache.join(format!("{name}.so"));
    if object.exists() {
        return Ok(object);
    }
    std::fs::create_dir_all(cache).context(|| format!("make {}", cache.display()))?;
    // Under names of our own until it is whole: others may be compiling the same.
    static TURN: AtomicU64 = AtomicU64::new(0);
    let own = format!("{name}.{}.{}", std::process::id(), TURN.fetch_add(1, Ordering::Relaxed));
    let (source, made) = (cache.join(format!("{own}.c")), cache.join(format!("{own}.part")));
    std::fs::write(&source, c).context(|| format!("write {}", source.display()))?;
    let run = Command::new(&compiler).args(FLAGS).arg("-o").arg(&made).arg(&source).output();
    let _ = std::fs::remove_file(&source);
    let run = run.map_err(|e| Error::Compiler(format!("cannot run {}: {e}", compiler.to_string_lossy())))?;
    if !run.status.success() {
        let _ = std::fs::remove_file(&made);
        let log = String::from_utf8_lossy(&run.stderr);
        return Err(Error::Compiler(format!("the C compiler does not take the program:\n{log}")));
    }
    std::fs::rename(&made, &object).context(|| format!("write {}", object.display()))?;
    Ok(object)
}

/// `$CC`, or the machine's `cc`.
fn compiler() -> OsString {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Whether there is one.
pub fn has_compiler() -> bool {
    Command::new(compiler()).arg("--version").output().is_ok_and(|run| run.status.success())
}

/// Where objects are kept: `$STRAIT_CACHE`, `$XDG_CACHE_HOME/strait`, `~/.cache/strait`.
pub fn cache() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    var("STRAIT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("strait")))
        .or_else(|| var("HOME").map(|home| home.join(".cache/strait")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("strait-cache-{}", std::process::id())))
}

/// A loaded program and its memory.
pub struct NativeProgram {
    /// Before the library, for nothing of it may be called when that is gone.
    burst: Burst,
    _library: Library,
    memory: Memory,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its object.
    #[error(transparent)]
    Object(#[from] Error),
    /// Its first entries.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl NativeProgram {
    /// Loads an object that [`compile`] made of `emit::native`'s text; the manifest is the one beside it, and `registers` are the
    /// first values of its registers.
    pub fn load(
        object: &Path,
        manifest: &Manifest,
        registers: &[Bits],
    ) -> std::result::Result<NativeProgram, StartError> {
        let why = |e: libloading::Error| Error::Library { path: object.to_owned(), why: e.to_string() };
        // SAFETY: the object was made by us and has no constructors.
        let library = unsafe { Library::new(object) }.map_err(why)?;
        // SAFETY: the manifest names the function that the emitter wrote, whose type is `Burst`.
        let burst = *unsafe { library.get::<Burst>(manifest.entry.as_bytes()) }.map_err(why)?;
        Ok(NativeProgram { burst, _library: library, memory: Memory::new(manifest, registers)? })
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs a burst of packets; each gets its verdict.
    pub fn burst(&self, worker: &mut Worker, frames: &mut [Frame]) {
        let mut packets: Vec<Packet> = frames.iter_mut().map(Frame::packet).collect();
        let mut pointers: Vec<*mut Packet> = packets.iter_mut().map(std::ptr::from_mut).collect();
        worker.burst(|worker| {
            // SAFETY: the memory is that of this program; the packets point into buffers that are borrowed by us alone, and say
            // truly how much room is around them; their number is that of the pointers.
            unsafe {
                (self.burst)(self.memory.shared(), worker, pointers.as_mut_ptr(), pointers.len() as u32);
            }
        });
        for (frame, packet) in frames.iter_mut().zip(&packets) {
            frame.take(packet);
        }
    }
}

/// A packet in a buffer of its own.
#[derive(Clone, Debug)]
pub struct Frame {
    buffer: Vec<u8>,
    start: usize,
    length: usize,
    port: u32,
    verdict: Option<Verdict>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out of a port.
    Sent(u32),
    /// Dropped, for a reason of the manifest.
    Dropped(u32),
}

impl Frame {
    /// A packet that has come in.
    pub fn new(port: u32, bytes: &[u8]) -> Frame {
        let mut buffer = vec![0; HEADROOM + bytes.len() + TAILROOM];
        buffer[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
        Frame { buffer, start: HEADROOM, length: bytes.len(), port, verdict: None }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.length]
    }

    /// What became of it.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    fn packet(&mut self) -> Packet {
        Packet {
            data: self.buffer[self.start..].as_mut_ptr(),
            length: self.length as u32,
            headroom: self.start as u32,
            tailroom: (self.buffer.len() - self.start - self.length) as u32,
            port: self.port,
            verdict: 0,
            reason: 0,
        }
    }

    fn take(&mut self, packet: &Packet) {
        self.verdict = match packet.verdict {
            SENT => Some(Verdict::Sent(packet.port)),
            DROPPED => Some(Verdict::Dropped(packet.reason)),
            _ => None,
        };
        if packet.verdict == SENT {
            (self.start, self.length) = (packet.headroom as usize, packet.length as usize);
        }
    }
}
