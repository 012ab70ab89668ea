//! Verified IR to text.
//!
//! * [`c`]: the dialect of C that all compiled targets share: names, types, expressions, statements.
//! * [`ebpf`]: one eBPF program for the kernel's traffic control, and the manifest that tells a host of its maps.
//! * [`mod@native`]: a shared object of machine code, and the manifest that tells a host of its memory.
//! * [`mod@dot`]: pictures of parsers, controls and the dependencies of tables.
//! * [`p4info`]: what the control plane sees, as P4Runtime's message.
//!
//! What a target cannot do is an [`Unsupported`] with its place in the P4 source; nothing is left out in silence.
//! Invariants: no I/O; equal programs give equal text.
#![forbid(unsafe_code)]

pub mod c;
pub mod dot;
pub mod ebpf;
pub mod native;
pub mod p4info;
mod unsupported;

use abi::Manifest;

pub use ebpf::tc;
pub use native::{native, prelude as native_prelude};
pub use unsupported::Unsupported;

/// What the emitter of a compiled target makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// A C file: for `clang -O2 -g -target bpf -mcpu=v3`, or for `cc -O3 -shared -fPIC`.
    pub c: String,
    /// What a host must know.
    pub manifest: Manifest,
}
