//! `strait run --grpc`: what P4Runtime's specification demands (docs/reference/p4runtime.md names these tests), hostile clients, and clients of others.

mod arbitration;
mod attacks;
mod client;
mod completion;
mod controllers;
mod entries;
mod foreign;
mod hostile;
mod objects;
mod pipeline;
mod pushed;
mod replication;
mod stream;
mod tls;

#[path = "../lab/mod.rs"]
mod lab;
