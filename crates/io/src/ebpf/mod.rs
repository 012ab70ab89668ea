//! A compiled P4 program in the kernel. It translates the names of the manifest to pinned maps.
//!
//! * `program` loads and attaches a program, sets its ports, and runs it on test packets.
//! * `lanes` makes interfaces shortcuts past another one.
//! * `xdp` attaches a program at the XDP hook, if the packets that arrive there are fit for it.
//! * `table` writes and reads entries, for every structure.
//! * `versions` writes tables while packets read them.
//! * `array` holds the entries of tables with short keys.
//! * `flows` writes tables to which packets add entries, and removes entries whose time has passed.
//! * `idle` finds entries that no packet has hit for their idle timeout.
//! * `profiles` writes action profiles, and the lists of actions that entries may run.
//! * `value_sets` writes the value sets of parsers.
//! * `copies` writes multicast groups and mirroring sessions.
//! * `tuples` is the host's side of tuple-space search, for ternary tables.
//! * `events` takes what packets tell the host.
//! * `stats` reads and writes counters and registers. `device` is the program as its controllers see it.
//!
//! [`abi::manifest::KernelMaps`] describes the maps that every program has.

mod array;
mod copies;
mod device;
mod events;
mod flows;
mod idle;
mod lanes;
mod meters;
mod profiles;
mod program;
mod stats;
mod table;
mod tuples;
mod value_sets;
mod versions;
mod xdp;

pub use flows::Learnt;
pub use lanes::Lane;
pub use program::{EgressPort, KernelProgram};
pub use xdp::{XdpChoice, XdpOptions, xdp_choice};
