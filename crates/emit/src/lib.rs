//! The back ends. Each takes a verified program in the IR and returns text.
//!
//! * [`ebpf`] emits C for an eBPF program that runs in the kernel, at a tc hook or at the XDP hook, and a manifest of its maps.
//! * [`mod@native`] emits C for a shared object of machine code, and a manifest of its memory.
//! * [`c`] has the parts of both that are equal: names, types, expressions, statements.
//! * [`mod@dot`] draws parsers, controls and the dependencies between tables.
//! * [`p4info`] makes P4Runtime's description of the program for a controller.
//!
//! If a target cannot run a program, its back end returns an [`Unsupported`] for each reason, with the location in the P4 source. It never
//! omits a part of the program.
//!
//! Invariants: this crate does no I/O, and equal programs give equal text.
#![forbid(unsafe_code)]
// A match names what it ignores, so that the compiler shows every place that a new variant concerns.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod c;
pub mod dot;
pub mod ebpf;
pub mod native;
pub mod p4info;
mod unsupported;

use abi::Manifest;

pub use ebpf::{tc, tc_with, xdp, xdp_with};
pub use native::{native, native_with_queues, prelude as native_prelude};
pub use unsupported::Unsupported;

/// The output of a back end for a compiled target.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The text of a C file, for `clang -O2 -g -target bpf -mcpu=v3` or for `cc -O3 -shared -fPIC`.
    pub c: String,
    /// The description of the program for its host.
    pub manifest: Manifest,
}
