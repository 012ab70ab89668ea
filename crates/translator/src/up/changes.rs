//! What a file would change, in words.

use std::collections::HashMap;

use nat64::{Config, Running};
use serde::Serialize;

use crate::wiring::Sort;

/// Something that applying a file would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Whether it is added, changed or removed.
    #[serde(rename = "change")]
    pub sort: Sort,
    /// What it is: `program`, `route`, `mapping`, `setting` and others.
    pub kind: &'static str,
    /// Which one, and how it changes.
    pub what: String,
}

impl Change {
    pub(crate) fn new(sort: Sort, kind: &'static str, what: String) -> Self {
        Self { sort, kind, what }
    }
}

/// What changes in the tables of a program.
pub fn table_changes(held: &Running, wanted: &Running, all: &mut Vec<Change>) {
    let mut push = |sort, kind: &'static str, what: String| all.push(Change::new(sort, kind, what));
    match (held.prefix, wanted.prefix) {
        (None, Some(new)) => push(Sort::Add, "prefix", new.to_string()),
        (Some(old), None) => push(Sort::Remove, "prefix", old.to_string()),
        (Some(old), Some(new)) if old != new => push(Sort::Change, "prefix", format!("{old} becomes {new}")),
        _ => {}
    }
    let by_ipv4 = |running: &Running| -> HashMap<_, _> {
        running.maps.iter().map(|map| (map.ipv4, map.ipv6)).collect()
    };
    let (old, new) = (by_ipv4(held), by_ipv4(wanted));
    for map in &wanted.maps {
        match old.get(&map.ipv4) {
            None => push(Sort::Add, "mapping", format!("{} to {}", map.ipv4, map.ipv6)),
            Some(old) if *old != map.ipv6 => {
                push(Sort::Change, "mapping", format!("{} to {old} becomes to {}", map.ipv4, map.ipv6));
            }
            Some(_) => {}
        }
    }
    for map in held.maps.iter().filter(|map| !new.contains_key(&map.ipv4)) {
        push(Sort::Remove, "mapping", format!("{} to {}", map.ipv4, map.ipv6));
    }
    for (old, new, kind) in [
        (pool_texts(held), pool_texts(wanted), "pool"),
        (held.bindings.clone(), wanted.bindings.clone(), "binding"),
    ] {
        let other =
            |all: &[(String, String)], key: &str| all.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        for (key, value) in &new {
            match other(&old, key) {
                None => push(Sort::Add, kind, format!("{key}: {value}")),
                Some(old) if old != *value => {
                    push(Sort::Change, kind, format!("{key}: {old} becomes {value}"))
                }
                Some(_) => {}
            }
        }
        for (key, value) in old.iter().filter(|(key, _)| other(&new, key).is_none()) {
            push(Sort::Remove, kind, format!("{key}: {value}"));
        }
    }
    let mut settings = |held: &[(String, String)], wanted: &[(String, String)]| {
        for (name, value) in wanted {
            match held.iter().find(|(n, _)| n == name) {
                Some((_, old)) if old != value => {
                    push(Sort::Change, "setting", format!("{name}: {old} becomes {value}"));
                }
                None if !held.is_empty() => push(Sort::Add, "setting", format!("{name}: {value}")),
                _ => {}
            }
        }
    };
    let texts = |running: &Running| -> Vec<_> {
        running.settings.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    };
    settings(&texts(held), &texts(wanted));
    settings(&held.errors, &wanted.errors);
    settings(&held.sessions, &wanted.sessions);
}

/// Pools by the prefixes of their hosts.
fn pool_texts(running: &Running) -> Vec<(String, String)> {
    running.pools.iter().map(|(hosts, text)| (hosts.to_string(), text.clone())).collect()
}

/// What the program does not have in its tables: the times of sessions, and the sizes of tables, by the keys of the file.
pub fn timeouts(config: Option<&Config>) -> Vec<(String, String)> {
    let mut timeouts = match config.and_then(|config| config.stateful.as_ref()) {
        Some(stateful) => stateful.timeouts,
        None => return Vec::new(),
    };
    let mut all = timeouts
        .named()
        .map(|(name, seconds, _)| (format!("timeouts.{name}"), format!("{seconds} s")))
        .to_vec();
    let most = config.and_then(|config| config.stateful.as_ref()).and_then(|stateful| stateful.max_sessions);
    let to =
        config.and_then(|config| config.stateful.as_ref()).map(|stateful| format!("{:?}", stateful.log_to));
    all.push(("log-to".to_string(), to.unwrap_or_default()));
    all.push(("max-sessions".to_string(), most.map_or("the program's".to_string(), |most| most.to_string())));
    all
}

#[cfg(test)]
mod tests {
    use nat64::config::{KEYS, parse};
    use nat64::running;

    use super::*;
    use crate::bundle::Bundle;
    use crate::configured::desired;

    /// Keys, each with two values.
    const CHANGES: [(&str, &str, &str); 22] = [
        ("prefix", "\"2001:db8:64::/96\"", "\"2001:db8:65::/96\""),
        ("tos", "\"copy\"", "8"),
        ("udp-zero-checksum", "\"compute\"", "\"drop\""),
        ("clamp-mss", "true", "false"),
        ("ipv6-mtu", "1500", "1400"),
        ("lowest-ipv6-mtu", "1280", "1400"),
        ("error-pool4", "\"192.0.2.0/28\"", "\"192.0.2.0/29\""),
        ("error-source4", "\"192.0.2.1\"", "\"192.0.2.2\""),
        ("error-source6", "\"2001:db8::1\"", "\"2001:db8::2\""),
        ("error-rate", "10", "11"),
        ("error-rate", "10", "0"),
        ("hairpin", "\"simple\"", "\"intrinsic\""),
        ("pool", "[\"192.0.2.0/28\"]", "[\"192.0.2.0/29\"]"),
        ("ports", "\"1024-65535\"", "\"2048-65535\""),
        ("filtering", "\"endpoint-independent\"", "\"address-dependent\""),
        ("new-sessions", "10", "11"),
        ("adopt-connections", "false", "true"),
        ("subscriber-sessions", "100", "101"),
        ("subscriber-bindings", "100", "101"),
        ("outside-sessions", "100", "101"),
        ("secret", "\"00000000000000000000000000000001\"", "\"00000000000000000000000000000002\""),
        ("log", "\"none\"", "\"sessions\""),
    ];

    /// Keys of no table of the program. What they change is shown with the interfaces and routes.
    const ELSEWHERE: [&str; 6] = ["mode", "timeouts", "max-sessions", "log-to", "attach", "routes"];

    #[test]
    fn a_change_of_any_key_is_shown() {
        let of = |key: &str, value: &str| {
            let prefix = if key == "prefix" { "" } else { "prefix = \"2001:db8:64::/96\"\n" };
            let sessions = [
                "ports",
                "filtering",
                "adopt-connections",
                "new-sessions",
                "subscriber-sessions",
                "subscriber-bindings",
                "outside-sessions",
                "secret",
                "log",
            ]
            .contains(&key);
            let pool = if sessions { "pool = [\"192.0.2.0/28\"]\n" } else { "" };
            let mode = if sessions || key == "pool" { "stateful" } else { "stateless" };
            let text = format!("[nat64]\nmode = \"{mode}\"\n{prefix}{pool}{key} = {value}\n");
            let config = parse(&text).unwrap_or_else(|e| panic!("{key} = {value}: {e:?}"));
            let manifest = Bundle::of(&config).manifest().expect("our own program");
            running(&desired(&config, &manifest).expect("our own program"), &manifest)
                .expect("our own tables")
        };
        for (key, old, new) in CHANGES {
            let mut shown = Vec::new();
            table_changes(&of(key, old), &of(key, new), &mut shown);
            assert!(!shown.is_empty(), "{key}: {old} becomes {new}");
            shown.clear();
            table_changes(&of(key, old), &of(key, old), &mut shown);
            assert!(shown.is_empty(), "{key} stays {old}: {shown:?}");
        }
        for key in KEYS {
            let listed = CHANGES.iter().any(|(k, ..)| *k == key) || ELSEWHERE.contains(&key);
            assert!(listed, "{key} is new: say here how it changes");
        }
    }
}
