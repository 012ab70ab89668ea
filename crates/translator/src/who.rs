//! The subscriber that has an IPv4 address and port, or had them: by arithmetic, by logs, or by the bindings that there are.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::path::Path;

use anyhow::Context;
use ipnet::Ipv6Net;
use jiff::Timestamp;
use nat64::Protocol;
use nat64::report::{Line, Search};

use crate::flows::Running;
use crate::flows::lists::end6;
use crate::record::File;
use crate::select::Select;

/// Who has an address and port at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Always {
    /// The host that has the whole address.
    Host(Ipv6Addr),
    /// The subscriber whose block the port is of.
    Block(Ipv6Net),
}

/// Who has an address and port by the configuration alone, which tells it for all times. A translator that a device names has none that is
/// asked here.
pub fn by_configuration(select: &Select, endpoint: SocketAddrV4) -> Option<Always> {
    let (address, port) = (*endpoint.ip(), endpoint.port());
    let Select::File(file) = select else { return None };
    let stateful = File::read(file).and_then(|file| file.config()).ok()?.stateful?;
    if let Some(host) = stateful.hosts.iter().find(|host| host.ipv4 == address) {
        return Some(Always::Host(host.ipv6));
    }
    stateful.pools.iter().find_map(|pool| pool.subscriber_of(address, port)).map(Always::Block)
}

/// The lines of logs that say who had them at a time. The oldest log is the first one.
pub fn by_logs(
    logs: &[impl AsRef<Path>],
    endpoint: SocketAddrV4,
    protocol: Option<Protocol>,
    at: Timestamp,
) -> anyhow::Result<Vec<Line>> {
    let mut search = Search::default();
    for path in logs.iter().map(AsRef::as_ref) {
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (number, text) in BufReader::new(file).lines().enumerate() {
            // Lines of others, and what was cut by a full disk, are left out.
            let text = text.with_context(|| format!("{} line {}", path.display(), number + 1))?;
            if let Ok(line) = serde_json::from_str::<Line>(&text) {
                search.line(&line, endpoint, protocol, at);
            }
        }
    }
    Ok(search.found())
}

/// The hosts that have them now, and for which protocols.
pub fn now(
    select: &Select,
    endpoint: SocketAddrV4,
    protocol: Option<Protocol>,
) -> anyhow::Result<Vec<(SocketAddrV6, Protocol)>> {
    let (address, port) = (*endpoint.ip(), endpoint.port());
    let mut found = Vec::new();
    Running::open(select)?.each_binding(|binding| {
        let asked = protocol.is_none_or(|wanted| wanted == binding.protocol);
        if binding.address == (address, port) && asked {
            found.push((end6(binding.host), binding.protocol));
        }
        Ok(())
    })?;
    Ok(found)
}
