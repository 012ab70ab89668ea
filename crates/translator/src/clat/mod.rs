//! The mode `clat` (RFC 6877): what it needs of the host beside the device and its tables.
//!
//! The host's IPv4 packets have the device's address, which is of RFC 7335's range, and take the IPv4 default route into the device. They come
//! back from it as IPv6 packets of an address that is routed into the device, and that the kernel forwards to the uplink. So forwarding must be
//! on. If the address is of the uplink's own network, the kernel answers neighbour solicitations for it.

mod dns;
mod follow;
mod place;

pub use follow::Follower;

use io::bpf::Instance;
use io::link::{Handle, Prefix, Proxy, Route, sysctl};
use nat64::{Clat, Config, Found, discovery::Origin};

use crate::configured::{device, ipv4_mtu};
use crate::log::Log;
use crate::owner::{PROTOCOL, Site};
use crate::record::{Changed, Record};
use crate::wiring::{Ground, Step};

/// The metric of the route to the translator's IPv6 address: the kernel's usual one (IP6_RT_PRIO_USER). It is named so that the route may be
/// inside the uplink's network.
const USUAL: u32 = 1024;

/// A configuration that translates: of a CLAT, with what follows from its network. Without a prefix in the file there must be a `run` that finds it.
pub fn complete(config: Config, links: &Handle) -> anyhow::Result<Config> {
    let Some(clat) = &config.clat else { return Ok(config) };
    let device = device(&config);
    if let Some(prefix) = config.prefix {
        let found = place::find(clat, device, prefix, Origin::File, None, links)?;
        return Ok(config.with(found));
    }
    let site = Site::new(device)?;
    if !is_followed(&site) {
        anyhow::bail!(
            "the file has no `prefix`, so it is found in the network and may change; nothing was changed\n  hint: `strait nat64 run` \
             finds it and follows it; `up` needs `prefix = \"…\"`"
        );
    }
    // What that process has found counts, if it has found something.
    let Some(Found { prefix, origin, until, .. }) = Record::find(&site).and_then(|record| record.found)
    else {
        return Ok(config);
    };
    let found = place::find(clat, device, prefix, origin, until, links)?;
    Ok(config.with(found))
}

/// Whether a process follows the network of a site.
fn is_followed(site: &Site) -> bool {
    io::bpf::is_claimed(&site.instance).unwrap_or(false)
}

/// The routes into the device. Without a prefix there are none.
pub fn routes(config: &Config, clat: &Clat, device: &str) -> Vec<Route> {
    let Some(found) = &clat.found else { return Vec::new() };
    let any = Prefix::new([0, 0, 0, 0], 0);
    let default = Route::dev(any, device).mtu(ipv4_mtu(config));
    let default = Route { source: Some(clat.ipv4.into()), priority: Some(clat.metric), ..default };
    let own = Route { priority: Some(USUAL), ..Route::dev(Prefix::new(found.ipv6, 128), device) };
    // The IPv6 side of further mappings is that of hosts behind this one.
    let others = config.maps.iter().filter(|map| map.ipv6.addr() != found.ipv6);
    let others = others.map(|map| Route::dev(Prefix::new(map.ipv6.network(), map.ipv6.prefix_len()), device));
    [own, default].into_iter().chain(others).map(|route| route.by(PROTOCOL)).collect()
}

/// The steps to addresses, sysctls and proxy neighbours. Of other modes there are none.
pub fn steps(ground: &Ground<'_>, config: &Config) -> Vec<Step> {
    let Some(clat) = &config.clat else { return Vec::new() };
    let mut steps = addresses(ground, clat);
    let found = clat.found.as_ref();
    if let Some(found) = found {
        steps.extend(sysctls(ground, found));
    }
    let wanted = found.filter(|found| found.on_link).map(|found| Proxy {
        interface: found.uplink.clone(),
        address: found.ipv6,
        protocol: PROTOCOL,
    });
    for proxy in ours(ground.site, &ground.present.proxies, &ground.present.routes) {
        if Some(&proxy) != wanted.as_ref() {
            steps.push(Step::Proxy { proxy, add: false });
        }
    }
    steps.extend(
        wanted
            .filter(|proxy| !ground.present.proxies.contains(proxy))
            .map(|proxy| Step::Proxy { proxy, add: true }),
    );
    steps
}

fn addresses(ground: &Ground<'_>, clat: &Clat) -> Vec<Step> {
    let device = &ground.site.device;
    let wanted = clat.found.as_ref().map(|_| Prefix::new(clat.ipv4, 32));
    let held = ground.present.addresses.iter().filter(|(name, at)| name == device && at.address.is_ipv4());
    let held: Vec<Prefix> = held.map(|(_, address)| *address).collect();
    let step = |address, add| Step::Address { device: device.clone(), address, add };
    let new = wanted.filter(|address| !held.contains(address)).map(|address| step(address, true));
    let old = held.iter().filter(|address| Some(**address) != wanted).map(|address| step(*address, false));
    new.into_iter().chain(old).collect()
}

/// Forwarding makes the kernel ignore router advertisements where `accept_ra` is 1, and forget what they said, so `accept_ra` comes first.
fn sysctls(ground: &Ground<'_>, found: &Found) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut set = |key: String, is: &str, to: &str| {
        if sysctl::get(&key).is_ok_and(|value| value == is) {
            steps.push(Step::Sysctl { key, from: is.into(), to: to.into() });
        }
    };
    if sysctl::get("net/ipv6/conf/all/forwarding").is_ok_and(|value| value == "0") {
        for link in ground
            .all
            .iter()
            .filter(|l| !l.loopback && ![&ground.site.device, &ground.site.peer].contains(&&l.name))
        {
            set(format!("net/ipv6/conf/{}/accept_ra", link.name), "1", "2");
        }
        set("net/ipv6/conf/all/forwarding".into(), "0", "1");
    }
    if found.on_link {
        set(format!("net/ipv6/conf/{}/proxy_ndp", found.uplink), "0", "1");
    }
    steps
}

/// The proxy neighbours of a site: they have our protocol number, and their address is not routed into another device of ours.
fn ours(site: &Site, proxies: &[Proxy], routes: &[Route]) -> Vec<Proxy> {
    let elsewhere = |proxy: &Proxy| {
        let host = Prefix::new(proxy.address, 128);
        routes
            .iter()
            .any(|r| r.to == host && r.protocol == PROTOCOL && r.interface.as_ref() != Some(&site.device))
    };
    proxies.iter().filter(|proxy| proxy.protocol == PROTOCOL && !elsewhere(proxy)).cloned().collect()
}

/// The proxy neighbours that go with a site.
pub fn proxies(site: &Site, links: &Handle) -> anyhow::Result<Vec<Proxy>> {
    let proxies = links.proxies()?;
    if proxies.is_empty() {
        return Ok(proxies);
    }
    Ok(ours(site, &proxies, &links.routes()?))
}

/// The sysctls that steps change beside those of the device itself, after those that were changed before.
pub fn changed(site: &Site, steps: &[Step], before: Option<&Record>) -> Vec<Changed> {
    let mut all = before.map_or_else(Vec::new, |record| record.sysctls.clone());
    for step in steps {
        let Step::Sysctl { key, from, to } = step else { continue };
        let of_device = [&site.device, &site.peer].iter().any(|name| key.contains(&format!("/{name}/")));
        if !of_device && !all.iter().any(|changed| changed.key == *key) {
            all.push(Changed { key: key.clone(), from: from.clone(), to: to.clone() });
        }
    }
    all
}

/// Sets sysctls back, the last one first, if they still have the value that we gave them. Those of interfaces that are gone are gone too.
pub fn restore(record: Option<&Record>, log: &Log) {
    for Changed { key, from, to } in record.iter().flat_map(|record| &record.sysctls).rev() {
        if sysctl::get(key).is_ok_and(|value| value == *to)
            && let Err(error) = sysctl::set(key, from)
        {
            log.warning(&error.to_string());
        }
    }
}

/// Why a CLAT that works will not do so for ever, and what helps.
pub fn problem(site: &Site, found: &Found, now: u64) -> Option<(String, String)> {
    if found.origin == Origin::File || is_followed(site) {
        return None;
    }
    let what = match found.until {
        Some(until) if until <= now => "the prefix is no longer valid, and no process looks for another one",
        _ => "no process follows the network, so the prefix may change unnoticed",
    };
    Some((what.into(), "start `strait nat64 run` again, or write `prefix = \"…\"` into the file".into()))
}

/// That the kernel ignores the routers of the uplink, and what helps.
pub fn deaf(found: &Found) -> Option<(String, String)> {
    let uplink = &found.uplink;
    let key = format!("net/ipv6/conf/{uplink}/accept_ra");
    let deaf = sysctl::get(&key).is_ok_and(|value| value == "1");
    let forwards = sysctl::get("net/ipv6/conf/all/forwarding").is_ok_and(|value| value == "1");
    (deaf && forwards).then(|| {
        let key = key.replace('/', ".");
        let what = format!(
            "{key} is 1, and IPv6 forwarding was on before, so the kernel ignores the routers on `{uplink}`"
        );
        (what, format!("sysctl -w {key}=2, if its addresses or routes come from router advertisements"))
    })
}

/// A CLAT in words, for `status`.
pub fn described(clat: &Clat, now: u64) -> String {
    let Some(found) = &clat.found else { return "clat: no prefix is known, so nothing is translated".into() };
    let left =
        found.until.map_or(String::new(), |until| format!(", valid for {} s", until.saturating_sub(now)));
    format!(
        "clat: {} is {} behind {}; prefix from {}{left}",
        clat.ipv4,
        found.ipv6,
        found.uplink,
        origin(found)
    )
}

/// A CLAT for programs, for `status --json`.
pub fn json(clat: &Clat, now: u64) -> serde_json::Value {
    let found = clat.found.as_ref();
    let (origin, by) = match found.map(|found| found.origin) {
        None => (None, None),
        Some(Origin::File) => (Some("file"), None),
        Some(Origin::Router(router)) => (Some("router"), Some(router.to_string())),
        Some(Origin::Dns(resolver)) => (Some("dns"), Some(resolver.to_string())),
    };
    serde_json::json!({
        "ipv4": clat.ipv4.to_string(),
        "ipv6": found.map(|found| found.ipv6.to_string()),
        "uplink": found.map(|found| &found.uplink),
        "prefix_from": origin,
        "prefix_by": by,
        "prefix_until": found.and_then(|found| found.until),
        "prefix_lifetime": found.and_then(|found| found.until).map(|until| until.saturating_sub(now)),
    })
}

/// Where a prefix comes from, in words.
fn origin(found: &Found) -> String {
    match found.origin {
        Origin::File => "the file".to_string(),
        Origin::Router(router) => format!("router {router} (PREF64)"),
        Origin::Dns(resolver) => format!("resolver {resolver} (RFC 7050)"),
    }
}

/// What has changed between two states of a network, in words; `None` if it is only how long the prefix is valid.
pub fn change(from: Option<&Found>, to: Option<&Found>) -> Option<String> {
    let timeless = |found: &Found| Found { until: None, ..found.clone() };
    if from.map(timeless) == to.map(timeless) {
        return None;
    }
    Some(match to {
        Some(to) => format!("prefix {} from {}, {} behind {}", to.prefix, origin(to), to.ipv6, to.uplink),
        None => "there is no prefix any more, so nothing is translated".into(),
    })
}

/// Writes down until when the prefix is valid, for `status`.
pub fn note(site: &Site, found: &Found) -> anyhow::Result<()> {
    let instance = Instance::open(&site.instance)?;
    match Record::of(&instance) {
        Some(record) => Record { found: Some(found.clone()), ..record }.write(&instance),
        None => Ok(()),
    }
}
