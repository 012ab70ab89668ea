//! Benchmarks: generates traffic, measures it, reports the results.
//!
//! A measurement uses the modules in this order:
//!
//! 1. [`lab`] builds three network namespaces in a row: an IPv6-only client, a router, an IPv4-only server.
//! 2. [`path`] configures what carries the traffic through the router: Strait, the kernel's own forwarding, or Tayga.
//! 3. [`iperf`], [`small`], [`ping`] and [`http`] send traffic over the path and return what arrived.
//! 4. [`stats`] computes medians, spreads and ratios of the samples. [`report`] shows them as JSON, a table and a plot.
//!
//! [`routes`] generates routing tables, and [`traffic`] generates packets. The benchmarks are: [`nat64`] (`strait bench nat64`),
//! [`drivers`] (`strait bench io`), [`xdp`] with [`beside`] (small packets on tc and xdp), and the short [`demo`] (`make demo`). In
//! [`over_memory`], packets go from memory to memory, without a lab.
//!
//! Invariants:
//! - All paths are measured in the same run, interleaved by repetition, so that a slow minute of a shared machine affects all of them.
//! - Every namespace, process and file has an owner whose `Drop` removes it. [`interrupt`] turns Ctrl-C and SIGTERM into an ordinary error,
//!   so that these destructors run. The next run removes what a killed run left ([`lab::remove_stale`]).
//! - Names contain the process id, so two runs never collide. A run changes nothing outside its namespaces: no sysctl, route or link of the
//!   host.
//! - Traffic never leaves the machine. Its addresses are those that RFCs reserve for documentation.
#![forbid(unsafe_code)]

pub mod error;
pub mod interrupt;

pub mod process;

pub mod lab;
pub mod path;

pub mod http;
pub mod iperf;
pub mod ping;
pub mod small;
pub mod traceroute;

pub mod stats;

pub mod report;

pub mod beside;
pub mod demo;
pub mod drivers;
pub mod nat64;
pub mod xdp;

pub mod over_memory;

pub mod routes;
pub mod traffic;

pub use self::nat64::Options as Nat64Options;
pub use beside::Options as BesideOptions;
pub use demo::Options as DemoOptions;
pub use drivers::Options as IoOptions;
pub use error::{Error, Result};
pub use xdp::Options as XdpOptions;
