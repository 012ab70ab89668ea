//! eBPF objects: loaded with aya, then only known by their pins.
//!
//! An *instance* is a directory `/sys/fs/bpf/strait/NAME`:
//!
//! | path | what |
//! |---|---|
//! | `prog` | the program |
//! | `beside` | a second program, for the tc hooks, if the first is for the XDP hook |
//! | `note` | a map with a text of whoever loaded the program: [`Instance::note`] |
//! | `maps/MAP` | each of its maps |
//! | `links/tcx-IFINDEX-HOOK` | a pinned tcx link (Linux 6.6 and later) |
//! | `links/xdp-IFINDEX-MODE` | a pinned XDP link; the mode is `native` or `generic` |
//! | `links/clsact-IFINDEX-HOOK` | an empty directory that remembers a clsact filter on older kernels |
//! | `links/qdisc-IFINDEX-both` | another, which remembers that the clsact qdisc is ours |
//!
//! Beside `strait` there are `strait-lock`, with a directory for each instance that a process changes ([`lock()`]), and `strait-run`, with one for
//! each that a process keeps ([`claim()`]). No other user can enter any of them, and one that somebody else has made is refused.
//!
//! Whatever is pinned outlives the process, kill -9 included; [`Instance::open`] finds it again, and [`Instance::remove`] takes
//! all of it away. aya parses, relocates and loads; maps, links and test runs then go through bpf(2) directly, because
//! aya's typed maps want to know at compile time what only the manifest knows.

mod attach;
mod claim;
mod fs;
mod held;
mod instance;
mod lock;
mod map;
mod note;
mod program;
mod ring;

pub use attach::{Attached, Hook, Ours, XdpMode, at, attached, has_filter, ours};
pub use claim::{Claim, Holder, claim, is_claimed, keep_unclaimed, of_interface};
pub use fs::{hold, visible};
pub use held::Held;
pub use instance::{Instance, LoadOptions};
pub use lock::{Lock, NEXT, PATIENCE, lock, lock_within, try_lock};
pub use map::{Map, MapKind};
pub use note::notes;
pub use program::{Program, SkBuff, TestRun};
pub use ring::Ring;

use crate::Result;
use crate::error::Context;

/// The number of processors that the machine may have. Their numbers are below it.
pub fn processors() -> Result<u32> {
    let count = map::possible_cpus().context(|| "count the processors".into())?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns when all programs have ended that are running now: afterwards nothing reads what they could reach.
pub fn grace_period() -> Result<()> {
    crate::sys::grace_period().context(|| "wait for running programs".into())
}
