//! Packet tests, and what runs them.
//!
//! * [`stf`]: packet tests and table entries as text: read, played on a target, written.
//! * [`targets`]: how a program is compiled for a target and loaded, and how a packet test drives it.
//! * [`player`]: plays the cases of several programs, each compiled once.
//! * [`fuzz`], [`at_once`]: targets compared with the interpreter on random packets, and on two packets at the same moment. [`rng`]: random numbers.
//! * [`writes`], [`over`], [`executable`]: what tests share: writes of single entries, the end of threads, copies of programs.
//!
//! Command lines, benchmarks, fuzz targets and tests of other crates use it. It prints nothing.
#![forbid(unsafe_code)]

pub mod at_once;
pub mod executable;
pub mod fuzz;
pub mod over;
pub mod player;
pub mod rng;
pub mod stf;
pub mod targets;
pub mod writes;
