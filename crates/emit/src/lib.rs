//! Verified IR to text.
//!
//! * [`c`]: the dialect of C that all compiled targets share: names, types, expressions, statements.
//! * [`ebpf`]: one eBPF program for the kernel's traffic control, and the manifest that tells a host of its maps.
//! * [`mod@dot`]: pictures of parsers, controls and the dependencies of tables.
//! * [`p4info`]: what the control plane sees, as P4Runtime's message.
//!
//! What a target cannot do is an [`Unsupported`] with its place in the P4 source; nothing is left out in silence.
//! Invariants: no I/O; equal programs give equal text.

pub mod c;
pub mod dot;
pub mod ebpf;
pub mod p4info;
mod unsupported;

pub use ebpf::{Output, tc};
pub use unsupported::Unsupported;
