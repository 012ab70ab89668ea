//! Makes traffic, measures, reports.
//!
//! A measurement flows through the modules in the order in which they stand here:
//!
//! 1. [`lab`] builds three network namespaces in a row: an IPv6-only client, a router, an IPv4-only server.
//! 2. [`path`] puts something into the router that carries the traffic across: Strait, the kernel's own
//!    forwarding, or Tayga.
//! 3. [`iperf`], [`small`], [`ping`] and [`http`] send traffic through it and return what arrived.
//! 4. [`stats`] turns samples into medians, spreads and ratios, and [`report`] shows them: JSON, a table, a plot.
//!
//! [`routes`] makes routing tables up, [`traffic`] packets. [`nat64`] is the full benchmark (`strait bench nat64`), [`drivers`] that of packet drivers (`strait bench io`), and [`demo`] the short one that `make demo` runs.
//!
//! Invariants:
//! - Every path is measured in the same run, interleaved repetition by repetition, so that a slow minute of a
//!   shared machine hits all of them.
//! - Nothing is left behind. Every namespace, process and file has an owner whose `Drop` removes it;
//!   [`interrupt`] turns Ctrl-C and SIGTERM into an ordinary error so that those run, and what a killed run left
//!   is removed by the next one ([`lab::remove_stale`]).
//! - Names carry the process id, so two runs never collide. Nothing outside the namespaces changes: no sysctl, no
//!   route, no link of the host.
//! - Traffic never leaves the machine; addresses are those that the RFCs reserve for documentation.

pub mod error;
pub mod interrupt;

pub mod process;

pub mod lab;
pub mod path;

pub mod http;
pub mod iperf;
pub mod ping;
pub mod small;

pub mod stats;

pub mod report;

pub mod demo;
pub mod drivers;
pub mod nat64;

pub mod dice;
pub mod routes;
pub mod traffic;

pub use demo::Options as DemoOptions;
pub use drivers::Options as IoOptions;
pub use error::{Error, Result};
pub use nat64::Options as Nat64Options;
