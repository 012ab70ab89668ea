//! With the feature `dpdk`: compiles the side of DPDK ports that is C, and links libdpdk.

fn main() {
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    let source = "src/port/dpdk.c";
    println!("cargo::rerun-if-changed={source}");
    // Says what to link, or what to install.
    pkg_config::Config::new().atleast_version("21.11").probe("libdpdk").unwrap_or_else(|e| {
        panic!("the feature `dpdk` needs DPDK's headers (apt-get install libdpdk-dev): {e}")
    });
    let flags = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let flags = flags.expect("pkg-config was there a moment ago");
    let mut build = cc::Build::new();
    for flag in String::from_utf8_lossy(&flags.stdout).split_whitespace() {
        build.flag(flag);
    }
    build.flag("-Wno-deprecated-declarations").opt_level(3).file(source).compile("strait_dpdk");
}
