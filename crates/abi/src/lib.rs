//! The contract between a compiled program and its host.
