//! Bindings and sessions (RFC 6146 sections 3.1 and 3.2), as the tables of apps/nat64-stateful have them, and which of them a filter selects.

use std::net::{Ipv4Addr, Ipv6Addr};

use abi::id::TableId;
use abi::{Bits, Entry, Manifest, MatchValue};
use ipnet::{Ipv4Net, Ipv6Net};

use super::config::{HostBinding, Protocol, Timeouts};
use super::sessions::table;

/// The expire profile and the time in microseconds since its timer was started; `None` if it has no timer.
pub type Timer = Option<(u8, u64)>;

/// An entry of the binding information base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The address and port of the IPv6 host; of ICMP the identifier.
    pub host: (Ipv6Addr, u16),
    /// The IPv4 address and port that it has.
    pub address: (Ipv4Addr, u16),
    /// The number of its established TCP connections.
    pub established: u32,
    /// A static binding has none.
    pub timer: Timer,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The address and port of the IPv6 host.
    pub host: (Ipv6Addr, u16),
    /// The IPv4 address and port that it has.
    pub address: (Ipv4Addr, u16),
    /// The IPv4 host; of ICMP with port 0.
    pub remote: (Ipv4Addr, u16),
    /// Who has opened it, one of [`OPENED`].
    pub opened: u8,
    /// Its direct register: the state of a TCP session, and when it restarted the timers of its binding.
    pub register: u64,
    /// When it ends.
    pub timer: Timer,
}

/// The names of the states of a TCP session (RFC 6146 section 3.5.2.1), by their numbers in the program.
/// `adopted` is none of the RFC's: a connection that began on another router.
pub const STATES: [&str; 9] = [
    "",
    "v6-init",
    "v4-init",
    "established",
    "v4-fin-rcv",
    "v6-fin-rcv",
    "v4-fin-v6-fin-rcv",
    "trans",
    "adopted",
];

/// The values of [`Session::opened`]: the IPv6 host, the IPv4 host, and the IPv6 host on another router.
pub const OPENED: [u8; 3] = [1, 2, 8];

/// The tables of bindings and sessions.
#[derive(Clone, Copy, Debug)]
pub struct Flows {
    /// By IPv4 endpoint.
    pub bib4: TableId,
    /// By IPv6 endpoint.
    pub bib6: TableId,
    /// Sessions.
    pub sessions: TableId,
    /// To whom a binding has sent, with address-dependent filtering.
    pub peers: TableId,
}

/// What must hold for a binding or session. An omitted part matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Filter {
    pub protocol: Option<Protocol>,
    pub host: Option<Ipv6Net>,
    pub host_port: Option<u16>,
    pub address: Option<Ipv4Net>,
    pub port: Option<u16>,
    pub remote: Option<Ipv4Net>,
    pub remote_port: Option<u16>,
    pub state: Option<u8>,
}

impl Filter {
    /// Whether it names nothing that only sessions have.
    pub fn is_of_bindings(&self) -> bool {
        self.remote.is_none() && self.remote_port.is_none() && self.state.is_none()
    }

    /// Whether it selects a binding.
    pub fn has_binding(&self, binding: &Binding) -> bool {
        self.is_of_bindings() && self.endpoints(binding.protocol, binding.host, binding.address)
    }

    /// Whether it selects a host with an address for itself.
    pub fn has_host(&self, host: &HostBinding) -> bool {
        self.is_of_bindings()
            && self.protocol.is_none()
            && self.host_port.is_none()
            && self.port.is_none()
            && self.host.is_none_or(|net| net.contains(&host.ipv6))
            && self.address.is_none_or(|net| net.contains(&host.ipv4))
    }

    /// Whether it selects a session.
    pub fn has_session(&self, session: &Session) -> bool {
        self.endpoints(session.protocol, session.host, session.address)
            && self.remote.is_none_or(|net| net.contains(&session.remote.0))
            && self.remote_port.is_none_or(|port| port == session.remote.1)
            && self.state.is_none_or(|state| state == session.state())
    }

    fn endpoints(&self, protocol: Protocol, host: (Ipv6Addr, u16), address: (Ipv4Addr, u16)) -> bool {
        self.protocol.is_none_or(|wanted| wanted == protocol)
            && self.host.is_none_or(|net| net.contains(&host.0))
            && self.host_port.is_none_or(|port| port == host.1)
            && self.address.is_none_or(|net| net.contains(&address.0))
            && self.port.is_none_or(|port| port == address.1)
    }
}

impl Flows {
    /// Those of a program; `None` if it has no sessions.
    pub fn of(manifest: &Manifest) -> Option<Flows> {
        let find = |name: &str| manifest.table_id(&table(name));
        Some(Flows {
            bib4: find("bib4")?,
            bib6: find("bib6")?,
            sessions: find("sessions")?,
            peers: find("peers")?,
        })
    }

    /// All of them.
    pub fn all(&self) -> [TableId; 4] {
        [self.bib4, self.bib6, self.sessions, self.peers]
    }
}

/// The value of an exact key.
fn key(matches: &[MatchValue], at: usize) -> Option<u128> {
    match matches.get(at)? {
        MatchValue::Exact(bits) => bits.to_u128(),
        _ => None,
    }
}

fn endpoint4(address: u128, port: u128) -> (Ipv4Addr, u16) {
    (Ipv4Addr::from(address as u32), port as u16)
}

fn endpoint6(address: u128, port: u128) -> (Ipv6Addr, u16) {
    (Ipv6Addr::from(address), port as u16)
}

fn exact(values: &[(u32, u128)]) -> Vec<MatchValue> {
    bits(values).into_iter().map(MatchValue::Exact).collect()
}

fn bits(values: &[(u32, u128)]) -> Vec<Bits> {
    values.iter().map(|&(width, value)| Bits::new(width, value)).collect()
}

fn four((address, port): (Ipv4Addr, u16)) -> [(u32, u128); 2] {
    [(32, u32::from(address).into()), (16, port.into())]
}

fn six((address, port): (Ipv6Addr, u16)) -> [(u32, u128); 2] {
    [(128, address.into()), (16, port.into())]
}

impl Binding {
    /// Reads an entry of `bib4`.
    pub fn read(entry: &Entry, register: Option<u64>, timer: Timer) -> Option<Binding> {
        let arg = |at: usize| entry.action.args.get(at).and_then(Bits::to_u128);
        Some(Binding {
            protocol: Protocol::numbered(key(&entry.matches, 0)? as u8)?,
            address: endpoint4(key(&entry.matches, 1)?, key(&entry.matches, 2)?),
            host: endpoint6(arg(0)?, arg(1)?),
            established: register.unwrap_or(0) as u32,
            timer,
        })
    }

    /// Its entry in `bib4`.
    pub fn entry4(&self, manifest: &Manifest, flows: &Flows) -> Option<Entry> {
        let [a, b] = four(self.address);
        let matches = exact(&[(8, self.protocol.number().into()), a, b]);
        let action = manifest.tables[flows.bib4.index()].call(&table("taken"), bits(&six(self.host)))?;
        Some(Entry { matches, priority: 0, action })
    }

    /// Its entry in `bib6`.
    pub fn entry6(&self, manifest: &Manifest, flows: &Flows) -> Option<Entry> {
        let [a, b] = six(self.host);
        let matches = exact(&[(8, self.protocol.number().into()), a, b]);
        let action = manifest.tables[flows.bib6.index()].call(&table("bound"), bits(&four(self.address)))?;
        Some(Entry { matches, priority: 0, action })
    }
}

impl Session {
    /// Reads an entry of `sessions`.
    pub fn read(entry: &Entry, register: Option<u64>, timer: Timer) -> Option<Session> {
        let arg = |at: usize| entry.action.args.get(at).and_then(Bits::to_u128);
        let key = |at| key(&entry.matches, at);
        Some(Session {
            protocol: Protocol::numbered(key(0)? as u8)?,
            address: endpoint4(key(1)?, key(2)?),
            remote: endpoint4(key(3)?, key(4)?),
            host: endpoint6(arg(0)?, arg(1)?),
            opened: arg(2)? as u8,
            register: register.unwrap_or(0),
            timer,
        })
    }

    /// The number of its state; 0 if it is no TCP session.
    pub fn state(&self) -> u8 {
        match (self.protocol, self.register as u8) {
            (Protocol::Tcp, 0) => self.opened,
            (Protocol::Tcp, state) => state,
            _ => 0,
        }
    }

    /// The name of its state; empty if it is no TCP session.
    pub fn state_name(&self) -> &'static str {
        STATES.get(usize::from(self.state())).copied().unwrap_or("")
    }

    /// Its entry in `sessions`.
    pub fn entry(&self, manifest: &Manifest, flows: &Flows) -> Option<Entry> {
        let [a, b] = four(self.address);
        let [c, d] = four(self.remote);
        let matches = exact(&[(8, self.protocol.number().into()), a, b, c, d]);
        let [host, port] = six(self.host);
        let args = bits(&[host, port, (8, self.opened.into())]);
        let action = manifest.tables[flows.sessions.index()].call(&table("session"), args)?;
        Some(Entry { matches, priority: 0, action })
    }
}

/// The time of an expire profile in seconds; `None` if it has none.
pub fn time_of(profile: u8, timeouts: &Timeouts) -> Option<u64> {
    let times =
        [timeouts.udp, timeouts.icmp, timeouts.tcp_transitory, timeouts.tcp_established, timeouts.fragments];
    match profile {
        0..=4 => Some(times[usize::from(profile)].into()),
        5 => Some(0),
        8..=12 => Some(u64::from(times[usize::from(profile) - 8]) + 18),
        16..=20 => Some(u64::from(times[usize::from(profile) - 16]) + 21),
        _ => None,
    }
}
