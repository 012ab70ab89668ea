//! NAT64's configuration file, and the table entries that implement it.

pub mod clat;
pub mod config;
pub mod discovery;
pub mod entries;
pub mod flows;
pub mod pref64;
mod ranges;
pub mod report;
pub mod running;
mod sessions;
pub mod shares;

pub use clat::{Clat, Found};
pub use config::{
    Attach, Config, Filtering, Hairpin, Lanes, Log, LogTarget, Map, NextHop, Pool, Problem, Protocol,
    Stateful, StaticBinding, Switch, Timeouts, Tos, UdpZeroChecksum, XdpMode,
};
pub use entries::{ETHERNET_MTU, embedded, wanted};
pub use running::{Running, counters, running, tables};
pub use sessions::{binding_keys, expire_times, holder, resize};
pub use shares::Shares;
