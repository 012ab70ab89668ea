//! Lookups without a program, for measurements: in a native program's memory and in DPDK's own structures.
//!
//! A module with `unsafe`: the text of the harness comes from the crate `bench`, and this file calls its functions by name. Every
//! pointer is to a live slice with as many elements as the call says.
#![allow(unsafe_code)]

use std::fs::File;
use std::process::Command;

use abi::native::Shared;
use dataplane::Memory;
use libloading::{Library, Symbol};

use crate::native::{self, Object};
use crate::{Error, Result};

/// The cost of a lookup, and the sum of the results: next hops for DPDK, row numbers for Strait.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Timing {
    /// The sum of all results. It keeps the compiler from removing lookups.
    pub sum: u64,
    /// Duration of one lookup in nanoseconds.
    pub nanoseconds: f64,
    /// Duration of one lookup in cycles of the time-stamp counter; 0 if there is no such counter.
    pub cycles: f64,
}

type Lookup = unsafe extern "C" fn(*const Shared, u32, *const u8, u32, u64, u32, *mut Timing);
type Sum = unsafe extern "C" fn(*const Shared, u32, *const u8, u32, u64) -> u64;
type PeerBegin =
    unsafe extern "C" fn(*const u8, *const u8, *const u16, u64, u32, u32, *mut f64) -> libc::c_int;
type PeerLookup = unsafe extern "C" fn(*const u8, *const u32, u64, u32, u32, *mut Timing);
type PeerEnd = unsafe extern "C" fn();

/// Number of bytes after the last key that a lookup may read.
pub const SLACK: usize = 16;

/// The compiled benchmark harness.
pub struct Harness {
    /// The library is dropped before its file, because the loader identifies it by the path of the descriptor.
    library: Library,
    /// Whether the harness contains DPDK.
    pub peer: bool,
    _file: File,
}

/// Routes in the format of DPDK.
pub struct PeerRoutes<'r> {
    /// The prefixes, with 16 bytes each.
    pub prefixes: &'r [[u8; 16]],
    /// The length of each prefix in bits.
    pub lengths: &'r [u8],
    /// The next hop of each route.
    pub values: &'r [u16],
}

/// The flags of compiler and linker for DPDK; empty if it is not installed.
fn dpdk() -> Vec<String> {
    let asked = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let Some(found) = asked.ok().filter(|run| run.status.success()) else { return Vec::new() };
    let words = String::from_utf8_lossy(&found.stdout).into_owned();
    // `-march` is already set for this machine's processor.
    let kept = words.split_whitespace().filter(|w| !w.starts_with("-march="));
    ["-DWITH_DPDK".to_string()].into_iter().chain(kept.map(str::to_owned)).collect()
}

impl Harness {
    /// Compiles the harness, with DPDK if it is installed.
    pub fn make(c: &str) -> Result<Harness> {
        let peer = dpdk();
        let object = Object::make_with(c, &peer)?;
        // DPDK's libraries, which it may bring along, have constructors that register drivers, and nothing more.
        let (file, library) = native::library(&object)?;
        Ok(Harness { library, peer: !peer.is_empty(), _file: file })
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the harness defines the function with that type.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found.map_err(|why| Error::Library { name: "of the lookup harness".into(), why: why.to_string() })
    }

    /// Looks up keys of `size` bytes each. Their number is a power of two, and [`SLACK`] bytes follow the last one.
    pub fn lookup(
        &self,
        memory: &Memory,
        table: usize,
        keys: &[u8],
        size: usize,
        dependent: bool,
    ) -> Result<Timing> {
        let count = (keys.len() - SLACK) / size;
        assert!(count.is_power_of_two() && count >= 64, "as many keys as a power of two");
        let function = self.symbol::<Lookup>("strait_look_up")?;
        let mut timing = Timing::default();
        let (size, count) = (size as u32, count as u64);
        // SAFETY: the memory outlives the call, and there are as many keys.
        unsafe {
            function(memory.shared(), table as u32, keys.as_ptr(), size, count, dependent.into(), &mut timing)
        };
        Ok(timing)
    }

    /// The sum of the next hops of all keys.
    pub fn sum(&self, memory: &Memory, table: usize, keys: &[u8], size: usize) -> Result<u64> {
        let function = self.symbol::<Sum>("strait_sum")?;
        let count = ((keys.len() - SLACK) / size) as u64;
        // SAFETY: the memory outlives the call, and there are as many keys.
        Ok(unsafe { function(memory.shared(), table as u32, keys.as_ptr(), size as u32, count) })
    }

    /// Fills DPDK's structure, with `groups` groups of 256 entries after its first level. Returns the time in seconds, or the reason of the
    /// failure.
    pub fn peer_fill(
        &self,
        routes: &PeerRoutes<'_>,
        v6: bool,
        groups: u32,
    ) -> Result<std::result::Result<f64, &'static str>> {
        let function = self.symbol::<PeerBegin>("peer_begin")?;
        let mut took = 0.0;
        let (prefixes, lengths, values) = (routes.prefixes, routes.lengths, routes.values);
        assert!(
            prefixes.len() == lengths.len() && prefixes.len() == values.len(),
            "a length and a value each"
        );
        // SAFETY: all three are as long as said.
        let done = unsafe {
            let count = prefixes.len() as u64;
            function(
                prefixes.as_ptr().cast(),
                lengths.as_ptr(),
                values.as_ptr(),
                count,
                v6.into(),
                groups,
                &mut took,
            )
        };
        Ok(match done {
            0 => Ok(took),
            1 => Err("DPDK does not start (it wants huge pages: sysctl vm.nr_hugepages=2048)"),
            2 => Err("DPDK has not enough memory for the table (sysctl vm.nr_hugepages=2600)"),
            _ => Err("DPDK's table does not take all routes"),
        })
    }

    /// Looks up addresses in DPDK's structure.
    pub fn peer_lookup(&self, addresses: &[[u8; 16]], v6: bool, dependent: bool) -> Result<Timing> {
        let function = self.symbol::<PeerLookup>("peer_look_up")?;
        let host: Vec<u32> = addresses.iter().map(|a| u32::from_be_bytes([a[0], a[1], a[2], a[3]])).collect();
        let mut timing = Timing::default();
        let count = addresses.len() as u64;
        // SAFETY: both lists are as long as said.
        unsafe {
            function(
                addresses.as_ptr().cast(),
                host.as_ptr(),
                count,
                v6.into(),
                dependent.into(),
                &mut timing,
            );
        }
        Ok(timing)
    }

    /// Frees DPDK's structures.
    pub fn peer_clear(&self) -> Result<()> {
        let function = self.symbol::<PeerEnd>("peer_end")?;
        // SAFETY: nothing looks up in them now.
        unsafe { function() };
        Ok(())
    }
}

/// The value of the time-stamp counter; 0 if there is no such counter.
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}
