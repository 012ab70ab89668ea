//! A NAT64 translator on a machine: bringing it up, keeping it, reading its state, and taking it down.
//!
//! `up` makes a veth pair, of which only one end is used. The program is attached to its egress hook, so it processes the packets that are
//! routed into the device. A translated packet enters the kernel again as if the device had received it. All state is in the kernel, so no
//! process must keep running.
//!
//! * [`up`]: makes a machine translate as a file says, whole or not at all; [`up::check`] says what that would change. [`down`] undoes it.
//! * [`keep`]: a process that keeps a translator as its file says. `ageing`, [`counting`], `holder`, `logger`: its work beside that.
//! * [`status`]: what runs, and what is wrong with it. [`flows`], [`transfer`], [`who`]: its bindings and sessions.
//! * [`native`]: a translator in this process, without eBPF.
//! * [`Select`] says which translators are meant, and [`record`] which file one was made from. [`Bundle`] has the programs.
//! * `owner` proves what is ours, `conflicts` finds what of somebody else's is in the way, `wiring` says what a configuration needs outside
//!   of its tables, and does and undoes it, `loops` keeps packets from coming back, `lanes` knows which interfaces are shortcuts past the
//!   device. [`source`] completes a file, and `clat` that of a host.
//!
//! Nothing here prints. Values come back; what happens meanwhile is told to a [`Log`] of the caller. Hints name the commands of `strait`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ageing;
mod bundle;
mod clat;
mod configured;
mod conflicts;
pub mod counting;
pub mod down;
pub mod flows;
mod holder;
mod host;
pub mod keep;
mod lanes;
pub mod log;
mod logger;
mod loops;
pub mod native;
pub mod outlet;
mod owner;
pub mod record;
mod select;
pub mod source;
pub mod status;
pub mod transfer;
pub mod up;
pub mod who;
mod wiring;

pub use bundle::Bundle;
pub use configured::{described, desired};
pub use conflicts::Conflict;
pub use log::Log;
pub use record::File;
pub use select::Select;
pub use wiring::Sort;
