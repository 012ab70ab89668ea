//! Where a CLAT is: the uplink towards a prefix, and the IPv6 address that the translator has there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use anyhow::{Context as _, bail};
use io::link::{Handle, Kind, Prefix, sysctl};
use ipnet::{Ipv4Net, Ipv6Net};
use nat64::{Clat, Found, discovery::Origin};
use sha2::{Digest as _, Sha256};

use crate::owner::{PROTOCOL, Site};

/// The length of the networks in which hosts choose the rest of their addresses (RFC 4291 section 2.5.1).
const NETWORK: u8 = 64;

/// How many addresses are tried (RFC 7217 section 6, IDGEN_RETRIES, and the first).
const ATTEMPTS: u8 = 4;

/// The addresses of hosts that have IPv4 only by translation or tunnels (RFC 7335).
const CONTINUITY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 29);

/// Finds out what follows from a prefix.
pub fn find(
    clat: &Clat,
    device: &str,
    prefix: Ipv6Net,
    origin: Origin,
    until: Option<u64>,
    links: &Handle,
) -> anyhow::Result<Found> {
    let uplink = match &clat.uplink {
        Some(name) => name.clone(),
        None => uplink(Some(prefix), device, links)?.with_context(|| {
            format!("no IPv6 route leads to {prefix}; nothing was changed\n  hint: is the uplink up? `uplink = \"…\"` in [clat] names it")
        })?,
    };
    if links.link(&uplink)?.is_none_or(|link| !link.up) {
        bail!(
            "the uplink `{uplink}` does not exist or is down; nothing was changed\n  hint: ip link set {uplink} up"
        );
    }
    let held: Vec<(Ipv6Addr, u8)> = links
        .addresses(&uplink)?
        .into_iter()
        .filter_map(|at| match at.address {
            IpAddr::V6(v6) if !v6.is_unicast_link_local() => Some((v6, at.len)),
            _ => None,
        })
        .collect();
    let on_link = |ipv6: Ipv6Addr| {
        let own = Prefix::new(ipv6, 128);
        held.iter().any(|(at, len)| *len < 128 && Prefix::new(*at, *len).contains(&own))
    };
    let ipv6 = match clat.ipv6 {
        Some(ipv6) => vec![ipv6],
        None => made(&held, &uplink, prefix).with_context(|| {
            format!(
                "`{uplink}` has no IPv6 network of {NETWORK} bits of which the translator could have an address; nothing was changed\n  \
                 hint: `ipv6 = \"…\"` in [clat] names an address that is routed to this host"
            )
        })?,
    };
    let first = ipv6[0];
    let ipv6 = free(ipv6, &uplink, on_link, links)?.with_context(|| {
        format!(
            "a neighbour on `{uplink}` has {first}; nothing was changed\n  hint: name another `ipv6` in [clat], or end what uses it there"
        )
    })?;
    if prefix.contains(&ipv6) {
        bail!(
            "the translator's address {ipv6} is inside the prefix {prefix}; nothing was changed\n  hint: name another `ipv6` in [clat]"
        );
    }
    if let Some(link) = owner(ipv6, links)? {
        bail!(
            "{ipv6} is an address of `{link}`, and the translator needs one of its own; nothing was changed\n  hint: name another `ipv6` in [clat]"
        );
    }
    if let Some(link) = other_continuity(clat, device, links)? {
        bail!(
            "`{link}` has an address of {CONTINUITY}, which two translators or tunnels of a host must not share (RFC 7335); nothing was changed\n  \
             hint: name another `ipv4` in [clat], or end what uses `{link}`"
        );
    }
    let mtu = sysctl::get(&format!("net/ipv6/conf/{uplink}/mtu"))?;
    let mtu = mtu.parse().with_context(|| format!("the MTU of `{uplink}` is `{mtu}`"))?;
    Ok(Found { prefix, origin, until, uplink, ipv6, on_link: on_link(ipv6), mtu })
}

/// That of these addresses for which the kernel answers already, or the first one that no neighbour on the uplink has (RFC 6877 section 6.3, RFC 4862
/// section 5.4). Addresses that are routed to this host are not asked for; nor is any if this process may not, as for `check` by an ordinary user.
fn free(
    addresses: Vec<Ipv6Addr>,
    uplink: &str,
    on_link: impl Fn(Ipv6Addr) -> bool,
    links: &Handle,
) -> anyhow::Result<Option<Ipv6Addr>> {
    let proxies = links.proxies()?;
    let ours = |address: &&Ipv6Addr| {
        proxies.iter().any(|p| (p.protocol, p.address) == (PROTOCOL, **address) && p.interface == uplink)
    };
    if let Some(address) = addresses.iter().find(ours) {
        return Ok(Some(*address));
    }
    Ok(addresses
        .into_iter()
        .find(|address| !on_link(*address) || !io::duplicates::is_taken(uplink, *address).unwrap_or(false)))
}

/// The interface of the best IPv6 route to a prefix, or of the default route; `None` if there is none.
pub fn uplink(prefix: Option<Ipv6Net>, device: &str, links: &Handle) -> anyhow::Result<Option<String>> {
    let to = prefix
        .map_or(Prefix::new(Ipv6Addr::UNSPECIFIED, 0), |net| Prefix::new(net.network(), net.prefix_len()));
    let routes = links.routes()?;
    let usable = routes.iter().filter(|r| {
        r.kind == Kind::Unicast
            && r.interface.as_ref().is_some_and(|name| name != device)
            && r.to.contains(&to)
    });
    let best = usable.max_by_key(|r| (r.to.len, std::cmp::Reverse(r.metric())));
    Ok(best.and_then(|route| route.interface.clone()))
}

/// The interface that has an address.
fn owner(address: Ipv6Addr, links: &Handle) -> anyhow::Result<Option<String>> {
    for link in links.links()? {
        if links.addresses(&link.name)?.iter().any(|at| at.address == address) {
            return Ok(Some(link.name));
        }
    }
    Ok(None)
}

/// The interface of another translator or tunnel (DS-Lite, say) that has IPv4 addresses of the range that ours is of. A device of Strait is none:
/// it may be this one under its earlier name.
fn other_continuity(clat: &Clat, device: &str, links: &Handle) -> anyhow::Result<Option<String>> {
    if !CONTINUITY.contains(&clat.ipv4) {
        return Ok(None);
    }
    let sites = Site::all()?;
    let strait = |name: &str| name == device || sites.iter().any(|site| site.device == name);
    for link in links.links()?.into_iter().filter(|link| !strait(&link.name)) {
        let held = links.addresses(&link.name)?;
        if held.iter().any(|at| matches!(at.address, IpAddr::V4(v4) if CONTINUITY.contains(&v4))) {
            return Ok(Some(link.name));
        }
    }
    Ok(None)
}

/// Addresses of the uplink's network, the next one for the case that a neighbour has the one before. Their interface identifiers are always the same
/// in one network, and say nothing in another one (RFC 7217).
fn made(held: &[(Ipv6Addr, u8)], uplink: &str, prefix: Ipv6Net) -> Option<Vec<Ipv6Addr>> {
    let networks: Vec<Ipv6Addr> = held.iter().filter(|(_, len)| *len == NETWORK).map(|(at, _)| *at).collect();
    // If there are several, that of the address which the kernel chooses for packets to the prefix (RFC 6724).
    let chosen = source(prefix).filter(|at| networks.contains(at)).or(networks.first().copied())?;
    let network = u128::from(chosen) & (u128::MAX << (128 - NETWORK));
    let secret = std::fs::read_to_string("/etc/machine-id")
        .or_else(|_| std::fs::read_to_string(format!("/sys/class/net/{uplink}/address")))
        .unwrap_or_default();
    let address =
        |attempt| Ipv6Addr::from(network | u128::from(identifier(&secret, uplink, network, attempt)));
    Some((0..ATTEMPTS).map(address).collect())
}

/// An interface identifier.
fn identifier(secret: &str, uplink: &str, network: u128, attempt: u8) -> u64 {
    let digest = Sha256::new()
        .chain_update("strait clat\0")
        .chain_update(secret.trim())
        .chain_update([0])
        .chain_update(uplink)
        .chain_update(network.to_be_bytes())
        .chain_update(&[attempt][usize::from(attempt == 0)..])
        .finalize();
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The source address of packets to a prefix. Nothing is sent.
fn source(prefix: Ipv6Net) -> Option<Ipv6Addr> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SocketAddr::from((prefix.network(), 9))).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V6(v6) => Some(*v6.ip()),
        SocketAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_stable_and_another_one_in_another_network() {
        let (one, two) = (0x20010db8 << 96, 0x20010db9 << 96);
        assert_eq!(identifier("secret\n", "eth0", one, 0), identifier("secret", "eth0", one, 0));
        let all = [
            identifier("secret", "eth0", one, 0),
            identifier("secret", "eth0", two, 0),
            identifier("secret", "eth1", one, 0),
            identifier("other", "eth0", one, 0),
            identifier("secret", "eth0", one, 1),
        ];
        assert!((1..5).all(|n| !all[..n].contains(&all[n])), "{all:x?}");
    }

    #[test]
    fn only_a_network_of_64_bits_has_room() {
        let prefix = "2001:db8:64::/96".parse().expect("a prefix");
        let at = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        assert_eq!(made(&[(at("2001:db8:1::5"), 128), (at("2001:db8:2::5"), 56)], "eth0", prefix), None);
        let address = made(&[(at("2001:db8:1::5"), 128), (at("2001:db8:2::5"), 64)], "eth0", prefix);
        assert_eq!(address.map(|a| a[0].segments()[..4].to_vec()), Some(vec![0x2001, 0xdb8, 2, 0]));
    }
}
