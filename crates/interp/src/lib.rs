//! Runs the IR directly: the meaning of a program, and the oracle for every other target.
//!
//! * [`manifest`]: what the program offers to a controller.
//! * `packet`: the state of one packet, and bits read from and written to bytes.
//! * `eval`: expressions; `exec`: statements; `parse`: the parser's machine; `sums`: checksums and hashes.
//! * [`machine`]: the pipeline of v1model around them, and the state that outlives a packet.
//! * [`event`]: what an observer is told; [`trace`]: that as text and JSON.
//!
//! Invariants: no I/O, no clock, no panic on any packet; a packet's result depends on the program, the tables, the
//! registers and the packet alone (random numbers come from a seed).

mod eval;
pub mod event;
mod exec;
pub mod machine;
pub mod manifest;
mod packet;
mod parse;
mod pna;
mod psa;
mod sums;
pub mod trace;

pub use event::{Event, Observer, Silent};
pub use machine::{Interpreter, Mirror, Outcome};
