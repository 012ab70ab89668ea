//! P4Runtime over gRPC, on tonic: a server for devices, and a client of any server.
//!
//! What the requests mean is in [`p4runtime`]. Here are sockets, TLS, threads, and limits for what clients can make the server hold.
#![forbid(unsafe_code)]

mod answers;
mod callers;
mod certificates;
pub mod client;
mod connections;
mod devices;
mod error;
mod limits;
mod outbox;
mod owners;
mod remote;
mod requests;
mod rights;
mod server;
mod service;

/// The service, generated from the text in the `proto` directory.
#[allow(missing_docs, clippy::all)]
pub mod generated {
    tonic::include_proto!("p4.v1");
}

pub use certificates::Tls;
pub use devices::{Device, now};
pub use remote::RemoteDevice;
pub use server::{Address, Listener, Running, StartError, start};
