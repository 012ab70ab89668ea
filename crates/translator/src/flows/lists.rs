//! Lists of sessions and bindings. A row is made, taken and forgotten: there may be millions.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use io::ebpf::KernelProgram;
use nat64::Timeouts;
use nat64::flows::{Binding, Filter, Session, Timer, time_of};
use serde::Serialize;

use super::Running;
use crate::select::Select;

/// A session. The fields of its JSON are in the order of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionRow {
    /// The IPv4 address and port that its host has.
    pub address: SocketAddrV4,
    /// The seconds until it ends, if it does.
    pub expires: Option<u64>,
    /// The IPv6 address and port of the host; of ICMP the identifier.
    pub host: SocketAddrV6,
    /// `tcp`, `udp` or `icmp`.
    pub protocol: &'static str,
    /// The other end; of ICMP with port 0.
    pub remote: SocketAddrV4,
    /// The name of the state of a TCP session (RFC 6146 section 3.5.2.1); empty for others.
    pub state: &'static str,
}

/// A binding. The fields of its JSON are in the order of the alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum BindingRow {
    /// A host has an address for itself, with all ports and protocols.
    Host {
        /// The IPv4 address that it has.
        address: Ipv4Addr,
        /// The IPv6 address of the host.
        host: Ipv6Addr,
        /// None: all of them.
        protocol: Option<&'static str>,
        /// It is in the configuration.
        #[serde(rename = "static")]
        fixed: bool,
    },
    /// A host has a port.
    Port {
        /// The IPv4 address and port that it has.
        address: SocketAddrV4,
        /// The number of its established TCP connections.
        established: u32,
        /// The seconds until it ends, if it does.
        expires: Option<u64>,
        /// The IPv6 address and port of the host; of ICMP the identifier.
        host: SocketAddrV6,
        /// `tcp`, `udp` or `icmp`.
        protocol: &'static str,
        /// Whether it is in the configuration.
        #[serde(rename = "static")]
        fixed: bool,
    },
}

/// Calls `each` with the sessions that a filter selects.
pub fn sessions(
    select: &Select,
    filter: &Filter,
    each: &mut dyn FnMut(SessionRow) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut running = Running::open(select)?;
    let (now, timeouts) = (KernelProgram::now(), running.stateful.timeouts);
    running.each_session(|session| match filter.has_session(&session) {
        true => each(SessionRow::of(&session, &timeouts, now)),
        false => Ok(()),
    })
}

/// Calls `each` with the bindings that a filter selects, first with those of whole addresses.
pub fn bindings(
    select: &Select,
    filter: &Filter,
    each: &mut dyn FnMut(BindingRow) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut running = Running::open(select)?;
    let (now, timeouts) = (KernelProgram::now(), running.stateful.timeouts);
    for host in running.stateful.hosts.iter().filter(|host| filter.has_host(host)) {
        each(BindingRow::Host { address: host.ipv4, host: host.ipv6, protocol: None, fixed: true })?;
    }
    running.each_binding(|binding| match filter.has_binding(&binding) {
        true => each(BindingRow::of(&binding, &timeouts, now)),
        false => Ok(()),
    })
}

impl SessionRow {
    fn of(session: &Session, timeouts: &Timeouts, now: u64) -> Self {
        Self {
            address: end4(session.address),
            expires: left(session.timer, timeouts, now),
            host: end6(session.host),
            protocol: session.protocol.name(),
            remote: end4(session.remote),
            state: session.state_name(),
        }
    }
}

impl BindingRow {
    fn of(binding: &Binding, timeouts: &Timeouts, now: u64) -> Self {
        Self::Port {
            address: end4(binding.address),
            established: binding.established,
            expires: left(binding.timer, timeouts, now),
            host: end6(binding.host),
            protocol: binding.protocol.name(),
            fixed: binding.timer.is_none(),
        }
    }
}

/// The seconds until a timer ends, if it does.
fn left(timer: Timer, timeouts: &Timeouts, now: u64) -> Option<u64> {
    let (profile, since) = timer?;
    let time = time_of(profile, timeouts)?;
    Some(time.saturating_sub(now.saturating_sub(since) / 1_000_000))
}

fn end4((address, port): (Ipv4Addr, u16)) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}

pub(crate) fn end6((address, port): (Ipv6Addr, u16)) -> SocketAddrV6 {
    SocketAddrV6::new(address, port, 0, 0)
}
