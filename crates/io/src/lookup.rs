//! Look-ups alone, of a native program's memory and of DPDK's own structures, for measurements.
//!
//! A door for `unsafe`: the harness's text comes from the command line's crate, and is what this file calls by name; every pointer is
//! to a live slice, and as many elements as are said.
#![allow(unsafe_code)]

use std::path::Path;
use std::process::Command;

use abi::native::Shared;
use dataplane::Memory;
use libloading::{Library, Symbol};

use crate::native::Object;
use crate::{Error, Result};

/// What a look-up cost, and a sum of what was found: of DPDK's values, which are next hops, or of ours, which are numbers of rows.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Timing {
    /// So that nothing is left out.
    pub sum: u64,
    /// Of one look-up.
    pub nanoseconds: f64,
    /// Of one look-up, by the time-stamp counter; 0 where there is none.
    pub cycles: f64,
}

type LookUp = unsafe extern "C" fn(*const Shared, u32, *const u8, u32, u64, u32, *mut Timing);
type Sum = unsafe extern "C" fn(*const Shared, u32, *const u8, u32, u64) -> u64;
type PeerBegin =
    unsafe extern "C" fn(*const u8, *const u8, *const u16, u64, u32, u32, *mut f64) -> libc::c_int;
type PeerLookUp = unsafe extern "C" fn(*const u8, *const u32, u64, u32, u32, *mut Timing);
type PeerEnd = unsafe extern "C" fn();

/// Bytes behind the last key that a look-up may read.
pub const SLACK: usize = 16;

/// The compiled harness.
pub struct Harness {
    library: Library,
    /// Whether DPDK is in it.
    pub peer: bool,
    _object: Object,
}

/// Routes as DPDK wants them.
pub struct PeerRoutes<'r> {
    /// 16 bytes each.
    pub prefixes: &'r [[u8; 16]],
    /// Bits of each.
    pub lengths: &'r [u8],
    /// Next hops.
    pub values: &'r [u16],
}

/// What the linker and the compiler must be told for DPDK; nothing where it is not installed.
fn dpdk() -> Vec<String> {
    let asked = Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"]).output();
    let Some(found) = asked.ok().filter(|run| run.status.success()) else { return Vec::new() };
    let words = String::from_utf8_lossy(&found.stdout).into_owned();
    // The machine's own processor is said already, and better.
    let kept = words.split_whitespace().filter(|w| !w.starts_with("-march="));
    ["-DWITH_DPDK".to_string()].into_iter().chain(kept.map(str::to_owned)).collect()
}

impl Harness {
    /// Compiles it, with DPDK where that is installed.
    pub fn make(c: &str) -> Result<Harness> {
        let peer = dpdk();
        let object = Object::make_with(c, &peer)?;
        Ok(Harness { library: load(object.path())?, peer: !peer.is_empty(), _object: object })
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the harness defines the function with that type.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found.map_err(|why| Error::Library { path: "the look-up harness".into(), why: why.to_string() })
    }

    /// Looks keys up: `size` bytes each, as many as a power of two, and [`SLACK`] behind them.
    pub fn look_up(
        &self,
        memory: &Memory,
        table: usize,
        keys: &[u8],
        size: usize,
        dependent: bool,
    ) -> Result<Timing> {
        let count = (keys.len() - SLACK) / size;
        assert!(count.is_power_of_two() && count >= 64, "as many keys as a power of two");
        let function = self.symbol::<LookUp>("strait_look_up")?;
        let mut timing = Timing::default();
        let (size, count) = (size as u32, count as u64);
        // SAFETY: the memory outlives the call, and there are as many keys.
        unsafe {
            function(memory.shared(), table as u32, keys.as_ptr(), size, count, dependent.into(), &mut timing)
        };
        Ok(timing)
    }

    /// The sum of all next hops that the keys lead to.
    pub fn sum(&self, memory: &Memory, table: usize, keys: &[u8], size: usize) -> Result<u64> {
        let function = self.symbol::<Sum>("strait_sum")?;
        let count = ((keys.len() - SLACK) / size) as u64;
        // SAFETY: the memory outlives the call, and there are as many keys.
        Ok(unsafe { function(memory.shared(), table as u32, keys.as_ptr(), size as u32, count) })
    }

    /// Fills DPDK's structure with `groups` groups of 256 behind its first level; the seconds that it took, or why it cannot.
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

    /// Looks addresses up in DPDK's structure.
    pub fn peer_look_up(&self, addresses: &[[u8; 16]], v6: bool, dependent: bool) -> Result<Timing> {
        let function = self.symbol::<PeerLookUp>("peer_look_up")?;
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

fn load(path: &Path) -> Result<Library> {
    // SAFETY: the object was made by us; DPDK's libraries, which it may bring along, have constructors that register drivers.
    let library = unsafe { Library::new(path) };
    library.map_err(|why| Error::Library { path: path.to_owned(), why: why.to_string() })
}

/// The time-stamp counter; 0 where there is none.
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}
