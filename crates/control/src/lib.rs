//! What operators and controllers say.
//!
//! * [`stf`]: packet tests and table entries as text.
//! * [`apps`]: built-in control planes of the bundled apps.
//! * [`nat64`]: `nat64.toml`, read and checked as a whole, and the table entries that it stands for.
//!
//! Text comes in, entries and errors come out; nothing here opens a file or a socket.

pub mod apps;
pub mod nat64;
pub mod stf;
