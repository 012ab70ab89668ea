//! The text formats of operators and controllers, and built-in controllers.
//!
//! * [`stf`]: packet tests and table entries as text.
//! * [`apps`]: built-in control planes of the bundled apps.
//! * [`nat64`]: the configuration file `nat64.toml`, and its conversion to table entries.
//!
//! The input is text, and the output is entries and errors. Nothing here opens a file or a socket.
#![forbid(unsafe_code)]

pub mod apps;
pub mod nat64;
pub mod stf;
