//! The commands, with one file for each.

pub mod build;
pub mod capture;
pub mod check;
pub mod client;
pub mod doctor;
pub mod explain;
pub mod floods;
pub mod r#gen;
pub mod lab;
pub mod learn;
pub mod lpm;
pub mod nat44_sessions;
pub mod nat64;
pub mod over_memory;
pub mod pipeline;
pub mod run;
pub mod sessions;
pub mod shell;
pub mod tables;
pub mod test;
pub mod trace;
