//! P4Runtime's messages as types (specification 1.5), generated from the text in the `proto` directory, and protobuf's text format of
//! them. The service itself is in `grpc`.
#![forbid(unsafe_code)]

mod text;

pub use text::{json, parse, text};

#[allow(missing_docs, clippy::doc_markdown, clippy::all)]
mod messages {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

pub use messages::{google, p4};

/// The type URL of a message in a `google.protobuf.Any`.
pub fn type_url(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}
