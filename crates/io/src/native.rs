//! A P4 program as machine code in this process: compiled by the machine's own C compiler, kept by its content, loaded, and given
//! bursts of packets.
//!
//! A door for `unsafe`: the code that is called was made by `emit::native` for the manifest that the memory was made for, and
//! touches nothing but that memory, a worker's own, and the packets' buffers with the room around them.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use abi::native::{Burst, C_FLAGS, DROPPED, PARTIAL, Packet, SENT};
use abi::{Bits, Manifest};
use dataplane::memory::{Piece, Worker};
use dataplane::port::Offload;
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
const PROCESSOR: &str = "-march=native";

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

    /// As a file, which goes with what is returned.
    pub fn keep(&self) -> Result<Object> {
        let dir = Object::passing_dir()?;
        let kept = Object { path: dir.join("prepared.so"), passing: Some(dir) };
        std::fs::write(&kept.path, self.object).context(|| format!("write {}", kept.path.display()))?;
        Ok(kept)
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

/// Compiles C with some more flags, unless the same was compiled before: objects stay in `cache`, named by what they were made of.
fn compile(c: &str, more: &[String], cache: &Path) -> Result<PathBuf> {
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
    for part in [c.as_bytes(), &version.stdout, said.as_bytes(), flags.unwrap_or("").as_bytes()] {
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
    let own = format!("{name}.{}.{}", std::process::id(), turn());
    let (source, made) = (cache.join(format!("{own}.c")), cache.join(format!("{own}.part")));
    std::fs::write(&source, c).context(|| format!("write {}", source.display()))?;
    let run = Command::new(&compiler)
        .args(C_FLAGS)
        .arg(PROCESSOR)
        .arg("-o")
        .arg(&made)
        .arg(&source)
        .args(more)
        .output();
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
pub(crate) fn compiler() -> OsString {
    std::env::var_os("CC").filter(|cc| !cc.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Whether there is one.
pub fn has_compiler() -> bool {
    Command::new(compiler()).arg("--version").output().is_ok_and(|run| run.status.success())
}

/// Where objects are kept: `$STRAIT_CACHE`, `$XDG_CACHE_HOME/strait`, `~/.cache/strait`.
fn cache() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    var("STRAIT_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("strait")))
        .or_else(|| var("HOME").map(|home| home.join(".cache/strait")))
}

/// A compiled program as a file.
pub struct Object {
    path: PathBuf,
    /// Goes with it, where nothing can be kept.
    passing: Option<PathBuf>,
}

impl Object {
    /// Compiles C, unless the same was compiled before. Where objects cannot be kept it lives as long as this does.
    pub fn make(c: &str) -> Result<Object> {
        Object::make_with(c, &[])
    }

    /// As [`Object::make`], with more flags for the compiler.
    pub fn make_with(c: &str, more: &[String]) -> Result<Object> {
        let writable = |dir: &PathBuf| {
            let probe = dir.join(format!("probe.{}.{}", std::process::id(), turn()));
            std::fs::create_dir_all(dir).is_ok()
                && std::fs::write(&probe, "").is_ok()
                && std::fs::remove_file(&probe).is_ok()
        };
        if let Some(kept) = cache().filter(writable) {
            return Ok(Object { path: compile(c, more, &kept)?, passing: None });
        }
        let dir = Object::passing_dir()?;
        let mut object = Object { path: PathBuf::new(), passing: Some(dir.clone()) };
        object.path = compile(c, more, &dir)?;
        Ok(object)
    }

    /// As [`Object::make`], or, where there is no C compiler, the first of those prepared that runs on this processor.
    pub fn make_or(c: &str, prepared: &[Prepared]) -> Result<Object> {
        match prepared.iter().find(|p| p.suits()) {
            Some(prepared) if !has_compiler() => prepared.keep(),
            _ => Object::make(c),
        }
    }

    /// A directory of ours alone: what lies there is loaded.
    fn passing_dir() -> Result<PathBuf> {
        let dir = std::env::temp_dir().join(format!("strait-{}-{}", std::process::id(), turn()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&dir);
        made.context(|| format!("make {}", dir.display()))?;
        Ok(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(dir) = &self.passing {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// A number that no other call has got.
fn turn() -> u64 {
    static TURN: AtomicU64 = AtomicU64::new(0);
    TURN.fetch_add(1, Ordering::Relaxed)
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

/// Bytes of a huge page where pages have 4096 (x86-64, and aarch64 mostly).
const HUGE_PAGE: u64 = 1 << 21;

/// Asks for huge pages in a piece of memory, as far as there are whole ones in it. Where there are none it is slower, and nothing else.
fn huge_pages(piece: Piece) {
    let end = (piece.start + piece.length as u64) / HUGE_PAGE * HUGE_PAGE;
    let first = piece.start.next_multiple_of(HUGE_PAGE);
    if first >= end {
        return;
    }
    // What is written already has its small pages, which Linux 6.1 and later put together; the rest gets large ones when it is touched.
    let more = if piece.written { Some(libc::MADV_COLLAPSE) } else { None };
    for advice in [libc::MADV_HUGEPAGE].into_iter().chain(more) {
        // SAFETY: these are pages of the caller's, and neither advice changes what they hold.
        unsafe { libc::madvise(first as *mut libc::c_void, (end - first) as usize, advice) };
    }
}

impl NativeProgram {
    /// Loads an object that [`Object::make`] made of `emit::native`'s text; the manifest is the one beside it, and `registers` are the
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
        let memory = Memory::new(manifest, registers, huge_pages)?;
        Ok(NativeProgram { burst, _library: library, memory })
    }

    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Runs a batch of packets; each gets its verdict.
    pub fn run(&self, worker: &mut Worker, batch: &mut Batch) {
        worker.burst(|worker| {
            worker.spare = AtomicPtr::new(batch.spare.as_mut_ptr());
            worker.spares = batch.spare.len() as u64;
            worker.sent = AtomicPtr::new(batch.sent.as_mut_ptr());
            worker.sents = 0;
            // SAFETY: the memory is that of this program; the packets point into buffers that are borrowed by us alone, and say
            // truly how much room is around them; there are as many as pointers in use, and room to name all of them and all spare
            // buffers as sent.
            unsafe {
                (self.burst)(self.memory.shared(), worker, batch.pointers.as_mut_ptr(), batch.used as u32);
            }
            batch.leaving = worker.sents as usize;
        });
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Out of a port.
    Sent(u32),
    /// Dropped, for a reason of the manifest.
    Dropped(u32),
}

/// Packets in buffers of their own, to be filled and run again and again; and buffers for the copies that programs make.
pub struct Batch {
    /// All buffers, one after the other.
    memory: Vec<u8>,
    /// Bytes of a packet that a buffer holds.
    largest: usize,
    /// Bytes from one buffer to the next.
    stride: usize,
    /// Those that come in, then those for copies.
    packets: Vec<Packet>,
    /// Of packets that come in; programs take those.
    pointers: Vec<*mut Packet>,
    used: usize,
    /// Of packets for copies.
    spare: Vec<*mut Packet>,
    /// What the program sends, in order.
    sent: Vec<*mut Packet>,
    leaving: usize,
    /// Of packets that come in and are still to be segmented.
    offloads: Vec<Option<Offload>>,
}

// SAFETY: the pointers are to what the batch itself owns, which does not move with it.
unsafe impl Send for Batch {}

impl Batch {
    /// Room for so many packets of so many bytes, and for as many copies.
    pub fn new(packets: usize, largest: usize, copies: usize) -> Batch {
        let stride = (HEADROOM + largest + TAILROOM).next_multiple_of(64);
        let mut memory = vec![0; (packets + copies) * stride];
        let packet = |buffer: &mut [u8]| Packet {
            data: buffer[HEADROOM..].as_mut_ptr(),
            length: 0,
            headroom: HEADROOM as u32,
            tailroom: 0,
            port: 0,
            verdict: 0,
            reason: 0,
            capacity: stride as u32,
            flags: 0,
            token: 0,
        };
        let mut all: Vec<Packet> = memory.chunks_mut(stride).map(packet).collect();
        let mut pointers: Vec<_> = all.iter_mut().map(std::ptr::from_mut).collect();
        let sent = pointers.clone();
        let spare = pointers.split_off(packets);
        Batch {
            memory,
            largest,
            stride,
            packets: all,
            pointers,
            used: 0,
            spare,
            sent,
            leaving: 0,
            offloads: vec![None; packets],
        }
    }

    /// Adds a packet that has come in; false if there is no room for one more, or for one so large.
    #[inline]
    pub fn push(&mut self, port: u32, bytes: &[u8]) -> bool {
        let Some(room) = self.room().filter(|room| bytes.len() <= room.len()) else { return false };
        room[..bytes.len()].copy_from_slice(bytes);
        self.add(port, bytes.len(), None);
        true
    }

    /// Where the next packet goes; `None` where there is no room for one more.
    #[inline]
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let at = self.used;
        let start = at * self.stride + HEADROOM;
        (at < self.pointers.len()).then(|| &mut self.memory[start..start + self.largest])
    }

    /// Adds the packet that was written where [`Batch::room`] said.
    #[inline]
    pub fn add(&mut self, port: u32, length: usize, offload: Option<Offload>) {
        let at = self.used;
        assert!(at < self.offloads.len() && length <= self.largest, "there was no room for the packet");
        self.offloads[at] = offload;
        self.packets[at] = Packet {
            data: self.memory[at * self.stride + HEADROOM..].as_mut_ptr(),
            length: length as u32,
            headroom: HEADROOM as u32,
            tailroom: (self.stride - HEADROOM - length) as u32,
            port,
            verdict: 0,
            reason: 0,
            capacity: self.stride as u32,
            flags: if offload.is_some() { PARTIAL } else { 0 },
            token: at as u32,
        };
        self.used += 1;
    }

    /// How many packets have come in.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.used == self.pointers.len()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.used = 0;
        self.leaving = 0;
    }

    /// The packets that came in, with what became of them: `None` until they were run.
    pub fn packets(&self) -> impl Iterator<Item = (Option<Verdict>, &[u8])> {
        (0..self.used).map(|at| self.packet(at))
    }

    /// What leaves, with its port, in order.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.leaving().map(|(port, bytes, _)| (port, bytes))
    }

    /// As [`Batch::sent`], with what is still to be done to each packet.
    pub fn leaving(&self) -> impl Iterator<Item = (u32, &[u8], Option<&Offload>)> {
        self.sent[..self.leaving].iter().map(|p| {
            // SAFETY: the program names packets of this batch only, each within its buffer; nothing runs on them while we are borrowed.
            let (packet, bytes) =
                unsafe { (&**p, std::slice::from_raw_parts((**p).data, (**p).length as usize)) };
            (packet.port, bytes, self.offloads[packet.token as usize].as_ref())
        })
    }

    fn packet(&self, at: usize) -> (Option<Verdict>, &[u8]) {
        let packet = &self.packets[at];
        let verdict = match packet.verdict {
            SENT => Some(Verdict::Sent(packet.port)),
            DROPPED => Some(Verdict::Dropped(packet.reason)),
            _ => None,
        };
        let start = at * self.stride + packet.headroom as usize;
        (verdict, &self.memory[start..start + packet.length as usize])
    }
}
