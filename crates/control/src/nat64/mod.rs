//! NAT64 as an operator speaks of it: the configuration file, and the table entries that it stands for.

pub mod config;
pub mod entries;

pub use config::{Attach, Config, Map, Problem, Tos, UdpZeroChecksum};
pub use entries::{Wanted, wanted};
