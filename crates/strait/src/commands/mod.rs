//! The commands, with one file for each.

pub mod bench;
pub mod build;
pub mod capture;
pub mod check;
pub mod client;
pub mod doctor;
pub mod explain;
pub mod r#gen;
pub mod lab;
pub mod nat64;
pub mod run;
pub mod shell;
pub mod test;
pub mod trace;
