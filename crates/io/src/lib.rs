//! Everything that touches the operating system.

pub mod generator;
pub mod netns;
