//! A compiled P4 program in the kernel. It translates the names of the manifest to pinned maps.
//!
//! * `program` loads and attaches a program, sets its ports, and runs it on test packets.
//! * `table` writes and reads entries, for every structure.
//! * `versions` writes tables while packets read them.
//! * `tuples` is the host's side of tuple-space search, for ternary tables.
//! * `stats` reads counters and drop counts, and `registers` reads and writes registers.
//!
//! Every tc program has these maps:
//!
//! | map | key | value |
//! |---|---|---|
//! | `strait_ports` | `u32` interface index | `{u32 P4 port, u32 lane, u32 flags, u32 ipv4_mtu}`: see [`TcProgram::set_lane`] |
//! | `strait_egress` | `u32` P4 port | `{u32 ifindex, u32 flags of bpf_redirect}` |
//! | `strait_routes` | a lane's route query | the kernel's recent result |
//! | `strait_versions` | `u32` table, as the manifest numbers them | `{u64 writes, u32 default_action, u32 tuples}`: see `versions` |
//! | `strait_drops` | `u32` reason, as the manifest numbers them | per CPU `{u64 packets, u64 bytes}` |

mod program;
mod registers;
mod stats;
mod table;
mod tuples;
mod versions;

pub use program::{EgressPort, Lane, TcProgram};
pub use stats::{Count, Drop};
pub use table::Listed;
