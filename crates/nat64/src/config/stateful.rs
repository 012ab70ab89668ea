//! What belongs to mode `stateful`: pools, static bindings, filtering, times and limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::{Ipv4Net, Ipv6Net};
use toml::de::DeTable;

use super::binding::{Bound, HostBinding, StaticBinding};
use super::{Reader, Value};
use crate::ranges::untranslatable;
use crate::sessions::INVERSE;

/// Stateful NAT64 (RFC 6146).
#[derive(Clone, Debug, PartialEq)]
pub struct Stateful {
    /// The pools, in the order of the file.
    pub pools: Vec<Pool>,
    /// The static bindings.
    pub bindings: Vec<StaticBinding>,
    /// The hosts that have an address for themselves.
    pub hosts: Vec<HostBinding>,
    /// Who may send to a binding.
    pub filtering: Filtering,
    /// Whether a host's TCP segment that is no SYN makes a session, so that connections of another router go on.
    pub adopt: bool,
    /// How long sessions live.
    pub timeouts: Timeouts,
    /// How many sessions there may be, and as many bindings; `None` is the number that the program declares.
    pub max_sessions: Option<u32>,
    /// How many sessions a second the hosts of a /64 may open; `None` is no limit (RFC 6888 REQ-4).
    pub new_sessions: Option<u32>,
    /// How many sessions and how many bindings a subscriber may have (RFC 6888 REQ-4); `None` is a share of all
    /// ([`Shares`](crate::Shares)).
    pub subscriber_sessions: Option<u32>,
    #[allow(missing_docs)]
    pub subscriber_bindings: Option<u32>,
    /// How many sessions packets from IPv4 may make; `None` is a share of all.
    pub outside_sessions: Option<u32>,
    /// The key from which ports and addresses are chosen; `None` lets `up` choose one.
    pub secret: Option<[u64; 2]>,
    /// What is reported of what packets make.
    pub log: Log,
    /// Where reports go.
    pub log_to: Vec<LogTarget>,
}

/// Where reports go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output of the process that removes sessions, as lines of JSON.
    Stdout,
    /// A file, as lines of JSON at its end.
    File(PathBuf),
    /// A syslog server that is reached by UDP (RFC 5426).
    Syslog(SocketAddr),
    /// An IPFIX collector that is reached by UDP (RFC 7011, RFC 8158).
    Ipfix(SocketAddr),
}

/// IPv4 addresses that hosts share.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The hosts that have it. The longest prefix wins.
    pub hosts: Ipv6Net,
    /// The addresses.
    pub addresses: Vec<Ipv4Net>,
    /// The ports. The first one is even, and the last one is odd.
    pub ports: RangeInclusive<u16>,
    /// Whether ports of hosts below 1024 get ports below 1024.
    pub low_ports: bool,
    /// The length of the prefix of a subscriber: its hosts share an address, and a block.
    pub subscriber: u8,
    /// How many ports a subscriber may use for each protocol (RFC 6888 REQ-4), which others may use too; `None` is all of them.
    pub max_ports: Option<u16>,
    /// The number of ports of each subscriber's block (RFC 7422); `None` shares all ports among all subscribers.
    pub block: Option<u16>,
}

/// The transport protocols that have bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Icmp => "icmp",
        }
    }

    /// Its number in an IPv4 header, which the program uses for bindings.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Icmp => 1,
        }
    }

    /// That with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// That with a number.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.number() == number)
    }
}

/// From whom a binding takes packets (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtering {
    /// From everybody.
    EndpointIndependent,
    /// From addresses to which the host has sent.
    AddressDependent,
}

/// How long sessions live without packets, in seconds (RFC 6146 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timeouts {
    pub udp: u32,
    pub icmp: u32,
    pub tcp_transitory: u32,
    pub tcp_established: u32,
    /// How long later fragments follow the first one of their packet.
    pub fragments: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { udp: 300, icmp: 60, tcp_transitory: 240, tcp_established: 7440, fragments: 2 }
    }
}

impl Timeouts {
    /// The keys of the file, their values, and the least values of RFC 6146 section 4.
    pub fn named(&mut self) -> [(&'static str, &mut u32, u32); 5] {
        [
            ("udp", &mut self.udp, 120),
            ("icmp", &mut self.icmp, 60),
            ("tcp-transitory", &mut self.tcp_transitory, 240),
            ("tcp-established", &mut self.tcp_established, 7440),
            ("fragments", &mut self.fragments, 2),
        ]
    }
}

/// What is reported of bindings and sessions that packets make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Log {
    Nothing,
    Bindings,
    Sessions,
}

pub(super) const POOL_KEYS: [&str; 6] = ["hosts", "addresses", "ports", "block", "max-ports", "subscriber"];
const PORTS: RangeInclusive<u16> = 1024..=65535;
/// The keys of the section `nat64` that belong to mode `stateful`.
pub(super) const KEYS: [&str; 13] = [
    "pool",
    "ports",
    "filtering",
    "adopt-connections",
    "timeouts",
    "max-sessions",
    "new-sessions",
    "subscriber-sessions",
    "subscriber-bindings",
    "outside-sessions",
    "secret",
    "log",
    "log-to",
];
/// The ports of syslog (RFC 5426 section 3.3) and of IPFIX (RFC 7011 section 10.3.4) by UDP.
const SYSLOG: u16 = 514;
const IPFIX: u16 = 4739;
/// The largest number of prefixes of pools: the slots of the program.
const SLOTS: u64 = 4096;

impl Pool {
    /// The length of its slots, which are prefixes of one length.
    pub fn slot_length(&self) -> u8 {
        self.addresses.iter().map(|net| net.prefix_len()).max().unwrap_or(32)
    }

    /// The addresses as prefixes of one length, in the order of the file.
    pub fn slots(&self) -> Vec<Ipv4Net> {
        let length = self.slot_length();
        self.addresses.iter().filter_map(|net| net.subnets(length).ok()).flatten().collect()
    }

    /// The number of its addresses.
    pub fn count(&self) -> u64 {
        self.addresses.iter().map(|net| 1u64 << (32 - net.prefix_len())).sum()
    }

    /// The number of its ports of one address.
    pub fn ports_of_address(&self) -> u32 {
        u32::from(*self.ports.end()) - u32::from(*self.ports.start()) + 1
    }

    /// The number of ports that a subscriber may use for each protocol.
    pub fn most_ports(&self) -> u32 {
        self.max_ports.map_or(self.ports_of_address(), u32::from)
    }

    /// The number of blocks that an address has.
    pub fn blocks_of_address(&self) -> Option<u32> {
        self.block.map(|block| self.ports_of_address() / u32::from(block))
    }

    /// The address and the ports of a host's block, if it is a host of this pool and the pool has blocks.
    pub fn block_of(&self, host: Ipv6Addr) -> Option<(Ipv4Addr, RangeInclusive<u16>)> {
        let (block, blocks) = (self.block?, self.blocks_of_address()?);
        let bits = 128 - u32::from(self.subscriber);
        let first = u128::from(self.hosts.network()) >> bits;
        let number = (u128::from(host) >> bits).checked_sub(first).filter(|_| self.hosts.contains(&host))?;
        let (address, at) = (number / u128::from(blocks), (number % u128::from(blocks)) as u16);
        let slot = 32 - u32::from(self.slot_length());
        let base = *self.slots().get((address >> slot) as usize)?;
        let address = Ipv4Addr::from(u32::from(base.network()) | (address as u32 & ((1 << slot) - 1)));
        let from = self.ports.start() + at * block;
        Some((address, from..=from + (block - 1)))
    }

    /// The subscriber whose block has a port of an address.
    pub fn subscriber_of(&self, address: Ipv4Addr, port: u16) -> Option<Ipv6Net> {
        let (block, blocks) = (self.block?, self.blocks_of_address()?);
        let (slot, slots) = (32 - u32::from(self.slot_length()), self.slots());
        let at = slots.iter().position(|net| net.contains(&address))?;
        let place = u32::from(port.checked_sub(*self.ports.start())?) / u32::from(block);
        let within = u128::from(u32::from(address) & ((1u32 << slot) - 1));
        let number = (((at as u128) << slot) | within) * u128::from(blocks) + u128::from(place);
        let bits = 128 - u32::from(self.subscriber);
        let host = u128::from(self.hosts.network()) + (number << bits);
        let net = Ipv6Net::new(Ipv6Addr::from(host), self.subscriber).ok()?;
        (place < blocks && self.hosts.contains(&net)).then_some(net)
    }
}

impl Stateful {
    /// Whether a binding may have an address and a port.
    pub fn allows(&self, protocol: Protocol, host: Ipv6Addr, address: Ipv4Addr, port: u16) -> bool {
        let fixed =
            |b: &StaticBinding| b.protocol == protocol && b.ipv4 == (address, port) && b.ipv6.0 == host;
        let pool = self.pools.iter().filter(|p| p.hosts.contains(&host)).max_by_key(|p| p.hosts.prefix_len());
        let may = pool.is_some_and(|pool| match pool.block_of(host) {
            Some((own, ports)) => own == address && ports.contains(&port),
            None => {
                pool.block.is_none()
                    && pool.addresses.iter().any(|net| net.contains(&address))
                    && (pool.ports.contains(&port) || (pool.low_ports && port < 1024))
            }
        });
        may || self.bindings.iter().any(fixed)
    }

    /// The IPv4 prefixes that lead to this translator.
    pub fn prefixes(&self) -> Vec<Ipv4Net> {
        let mut all: Vec<Ipv4Net> = self.pools.iter().flat_map(|pool| pool.addresses.clone()).collect();
        let fixed = self.bindings.iter().map(|binding| binding.ipv4.0);
        let fixed = fixed.chain(self.hosts.iter().map(|host| host.ipv4)).map(Ipv4Net::from);
        for net in fixed {
            if !all.iter().any(|other| other.contains(&net)) {
                all.push(net);
            }
        }
        all.dedup();
        all
    }
}

impl<'a> Reader<'a> {
    pub(super) fn stateful(
        &mut self,
        table: &DeTable<'a>,
        pools: Option<&Value<'a>>,
        bindings: Option<&Value<'a>>,
        section: std::ops::Range<usize>,
    ) -> Stateful {
        let mut all = self.sections(pools, "pool", |reader, item| reader.pool(item));
        if let Some(short) = table.get("pool") {
            let ports = table.get("ports");
            let pool = Pool {
                hosts: Ipv6Net::default(),
                addresses: self.addresses(short, "pool"),
                ports: ports.and_then(|v| self.ports(v)).unwrap_or(PORTS),
                low_ports: ports.is_none(),
                subscriber: 128,
                max_ports: None,
                block: None,
            };
            all.extend(Some((pool, short.span())).filter(|(pool, _)| !pool.addresses.is_empty()));
        } else if let Some(ports) = table.get("ports") {
            self.problem(ports.span(), "`ports` without a `pool`", "in a `[[pool]]`, it is a key of that");
        }
        if table.get("pool").is_none() && pools.is_none() {
            let hint = "add `pool = [\"203.0.113.0/28\"]`: IPv4 addresses that lead to this router";
            self.problem(section, "mode \"stateful\" without a `pool`", hint);
        }
        self.apart(&all);
        let bindings = self.sections(bindings, "binding", |reader, item| reader.binding(item));
        self.bound_once(&bindings);
        self.outside(&bindings, &all);
        let (mut ports, mut hosts) = (Vec::new(), Vec::new());
        for (bound, _) in bindings {
            match bound {
                Bound::Port(binding) => ports.push(binding),
                Bound::Host(host) => hosts.push(host),
            }
        }
        Stateful {
            pools: all.into_iter().map(|(pool, _)| pool).collect(),
            bindings: ports,
            hosts,
            filtering: table.get("filtering").map_or(Filtering::EndpointIndependent, |v| self.filtering(v)),
            adopt: table.get("adopt-connections").is_some_and(|v| self.boolean(v, "adopt-connections")),
            timeouts: table.get("timeouts").map_or_else(Timeouts::default, |v| self.timeouts(v)),
            max_sessions: table.get("max-sessions").and_then(|v| self.max_sessions(v)),
            new_sessions: table.get("new-sessions").and_then(|v| self.new_sessions(v)),
            subscriber_sessions: self.share(table, "subscriber-sessions"),
            subscriber_bindings: self.share(table, "subscriber-bindings"),
            outside_sessions: self.share(table, "outside-sessions"),
            secret: table.get("secret").and_then(|v| self.secret(v)),
            log: table.get("log").map_or(Log::Nothing, |v| self.log(v)),
            log_to: self.log_to(table.get("log-to"), table.get("log")),
        }
    }

    /// Reads each section of a list, with its place.
    pub(super) fn sections<T>(
        &mut self,
        value: Option<&Value<'a>>,
        name: &str,
        mut read: impl FnMut(&mut Self, &Value<'a>) -> Option<T>,
    ) -> Vec<(T, std::ops::Range<usize>)> {
        let Some(value) = value else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            let message = format!("`{name}` is not a list of sections");
            self.problem(value.span(), message, format!("write `[[{name}]]`, with two brackets"));
            return Vec::new();
        };
        array.iter().filter_map(|item| Some((read(self, item)?, item.span()))).collect()
    }

    fn pool(&mut self, item: &Value<'a>) -> Option<Pool> {
        let table = self.section_of(item, "pool", &POOL_KEYS)?;
        let Some(addresses) = table.get("addresses") else {
            let hint = "add `addresses = [\"203.0.113.0/28\"]`";
            self.problem(item.span(), "a `[[pool]]` without `addresses`", hint);
            return None;
        };
        let hosts = match table.get("hosts") {
            None => Ipv6Net::default(),
            Some(value) => {
                let text = self.string(value, "hosts", "2001:db8:100::/40")?;
                self.ipv6_net(text, value.span())?
            }
        };
        let ports = table.get("ports").and_then(|v| self.ports(v));
        let subscriber = table.get("subscriber");
        let length = subscriber.and_then(|v| self.integer(v, "subscriber", 32..=128)).unwrap_or(128) as u8;
        let block = table.get("block").and_then(|v| self.pairs(v, "block"));
        let max_ports = table.get("max-ports").and_then(|v| self.pairs(v, "max-ports"));
        let pool = Pool {
            hosts,
            addresses: self.addresses(addresses, "addresses"),
            low_ports: ports.is_none() && block.is_none() && max_ports.is_none(),
            ports: ports.unwrap_or(PORTS),
            subscriber: length,
            max_ports,
            block,
        };
        if let Some(value) = table.get("max-ports") {
            if pool.most_ports() > pool.ports_of_address() {
                let message = format!("the pool has {} ports of an address", pool.ports_of_address());
                self.problem(value.span(), message, "`max-ports` is a part of them");
            }
            if block.is_some() {
                self.problem(
                    value.span(),
                    "`max-ports` beside `block`",
                    "a block is all that a subscriber has",
                );
            }
        }
        if let Some(value) = subscriber.filter(|_| length < hosts.prefix_len()) {
            let message = format!("a subscriber's prefix is shorter than {hosts}");
            self.problem(value.span(), message, "its length is at least that of `hosts`");
            return None;
        }
        if let Some(value) = table.get("block") {
            self.has_blocks(value, &pool);
        }
        (!pool.addresses.is_empty()).then_some(pool)
    }

    /// Refuses a pool with fewer blocks than subscribers.
    fn has_blocks(&mut self, value: &Value<'a>, pool: &Pool) {
        let Some(blocks) = pool.blocks_of_address() else { return };
        let (bits, has) = (pool.subscriber - pool.hosts.prefix_len(), u64::from(blocks) * pool.count());
        if bits >= 32 || 1u64 << bits > has {
            let message = format!(
                "{} has 2^{bits} subscribers of /{}, and the pool has {has} blocks: {blocks} for each of {} addresses",
                pool.hosts,
                pool.subscriber,
                pool.count()
            );
            let hint = "each subscriber has one: name fewer hosts, shorter `subscriber` prefixes, more addresses, or smaller blocks";
            self.problem(value.span(), message, hint);
        } else if u64::from(blocks) << bits >= 1 << INVERSE {
            let hint = "use larger blocks, or several pools with fewer hosts each";
            self.problem(value.span(), "so many blocks cannot be told apart by arithmetic", hint);
        }
    }

    pub(super) fn section_of<'v>(
        &mut self,
        item: &'v Value<'a>,
        name: &str,
        keys: &[&str],
    ) -> Option<&'v DeTable<'a>> {
        let Some(table) = item.get_ref().as_table() else {
            self.problem(item.span(), format!("a `{name}` is not a section"), format!("write `[[{name}]]`"));
            return None;
        };
        for (key, _) in table.iter().filter(|(k, _)| !keys.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), keys);
        }
        Some(table)
    }

    fn addresses(&mut self, value: &Value<'a>, key: &str) -> Vec<Ipv4Net> {
        let Some(array) = value.get_ref().as_array() else {
            let hint = format!("write `{key} = [\"203.0.113.0/28\"]`");
            self.problem(value.span(), format!("`{key}` is not a list"), hint);
            return Vec::new();
        };
        let mut nets: Vec<Ipv4Net> = Vec::new();
        for item in array.iter() {
            let text = self.string(item, key, "203.0.113.0/28");
            let net = text.and_then(|t| self.ipv4_net(&super::with_length(t, 32), item.span()));
            let Some(net) = net else { continue };
            if let Some(what) = untranslatable(net) {
                self.problem(item.span(), format!("{net} {what}, which is never translated"), "");
            } else if net.prefix_len() < 8 {
                self.problem(item.span(), format!("{net} is too large for a pool"), "a /8 is the largest");
            } else {
                nets.push(net);
            }
        }
        if array.is_empty() {
            self.problem(value.span(), format!("`{key}` is empty"), "name the addresses that hosts share");
        }
        let longest = nets.iter().map(|net| net.prefix_len()).max().unwrap_or(32);
        let slots: u64 = nets.iter().map(|net| 1 << (longest - net.prefix_len())).sum();
        if slots > SLOTS {
            let message = format!("the prefixes are too unlike: as /{longest} they are {slots}, of {SLOTS}");
            self.problem(value.span(), message, "make a `[[pool]]` of those that are like each other");
        }
        nets
    }

    fn ports(&mut self, value: &Value<'a>) -> Option<RangeInclusive<u16>> {
        let text = self.string(value, "ports", "1024-65535")?;
        let ends = text.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match ends {
            Some((first, last)) if first < last && first % 2 == 0 && last % 2 == 1 && first > 0 => {
                Some(first..=last)
            }
            Some(_) => {
                let hint = "a host's UDP port keeps its parity (RFC 4787 REQ-4), so the first port is even, and the last one is odd";
                self.problem(value.span(), format!("`{text}` are no pairs of ports"), hint);
                None
            }
            None => {
                self.problem(
                    value.span(),
                    format!("`{text}` is not a range"),
                    "write `ports = \"1024-65535\"`",
                );
                None
            }
        }
    }

    /// An even number of ports.
    fn pairs(&mut self, value: &Value<'a>, key: &str) -> Option<u16> {
        let ports = self.integer(value, key, 2..=32_768)? as u16;
        if ports % 2 == 1 {
            let hint = "a host's UDP port keeps its parity (RFC 4787 REQ-4)";
            self.problem(value.span(), format!("`{key}` is not an even number of ports"), hint);
            return None;
        }
        Some(ports)
    }

    /// Refuses pools that could give one port to two hosts, or that are for the same hosts.
    fn apart(&mut self, pools: &[(Pool, std::ops::Range<usize>)]) {
        for (at, (pool, span)) in pools.iter().enumerate() {
            for (other, _) in &pools[..at] {
                if pool.hosts == other.hosts {
                    self.problem(span.clone(), format!("{} has a pool already", pool.hosts), "");
                }
                let exclusive = pool.block.is_some() || other.block.is_some();
                let both = |net: &Ipv4Net| other.addresses.iter().any(|o| o.contains(net) || net.contains(o));
                let ports =
                    pool.ports.start() <= other.ports.end() && other.ports.start() <= pool.ports.end();
                if exclusive && ports && pool.addresses.iter().any(both) {
                    let message = "a pool with blocks has addresses and ports in common with another one";
                    self.problem(span.clone(), message, "a block is of one subscriber only");
                }
            }
        }
        let slots: u64 = pools.iter().map(|(pool, _)| pool.slots().len() as u64).sum();
        if let Some((_, span)) = pools.last().filter(|_| slots > SLOTS) {
            self.problem(span.clone(), format!("the pools have {slots} prefixes, of {SLOTS}"), "");
        }
    }

    fn filtering(&mut self, value: &Value<'a>) -> Filtering {
        match value.get_ref().as_str() {
            Some("endpoint-independent") => Filtering::EndpointIndependent,
            Some("address-dependent") => Filtering::AddressDependent,
            _ => {
                let hint = "write \"endpoint-independent\" or \"address-dependent\" (RFC 4787 section 5)";
                self.problem(value.span(), "`filtering` is none of the kinds", hint);
                Filtering::EndpointIndependent
            }
        }
    }

    fn timeouts(&mut self, value: &Value<'a>) -> Timeouts {
        let mut timeouts = Timeouts::default();
        let Some(table) = value.get_ref().as_table() else {
            self.problem(value.span(), "`timeouts` is not a table", "write `timeouts = { udp = 300 }`");
            return timeouts;
        };
        let names = timeouts.named().map(|(name, ..)| name);
        for (key, _) in table.iter().filter(|(k, _)| !names.contains(&k.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), &names);
        }
        for (name, seconds, least) in timeouts.named() {
            let Some(value) = table.get(name) else { continue };
            let Some(given) = self.integer(value, name, 1..=1_000_000) else { continue };
            *seconds = given as u32;
            if *seconds < least {
                let message = format!("`{name}` is {given} s, less than the {least} s of RFC 6146 section 4");
                self.warning(value.span(), message, "idle connections of hosts will break");
            }
        }
        timeouts
    }

    fn new_sessions(&mut self, value: &Value<'a>) -> Option<u32> {
        self.integer(value, "new-sessions", 1..=10_000_000).map(|n| n as u32)
    }

    fn share(&mut self, table: &DeTable<'a>, key: &str) -> Option<u32> {
        table.get(key).and_then(|value| self.integer(value, key, 16..=(1 << 24) - 1)).map(|n| n as u32)
    }

    fn max_sessions(&mut self, value: &Value<'a>) -> Option<u32> {
        self.integer(value, "max-sessions", 1024..=1 << 26).map(|n| n as u32)
    }

    fn secret(&mut self, value: &Value<'a>) -> Option<[u64; 2]> {
        let text = self.string(value, "secret", "00112233445566778899aabbccddeeff")?;
        let number =
            u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32 && !text.starts_with('+'));
        match number {
            Some(number) => Some([(number >> 64) as u64, number as u64]),
            None => {
                let hint =
                    "`openssl rand -hex 16` makes one; routers that take each other's place have the same";
                self.problem(value.span(), "`secret` is not 32 hexadecimal digits", hint);
                None
            }
        }
    }

    fn log_to(&mut self, value: Option<&Value<'a>>, log: Option<&Value<'a>>) -> Vec<LogTarget> {
        let Some(value) = value else { return vec![LogTarget::Stdout] };
        if log.is_none() {
            self.problem(value.span(), "`log-to` without `log`", "add `log = \"bindings\"`");
        }
        let texts = match (value.get_ref().as_str(), value.get_ref().as_array()) {
            (Some(_), _) => vec![value],
            (None, Some(array)) => array.iter().collect(),
            (None, None) => Vec::new(),
        };
        if texts.is_empty() {
            let hint = "write `log-to = [\"stdout\", \"/var/log/nat64.jsonl\", \"syslog://192.0.2.9\", \"ipfix://192.0.2.9\"]`";
            self.problem(value.span(), "`log-to` names nothing", hint);
        }
        texts.into_iter().filter_map(|value| self.log_target(value)).collect()
    }

    fn log_target(&mut self, value: &Value<'a>) -> Option<LogTarget> {
        let text = self.string(value, "log-to", "stdout")?;
        let server = |text: &str, port: u16| {
            let bare = text.trim_start_matches('[').trim_end_matches(']');
            text.parse().or_else(|_| bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, port))).ok()
        };
        let found = match text.split_once("://") {
            None if text == "stdout" => Some(LogTarget::Stdout),
            None if text.starts_with('/') => Some(LogTarget::File(text.into())),
            Some(("syslog", host)) => server(host, SYSLOG).map(LogTarget::Syslog),
            Some(("ipfix", host)) => server(host, IPFIX).map(LogTarget::Ipfix),
            _ => None,
        };
        if found.is_none() {
            let hint = "it is `stdout`, a path that begins with `/`, `syslog://ADDRESS` or `ipfix://ADDRESS`, with or without a port";
            self.problem(value.span(), format!("`{text}` is nowhere that reports can go"), hint);
        }
        found
    }

    fn log(&mut self, value: &Value<'a>) -> Log {
        match value.get_ref().as_str() {
            Some("none") => Log::Nothing,
            Some("bindings") => Log::Bindings,
            Some("sessions") => Log::Sessions,
            _ => {
                let hint = "write \"none\", \"bindings\" or \"sessions\"";
                self.problem(value.span(), "`log` is none of the kinds", hint);
                Log::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{Mistake, each_is_found};
    use super::*;

    const GOOD: &str = r#"
[nat64]
mode   = "stateful"
prefix = "64:ff9b:1::/96"
pool   = ["203.0.113.0/28", "198.51.100.7"]
filtering = "address-dependent"

[[pool]]
hosts = "2001:db8:100::/60"
addresses = ["192.0.2.16/31"]
ports = "2048-65535"
subscriber = 64
block = 4096

[[binding]]
protocol = "tcp"
ipv4 = "203.0.113.7:443"
ipv6 = "[2001:db8::7]:8443"
"#;

    fn stateful(text: &str) -> Stateful {
        parse(text).expect("a good file").stateful.expect("mode stateful")
    }

    #[test]
    fn a_good_file_is_read_as_it_says() {
        let stateful = stateful(GOOD);
        assert_eq!(stateful.filtering, Filtering::AddressDependent);
        assert_eq!((stateful.pools.len(), stateful.bindings.len()), (2, 1));
        let [blocks, all] = &stateful.pools[..] else { panic!("{:?}", stateful.pools) };
        assert_eq!((all.hosts.prefix_len(), all.low_ports, all.block), (0, true, None));
        // Slots have one length.
        assert_eq!((all.slots().len(), all.slot_length(), all.count()), (17, 32, 17));
        assert_eq!(
            (blocks.block, blocks.low_ports, blocks.blocks_of_address()),
            (Some(4096), false, Some(15))
        );
        assert_eq!(stateful.bindings[0].ipv6.1, 8443);
        assert_eq!((stateful.timeouts, stateful.log), (Timeouts::default(), Log::Nothing));
    }

    #[test]
    fn each_mistake_is_found_on_its_line() {
        let cases: &[Mistake] = &[
            ("prefix = \"64:ff9b:1::/96\"", "", 2, &["without a `prefix`"]),
            ("[\"203.0.113.0/28\", \"198.51.100.7\"]", "\"203.0.113.0/28\"", 5, &["not a list"]),
            ("[\"203.0.113.0/28\", \"198.51.100.7\"]", "[]", 5, &["is empty"]),
            ("\"198.51.100.7\"", "\"127.0.0.0/30\"", 5, &["loopback"]),
            ("\"198.51.100.7\"", "\"10.0.0.0/8\"", 5, &["too unlike", "`[[pool]]`"]),
            ("filtering = \"address", "filtering = \"adress", 6, &["none of the kinds"]),
            ("filtering = \"address-dependent\"", "timeouts = { upd = 1 }", 6, &["did you mean `udp`"]),
            ("filtering = \"address-dependent\"", "timeouts = { udp = 0 }", 6, &["1 to 1000000"]),
            ("filtering = \"address-dependent\"", "secret = \"abc\"", 6, &["32 hexadecimal", "openssl"]),
            ("filtering = \"address-dependent\"", "log-to = \"stdout\"", 6, &["without `log`"]),
            (
                "filtering = \"address-dependent\"",
                "log = \"bindings\"\nlog-to = \"syslog://there\"",
                7,
                &["nowhere", "syslog://ADDRESS"],
            ),
            ("filtering = \"address-dependent\"", "max-sessions = 3", 6, &["1024"]),
            ("hosts = \"2001:db8:100::/60\"", "hosts = \"2001:db8:100::1/60\"", 9, &["bits after"]),
            (
                "hosts = \"2001:db8:100::/60\"",
                "hosts = \"2001:db8:100::/59\"",
                13,
                &["2^5 subscribers", "30 blocks"],
            ),
            ("hosts = \"2001:db8:100::/60\"", "hosts = \"::/0\"", 13, &["2^64 subscribers"]),
            ("\"2048-65535\"", "\"2047-65535\"", 11, &["pairs", "parity"]),
            ("\"2048-65535\"", "\"2048\"", 11, &["not a range"]),
            ("block = 4096", "block = 4095", 13, &["even"]),
            ("subscriber = 64", "subscriber = 56", 12, &["shorter than"]),
            ("192.0.2.16/31", "203.0.113.2/31", 5, &["in common"]),
            ("\"tcp\"", "\"sctp\"", 16, &["has no bindings"]),
            ("\"203.0.113.7:443\"", "\"203.0.113.7\"", 17, &["not an address with a port"]),
            ("protocol = \"tcp\"\n", "", 15, &["not of two addresses", "`protocol`"]),
            (
                "protocol = \"tcp\"\nipv4 = \"203.0.113.7:443\"\nipv6 = \"[2001:db8::7]:8443\"",
                "ipv4 = \"203.0.113.7\"\nipv6 = \"2001:db8::7\"",
                15,
                &["203.0.113.0/28", "which hosts share"],
            ),
            (
                "ipv6 = \"[2001:db8::7]:8443\"",
                "ipv6 = \"[2001:db8::7]:8443\"\n[[binding]]\nipv4 = \"192.0.2.9\"\nipv6 = \"2001:db8::7\"",
                19,
                &["bound twice"],
            ),
            ("block = 4096", "max-ports = 4095", 13, &["even"]),
            ("block = 4096", "block = 4096\nmax-ports = 4096", 14, &["beside `block`"]),
            (
                "ports = \"2048-65535\"\nsubscriber = 64\nblock = 4096",
                "ports = \"2048-2049\"\nmax-ports = 4",
                12,
                &["has 2 ports"],
            ),
            ("filtering = \"address-dependent\"", "subscriber-sessions = 3", 6, &["16"]),
            ("filtering = \"address-dependent\"", "subscriber-bindings = 0", 6, &["16"]),
            ("filtering = \"address-dependent\"", "outside-sessions = 100000000", 6, &["16777215"]),
            ("\"203.0.113.7:443\"", "\"[2001:db8::1]:443\"", 15, &["wrong protocols"]),
            ("ipv6 = \"[2001:db8::7]:8443\"", "", 15, &["without `ipv6`"]),
            (
                "ipv6 = \"[2001:db8::7]:8443\"",
                "ipv6 = \"[2001:db8::7]:8443\"\n[[map]]\nipv4 = \"192.0.2.1\"\nipv6 = \"2001:db8::1\"",
                2,
                &["does not belong to mode \"stateful\""],
            ),
        ];
        each_is_found(GOOD, cases);
    }

    #[test]
    fn times_below_those_of_the_rfc_are_allowed_and_told_of() {
        let text = GOOD.replace("filtering = \"address-dependent\"", "timeouts = { udp = 5, icmp = 90 }");
        let config = parse(&text).expect("it is allowed");
        let told: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].contains("`udp` is 5 s"), "{told:?}");
    }

    #[test]
    fn blocks_are_found_both_ways() {
        let stateful = stateful(GOOD);
        let pool = &stateful.pools[0];
        for subscriber in 0..16u128 {
            let host = Ipv6Addr::from(u128::from(pool.hosts.network()) | subscriber << 64 | 9);
            let (address, ports) = pool.block_of(host).expect("a subscriber");
            let number = subscriber as u16 % 15;
            assert_eq!(u32::from(address), 0xc000_0210 + (subscriber / 15) as u32, "{host}");
            assert_eq!(ports, 2048 + number * 4096..=2048 + number * 4096 + 4095, "{host}");
            for port in [*ports.start(), *ports.end()] {
                let net = pool.subscriber_of(address, port).expect("somebody has it");
                assert!(net.contains(&host) && net.prefix_len() == 64, "{address}:{port} is of {net}");
                assert!(stateful.allows(Protocol::Udp, host, address, port));
            }
            assert!(!stateful.allows(Protocol::Udp, host, address, ports.end().wrapping_add(1)));
        }
        assert_eq!(pool.subscriber_of("192.0.2.18".parse().expect("an address"), 2048), None);
        assert_eq!(pool.subscriber_of("192.0.2.16".parse().expect("an address"), 2047), None);
        // The second address has one block that is in use.
        assert_eq!(pool.subscriber_of("192.0.2.17".parse().expect("an address"), 2048 + 4096), None);
        // A static binding is of its host only.
        let (to, other): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::7".parse().expect("an address"), "2001:db8::8".parse().expect("an address"));
        let address = "203.0.113.7".parse().expect("an address");
        assert!(stateful.allows(Protocol::Tcp, to, address, 443));
        assert!(!stateful.allows(Protocol::Tcp, other, "192.0.2.99".parse().expect("an address"), 5000));
    }
}
