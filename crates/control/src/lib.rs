//! What operators and controllers say to a device ([`dataplane::device`]): text formats, configuration, built-in controllers.
//!
//! * [`stf`]: packet tests and table entries as text.
//! * [`apps`]: built-in control planes of the bundled apps.
//! * [`nat64`]: the configuration file `nat64.toml`, and its conversion to table entries.
//! * [`lab`]: the topology of a laboratory of hosts and switches.
//! * [`problem`]: a problem in a file, with its place. [`mac`]: link-layer addresses in files.
//! * [`p4runtime`]: requests of controllers, and what a device tells them.
//! * [`plan`]: how a device comes to hold a configuration: plan, difference, apply, or nothing.
//!
//! The input is text, and the output is updates of a device and errors. Nothing here opens a file or a socket.
#![forbid(unsafe_code)]

pub mod apps;
pub mod lab;
pub mod mac;
pub mod nat64;
pub mod p4runtime;
pub mod plan;
pub mod problem;
pub mod stf;
