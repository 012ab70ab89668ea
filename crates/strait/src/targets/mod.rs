//! What a packet test runs on: one adapter a target.

pub mod interp;
pub mod tc;
mod wires;
