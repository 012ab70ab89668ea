//! Runs the IR directly. The interpreter defines the meaning of a program, and is the oracle for every other target.
//!
//! * [`manifest`]: what a controller can see of the program.
//! * `packet`: the state of one packet, and access to bits in bytes.
//! * `eval`: expressions. `exec`: statements. `parse`: the parser. `sums`: checksums and hashes. `carry`: wrong checksums that are carried
//!   over.
//! * `pipeline`: the way of a packet through the stages. `queue`: the queues in front of ports that have a rate. [`machine`]: the state that is kept between packets.
//! * `device`: the program as its controllers see it. [`event`]: the steps of a packet, for observers. [`trace`]: these steps as text and JSON.
//!
//! Invariants: no I/O, no clock, no panic on any packet. The result for a packet depends only on the program, the tables, the registers and
//! the packet; random numbers come from a seed.
#![forbid(unsafe_code)]
// A match names what it ignores, so that the compiler shows every place that a new variant concerns.
#![warn(clippy::wildcard_enum_match_arm)]

mod carry;
mod device;
mod eval;
pub mod event;
mod exec;
pub mod machine;
pub mod manifest;
mod packet;
mod parse;
mod pipeline;
mod pna;
mod queue;
mod sums;
pub mod trace;

pub use event::{Event, Observer, Silent};
pub use machine::{Interpreter, Outcome};
