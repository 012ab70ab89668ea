//! Routes that would lead what the translator has made back into it. A packet that takes them ends when its hops are used up; here is why it need not
//! begin: under each network whose hosts have a more specific route, there is an `unreachable` route, which counts when that one is gone.
//!
//! Such a network is that of `routes` by its RFC 6052 addresses, a mapping's IPv6 prefix inside the translation prefix, and of a CLAT the IPv4
//! networks behind the host. Without a route of their own, the route into the device is the best one to them.

use std::net::IpAddr;

use io::link::{Handle, Kind, Prefix, Reached, Route};
use nat64::{Config, embedded};
use sha2::{Digest as _, Sha256};

use crate::conflicts::{Present, Routing, Step};
use crate::owner::{PROTOCOL, Site};

/// RTN_UNREACHABLE of linux/rtnetlink.h.
const UNREACHABLE: Kind = Kind::Other(7);
/// The least metric of our routes: nobody's route that leads somewhere comes after it.
const LAST: u32 = 1 << 31;
/// How many networks `status` looks up at most.
const MOST: usize = 256;

/// A network whose hosts must have a more specific route than that into the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beyond {
    /// The network as it is after translation.
    to: Prefix,
    /// The network that is routed into the device, in which it is.
    inside: Prefix,
    /// The network before translation.
    of: Prefix,
}

/// The metric of a site's routes, by which they are known.
fn metric(site: &Site) -> u32 {
    let digest = Sha256::digest(site.alias());
    LAST | u32::from_be_bytes([0, digest[0], digest[1], digest[2]])
}

/// Of which networks the way back into the device would be a loop.
fn beyond(config: &Config) -> Vec<Beyond> {
    let four = |net: ipnet::Ipv4Net| Prefix::new(net.network(), net.prefix_len());
    let six = |net: ipnet::Ipv6Net| Prefix::new(net.network(), net.prefix_len());
    if let Some(clat) = &config.clat {
        let Some(found) = &clat.found else { return Vec::new() };
        let hosts = config.maps.iter().filter(|map| map.ipv6.addr() != found.ipv6);
        let any = Prefix::new([0, 0, 0, 0], 0);
        return hosts.map(|map| Beyond { to: four(map.ipv4), inside: any, of: six(map.ipv6) }).collect();
    }
    let Some(prefix) = config.prefix else { return Vec::new() };
    // A packet to the RFC 6052 address of a host with a mapping is a hairpin, which comes back on purpose.
    let mapped = |net: &ipnet::Ipv4Net| config.maps.iter().any(|map| map.ipv4.contains(net));
    let routes = config.routes.iter().filter(|net| !mapped(net)).map(|net| Beyond {
        to: six_of(prefix, *net),
        inside: six(prefix),
        of: four(*net),
    });
    let maps = config.maps.iter().filter(|map| prefix.contains(&map.ipv6) && map.ipv6 != prefix);
    let maps = maps.map(|map| Beyond { to: six(map.ipv6), inside: six(prefix), of: four(map.ipv4) });
    routes.chain(maps).collect()
}

/// The IPv6 network of the RFC 6052 addresses of an IPv4 network. Bits 64 to 71 are none of the address (section 2.2).
fn six_of(prefix: ipnet::Ipv6Net, net: ipnet::Ipv4Net) -> Prefix {
    let end = prefix.prefix_len() + net.prefix_len();
    let len = if prefix.prefix_len() < 96 && end > 64 { end + 8 } else { end };
    Prefix::new(embedded(prefix, net.network()), len)
}

/// Adds to a plan what keeps packets from coming back, and says which route is missing.
pub fn plan(config: &Config, site: &Site, present: &Present, routing: &mut Routing) {
    let ours = |route: &&Route| is_ours(route, site);
    let mut kept: Vec<Prefix> = Vec::new();
    for one in beyond(config) {
        let others = elsewhere(&one, present, &site.device);
        if others.is_empty() {
            routing.warnings.push(missing(&one));
        }
        // One that covers the network is another one's end, too; ours is under that.
        let widest = others.iter().filter(|to| to.contains(&one.to)).min_by_key(|to| to.len);
        let to = widest.copied().unwrap_or(one.to);
        let there = present.routes.iter().filter(ours).find(|route| {
            let is_under = |to: &Prefix| to.len < route.to.len && to.contains(&route.to);
            route.to.contains(&one.to) && one.inside.len < route.to.len && !others.iter().any(is_under)
        });
        match there {
            Some(route) => kept.push(route.to),
            None if kept.contains(&to) => {}
            None => {
                kept.push(to);
                add(floor(to, site), present, routing);
            }
        }
    }
    let left = present.routes.iter().filter(ours).filter(|route| !kept.contains(&route.to));
    routing.steps.extend(left.map(|route| Step::Remove(floor(route.to, site))));
}

/// Adds a route of ours to a plan. One of somebody else with the same key stays.
fn add(route: Route, present: &Present, routing: &mut Routing) {
    let same = |other: &&Route| other.to == route.to && other.metric() == route.metric();
    match present.routes.iter().find(same) {
        Some(other) => routing.warnings.push(format!("`{other}` is left, in the place of `{route}`")),
        None => routing.steps.push(Step::Add { route, beside: false }),
    }
}

/// The route under those to a network.
fn floor(to: Prefix, site: &Site) -> Route {
    let dev = Route::dev(to, "").by(PROTOCOL);
    Route { interface: None, kind: UNREACHABLE, priority: Some(metric(site)), ..dev }
}

fn is_ours(route: &Route, site: &Site) -> bool {
    route.kind == UNREACHABLE && route.protocol == PROTOCOL && route.metric() == metric(site)
}

/// Where routes lead that are more specific than that into the device, and that are to the network or a part of it.
fn elsewhere(one: &Beyond, present: &Present, device: &str) -> Vec<Prefix> {
    let leads = |route: &&Route| {
        let near = route.to.contains(&one.to) || one.to.contains(&route.to);
        let is_way = route.kind == Kind::Unicast && route.interface.as_deref() != Some(device);
        is_way && near && route.to.len > one.inside.len
    };
    present.routes.iter().filter(leads).map(|route| route.to).collect()
}

fn missing(one: &Beyond) -> String {
    let family = if one.to.address.is_ipv4() { "-4" } else { "-6" };
    let Beyond { to, of, inside } = one;
    format!(
        "no route leads to {to}, which is {of} after translation, but the one of {inside} into the device, so its packets find no host; \
         hint: ip {family} route add {to} via ROUTER"
    )
}

/// The routes that this machine lacks for a file, as far as it can be asked.
pub fn lacking(config: &Config) -> Vec<String> {
    let Ok(routes) = Handle::open().and_then(|links| links.routes()) else { return Vec::new() };
    let present = Present { routes, ..Present::default() };
    let device = crate::configured::device(config);
    let lacking = beyond(config).into_iter().filter(|one| elsewhere(one, &present, device).is_empty());
    lacking.map(|one| missing(&one)).collect()
}

/// Takes away a site's routes that do not go with its device.
pub fn remove(site: &Site, links: &Handle) -> anyhow::Result<()> {
    for route in links.routes()?.iter().filter(|route| is_ours(route, site)) {
        links.remove_route(&floor(route.to, site))?;
    }
    Ok(())
}

/// The loops that the kernel's routes make now, each with its cure.
pub fn found(config: &Config, device: &str, links: &Handle) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for one in beyond(config).into_iter().take(MOST) {
        let samples = [one.to.address, next(one.to.address)];
        let samples = samples.into_iter().filter(|address| one.to.contains(&host(*address)));
        let back = |address: &IpAddr| matches!(links.reached(*address), Ok(Reached::Interface(name)) if name == device);
        let Some(address) = samples.into_iter().find(back) else { continue };
        let family = if address.is_ipv4() { "-4" } else { "-6" };
        all.push((
            format!(
                "a loop: {address}, which is in {} after translation, is routed into `{device}` again",
                one.of
            ),
            format!("ip {family} route add {} via ROUTER", one.to),
        ));
    }
    all
}

fn host(address: IpAddr) -> Prefix {
    Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })
}

/// The address after this one.
fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::from(u32::from(v4).wrapping_add(1).to_be_bytes()),
        IpAddr::V6(v6) => IpAddr::from(u128::from(v6).wrapping_add(1).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nat64::config::parse;

    fn site() -> Site {
        Site { device: "nat64".into(), peer: "nat64-".into(), instance: "nat64-1".into() }
    }

    fn to(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn config(prefix: &str, more: &str) -> Config {
        let text = format!("[nat64]\nmode = \"stateless\"\nprefix = \"{prefix}\"\n{more}");
        parse(&text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
    }

    fn planned(config: &Config, routes: &[Route]) -> Routing {
        let mut routing = Routing::default();
        plan(config, &site(), &Present { routes: routes.to_vec(), ..Present::default() }, &mut routing);
        routing
    }

    fn added(routing: &Routing) -> Vec<Prefix> {
        let add = |step: &Step| match step {
            Step::Add { route, .. } => Some(route.to),
            _ => None,
        };
        routing.steps.iter().filter_map(add).collect()
    }

    /// Each row has the prefix, a network of `routes`, and where it is after translation.
    #[test]
    fn the_ipv6_network_of_an_ipv4_network() {
        for (prefix, net, six) in [
            ("2001:db8::/32", "192.0.2.0/24", "2001:db8:c000:200::/56"),
            ("2001:db8:100::/40", "192.0.2.128/25", "2001:db8:1c0:2:80::/73"),
            ("2001:db8:100::/40", "192.0.2.0/24", "2001:db8:1c0:2::/64"),
            ("2001:db8:122:300::/56", "192.0.0.0/8", "2001:db8:122:3c0::/64"),
            ("2001:db8:122:344::/64", "192.0.2.0/24", "2001:db8:122:344:c0:2::/96"),
            ("2001:db8:64::/96", "203.0.113.0/24", "2001:db8:64::cb00:7100/120"),
        ] {
            let config = config(prefix, &format!("routes = [\"{net}\"]"));
            assert_eq!(added(&planned(&config, &[])), [to(six)], "{prefix} {net}");
        }
    }

    #[test]
    fn an_unreachable_route_is_under_the_one_that_leads_to_the_hosts() {
        let config = config("2001:db8:64::/96", "routes = [\"203.0.113.0/24\"]");
        let device = Route::dev(to("2001:db8:64::/96"), "nat64").by(PROTOCOL);
        let network = "2001:db8:64::cb00:7100/120";
        // Each row has a route of others, where ours is, and whether one is missing.
        for (other, under, lacks) in [
            ("2001:db8:64::cb00:7100/120", network, false),
            ("2001:db8:64::cb00:7100/124", network, false),
            ("2001:db8:64::cb00:0/112", "2001:db8:64::cb00:0/112", false),
            ("2001:db8::/32", network, true),
            ("2001:db8:64::c000:200/120", network, true),
        ] {
            let lan = Route::dev(to(other), "eth0");
            let first = planned(&config, &[device.clone(), lan.clone()]);
            assert_eq!(added(&first), [to(under)], "{other}");
            assert_eq!(!first.warnings.is_empty(), lacks, "{other}: {:?}", first.warnings);
            // The kernel tells it with an interface.
            let ours = Route { interface: Some("lo".into()), ..floor(to(under), &site()) };
            let there = [device.clone(), lan, ours.clone()];
            assert_eq!(planned(&config, &there).steps, [], "{other}");
            // The route of others is gone, and ours is what it is for.
            let alone = planned(&config, &[device.clone(), ours]);
            assert_eq!((alone.steps.len(), alone.warnings.len()), (0, 1), "{other}: {alone:?}");
        }
    }

    #[test]
    fn a_wider_route_of_others_that_comes_later_is_not_cut_off() {
        let config = config("2001:db8:64::/96", "routes = [\"203.0.113.0/24\"]");
        let lan = Route::dev(to("2001:db8:64::cb00:0/112"), "eth0");
        let ours = floor(to("2001:db8:64::cb00:7100/120"), &site());
        let steps = planned(&config, &[lan.clone(), ours.clone()]).steps;
        let wider = Step::Add { route: floor(lan.to, &site()), beside: false };
        assert_eq!(steps, [wider, Step::Remove(ours)]);
    }

    #[test]
    fn what_of_others_has_the_same_key_stays_and_is_named() {
        let config = config("2001:db8:64::/96", "routes = [\"203.0.113.0/24\"]");
        let theirs = floor(to("2001:db8:64::cb00:7100/120"), &site()).by(4);
        let routing = planned(&config, &[theirs]);
        assert_eq!(routing.steps, []);
        assert!(routing.warnings.iter().any(|w| w.contains("is left")), "{:?}", routing.warnings);
        // Routes of another translator are not touched.
        let other = Site { instance: "nat46-1".into(), device: "nat46".into(), peer: "nat46-".into() };
        let other = floor(to("2001:db8:65::/120"), &other);
        assert_eq!(planned(&config, &[other]).steps.len(), 1);
    }

    #[test]
    fn hairpins_come_back_on_purpose() {
        let config = config(
            "2001:db8:64::/96",
            "routes = [\"198.51.100.0/25\"]\n[[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8:100::/120\"\n",
        );
        assert_eq!(planned(&config, &[]), Routing::default());
    }
}
