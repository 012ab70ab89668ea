//! Sysctls below `/proc/sys`. Those of `net` are the calling thread's namespace's.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::error::Context;

/// Reads one, such as `net/ipv4/ip_forward`. Slashes, because interface names may have dots.
pub fn get(key: &str) -> Result<String> {
    let text = fs::read_to_string(path(key)).context(|| format!("read the sysctl {key}"))?;
    Ok(text.trim().to_owned())
}

/// Sets one.
pub fn set(key: &str, value: &str) -> Result<()> {
    fs::write(path(key), value).context(|| format!("set the sysctl {key} to {value}"))
}

fn path(key: &str) -> PathBuf {
    // Not thread-self: /proc/sys/net looks up the opening thread's namespace by itself.
    PathBuf::from("/proc/sys").join(key)
}
