//! What follows from a configuration: its device, what the tables must hold, a sentence about it.

use abi::Manifest;
use control::plan::Desired;
use nat64::{Config, ETHERNET_MTU, wanted};

/// The name of the device that packets are routed into.
pub(crate) fn device(config: &Config) -> &str {
    &config.attach.device
}

/// What a translator translates by, in words.
pub fn described(config: &Config) -> String {
    let prefix = config.prefix.map_or("none".to_string(), |p| p.to_string());
    match &config.stateful {
        Some(stateful) => {
            let nets: Vec<_> = stateful.prefixes().iter().map(ToString::to_string).collect();
            format!("stateful, prefix {prefix}, pool {}", nets.join(" and "))
        }
        None => format!("{} mappings, prefix {prefix}", config.maps.len()),
    }
}

/// What the tables must hold. This checks that it fits, before anything changes.
pub fn desired(config: &Config, manifest: &Manifest) -> anyhow::Result<Desired> {
    let wanted = wanted(config, manifest).map_err(anyhow::Error::msg)?;
    wanted.fits(manifest).map_err(|why| anyhow::anyhow!("{why}; nothing was changed"))?;
    Ok(wanted)
}

/// The length of the host's own IPv4 packets that fit the IPv6 side once they are translated.
pub(crate) fn ipv4_mtu(config: &Config) -> u32 {
    u32::from(config.ipv6_mtu.unwrap_or(ETHERNET_MTU)) - 20
}
