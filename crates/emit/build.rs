//! Compiles the project's own text of P4Info's messages: `protox` reads it, so that no protoc is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", proto.display());
    let set = protox::compile([proto.join("p4/config/v1/p4info.proto")], [&proto])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // Names of fields and messages, for the text format.
    std::fs::write(out.join("p4info.bin"), set.encode_to_vec())?;
    prost_build::Config::new().btree_map(["."]).compile_fds(set)?;
    Ok(())
}
