//! What a file may leave open and a translator needs: the IPv4 source of the ICMP errors that it sends, and what strangers must not know.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::Context;
use io::link::{Handle, Link};
use nat64::{Config, Stateful};

use crate::configured::device;
use crate::log::Log;
use crate::record::File;

/// The configuration of a controller: a file, with a secret for its pools.
pub fn controlled(path: &Path, log: &Log) -> anyhow::Result<Config> {
    let config = File::read(path)?.any_config()?;
    if config.stateful.as_ref().is_some_and(|stateful| stateful.secret.is_none()) {
        log.info(
            "note: without `secret`, a host may get another address for new bindings when the controller starts again",
        );
    }
    keep_secret(config, None)
}

/// Completes a configuration without `error-source4` with an address of the router (RFC 1812 section 4.3.2.4): the first one of the interface with the
/// lowest number that is up, so addresses of `lo` come first; a private one only if all are private, because filters drop those. An address
/// that is translated is none, nor is one that leads to no router. If there is none, errors come from 192.0.0.8. A CLAT is a part of its host and
/// asks nobody.
pub(crate) fn complete(config: Config, all: &[Link], links: &Handle) -> anyhow::Result<Config> {
    if config.error_rate == 0 || config.error_source4.is_some() || config.clat.is_some() {
        return Ok(config);
    }
    let mut candidates: Vec<&Link> =
        all.iter().filter(|link| link.up && link.name != device(&config)).collect();
    candidates.sort_by_key(|link| link.index);
    let mut private = None;
    for link in candidates {
        for prefix in links.addresses(&link.name)? {
            match prefix.address {
                IpAddr::V4(address) if !can_send(address, &config) => {}
                IpAddr::V4(address) if address.is_private() => private = private.or(Some(address)),
                IpAddr::V4(address) => return Ok(Config { error_source4: Some(address), ..config }),
                IpAddr::V6(_) => {}
            }
        }
    }
    Ok(Config { error_source4: private, ..config })
}

/// Completes a configuration with what strangers must not know: what the translator that runs has, so that hosts keep their addresses and rates, or
/// something new.
pub fn keep_secret(mut config: Config, before: Option<&Config>) -> anyhow::Result<Config> {
    let running = before.and_then(|before| before.error_key);
    config.error_key = Some(running.map_or_else(|| new_secret().map(|[half, _]| half as u32 | 1), Ok)?);
    if let Some(stateful) = config.stateful.as_mut().filter(|stateful| stateful.secret.is_none()) {
        let running = before.and_then(|before| before.stateful.as_ref()).and_then(|before| before.secret);
        stateful.secret = Some(running.map_or_else(new_secret, Ok)?);
    }
    Ok(config)
}

fn new_secret() -> anyhow::Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    let mut source = std::fs::File::open("/dev/urandom").context("open /dev/urandom")?;
    bytes.iter_mut().try_for_each(|half| source.read_exact(half)).context("read /dev/urandom")?;
    Ok(bytes.map(u64::from_ne_bytes))
}

/// Whether answers to an address reach the router from elsewhere.
fn can_send(address: Ipv4Addr, config: &Config) -> bool {
    // RFC 7335 section 4 keeps 192.0.0.0/24 for addresses of one link.
    let one_link = address.octets()[..3] == [192, 0, 0];
    let translated = config.maps.iter().any(|map| map.ipv4.contains(&address))
        || config.routes.iter().any(|route| route.contains(&address))
        || config.stateful.iter().flat_map(Stateful::prefixes).any(|net| net.contains(&address));
    !(address.is_loopback() || address.is_link_local() || address.is_unspecified() || one_link || translated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_a_router_send_errors() {
        let text = "[nat64]\nmode = \"stateless\"\nroutes = [\"203.0.113.0/28\"]\nprefix = \"2001:db8:64::/96\"\n\
                    [[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:100::/120\"\n";
        let config = nat64::config::parse(text).expect("a good file");
        let rows = [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("192.0.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("203.0.113.17", true),
        ];
        for (address, may) in rows {
            assert_eq!(can_send(address.parse().expect("an address"), &config), may, "{address}");
        }
    }
}
