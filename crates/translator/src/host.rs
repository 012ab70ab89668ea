//! What a translator needs of the machine and its kernel beside what it makes itself.

use std::os::unix::fs::MetadataExt as _;

use anyhow::bail;
use io::link::sysctl;
use nat64::Config;

use crate::log::Log;

pub fn need_root() -> anyhow::Result<()> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if root {
        Ok(())
    } else {
        bail!("this needs root: eBPF programs, interfaces and routes are the kernel's (try sudo)")
    }
}

/// A kernel without IPv6 has no routes for the prefix.
pub fn needs_ipv6() -> anyhow::Result<()> {
    match sysctl::get("net/ipv6/conf/all/disable_ipv6").as_deref() {
        Err(_) => bail!(
            "this kernel has no IPv6; hint: remove `ipv6.disable=1` from its command line, or load its module"
        ),
        Ok("0") => Ok(()),
        Ok(_) => bail!(
            "IPv6 is switched off on this machine, so it can neither receive nor route what is to be translated; nothing was changed\n  \
             hint: sysctl -w net.ipv6.conf.all.disable_ipv6=0"
        ),
    }
}

pub fn warn_forwarding(config: &Config, log: &Log) {
    if config.clat.is_some() {
        // It sets what it needs.
        return;
    }
    for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        if sysctl::get(&key.replace('.', "/")).is_ok_and(|v| v == "0") {
            log.warning(&format!("{key} is 0, so the kernel routes nothing on; hint: sysctl -w {key}=1"));
        }
    }
}
