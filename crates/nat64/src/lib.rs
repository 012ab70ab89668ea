//! NAT64 without a machine: what a file says, and what a device must hold.
//!
//! * [`config`]: the file `nat64.toml`. [`clat`], [`discovery`], [`pref64`]: prefixes that are found in a network, and what they complete.
//! * [`entries`], `sessions`, [`shares`]: the table entries that implement a configuration. `ranges`: networks inside each other.
//! * [`running`]: what a translator translates, read from its entries. [`flows`], [`report`]: its bindings and sessions, and reports of them.
//! * [`controller`]: the control plane of apps/nat64-controller.
//!
//! Text and entities come in, values come out. Nothing here opens a file or a socket; the crate `translator` brings one up on a machine.
#![forbid(unsafe_code)]

pub mod clat;
pub mod config;
pub mod controller;
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
