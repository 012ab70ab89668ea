//! Converts a configuration to table entries of apps/nat64. The README of apps/nat64 has the formulas.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use abi::id::TableId;
use abi::{ActionCall, Bits, Entry, Manifest, MatchValue};
use dataplane::Rate;
use dataplane::device::Entity;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::config::{Config, Hairpin, Map, Stateful, Switch, Tos, UdpZeroChecksum};
use super::ranges::{NOT_GLOBAL, overlap};
use super::sessions;
use control::plan::Desired;

/// An action and its arguments.
pub(super) struct Call {
    action: String,
    args: Vec<Bits>,
}

/// What the tables must contain, by the names of the program.
#[derive(Default)]
pub(super) struct Named {
    /// The tables whose entries depend on the configuration only.
    pub(super) tables: Vec<String>,
    /// The entries, each with its table.
    pub(super) entries: Vec<(String, Vec<MatchValue>, Call)>,
    /// The default actions, each with its table.
    pub(super) defaults: Vec<(String, Call)>,
}

/// The name of the main control in the P4 program.
pub(super) const CONTROL: &str = "Nat64";
/// The name of the control that sends ICMP errors.
const SENT: &str = "Nat64.sent";
/// The name of the control for the packet inside an ICMP error.
const INSIDE: &str = "Inside";
/// The well-known prefix, for which RFC 6052 section 3.1 has special rules.
pub(super) const WELL_KNOWN: &str = "64:ff9b::/96";
/// The source of ICMP errors whose IPv6 source has no IPv4 address, if no pool is configured (RFC 7600 section 4.8 names it).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// The MTU of the IPv6 side, if none is configured, for the MSS of TCP.
pub const ETHERNET_MTU: u16 = 1500;
/// The hops that the kernel takes for a packet which it routes into the device and on from there. The translator gives one back, so that it
/// is one hop altogether.
const KERNEL_HOPS: u128 = 2;
/// The port of the device where nobody tells which interface a packet has arrived at: `BLIND` in apps/nat64/headers.p4.
const BLIND: u128 = 5;

/// What the tables of the translator must contain for a configuration in device mode. The error is that the manifest is another program's.
pub fn wanted(config: &Config, manifest: &Manifest) -> Result<Desired, String> {
    let learns = manifest.table_id(&sessions::table("pools")).is_some();
    let named = named(config, learns);
    let table =
        |name: &str| manifest.table_id(name).ok_or_else(|| format!("the program has no table `{name}`"));
    let call = |table: TableId, call: Call| -> Result<ActionCall, String> {
        let found = manifest.tables[table.index()].call(&call.action, call.args);
        found.ok_or_else(|| format!("the program has no action `{}`", call.action))
    };
    let mut desired = Desired::default();
    for name in &named.tables {
        desired.tables.push(table(name)?);
    }
    for (name, matches, action) in named.entries {
        let table = table(&name)?;
        let entry = Entry { matches, priority: 0, action: call(table, action)? };
        desired.entities.push(Entity::entry(table, entry));
    }
    for (name, action) in named.defaults {
        let table = table(&name)?;
        desired.entities.push(Entity::Default { table, action: call(table, action)? });
    }
    if config.error_rate > 0 {
        let rates = vec![held(config.error_rate.into()); 2];
        desired.entities.extend(limits(&format!("{SENT}.limits"), &rates, manifest)?);
    }
    if let Some(stateful) = config.stateful.as_ref().filter(|_| learns) {
        for (name, rates) in [sessions::new_sessions(stateful), sessions::new_fragments(stateful)] {
            desired.entities.extend(limits(&name, &rates, manifest)?);
        }
    }
    Ok(desired)
}

/// `learns`: the program makes sessions itself; otherwise a controller does.
fn named(config: &Config, learns: bool) -> Named {
    let mut wanted = Named::default();
    wanted.defaults.push((format!("{CONTROL}.settings"), settings(config)));
    wanted.defaults.push((format!("{CONTROL}.errors"), errors(config)));
    wanted.defaults.push((format!("{SENT}.sources"), sources(config)));
    if let Some(key) = config.error_key {
        wanted.defaults.push((format!("{SENT}.mixing"), call(&format!("{SENT}.mix"), &[(32, key.into())])));
    }
    // Shared addresses have no mappings, so no packet meets two of them.
    let hairpins = [format!("{CONTROL}.four_to_six.hairpin"), format!("{INSIDE}.to_ipv6.hairpin")];
    for path in hairpins.iter().filter(|_| config.stateful.is_none()) {
        wanted.defaults.push((format!("{path}.prefix"), by_prefix(config.prefix, path)));
    }
    if let Some(stateful) = &config.stateful {
        match learns {
            true => sessions::add(stateful, config.prefix, &mut wanted),
            false => sessions::add_fixed(stateful, config.prefix, &mut wanted),
        }
    }
    if !learns {
        switch(config.switch.as_ref(), &mut wanted);
    }
    // Source and destination addresses, of a packet and of the packet inside an ICMP error, are looked up in separate tables with the same
    // contents.
    let directions = [
        (format!("{CONTROL}.four_to_six"), format!("{CONTROL}.six_to_four")),
        (format!("{INSIDE}.to_ipv6"), format!("{INSIDE}.to_ipv4")),
    ];
    for ((to_six_path, to_four_path), side) in
        directions.iter().flat_map(|d| ["source", "destination"].map(|side| (d, side)))
    {
        let (four, six) = (format!("{to_six_path}.{side}"), format!("{to_four_path}.{side}"));
        let (eam4, eam6) = (format!("{four}.eam4"), format!("{six}.eam6"));
        // With sessions, the address of the IPv6 host is theirs: the destination of packets from IPv4, the source of those from IPv6, and in
        // the packet that an ICMP error quotes the other one.
        let quoted = to_six_path.starts_with(INSIDE);
        let remote = config.stateful.is_none() || (side == "source") != quoted;
        let (has4, has6) = (remote, config.stateful.is_none() || !remote);
        if has4 {
            for map in &config.maps {
                let (key, action) = to_six(map, &four);
                wanted.entries.push((eam4.clone(), vec![key], action));
            }
            wanted.defaults.push((eam4.clone(), embed(config.prefix, &four)));
            wanted.tables.push(eam4);
        }
        if !has6 {
            continue;
        }
        for map in &config.maps {
            let (key, action) = to_four(map, &six);
            wanted.entries.push((eam6.clone(), vec![key], action));
        }
        if let Some(prefix) = config.prefix {
            // RFC 7757 applies mappings before the prefix. A mapping that covers the whole prefix leaves no address for it.
            let covered = config.maps.iter().any(|m| m.ipv6.contains(&prefix));
            if !covered {
                let (key, action) = extract(prefix, &six);
                wanted.entries.push((eam6.clone(), vec![key], action));
            }
        }
        wanted.tables.push(eam6);
    }
    let mapped = format!("{CONTROL}.six_to_four.intrinsic.mapped");
    if config.hairpin == Hairpin::Intrinsic {
        for map in &config.maps {
            let (key, _) = to_six(map, &mapped);
            wanted.entries.push((mapped.clone(), vec![key], call("NoAction", &[])));
        }
        let pools = config.stateful.iter().flat_map(Stateful::prefixes);
        for net in pools {
            let key = MatchValue::Lpm(Bits::new(32, bits4(net)), net.prefix_len().into());
            wanted.entries.push((mapped.clone(), vec![key], call("NoAction", &[])));
        }
    }
    wanted.tables.push(mapped);
    wanted
}

/// What a switch that owns its ports knows: them, its addresses, and its routes.
fn switch(switch: Option<&Switch>, wanted: &mut Named) {
    let own = |table: &str| format!("{CONTROL}.own.{table}");
    let all = [
        own("ports"),
        own("local4"),
        own("local6"),
        format!("{CONTROL}.route4"),
        format!("{CONTROL}.route6"),
    ];
    let [ports, local4, local6, route4, route6] = all.clone();
    wanted.tables.extend(all);
    let Some(switch) = switch else { return };
    let exact = |width, value| vec![MatchValue::Exact(Bits::new(width, value))];
    for port in &switch.ports {
        let action = call(&own("port"), &[(48, switch.mac.into())]);
        wanted.entries.push((ports.clone(), exact(9, (*port).into()), action));
    }
    for address in &switch.addresses {
        let (table, key) = match address {
            IpAddr::V4(address) => (&local4, exact(32, u32::from(*address).into())),
            IpAddr::V6(address) => (&local6, exact(128, u128::from(*address))),
        };
        wanted.entries.push((table.clone(), key, call("NoAction", &[])));
    }
    for route in &switch.routes {
        let (table, bits) = match route.to {
            IpNet::V4(net) => (&route4, Bits::new(32, bits4(net))),
            IpNet::V6(net) => (&route6, Bits::new(128, bits6(net))),
        };
        let key = MatchValue::Lpm(bits, route.to.prefix_len().into());
        let args =
            [(9, route.port.into()), (48, switch.mac.into()), (48, route.mac.into()), (16, route.mtu.into())];
        wanted.entries.push((table.clone(), vec![key], call(&format!("{CONTROL}.next_hop"), &args)));
    }
}

fn settings(config: &Config) -> Call {
    let (keep, set) = match config.tos {
        Tos::Copy => (255, 0),
        Tos::Fixed(value) => (0, value as u128),
    };
    // An IPv6 header and a TCP header. The IPv4 packet is shorter.
    let max_mss = match config.clamp_mss {
        true => config.ipv6_mtu.unwrap_or(ETHERNET_MTU) - 60,
        false => u16::MAX,
    };
    let compute = config.udp_zero_checksum == UdpZeroChecksum::Compute;
    // A switch has no kernel around it.
    let kernel_hops = if config.switch.is_some() { 0 } else { KERNEL_HOPS };
    let args = [
        (1, config.switch.is_some().into()),
        (9, if config.attach.blind { BLIND } else { 0 }),
        (8, keep),
        (8, set),
        (8, keep),
        (8, set),
        (1, compute as u128),
        (16, max_mss as u128),
        (16, config.lowest_ipv6_mtu as u128),
        (8, kernel_hops),
        (1, (config.error_rate > 0) as u128),
        (1, (config.hairpin == Hairpin::Intrinsic) as u128),
    ];
    call(&format!("{CONTROL}.configure"), &args)
}

/// What ICMP errors need beside the other settings. The MTU of the IPv4 side is not configured, nor need that of the IPv6 side be: a packet too
/// large for a link brings an error back from the router at the link, which tells its MTU.
fn errors(config: &Config) -> Call {
    let (source4, mask) = match config.error_pool4 {
        Some(pool) => (bits4(pool), u32::from(pool.hostmask()) as u128),
        None => (u32::from(DUMMY) as u128, 0),
    };
    let source6 = config.error_source6.map_or(0, u128::from);
    let args = [
        (16, u16::MAX as u128),
        (16, config.ipv6_mtu.unwrap_or(u16::MAX) as u128),
        (32, source4),
        (32, mask),
        (128, source6),
    ];
    call(&format!("{CONTROL}.configure_errors"), &args)
}

/// Who sends the ICMP errors that the translator makes: addresses that lead to this router. Of IPv6, that is 0, so nobody, if no address is configured
/// and the prefix must not carry that of IPv4.
fn sources(config: &Config) -> Call {
    let source4 = config.error_source4.unwrap_or(DUMMY);
    // What a CLAT has of the prefix is its provider's. Its own address is its first mapping's.
    let own = config.clat.as_ref().and_then(|clat| clat.found.as_ref()).map(|found| found.ipv6);
    let may_carry =
        |prefix: &Ipv6Net| !is_well_known(*prefix) || overlap(source4.into(), NOT_GLOBAL).is_none();
    let embedded = || config.prefix.filter(may_carry).map(|p| embedded(p, source4));
    let source6 = config.error_source6.or(own).or_else(embedded);
    let mac = config.switch.as_ref().map_or(0, |switch| switch.mac);
    let args = [(48, mac.into()), (32, u32::from(source4) as u128), (128, source6.map_or(0, u128::from))];
    call(&format!("{SENT}.source"), &args)
}

/// The rates of each cell of a meter; a cell is that of some hosts.
fn limits(name: &str, rates: &[Rate], manifest: &Manifest) -> Result<Vec<Entity>, String> {
    let meter = manifest.meter_id(name).ok_or_else(|| format!("the program has no meter `{name}`"))?;
    let cells = manifest.meters[meter.index()].size.unwrap_or(0);
    Ok((0..cells).map(|index| Entity::Meter { meter, index, rates: rates.to_vec() }).collect())
}

/// A rate a second with 32 bits of fraction, as the kernel holds it. So it is equal when it is read back, and buckets keep what they contain.
pub(super) fn held(rate: u32) -> Rate {
    let fraction = (1u64 << 32) as f64;
    let per_microsecond = (f64::from(rate) / 1e6 * fraction).floor() / fraction;
    Rate { per_microsecond, burst: rate.into() }
}

pub(super) fn call(action: &str, args: &[(u32, u128)]) -> Call {
    Call { action: action.to_string(), args: args.iter().map(|&(w, v)| Bits::new(w, v)).collect() }
}

fn bits4(net: Ipv4Net) -> u128 {
    u32::from(net.network()) as u128
}

fn bits6(net: Ipv6Net) -> u128 {
    u128::from(net.network())
}

/// RFC 6052 section 2.2: bits 64 to 71 are zero, and what of the address has no room before them follows them.
pub fn embedded(prefix: Ipv6Net, address: Ipv4Addr) -> Ipv6Addr {
    let (length, bits) = (u32::from(prefix.prefix_len()), u128::from(u32::from(address)));
    let placed = match length {
        96 => bits,
        _ => {
            let after = length - 32;
            ((bits >> after) << 64) | ((bits & ((1 << after) - 1)) << (56 - after))
        }
    };
    Ipv6Addr::from(bits6(prefix) | placed)
}

/// The mask of the IPv4 suffix, `2^(32 - p4) - 1`, and the number of bits by which the IPv6 suffix is longer than the IPv4 suffix.
fn suffix(map: &Map) -> (u128, u128) {
    let (four, six) = (32 - map.ipv4.prefix_len(), 128 - map.ipv6.prefix_len());
    ((1u128 << four) - 1, (six - four) as u128)
}

fn to_six(map: &Map, path: &str) -> (MatchValue, Call) {
    let (mask, shift) = suffix(map);
    let prefix = bits6(map.ipv6);
    let key = MatchValue::Lpm(Bits::new(32, bits4(map.ipv4)), map.ipv4.prefix_len() as u32);
    let action = match shift {
        0 => call(&format!("{path}.map"), &[(128, prefix), (32, mask)]),
        _ => call(&format!("{path}.map_shifted"), &[(128, prefix), (32, mask), (8, shift)]),
    };
    (key, action)
}

fn to_four(map: &Map, path: &str) -> (MatchValue, Call) {
    let (mask, shift) = suffix(map);
    let prefix = bits4(map.ipv4);
    let key = MatchValue::Lpm(Bits::new(128, bits6(map.ipv6)), map.ipv6.prefix_len() as u32);
    let action = match shift {
        0 => call(&format!("{path}.map"), &[(32, prefix), (32, mask)]),
        _ => call(&format!("{path}.map_shifted"), &[(32, prefix), (32, mask), (8, shift)]),
    };
    (key, action)
}

fn is_well_known(prefix: Ipv6Net) -> bool {
    WELL_KNOWN.parse() == Ok(prefix)
}

fn embed(prefix: Option<Ipv6Net>, path: &str) -> Call {
    match prefix {
        None => call(&format!("{path}.no_prefix"), &[]),
        Some(p) if is_well_known(p) => call(&format!("{path}.embed_well_known"), &[]),
        Some(p) => call(&format!("{path}.embed_{}", p.prefix_len()), &[(128, bits6(p))]),
    }
}

/// The prefix without the rules for the well-known one, which the lookup of the address has applied.
fn by_prefix(prefix: Option<Ipv6Net>, path: &str) -> Call {
    match prefix {
        None => call(&format!("{path}.no_prefix"), &[]),
        Some(p) => call(&format!("{path}.embed_{}", p.prefix_len()), &[(128, bits6(p))]),
    }
}

fn extract(prefix: Ipv6Net, path: &str) -> (MatchValue, Call) {
    let how = if is_well_known(prefix) { "well_known".to_string() } else { prefix.prefix_len().to_string() };
    let key = MatchValue::Lpm(Bits::new(128, bits6(prefix)), prefix.prefix_len() as u32);
    (key, call(&format!("{path}.extract_{how}"), &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn of(text: &str) -> Named {
        named(&parse(text).expect("a good file"), true)
    }

    #[test]
    fn a_mapping_with_a_longer_ipv6_suffix_is_shifted() {
        let wanted = of(
            "[nat64]\nmode = \"stateless\"\n[[map]]\nipv4 = \"198.51.100.0/24\"\nipv6 = \"2001:db8::/112\"\n",
        );
        let entry =
            wanted.entries.iter().find(|(t, ..)| t == "Nat64.four_to_six.source.eam4").expect("an entry");
        let args: Vec<_> = entry.2.args.iter().map(|a| a.to_u128().expect("small")).collect();
        assert_eq!(entry.2.action, "Nat64.four_to_six.source.map_shifted");
        assert_eq!(args, [0x20010db8 << 96, 255, 8]);
    }

    #[test]
    fn addresses_are_embedded_as_in_the_table_of_rfc_6052() {
        let rows = [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ];
        for (prefix, address) in rows {
            let found = embedded(prefix.parse().expect("a prefix"), Ipv4Addr::new(192, 0, 2, 33));
            assert_eq!(found, address.parse::<Ipv6Addr>().expect("an address"), "{prefix}");
        }
    }

    /// The arguments of the action that names the sources of the errors.
    fn sources_of(keys: &str) -> Vec<u128> {
        let wanted = of(&format!("[nat64]\nmode = \"stateless\"\n{keys}\n"));
        let (_, call) = wanted.defaults.iter().find(|(t, _)| t == "Nat64.sent.sources").expect("a default");
        call.args.iter().map(|a| a.to_u128().expect("small")).collect()
    }

    #[test]
    fn errors_come_from_configured_addresses_or_the_dummy_address() {
        let dummy = u128::from(u32::from(Ipv4Addr::new(192, 0, 0, 8)));
        assert_eq!(sources_of("prefix = \"64:ff9b::/96\""), [0, dummy, 0]);
        let global = "prefix = \"64:ff9b::/96\"\nerror-source4 = \"1.2.3.4\"";
        assert_eq!(sources_of(global), [0, 0x01020304, 0x64ff9b << 96 | 0x01020304]);
        let own = u128::from("2001:db8:64::".parse::<Ipv6Addr>().expect("an address"));
        assert_eq!(sources_of("prefix = \"2001:db8:64::/96\""), [0, dummy, own | dummy]);
        let keys =
            "prefix = \"2001:db8:64::/96\"\nerror-source4 = \"192.0.2.1\"\nerror-source6 = \"2001:db8::1\"";
        assert_eq!(sources_of(keys), [0, 0xc0000201, 0x20010db8 << 96 | 1]);
    }

    #[test]
    fn rates_are_what_the_kernel_can_hold() {
        for rate in [1u16, 3, 10, 1000, u16::MAX] {
            let held = held(rate.into());
            assert_eq!((held.per_microsecond * (1u64 << 32) as f64).fract(), 0.0, "{rate}");
            let error = f64::from(rate) - held.per_microsecond * 1e6;
            assert!((0.0..0.001).contains(&error), "{rate} a second is held with an error of {error}");
        }
    }

    #[test]
    fn the_well_known_prefix_has_actions_of_its_own() {
        let wanted = of("[nat64]\nmode = \"stateless\"\nprefix = \"64:ff9b::/96\"\n");
        let names: Vec<_> = wanted.entries.iter().map(|(.., call)| call.action.as_str()).collect();
        assert_eq!(
            names,
            [
                "Nat64.six_to_four.source.extract_well_known",
                "Nat64.six_to_four.destination.extract_well_known",
                "Inside.to_ipv4.source.extract_well_known",
                "Inside.to_ipv4.destination.extract_well_known"
            ]
        );
        let source =
            wanted.defaults.iter().find(|(t, _)| t == "Nat64.four_to_six.source.eam4").expect("a default");
        assert_eq!(source.1.action, "Nat64.four_to_six.source.embed_well_known");
    }

    #[test]
    fn a_mapping_that_covers_the_prefix_leaves_it_out() {
        let text = "[nat64]\nmode = \"stateless\"\nprefix = \"2001:db8:64::/96\"\n[[map]]\nipv4 = \"198.51.100.0/24\"\n\
                    ipv6 = \"2001:db8:64::/90\"\n";
        assert!(of(text).entries.iter().all(|(.., call)| !call.action.contains("extract")));
    }
}
