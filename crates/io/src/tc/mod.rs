//! A compiled P4 program in the kernel: the manifest's names on one side, pinned maps on the other.
//!
//! * `program`: loading, ports, attachment, test runs;
//! * `table`: writing and reading entries, for every structure;
//! * `versions`: how tables are written while packets read them;
//! * `tuples`: tuple-space search, the structure of ternary tables;
//! * `stats`: counters and drop reasons.
//!
//! Maps that every tc program has, whatever it says (design of the emitter):
//!
//! | map | key | value |
//! |---|---|---|
//! | `strait_ports` | `u32` interface index | `{u32 P4 port, u32 lane, u32 flags, u32 ipv4_mtu}`: see [`TcProgram::set_lane`] |
//! | `strait_egress` | `u32` P4 port | `{u32 ifindex, u32 flags of bpf_redirect}` |
//! | `strait_routes` | a lane's query of the kernel's routes | the kernel's recent answer |
//! | `strait_versions` | `u32` table, as the manifest numbers them | `{u64 writes, u32 fallback, u32 tuples}`: see `versions` |
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
