//! How a device ([`dataplane::device`]) comes to hold what somebody wants.
//!
//! * [`plan`]: a configuration as a plan: what is wanted, the difference, all of it or nothing.
//! * [`controller`]: a control plane that follows what a program tells. [`objects`], [`journal`]: what it is made of. [`testing`]: a device for its tests.
//! * [`l2`], [`nat44`]: the control planes of these apps. That of NAT64 is in the crate `nat64`.
//! * [`lab`]: the topology of a laboratory of hosts and switches.
//! * [`problem`]: a problem in a file that people write, with its place.
//!
//! Nothing here opens a file or a socket.
#![forbid(unsafe_code)]

pub mod controller;
pub mod journal;
pub mod l2;
pub mod lab;
pub mod nat44;
pub mod objects;
pub mod plan;
pub mod problem;
pub mod testing;
