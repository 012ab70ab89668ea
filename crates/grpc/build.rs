//! Makes the service's server and client. The messages are those of the crate `proto`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", proto.display());
    let set = protox::compile([proto.join("p4/v1/p4runtime.proto")], [&proto])?;
    tonic_prost_build::configure()
        .extern_path(".p4.v1", "::proto::p4::v1")
        .extern_path(".p4.config.v1", "::proto::p4::config::v1")
        .extern_path(".google.rpc", "::proto::google::rpc")
        .compile_fds(set)?;
    Ok(())
}
