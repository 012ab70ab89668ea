//! How much of the pools is used, and by whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv6Addr;

use ipnet::{Ipv4Net, Ipv6Net};
use nat64::{Protocol, Shares, shares};
use serde::Serialize;

use super::Running;
use crate::select::Select;

/// A pool, and how many of its ports have bindings. The fields of its JSON are in the order of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolUse {
    /// The IPv4 prefixes from which hosts get addresses.
    pub addresses: Vec<Ipv4Net>,
    /// The number of bindings of each protocol.
    pub bindings: BTreeMap<&'static str, u64>,
    /// The number of ports of a subscriber's block, if there are blocks.
    pub block: Option<u16>,
    /// The number of ports of each protocol.
    pub capacity: u64,
    /// The prefix of its hosts.
    pub hosts: Ipv6Net,
    /// The first and the last port of each address.
    pub ports: [u16; 2],
    /// The length of a subscriber's prefix.
    pub subscriber: u8,
}

/// What a subscriber has. The fields of its JSON are in the order of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subscriber {
    /// The number of bindings.
    pub bindings: u64,
    /// The number of times that it was refused more; `None` if its prefix is longer than those by which this is counted.
    pub refused: Option<u64>,
    /// The number of sessions.
    pub sessions: u64,
    /// The prefix of its hosts.
    #[serde(rename = "subscriber")]
    pub prefix: Ipv6Net,
}

/// The pools, in the order of the file.
pub fn pools(select: &Select) -> anyhow::Result<Vec<PoolUse>> {
    let mut running = Running::open(select)?;
    let pools = running.stateful.pools.clone();
    let none = || Protocol::ALL.map(|protocol| (protocol.name(), 0)).into_iter().collect();
    let mut used: Vec<BTreeMap<&'static str, u64>> = pools.iter().map(|_| none()).collect();
    running.each_binding(|binding| {
        let own = pools.iter().enumerate().filter(|(_, pool)| pool.hosts.contains(&binding.host.0));
        if let Some((at, _)) = own.max_by_key(|(_, pool)| pool.hosts.prefix_len()) {
            *used[at].entry(binding.protocol.name()).or_default() += 1;
        }
        Ok(())
    })?;
    let all = pools.into_iter().zip(used).map(|(pool, bindings)| PoolUse {
        bindings,
        block: pool.block,
        capacity: pool.count() * u64::from(pool.ports_of_address()),
        hosts: pool.hosts,
        ports: [*pool.ports.start(), *pool.ports.end()],
        subscriber: pool.subscriber,
        addresses: pool.addresses,
    });
    Ok(all.collect())
}

/// What hosts of a prefix have.
#[derive(Default)]
struct Used {
    bindings: u64,
    sessions: u64,
    /// The subscribers whose hosts they are.
    subscribers: BTreeSet<u64>,
}

/// The `most` subscribers with the most bindings. `length` is that of a subscriber's prefix.
pub fn top(select: &Select, length: u8, most: usize) -> anyhow::Result<Vec<Subscriber>> {
    let mut running = Running::open(select)?;
    let share = Shares::of(&running.stateful);
    let prefix = |host: Ipv6Addr| Ipv6Net::new(host, length).unwrap_or_default().trunc();
    let mut found: HashMap<Ipv6Net, Used> = HashMap::new();
    running.each_binding(|binding| {
        let used = found.entry(prefix(binding.host.0)).or_default();
        used.bindings += 1;
        used.subscribers.insert(share.subscriber(binding.host.0));
        Ok(())
    })?;
    running.each_session(|session| {
        found.entry(prefix(session.host.0)).or_default().sessions += 1;
        Ok(())
    })?;
    let mut all: Vec<_> = found.into_iter().collect();
    all.sort_by_key(|(net, used)| (std::cmp::Reverse((used.bindings, used.sessions)), *net));
    all.truncate(most);
    // What was refused is counted by subscriber.
    let is_counted = length <= share.length;
    let mut top = Vec::new();
    for (prefix, Used { bindings, sessions, subscribers }) in all {
        let mut refused = 0;
        for subscriber in subscribers.iter().filter(|_| is_counted) {
            refused +=
                shares::refused(&running.stateful, *subscriber, &mut running.program)?.iter().sum::<u64>();
        }
        top.push(Subscriber { bindings, refused: is_counted.then_some(refused), sessions, prefix });
    }
    Ok(top)
}
