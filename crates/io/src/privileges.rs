//! Gives up what a process that runs for long does not need: capabilities, and the way back to them.
//!
//! A module with `unsafe`: one prctl(2) without pointers, which no crate here wraps.
#![allow(unsafe_code)]

use std::io;

use caps::{CapSet, Capability, CapsHashSet};

use crate::error::Context;
use crate::{Error, Result};

/// What a process does, and the capabilities that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Maps, links and pins of eBPF, interfaces, routes and sysctls of the network, raw sockets.
    Network,
    /// The same, and loading programs: without CAP_PERFMON the verifier refuses comparisons of packet pointers with zero, and adds barriers
    /// against speculation to every program.
    Loading,
}

impl Need {
    fn capabilities(self) -> Vec<Capability> {
        let mut all = vec![Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
        let (bpf, perfmon) = (Capability::CAP_BPF, Capability::CAP_PERFMON);
        if !caps::runtime::thread_all_supported().contains(&bpf) {
            // Before Linux 5.8 there was one capability for all of this.
            all.push(Capability::CAP_SYS_ADMIN);
            return all;
        }
        all.push(bpf);
        if self == Need::Loading {
            // The second one is for giving up the rest later, also of those that a program could regain by execve(2).
            all.extend([perfmon, Capability::CAP_SETPCAP]);
        }
        all
    }
}

/// Gives up all capabilities of the calling thread but those for this, for the programs that it executes as well, and the chance to gain any by
/// executing a file. The process must have no other threads yet. What it does not have it does not get.
pub fn keep(need: Need) -> Result<()> {
    // SAFETY: no pointers are passed.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let set = if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    set.context(|| "set no_new_privs".into())?;
    let has = caps::read(None, CapSet::Permitted).map_err(failed)?;
    let kept: CapsHashSet = need.capabilities().into_iter().filter(|one| has.contains(one)).collect();
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).map_err(failed)? {
        for one in caps::runtime::thread_all_supported().difference(&kept) {
            caps::drop(None, CapSet::Bounding, *one).map_err(failed)?;
        }
    }
    // Kernels before 4.3 have no ambient set.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(failed)?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed)
}

fn failed(error: caps::errors::CapsError) -> Error {
    Error::System { what: "give up capabilities".into(), source: io::Error::other(error.to_string()) }
}
