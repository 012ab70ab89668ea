//! `pingall`: every host pings every address of every other host.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use control::lab::Topology;

use super::network::Network;

/// Requests to an address, and the wait for the reply to each.
const TRIES: u16 = 3;
const PATIENCE: Duration = Duration::from_secs(1);

/// What a ping has shown.
pub struct Ping {
    from: String,
    to: String,
    address: IpAddr,
    time: Option<Duration>,
}

/// Pings between all hosts at once. Addresses of an IP version that a host does not have are left out.
pub fn all(network: &Network, topology: &Topology) -> anyhow::Result<Vec<Ping>> {
    let mut wanted = Vec::new();
    for from in &topology.hosts {
        let families = [true, false].map(|v4| from.addresses.iter().any(|net| net.addr().is_ipv4() == v4));
        for to in topology.hosts.iter().filter(|to| to.name != from.name) {
            for address in to.addresses.iter().map(|net| net.addr()) {
                if families[usize::from(address.is_ipv6())] {
                    wanted.push((from, to, address));
                }
            }
        }
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = wanted
            .into_iter()
            .map(|(from, to, address)| {
                let namespace = network.node(&from.name)?;
                Ok(scope.spawn(move || {
                    let time = namespace.run(|| io::ping::ping(address, TRIES, PATIENCE))??;
                    Ok(Ping { from: from.name.clone(), to: to.name.clone(), address, time })
                }))
            })
            .collect::<anyhow::Result<_>>()?;
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Ping>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Prints the results. Returns whether every address has answered.
pub fn report(pings: &[Ping], json: bool) -> bool {
    let answered = pings.iter().filter(|ping| ping.time.is_some()).count();
    if json {
        let one = |ping: &Ping| {
            let milliseconds = ping.time.map(|time| time.as_secs_f64() * 1e3);
            serde_json::json!({"from": ping.from, "to": ping.to, "address": ping.address, "milliseconds": milliseconds})
        };
        let list: Vec<_> = pings.iter().map(one).collect();
        println!("{}", serde_json::json!({"pings": list, "sent": pings.len(), "answered": answered}));
        return answered == pings.len();
    }
    let mut lines: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for ping in pings {
        let row = pings.iter().position(|first| first.from == ping.from).unwrap_or_default();
        let (_, line) = lines.entry(row).or_insert_with(|| (ping.from.clone(), String::new()));
        let name = if ping.address.is_ipv6() { format!("{} (IPv6)", ping.to) } else { ping.to.clone() };
        match ping.time {
            Some(time) => *line += &format!("  {name} {:.2} ms", time.as_secs_f64() * 1e3),
            None => *line += &format!("  {name} –"),
        }
    }
    lines.values().for_each(|(from, line)| println!("{from} →{line}"));
    println!("{answered} of {} answered", pings.len());
    answered == pings.len()
}
