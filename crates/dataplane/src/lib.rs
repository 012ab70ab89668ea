//! What happens to a packet, apart from the program: the tables it is looked up in, the sums and hashes over its bytes,
//! the cells that count it.
//!
//! * [`table`]: match-action tables over [`abi::Entry`] for every match kind and width.
//! * [`checksum`]: the Internet checksum (RFC 1071).
//! * [`hash`]: v1model's hash functions, as BMv2 defines them.
//! * [`cells`]: counters and registers; drop accounting.
//! * [`profile`]: action profiles and selectors: members, groups.
//! * [`memory`]: the memory of a native program: tables that are read without a lock while they are written.
//! * [`port`]: where packets come in and go out, as a trait.
//! * [`meter`]: two rates, three colours (RFC 2698).
//!
//! Invariants: no I/O, no clock, no panic on any packet or table state; iteration follows insertion order, so that two
//! runs of one case are equal to the byte.

pub mod cells;
pub mod checksum;
pub mod hash;
pub mod memory;
pub mod meter;
pub mod port;
pub mod profile;
pub mod table;

pub use cells::{Cells, Count};
pub use memory::{Memory, Mirror};
pub use meter::{Meter, Rate};
pub use profile::{Indirect, Profile, ProfileError};
pub use table::{Handle, Mismatch, Row, Table, TableError};
