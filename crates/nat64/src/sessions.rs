//! What sessions need: the entries of a pool, static bindings and filters of the program in apps/nat64-stateful, and the times of its expire profiles.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use abi::id::TableId;
use abi::{ActionCall, Bits, Manifest, MatchValue};
use dataplane::Rate;
use dataplane::device::{Action, Entity, EntryKey, Key};
use ipnet::{Ipv4Net, Ipv6Net};

use super::config::{Config, Filtering, Log, Pool, Protocol, Stateful, StaticBinding};
use super::entries::{CONTROL, Call, Named, call};
use super::running::{self, Running};
use super::shares::Shares;
use control::plan::Desired;

/// Expire profiles of sessions, in the order of [`Timeouts`](super::Timeouts): UDP, ICMP, TCP in transit, TCP established, fragments.
const PROFILES: [u32; 5] = [0, 1, 2, 3, 4];
/// What is added to the profile of a session for that of its binding, by its host and by its port.
const BINDING: u32 = 8;
const OWNER: u32 = 16;
/// The profile of the entry of a port that was claimed for nothing, which ends at once.
const GIVEN_BACK: u32 = 5;
/// First fragments that the table of the program remembers, and one part in so many is a source's.
const FRAGMENTS: u32 = 16_384;
const SOURCE: u32 = 8;
/// A session restarts the timers of its binding every 2^24 microseconds at the latest, so those are longer by that and some more.
const LONGER: u64 = 18_000_000;
/// A row is looked at once a second, so the entry of a port ends behind that of its host.
const BEHIND: u64 = 3_000_000;
/// A division by the blocks of an address is a multiplication by this power of two over their number. It is exact while subscribers times blocks are less
/// than the power.
pub(super) const INVERSE: u32 = 40;
/// The factor instead of a division by a number of blocks.
fn inverse(blocks: u32) -> u128 {
    (1u128 << INVERSE) / u128::from(blocks) + 1
}

/// The name of a table of the control `sessions`.
pub(super) fn table(name: &str) -> String {
    format!("{CONTROL}.sessions.{name}")
}

/// Adds the entries of pools and static bindings.
pub(super) fn add(stateful: &Stateful, prefix: Option<Ipv6Net>, wanted: &mut Named) {
    let mut next = 0;
    // A configuration that nobody has completed is only checked.
    let secret = stateful.secret.unwrap_or_default();
    for pool in &stateful.pools {
        let slots = pool.slots();
        for (at, net) in slots.iter().enumerate() {
            let key = MatchValue::Exact(Bits::new(16, (next + at) as u128));
            let base = u128::from(u32::from(net.network()));
            let action = call(&table("slot"), &[(32, base), (32, u128::from(u32::from(net.hostmask())))]);
            wanted.entries.push((table("slots"), vec![key], action));
        }
        let hosts = u128::from(pool.hosts.network());
        let key = MatchValue::Lpm(Bits::new(128, hosts), pool.hosts.prefix_len().into());
        wanted.entries.push((table("pools"), vec![key], pool_call(pool, next, slots.len(), secret)));
        next += slots.len();
    }
    own_prefix(prefix, "pools", wanted);
    wanted.tables.extend(["slots", "pools", "hosts4", "hosts6"].map(table));
    let by_address = stateful.filtering == Filtering::AddressDependent;
    let log = match stateful.log {
        Log::Nothing => 0,
        Log::Bindings => 1,
        Log::Sessions => 2,
    };
    let choices = call(
        &table("choose"),
        &[
            (1, by_address.into()),
            (2, log),
            (1, stateful.adopt.into()),
            (1, (!stateful.hosts.is_empty()).into()),
        ],
    );
    wanted.defaults.push((table("choices"), choices));
    wanted.defaults.push((table("shares"), call(&table("share"), &Shares::of(stateful).args())));
    for binding in &stateful.bindings {
        wanted.entries.extend(bound(binding));
    }
    for host in &stateful.hosts {
        let (four, six) = (u128::from(u32::from(host.ipv4)), u128::from(host.ipv6));
        let entry = |name: &str, (width, key): (u32, u128), action: &str, arg| {
            (table(name), vec![MatchValue::Exact(Bits::new(width, key))], call(&table(action), &[arg]))
        };
        wanted.entries.push(entry("hosts4", (32, four), "to_host", (128, six)));
        wanted.entries.push(entry("hosts6", (128, six), "to_address", (32, four)));
    }
}

/// Adds what a program has whose sessions a controller writes (apps/nat64-controller).
pub(super) fn add_fixed(stateful: &Stateful, prefix: Option<Ipv6Net>, wanted: &mut Named) {
    own_prefix(prefix, "sources", wanted);
    wanted.tables.push(table("sources"));
    for binding in &stateful.bindings {
        wanted.entries.extend(bound(binding));
    }
}

/// The prefix of the IPv4 side, from which no packet may come.
fn own_prefix(prefix: Option<Ipv6Net>, name: &str, wanted: &mut Named) {
    let Some(prefix) = prefix else { return };
    let key = MatchValue::Lpm(Bits::new(128, u128::from(prefix.network())), prefix.prefix_len().into());
    wanted.entries.push((table(name), vec![key], call(&table("own_prefix"), &[])));
}

fn pool_call(pool: &Pool, slot: usize, slots: usize, secret: [u64; 2]) -> Call {
    let bits = 128 - u32::from(pool.subscriber);
    let first = (16, u128::from(*pool.ports.start()));
    let secret = secret.map(|half| (64, u128::from(half)));
    let args = match (pool.block, pool.blocks_of_address()) {
        (Some(block), Some(blocks)) => {
            let origin = (u128::from(pool.hosts.network()) >> bits) & u128::from(u32::MAX);
            vec![
                (16, slot as u128),
                (8, u128::from(32 - pool.slot_length())),
                first,
                (16, u128::from(block / 2)),
                (16, u128::from(blocks)),
                (48, inverse(blocks)),
                (8, bits.into()),
                (32, origin),
            ]
        }
        _ => vec![
            (16, slot as u128),
            (16, slots as u128),
            first,
            (16, u128::from(pool.ports_of_address() / 2)),
            (16, u128::from(pool.most_ports() / 2)),
            (1, pool.low_ports.into()),
            (8, bits.into()),
        ],
    };
    let args: Vec<_> = args.into_iter().chain(secret).collect();
    call(&table(if pool.block.is_some() { "blocks" } else { "pool" }), &args)
}

/// The entries of a static binding, one for each direction.
fn bound(binding: &StaticBinding) -> [(String, Vec<MatchValue>, Call); 2] {
    let protocol = (8, u128::from(binding.protocol.number()));
    let four = [(32, u128::from(u32::from(binding.ipv4.0))), (16, u128::from(binding.ipv4.1))];
    let six = [(128, u128::from(binding.ipv6.0)), (16, u128::from(binding.ipv6.1))];
    let key = |end: [(u32, u128); 2]| {
        [protocol].into_iter().chain(end).map(|(w, v)| MatchValue::Exact(Bits::new(w, v))).collect()
    };
    [
        (table("bib4"), key(four), call(&table("taken"), &six)),
        (table("bib6"), key(six), call(&table("bound"), &four)),
    ]
}

/// The keys of the entries of a static binding.
pub fn binding_keys(binding: &StaticBinding, manifest: &Manifest) -> Vec<Key> {
    let key = |(name, matches, _): (String, Vec<MatchValue>, Call)| {
        let table = manifest.table_id(&name)?;
        Some(Key::Entry(EntryKey { table, matches, priority: 0 }))
    };
    bound(binding).into_iter().filter_map(key).collect()
}

/// The times of the expire profiles. The program in the kernel does not hold them: who removes entries does.
pub fn expire_times(stateful: &Stateful) -> Vec<Entity> {
    let timeouts = stateful.timeouts;
    let seconds =
        [timeouts.udp, timeouts.icmp, timeouts.tcp_transitory, timeouts.tcp_established, timeouts.fragments];
    let time = |profile, micros| Entity::ExpireTime { profile, micros: Some(micros) };
    let of = |(profile, seconds): (u32, u32)| {
        let micros = u64::from(seconds) * 1_000_000;
        let binding = micros + LONGER;
        [time(profile, micros), time(profile + BINDING, binding), time(profile + OWNER, binding + BEHIND)]
    };
    PROFILES.into_iter().zip(seconds).flat_map(of).chain([time(GIVEN_BACK, 1)]).collect()
}

/// The table that says whether somebody holds packets, and its action for that.
pub fn holder(manifest: &Manifest, is_there: bool) -> Result<(TableId, ActionCall), String> {
    let name = table("holding");
    let id = manifest.table_id(&name).ok_or_else(|| format!("the program has no table `{name}`"))?;
    let action = manifest.tables[id.index()].call(&table("holder"), vec![Bits::new(1, is_there.into())]);
    Ok((id, action.ok_or_else(|| format!("`{name}` has no such action"))?))
}

/// Gives the tables of a program the sizes that a configuration asks for. Memory is for the asking: 300 bytes a session and its binding.
pub fn resize(config: &Config, manifest: &mut Manifest) {
    let size = config.stateful.as_ref().and_then(|stateful| stateful.max_sessions);
    for name in ["bib4", "bib6", "peers", "sessions"] {
        if let Some(size) = size {
            manifest.resize(&table(name), size.into());
        }
    }
}

/// What of a translator with sessions must be read for [`read`]. Nothing if it has none.
pub(super) fn name(manifest: &Manifest, all: &mut Desired) {
    let (Some(pools), Some(slots), Some(choices), Some(shares), Some(meter)) = (
        manifest.table_id(&table("pools")),
        manifest.table_id(&table("slots")),
        manifest.table_id(&table("choices")),
        manifest.table_id(&table("shares")),
        manifest.meter_id(&table("new_sessions")),
    ) else {
        return;
    };
    all.tables.extend([pools, slots]);
    all.tables.extend(["hosts4", "hosts6"].iter().filter_map(|name| manifest.table_id(&table(name))));
    for table in [choices, shares] {
        all.entities.push(Entity::Default { table, action: ActionCall::default() });
    }
    all.entities.push(Entity::Meter { meter, index: 0, rates: Vec::new() });
}

/// Reads pools, static bindings and choices from what a translator holds.
pub(super) fn read(held: &Desired, manifest: &Manifest, running: &mut Running) -> Result<(), String> {
    let Some(pools) = manifest.table_id(&table("pools")) else { return Ok(()) };
    let find =
        |name: &str| manifest.table_id(&table(name)).ok_or_else(|| format!("there is no table `{name}`"));
    let (slots, choices, bib4) = (find("slots")?, find("choices")?, find("bib4")?);
    let shares = find("shares")?;
    let hosts4 = find("hosts4")?;
    let meter = manifest.meter_id(&table("new_sessions"));
    let mut nets = BTreeMap::new();
    let mut found = Vec::new();
    for entity in &held.entities {
        match entity {
            Entity::Entry(entry) if entry.key.table == hosts4 => {
                let Action::Call(action) = &entry.action else { continue };
                let params = running::named(manifest, entry.key.table, action)?;
                let from = entry.key.matches.first().map_or(0, value);
                let to = Ipv6Addr::from(running::parameter(&params, "host"));
                running.bindings.push((format!("all of {}", Ipv4Addr::from(from as u32)), to.to_string()));
            }
            Entity::Entry(entry) if [pools, slots, bib4].contains(&entry.key.table) => {
                let Action::Call(action) = &entry.action else { continue };
                let params = running::named(manifest, entry.key.table, action)?;
                let keys: Vec<u128> = entry.key.matches.iter().map(value).collect();
                let of = |name| running::parameter(&params, name);
                if entry.key.table == slots {
                    let length = (of("mask") as u32).leading_zeros() as u8;
                    nets.insert(keys.first().copied().unwrap_or(0), net4(of("base"), length));
                } else if entry.key.table == bib4 {
                    running.bindings.extend(read_binding(&keys, of("host"), of("host_port")));
                } else if !params.is_empty() {
                    let length = match entry.key.matches.first() {
                        Some(MatchValue::Lpm(_, length)) => *length as u8,
                        _ => 128,
                    };
                    found.push((net6(keys.first().copied().unwrap_or(0), length), params));
                }
            }
            Entity::Default { table, action } if *table == choices => {
                let params = running::named(manifest, *table, action)?;
                let of = |name| running::parameter(&params, name);
                let filtering =
                    if of("by_address") == 1 { "address-dependent" } else { "endpoint-independent" };
                let log = ["none", "bindings", "sessions"][(of("what") as usize).min(2)];
                running.sessions.push(("filtering".into(), filtering.into()));
                running.sessions.push(("log".into(), log.into()));
                let adopts = if of("adopt") == 1 { "true" } else { "false" };
                running.sessions.push(("adopt-connections".into(), adopts.into()));
            }
            Entity::Default { table, action } if *table == shares => {
                let params = running::named(manifest, *table, action)?;
                for (key, name) in [
                    ("subscriber-sessions", "sessions"),
                    ("subscriber-bindings", "bindings"),
                    ("outside-sessions", "outside"),
                ] {
                    let most = running::parameter(&params, name);
                    running.sessions.push((key.into(), most.to_string()));
                }
            }
            Entity::Meter { meter: of, index: 0, rates } if Some(*of) == meter => {
                let rate = rates
                    .first()
                    .map_or("no limit".into(), |rate| format!("{:.0}", rate.per_microsecond * 1e6));
                running.sessions.push(("new-sessions".into(), rate));
            }
            _ => {}
        }
    }
    let firsts: Vec<u128> = found.iter().map(|(_, params)| running::parameter(params, "slot")).collect();
    for (hosts, params) in &found {
        let first = running::parameter(params, "slot");
        let end = firsts.iter().copied().filter(|other| *other > first).min().unwrap_or(u128::MAX);
        let own: Vec<Ipv4Net> = nets.range(first..end).map(|(_, net)| *net).collect();
        running.pools.push((*hosts, described(&own, params)));
        let secret = running::parameter(params, "secret0") ^ running::parameter(params, "secret1");
        let key = ("secret".to_string(), format!("with the fingerprint {:08x}", secret as u32));
        if !running.sessions.contains(&key) {
            running.sessions.push(key);
        }
    }
    running.pools.sort();
    running.bindings.sort();
    Ok(())
}

/// What a pool has, in words.
fn described(nets: &[Ipv4Net], params: &[(String, u128)]) -> String {
    let of = |name| running::parameter(params, name);
    let nets = Ipv4Net::aggregate(&nets.to_vec());
    let nets: Vec<String> = nets.iter().map(ToString::to_string).collect();
    let (first, pairs, subscriber) = (of("first"), of("pairs"), 128 - of("subscriber_bits"));
    let addresses = nets.join(" and ");
    match of("of_address") {
        0 => {
            let low = if of("low") == 1 { " and below 1024" } else { "" };
            let most = match of("most_pairs") {
                most if most < pairs => format!(", {} of them", 2 * most),
                _ => String::new(),
            };
            format!("{addresses}, ports {first}-{}{low}{most}, by /{subscriber}", first + 2 * pairs - 1)
        }
        blocks => format!(
            "{addresses}, {blocks} blocks of {} ports from {first} on, for each /{subscriber}",
            2 * pairs
        ),
    }
}

fn read_binding(keys: &[u128], host: u128, port: u128) -> Option<(String, String)> {
    let [protocol, address, external] = keys else { return None };
    let protocol = Protocol::numbered(*protocol as u8)?;
    let from = SocketAddrV4::new(Ipv4Addr::from(*address as u32), *external as u16);
    let to = SocketAddrV6::new(Ipv6Addr::from(host), port as u16, 0, 0);
    Some((format!("{} {from}", protocol.name()), to.to_string()))
}

fn value(value: &MatchValue) -> u128 {
    match value {
        MatchValue::Exact(bits) | MatchValue::Lpm(bits, _) => bits.to_u128().unwrap_or(0),
        _ => 0,
    }
}

fn net4(base: u128, length: u8) -> Ipv4Net {
    Ipv4Net::new(Ipv4Addr::from(base as u32), length.min(32)).unwrap_or_default()
}

fn net6(base: u128, length: u8) -> Ipv6Net {
    Ipv6Net::new(Ipv6Addr::from(base), length.min(128)).unwrap_or_default()
}

/// The name and the rate of the meter of new sessions; no rate if there is no limit.
pub(super) fn new_sessions(stateful: &Stateful) -> (String, Vec<Rate>) {
    let rates = stateful.new_sessions.map_or_else(Vec::new, |rate| vec![super::entries::held(rate); 2]);
    (table("new_sessions"), rates)
}

/// The name and the rate of the meter of first fragments by source: so many as are a source's share while one is remembered, half of them at once.
pub(super) fn new_fragments(stateful: &Stateful) -> (String, Vec<Rate>) {
    let half = FRAGMENTS / SOURCE / 2;
    let rate = super::entries::held((half / stateful.timeouts.fragments.max(1)).max(1));
    (table("new_fragments"), vec![Rate { burst: half.into(), ..rate }; 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_divides_exactly() {
        for blocks in [1u32, 2, 3, 15, 63, 64, 2016, 32_256] {
            let all = (1u128 << INVERSE) / u128::from(blocks);
            let last = all.min(1 << 24);
            for number in [0, 1, 2, u128::from(blocks) - 1, u128::from(blocks), last / 2, last - 1] {
                assert_eq!(
                    (number * inverse(blocks)) >> INVERSE,
                    number / u128::from(blocks),
                    "{number} / {blocks}"
                );
            }
        }
    }
}
