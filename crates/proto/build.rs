//! Compiles the messages in the `proto` directory of the repository, with `protox`, so that no protoc is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", proto.display());
    let set = protox::compile([proto.join("p4/v1/p4runtime.proto")], [&proto])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // The text format needs the names of fields and messages.
    std::fs::write(out.join("descriptors.bin"), set.encode_to_vec())?;
    prost_build::Config::new()
        .btree_map(["."])
        .enable_type_names()
        .include_file("messages.rs")
        .compile_fds(set)?;
    Ok(())
}
