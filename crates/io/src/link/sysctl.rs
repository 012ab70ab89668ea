//! Sysctls in `/proc/sys`. Those in `net` are those of the calling thread's namespace.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::error::Context;

/// Reads a sysctl such as `net/ipv4/ip_forward`. Keys have slashes, because interface names may have dots.
pub fn get(key: &str) -> Result<String> {
    let text = fs::read_to_string(path(key)).context(|| format!("read the sysctl {key}"))?;
    Ok(text.trim().to_owned())
}

/// Writes a sysctl.
pub fn set(key: &str, value: &str) -> Result<()> {
    fs::write(path(key), value).context(|| format!("set the sysctl {key} to {value}"))
}

fn path(key: &str) -> PathBuf {
    // The path needs no `thread-self`: /proc/sys/net shows the namespace of the thread that opens it.
    PathBuf::from("/proc/sys").join(key)
}
