//! What operators and controllers say.
//!
//! * [`nat64`]: `nat64.toml`, read and checked as a whole, and the table entries that it stands for.
//! * [`stf`]: packet tests: read, and run on any target.
//! * [`entries`]: table entries as people write them, against a manifest.
//!
//! Text comes in, entries and errors come out; nothing here opens a file or a socket.

pub mod entries;
pub mod nat64;
pub mod stf;
