//! What a translator translates, read from its tables: the inverse of [`super::entries`].

use std::net::{Ipv4Addr, Ipv6Addr};

use abi::id::{MeterId, TableId};
use abi::{ActionCall, Bits, Manifest, MatchValue};
use dataplane::Count;
use dataplane::device::{Action, Entity};
use ipnet::{Ipv4Net, Ipv6Net};

use super::config::Map;
use super::entries::{CONTROL, WELL_KNOWN};
use super::sessions;
use control::plan::Desired;

/// What ICMP errors are sent for, in the order of the constants of apps/nat64.
const SENT_FOR: [&str; 9] = [
    "prohibited",
    "expired",
    "no_route",
    "too_big",
    "source_route",
    "routing_header",
    "no_address",
    "no_protocol",
    "no_port",
];

/// What the tables of a translator say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The translation prefix, if there is one.
    pub prefix: Option<Ipv6Net>,
    /// The explicit mappings, in order.
    pub maps: Vec<Map>,
    /// The settings, by the names that they have in the program.
    pub settings: Vec<(String, u128)>,
    /// What ICMP errors need, by the keys of the file.
    pub errors: Vec<(String, String)>,
    /// The pools: the prefixes of their hosts, and what these have.
    pub pools: Vec<(Ipv6Net, String)>,
    /// The static bindings: protocol and IPv4 endpoint, and that of the host.
    pub bindings: Vec<(String, String)>,
    /// What else sessions need, by the keys of the file.
    pub sessions: Vec<(String, String)>,
}

/// Reads what a translator holds. `held` is what [`control::plan::present`] found, or what is wanted. The error says what is not of this program.
pub fn running(held: &Desired, manifest: &Manifest) -> Result<Running, String> {
    let find = |name: &str| {
        let name = format!("{CONTROL}.{name}");
        manifest.table_id(&name).ok_or_else(|| format!("the program has no table `{name}`"))
    };
    let (settings, eam4) = (find("settings")?, find("four_to_six.source.eam4")?);
    let (errors, sources) = (find("errors")?, find("sent.sources")?);
    let limits = limits(manifest)?;
    let mut running = Running::default();
    for entity in &held.entities {
        match entity {
            Entity::Default { table, action } if *table == settings => {
                running.settings = named(manifest, *table, action)?;
            }
            Entity::Default { table, action } if *table == eam4 => {
                running.prefix = prefix(manifest, *table, action)?;
            }
            Entity::Default { table, action } if *table == errors => {
                running.errors.extend(translated_errors(&named(manifest, *table, action)?));
            }
            Entity::Default { table, action } if *table == sources => {
                running.errors.extend(sent_errors(&named(manifest, *table, action)?));
            }
            // Every cell of the meter has the same rates.
            Entity::Meter { meter, index: 0, rates } if *meter == limits => {
                let rate = rates.first().map_or(0.0, |rate| rate.per_microsecond * 1e6);
                running.errors.push(("error-rate".to_string(), format!("{rate:.0}")));
            }
            Entity::Entry(entry) if entry.key.table == eam4 => {
                let key = entry.key.matches.first();
                let map = key.and_then(|key| match &entry.action {
                    Action::Call(call) => map(key, &call.args),
                    _ => None,
                });
                running.maps.push(map.ok_or("an entry of the mappings is not one of Strait's")?);
            }
            _ => {}
        }
    }
    running.maps.sort_by_key(|map| (map.ipv4, map.ipv6));
    sessions::read(held, manifest, &mut running)?;
    Ok(running)
}

/// What must be read of a translator for [`running`].
pub fn tables(manifest: &Manifest) -> Result<Desired, String> {
    let find = |name: &str| {
        let name = format!("{CONTROL}.{name}");
        manifest.table_id(&name).ok_or_else(|| format!("the program has no table `{name}`"))
    };
    let (settings, eam4) = (find("settings")?, find("four_to_six.source.eam4")?);
    let (errors, sources) = (find("errors")?, find("sent.sources")?);
    let defaults = [settings, eam4, errors, sources].map(|table| {
        let action = ActionCall::default();
        Entity::Default { table, action }
    });
    let limit = Entity::Meter { meter: limits(manifest)?, index: 0, rates: Vec::new() };
    let mut all = Desired {
        tables: vec![eam4],
        entities: defaults.into_iter().chain([limit]).collect(),
        absent: Vec::new(),
    };
    sessions::name(manifest, &mut all);
    Ok(all)
}

/// The meter that limits the errors that are sent.
fn limits(manifest: &Manifest) -> Result<MeterId, String> {
    let name = format!("{CONTROL}.sent.limits");
    manifest.meter_id(&name).ok_or_else(|| format!("the program has no meter `{name}`"))
}

/// The addresses that translated ICMP errors get where their own has no other form, and the MTU that they are told.
fn translated_errors(params: &[(String, u128)]) -> Vec<(String, String)> {
    let of = |name| parameter(params, name);
    let pool = (Ipv4Addr::from(of("source4") as u32), (of("source4_mask") as u32).count_ones());
    vec![
        ("error-pool4".to_string(), format!("{}/{}", pool.0, 32 - pool.1)),
        ("error-source6 of translated errors".to_string(), Ipv6Addr::from(of("source6")).to_string()),
        ("ipv6-mtu in translated errors".to_string(), of("ipv6_mtu").to_string()),
    ]
}

/// The value of a parameter by its name in the program.
pub(super) fn parameter(params: &[(String, u128)], name: &str) -> u128 {
    params.iter().find(|(n, _)| n == name).map_or(0, |(_, value)| *value)
}

/// The addresses of the ICMP errors that are made here.
fn sent_errors(params: &[(String, u128)]) -> Vec<(String, String)> {
    let of = |name| parameter(params, name);
    vec![
        ("error-source4".to_string(), Ipv4Addr::from(of("ipv4") as u32).to_string()),
        ("error-source6".to_string(), Ipv6Addr::from(of("ipv6")).to_string()),
    ]
}

/// The counters of a translator by name. The errors that it sent are counted by what they were sent for, and named so.
pub fn counters(manifest: &Manifest, counts: &[Entity]) -> Vec<(String, Count)> {
    let named = counts.iter().filter_map(|entity| {
        let Entity::Counter { counter, index, count } = entity else { return None };
        let counter = &manifest.counters[counter.index()];
        let name = counter.name.strip_prefix(CONTROL).and_then(|n| n.strip_prefix('.'));
        let name = name.unwrap_or(&counter.name);
        let cell = match SENT_FOR.get(*index as usize) {
            _ if counter.size == 1 => name.to_string(),
            Some(reason) => format!("{name}.{reason}"),
            None => format!("{name}({index})"),
        };
        Some((cell, *count))
    });
    named.collect()
}

/// The last part of an action's name.
pub(super) fn action_name<'a>(
    manifest: &'a Manifest,
    table: TableId,
    call: &ActionCall,
) -> Result<&'a str, String> {
    let action = manifest.tables[table.index()].actions.get(call.action.index());
    let name =
        action.map(|action| action.name.as_str()).ok_or("a table has an action that it does not know")?;
    Ok(name.rsplit('.').next().unwrap_or(name))
}

pub(super) fn named(
    manifest: &Manifest,
    table: TableId,
    call: &ActionCall,
) -> Result<Vec<(String, u128)>, String> {
    let action = manifest.tables[table.index()].actions.get(call.action.index());
    let params = action.map(|action| &action.params).ok_or("a table has an action that it does not know")?;
    Ok(params
        .iter()
        .zip(&call.args)
        .map(|(p, value)| (p.name.clone(), value.to_u128().unwrap_or(0)))
        .collect())
}

fn prefix(manifest: &Manifest, table: TableId, call: &ActionCall) -> Result<Option<Ipv6Net>, String> {
    let name = action_name(manifest, table, call)?;
    let wrong = || format!("`{name}` embeds no prefix");
    match name.strip_prefix("embed_") {
        None if name == "no_prefix" => Ok(None),
        None => Err(wrong()),
        Some("well_known") => WELL_KNOWN.parse().map(Some).map_err(|_| wrong()),
        Some(length) => {
            let address = call.args.first().and_then(Bits::to_u128).ok_or_else(wrong)?;
            let length = length.parse().map_err(|_| wrong())?;
            Ipv6Net::new(Ipv6Addr::from(address), length).map(Some).map_err(|_| wrong())
        }
    }
}

fn map(key: &MatchValue, args: &[Bits]) -> Option<Map> {
    let MatchValue::Lpm(address, length) = key else { return None };
    let ipv4 = Ipv4Net::new(Ipv4Addr::from(address.to_u128()? as u32), u8::try_from(*length).ok()?).ok()?;
    let shift = args.get(2).map_or(Some(0), Bits::to_u128)?;
    let suffix = u128::from(32 - ipv4.prefix_len()) + shift;
    let length = u8::try_from(128u128.checked_sub(suffix)?).ok()?;
    let ipv6 = Ipv6Net::new(Ipv6Addr::from(args.first()?.to_u128()?), length).ok()?;
    Some(Map { ipv4, ipv6 })
}
