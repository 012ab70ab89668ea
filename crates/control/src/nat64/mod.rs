//! NAT64's configuration file, and the table entries that implement it.

pub mod config;
pub mod entries;
pub mod running;

pub use config::{Attach, Config, Map, Problem, Tos, UdpZeroChecksum};
pub use entries::wanted;
pub use running::{Running, running, tables};
