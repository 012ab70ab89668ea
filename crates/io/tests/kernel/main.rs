//! What needs a kernel to say yes: one binary, so that the fixtures are shared and linked once.

mod common;
mod link;
mod ports;
mod tc;
