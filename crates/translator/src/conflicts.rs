//! What of somebody else's would be in the way of our routes. It is found before anything changes. These are functions of the kernel's lists, so
//! that the tests need no kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use io::link::{BY_KERNEL, Kind, Prefix, Proxy, Route};
use serde::Serialize;

use crate::owner::PROTOCOL;

/// Something that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// What it is, by name.
    pub what: String,
    /// What the operator can do about it.
    #[serde(rename = "hint")]
    pub cure: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  hint: {}", self.what, self.cure)
    }
}

/// What the kernel has now.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// The routes of the main table, in the kernel's order.
    pub routes: Vec<Route>,
    /// The addresses of interfaces.
    pub addresses: Vec<(String, Prefix)>,
    /// The addresses for which interfaces answer neighbour solicitations.
    pub proxies: Vec<Proxy>,
}

/// How one of our routes is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is added. `beside`: routes of others to the same prefix exist, and `--force` puts ours before them.
    Add { route: Route, beside: bool },
    /// Ours is replaced by another of ours.
    Change { from: Route, to: Route },
    /// Ours is removed.
    Remove(Route),
}

/// Whose device it is for which routes are planned.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// The name of the device that the routes lead into.
    pub device: &'a str,
    /// Devices that this one takes the place of.
    pub moved: &'a [String],
    /// Whether the device is of an older release, whose routes look like an administrator's.
    pub old: bool,
    /// Whether a prefix with a conflict is left as it is.
    pub yields: bool,
}

impl Whose<'_> {
    fn is_ours(&self, route: &Route) -> bool {
        let mine = route.interface.as_deref() == Some(self.device);
        mine && (route.protocol == PROTOCOL || self.old)
    }

    fn is_moved(&self, route: &Route) -> bool {
        route.protocol == PROTOCOL
            && route.interface.as_ref().is_some_and(|name| self.moved.iter().any(|m| m == name))
    }
}

/// The plan of our routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// What is to be done.
    pub steps: Vec<Step>,
    /// Why it must not be done unless the operator insists.
    pub conflicts: Vec<Conflict>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Plans the routes that are wanted.
pub fn plan(wanted: &[Route], present: &Present, whose: Whose<'_>) -> Routing {
    let mut routing = Routing::default();
    let there = There::new(present, whose);
    for route in wanted {
        let mut one = Routing::default();
        match route.priority {
            None => self::one(route, &there, whose, &mut one),
            Some(_) => ranked(route, &there, whose, &mut one),
        }
        if !whose.yields || one.conflicts.is_empty() {
            routing.steps.extend(one.steps);
        }
        routing.conflicts.extend(one.conflicts);
        routing.warnings.extend(one.warnings);
    }
    let prefixes: BTreeSet<Prefix> = wanted.iter().map(|route| route.to).collect();
    for route in present.routes.iter().filter(|r| whose.is_ours(r)) {
        if !prefixes.contains(&route.to) {
            routing.steps.push(Step::Remove(route.clone()));
        }
    }
    routing
}

/// What is there, as each of our routes is compared with it: a machine may have a million routes, and a file thousands of mappings.
struct There<'a> {
    present: &'a Present,
    /// The routes of each prefix, in the kernel's order.
    by_prefix: BTreeMap<Prefix, Vec<&'a Route>>,
    /// The networks of links, of others.
    connected: Vec<&'a Route>,
    /// The routes of others, by their next hops.
    by_hop: BTreeMap<IpAddr, Vec<&'a Route>>,
}

impl<'a> There<'a> {
    fn new(present: &'a Present, whose: Whose<'_>) -> Self {
        let mut there =
            Self { present, by_prefix: BTreeMap::new(), connected: Vec::new(), by_hop: BTreeMap::new() };
        for route in &present.routes {
            there.by_prefix.entry(route.to).or_default().push(route);
            let foreign = !whose.is_ours(route) && !whose.is_moved(route);
            if !foreign || route.kind != Kind::Unicast || route.protocol == PROTOCOL {
                continue;
            }
            match route.via {
                Some(via) => there.by_hop.entry(via).or_default().push(route),
                None if route.protocol == BY_KERNEL => there.connected.push(route),
                None => {}
            }
        }
        there
    }

    /// The routes of a prefix.
    fn equal(&self, to: Prefix) -> impl Iterator<Item = &'a Route> {
        self.by_prefix.get(&to).into_iter().flatten().copied()
    }
}

fn one(wanted: &Route, there: &There<'_>, whose: Whose<'_>, routing: &mut Routing) {
    let equal: Vec<&Route> = there.equal(wanted.to).filter(|r| !whose.is_moved(r)).collect();
    let ours = equal.iter().position(|r| whose.is_ours(r));
    let others: Vec<&Route> = equal.iter().copied().filter(|r| !whose.is_ours(r)).collect();
    let best = others.iter().map(|r| r.metric()).min();
    if let Some(at) = ours {
        let mine = equal[at];
        let first = equal.iter().position(|r| Some(r.metric()) == best && !whose.is_ours(r));
        let wins = best.is_none_or(|best| {
            mine.metric() < best
                || (mine.metric() == best && mine.to.address.is_ipv4() && first.is_none_or(|f| at < f))
        });
        if wins {
            let to = Route { priority: mine.priority, ..wanted.clone() };
            if *mine != to {
                routing.steps.push(Step::Change { from: mine.clone(), to });
            }
            return;
        }
        routing.steps.push(Step::Remove(mine.clone()));
    }
    routing.conflicts.extend(others.iter().map(|other| equal_route(wanted, other)));
    let priority = best.and_then(|best| before(wanted, best));
    let route = Route { priority, ..wanted.clone() };
    routing.steps.push(Step::Add { route, beside: !others.is_empty() || !whose.moved.is_empty() });
    neighbours(wanted, there, whose, routing);
}

/// Plans a route with a metric of its own, which stands beside others to the same prefix, whoever wins.
fn ranked(wanted: &Route, there: &There<'_>, whose: Whose<'_>, routing: &mut Routing) {
    let equal: Vec<&Route> = there.equal(wanted.to).collect();
    match equal.iter().find(|r| whose.is_ours(r)) {
        Some(mine) if **mine == *wanted => {}
        // The kernel takes routes of an address away with it, and IPv6 has one route of a metric.
        Some(mine) => {
            routing.steps.push(Step::Remove((*mine).clone()));
            routing.steps.push(Step::Add { route: wanted.clone(), beside: true });
        }
        None => routing.steps.push(Step::Add { route: wanted.clone(), beside: true }),
    }
    let others = equal.iter().filter(|r| !whose.is_ours(r) && !whose.is_moved(r));
    if wanted.to.len > 0 {
        routing.conflicts.extend(others.map(|other| equal_route(wanted, other)));
    } else if let Some(better) = others.min_by_key(|r| r.metric()).filter(|r| r.metric() <= wanted.metric()) {
        routing
            .warnings
            .push(format!("packets take the route `{better}`, not `{wanted}`, while it is there"));
    }
}

/// The metric with which our route wins against one with the metric `best`; `None` is the usual one.
fn before(wanted: &Route, best: u32) -> Option<u32> {
    match wanted.to.address.is_ipv4() {
        true => None,
        false => (best <= wanted.metric()).then(|| best.saturating_sub(1).max(1)),
    }
}

fn equal_route(wanted: &Route, other: &Route) -> Conflict {
    let to = wanted.to;
    let other_device = other.interface.as_deref().unwrap_or("none");
    if other.protocol == PROTOCOL {
        return Conflict {
            what: format!("{to} is translated by the device `{other_device}` already"),
            cure: format!(
                "one device translates a prefix: change the file, or `strait nat64 down --device {other_device}`"
            ),
        };
    }
    let ours_wins = wanted.metric() < other.metric();
    let what = match (other.protocol == BY_KERNEL && other.via.is_none(), ours_wins) {
        (true, _) => {
            format!("{to} is the network of `{other_device}` (route `{other}`), which it would cut off")
        }
        (false, true) => format!("the route `{other}` would lose its packets to the device"),
        (false, false) => format!("the route `{other}` has the same prefix"),
    };
    Conflict {
        what,
        cure: "change the file or that route; `--force` puts the device's route before it, and `down` takes only that one away".into(),
    }
}

/// Routes to other prefixes that overlap.
fn neighbours(wanted: &Route, there: &There<'_>, whose: Whose<'_>, routing: &mut Routing) {
    let to = wanted.to;
    for other in &there.connected {
        let name = other.interface.as_deref().unwrap_or("none");
        if other.to.len < to.len && other.to.contains(&to) {
            inside(to, other, name, routing);
        } else if other.to.len > to.len && to.contains(&other.to) {
            routing.warnings.push(format!(
                "the network {} of `{name}` is inside {to}: its addresses are not translated",
                other.to
            ));
        }
    }
    let hops = there.by_hop.iter().filter(|(via, _)| to.contains(&host(**via)));
    for (via, other) in hops.flat_map(|(via, routes)| routes.iter().map(move |route| (via, route))) {
        routing.conflicts.push(Conflict {
            what: format!("the next hop {via} of the route `{other}` is inside {to}"),
            cure: "leave it out of the file; `--force` if it is right".into(),
        });
    }
    for (name, address) in there.present.addresses.iter().filter(|(name, _)| name != whose.device) {
        if to.contains(&host(address.address)) {
            routing.warnings.push(format!(
                "{} is an address of `{name}` and inside {to}: the kernel keeps its packets, so it is not translated",
                address.address
            ));
        }
    }
}

/// The prefix of one address.
fn host(address: IpAddr) -> Prefix {
    Prefix::new(address, if address.is_ipv4() { 32 } else { 128 })
}

/// Our prefix is inside the network of an interface.
fn inside(to: Prefix, other: &Route, name: &str, routing: &mut Routing) {
    let network = other.to;
    if to.address.is_ipv4() {
        // Mapped addresses of a LAN are common, with proxy ARP.
        routing.warnings.push(format!(
            "{to} is inside the network {network} of `{name}`, whose hosts ask for it by ARP; hint: sysctl -w net.ipv4.conf.{name}.proxy_arp=1"
        ));
        return;
    }
    routing.conflicts.push(Conflict {
        what: format!(
            "{to} is inside the network {network} of `{name}`: the hosts there with such addresses would be cut off, and the others look for \
             translated addresses on the link"
        ),
        cure: "use a prefix outside of every link's network; `--force` if neighbours are answered for (proxy NDP)".into(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn ours(prefix: &str) -> Route {
        Route::dev(to(prefix), "nat64").by(PROTOCOL)
    }

    fn other(prefix: &str, device: &str, protocol: u8, metric: u32) -> Route {
        let priority = Some(metric).filter(|m| *m > 0);
        Route { priority, ..Route::dev(to(prefix), device).by(protocol) }
    }

    fn planned(wanted: &[Route], routes: &[Route], moved: &[String]) -> Routing {
        let present = Present { routes: routes.to_vec(), ..Present::default() };
        plan(wanted, &present, Whose { device: "nat64", moved, old: false, yields: false })
    }

    /// Each row has: what is wanted, a route that exists, and words of the conflict; none if there is no conflict.
    #[test]
    fn what_is_in_the_way_is_named() {
        let via = Route { interface: Some("eth0".into()), ..Route::via(to("0.0.0.0/0"), [192, 0, 2, 1]) };
        let blackhole = Route { kind: Kind::Other(6), interface: None, ..other("192.0.2.0/24", "", 4, 9999) };
        let cases: [(&str, Route, &[&str]); 12] = [
            ("192.0.2.0/24", other("192.0.2.0/24", "eth0", 2, 0), &["the network of `eth0`"]),
            ("192.0.2.0/24", other("192.0.2.0/24", "eth0", 4, 0), &["dev eth0 proto static", "--force"]),
            ("192.0.2.0/24", other("192.0.2.0/24", "eth0", 12, 32), &["proto bird", "lose its packets"]),
            ("192.0.2.0/24", blackhole, &["blackhole 192.0.2.0/24"]),
            ("192.0.2.0/24", via, &["next hop 192.0.2.1", "default via"]),
            (
                "192.0.2.0/24",
                other("192.0.2.0/24", "nat46", PROTOCOL, 0),
                &["`nat46` already", "--device nat46"],
            ),
            ("192.0.2.8/29", other("192.0.2.0/24", "eth0", 2, 0), &[]),
            ("192.0.2.0/24", other("192.0.2.0/25", "eth0", 4, 0), &[]),
            ("2001:db8::/96", other("2001:db8::/96", "eth0", 2, 256), &["the network of `eth0`"]),
            (
                "2001:db8::/96",
                other("2001:db8::/64", "eth0", 2, 256),
                &["2001:db8::/64 of `eth0`", "cut off"],
            ),
            ("2001:db8::/96", other("2001:db8::/32", "eth0", 4, 1024), &[]),
            ("2001:db8::/32", other("2001:db8:1::/64", "eth0", 2, 256), &[]),
        ];
        for (wanted, exists, words) in cases {
            let routing = planned(&[ours(wanted)], std::slice::from_ref(&exists), &[]);
            let said: Vec<_> = routing.conflicts.iter().map(Conflict::to_string).collect();
            assert_eq!(said.is_empty(), words.is_empty(), "{wanted} and {exists}: {said:?}");
            assert!(words.iter().all(|word| said.concat().contains(word)), "{wanted} and {exists}: {said:?}");
        }
    }

    #[test]
    fn a_route_that_is_there_stays_and_one_that_is_not_wanted_goes() {
        let (a, b) = (ours("192.0.2.0/24").mtu(1472), ours("198.51.100.0/24"));
        let narrow = ours("192.0.2.0/24").mtu(1400);
        let routing = planned(std::slice::from_ref(&a), &[narrow.clone(), b.clone()], &[]);
        assert_eq!(routing.steps, [Step::Change { from: narrow, to: a.clone() }, Step::Remove(b)]);
        assert_eq!(planned(std::slice::from_ref(&a), std::slice::from_ref(&a), &[]), Routing::default());
        // Somebody's route into our device is not ours.
        let theirs = other("203.0.113.0/24", "nat64", 4, 0);
        assert_eq!(planned(&[], std::slice::from_ref(&theirs), &[]), Routing::default());
    }

    #[test]
    fn a_forced_route_stands_before_the_other_one_and_needs_no_force_again() {
        let four = planned(&[ours("192.0.2.0/24")], &[other("192.0.2.0/24", "eth0", 2, 0)], &[]);
        let route = ours("192.0.2.0/24");
        assert_eq!(four.steps, [Step::Add { route: route.clone(), beside: true }]);
        let there = [route, other("192.0.2.0/24", "eth0", 2, 0)];
        assert_eq!(planned(&[ours("192.0.2.0/24")], &there, &[]), Routing::default());

        let six = planned(&[ours("2001:db8::/96")], &[other("2001:db8::/96", "eth0", 2, 256)], &[]);
        let route = Route { priority: Some(255), ..ours("2001:db8::/96") };
        assert_eq!(six.steps, [Step::Add { route: route.clone(), beside: true }]);
        let there = [other("2001:db8::/96", "eth0", 2, 256), route];
        assert_eq!(planned(&[ours("2001:db8::/96")], &there, &[]), Routing::default());
    }

    #[test]
    fn routes_of_a_device_that_moves_are_not_in_the_way() {
        let old = other("192.0.2.0/24", "old", PROTOCOL, 0);
        let routing = planned(&[ours("192.0.2.0/24")], &[old], &["old".into()]);
        assert_eq!((routing.conflicts.len(), routing.steps.len()), (0, 1));
    }
}
