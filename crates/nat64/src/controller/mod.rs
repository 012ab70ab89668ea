//! The control plane of apps/nat64-controller: stateful NAT64 (RFC 6146), whose bindings and sessions it writes.
//!
//! The program sends each packet that opens a session. The control plane chooses an address and a port, writes the entries, and sends the packet back.
//! A binding lives as long as its last session (section 3.1); a session until no packet has hit its entry for its lifetime. All that must outlive this
//! process is in the entries, so whoever begins reads them and goes on.

mod packet;
mod pool;
mod tcp;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use abi::{Digest, Manifest};
use control::controller::{Controller, Effects, Event};
use control::journal::Journal;
use control::objects::{Exact, Fields, args};
use control::plan::{self, Desired};
use dataplane::device::{self, Entity, EntryKey, Key, TableEntry, Update};

use self::packet::{Opening, Verdict};
use self::pool::Pools;
use self::tcp::State;
use crate::{Config, Filtering, Hairpin, Log, Protocol, Stateful, Timeouts, wanted};

/// Protocol; IPv6 host; its port or identifier.
type Inside = (u8, u128, u16);
/// Protocol; address of the pool; port or identifier.
type Outside = (u8, u32, u16);
/// A binding and the remote host and port.
type SessionKey = (Outside, u32, u16);

/// What a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Binding {
    outside: Outside,
    sessions: u32,
    /// It is in the configuration, so it does not end.
    is_static: bool,
}

/// What a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    inside: Inside,
    state: State,
}

/// The state of the control plane.
pub struct Nat64 {
    manifest: Manifest,
    desired: Desired,
    stateful: Stateful,
    tables: Tables,
    /// The ends, the direction and the control bits of a segment that changes a session's state.
    segment: Fields<6>,
    pools: Pools,
    bindings: Journal<Inside, Binding>,
    /// The owner of each address and port.
    owners: Journal<Outside, Inside>,
    sessions: Journal<SessionKey, Session>,
    /// The number of sessions of each binding with each remote host, for address-dependent filtering.
    peers: Journal<(Outside, u32), u32>,
    /// The number of sessions of each /64.
    subscribers: Journal<u64, u32>,
    /// The entries of the configuration's tables that the device had at the start.
    found: Vec<Entity>,
}

/// The tables that change while the program runs.
struct Tables {
    bib6: Exact,
    bib4: Exact,
    sessions: Exact,
}

impl Nat64 {
    /// A control plane without sessions, with this configuration.
    pub fn new(manifest: &Manifest, config: &Config) -> Result<Nat64, String> {
        let stateful = config.stateful.clone().ok_or("`mode` must be \"stateful\"")?;
        supported(config, &stateful)?;
        Nat64::with(manifest, stateful, wanted(config, manifest)?)
    }

    /// A control plane that also writes what is desired when it starts.
    fn with(manifest: &Manifest, stateful: Stateful, desired: Desired) -> Result<Nat64, String> {
        let find = |table: &str, action: &str| {
            Exact::find(manifest, &format!("Nat64.sessions.{table}"), &format!("Nat64.sessions.{action}"))
        };
        let ends = ["address", "port", "remote", "remote_port", "from6", "flags"];
        Ok(Nat64 {
            desired,
            manifest: manifest.clone(),
            tables: Tables {
                bib6: find("bib6", "bound")?,
                bib4: find("bib4", "taken")?,
                sessions: find("sessions", "session")?,
            },
            segment: Fields::find(manifest, "segment_t", ends)?,
            pools: Pools::new(stateful.clone()),
            stateful,
            bindings: Journal::default(),
            owners: Journal::default(),
            sessions: Journal::default(),
            peers: Journal::default(),
            subscribers: Journal::default(),
            found: Vec::new(),
        })
    }

    /// Opens the session of a packet, and its binding if it has none.
    fn opening(&mut self, packet: &Opening<'_>) -> Effects {
        if Protocol::numbered(packet.protocol).is_none() {
            return Effects::default();
        }
        let (inside, opened) = match packet.from6 {
            true => ((packet.protocol, packet.host, packet.host_port), State::V6Init),
            false => {
                let outside = (packet.protocol, packet.address, packet.port_of_pool);
                // The binding has ended meanwhile, or the remote host may not send.
                let Some(inside) = self.owners.get(&outside).copied() else { return Effects::default() };
                if self.filters(&(outside, packet.remote)) {
                    return Effects::default();
                }
                (inside, State::V4Init)
            }
        };
        let known = self.bindings.get(&inside).map(|binding| binding.outside);
        let known_session = known
            .is_some_and(|outside| self.sessions.contains(&(outside, packet.remote, packet.remote_port)));
        // Packets of one session that came before its entries are all here.
        if known_session {
            return Effects::packet(packet.back(Verdict::Translate));
        }
        let mut updates = Vec::new();
        let chosen = (!self.is_full(&inside)).then(|| self.bind(inside, &mut updates)).flatten();
        let Some(outside) = chosen else { return Effects::packet(packet.back(Verdict::NoRoom)) };
        let key = (outside, packet.remote, packet.remote_port);
        let state = if inside.0 == Protocol::Tcp.number() { opened } else { State::None };
        let session = Session { inside, state };
        self.set_session(key, Some(session));
        updates.push(Update::Insert(Entity::Entry(self.session_entry(&key, &session))));
        Effects { updates, packets: vec![packet.back(Verdict::Translate)] }
    }

    /// Whether a remote host may not send to a binding (RFC 4787 section 5).
    fn filters(&self, peer: &(Outside, u32)) -> bool {
        self.stateful.filtering == Filtering::AddressDependent && !self.peers.contains(peer)
    }

    /// Whether the limits leave no room for another session of a host.
    fn is_full(&self, (_, host, _): &Inside) -> bool {
        let own = self.subscribers.get(&subscriber(*host)).copied().unwrap_or(0);
        let room = self.manifest.tables[self.tables.sessions.table.index()].size;
        let most = self.stateful.max_sessions.map_or(room, |most| room.min(most.into()));
        self.sessions.len() as u64 >= most
            || self.stateful.subscriber_sessions.is_some_and(|most| own >= most)
    }

    /// The address and port of a host. A new binding is an entry for each direction.
    fn bind(&mut self, inside: Inside, updates: &mut Vec<Update>) -> Option<Outside> {
        if let Some(binding) = self.bindings.get(&inside) {
            return Some(binding.outside);
        }
        let outside = self.pools.choose(inside, |outside| self.owners.contains(outside))?;
        self.set_binding(inside, Some(Binding { outside, sessions: 0, is_static: false }));
        updates.extend(self.binding_entries(inside, outside).map(Entity::Entry).map(Update::Insert));
        Some(outside)
    }

    /// Ends a session, and its binding with the last one.
    fn end(&mut self, key: SessionKey) -> Vec<Update> {
        let Some(session) = self.set_session(key, None) else { return Vec::new() };
        let mut updates = vec![Update::Delete(Key::Entry(self.tables.sessions.key(&session_key(&key))))];
        let binding = self.bindings.get(&session.inside).copied();
        if binding.is_some_and(|binding| binding.sessions == 0 && !binding.is_static) {
            updates.extend(self.unbind(session.inside));
        }
        updates
    }

    /// Removes a binding without sessions.
    fn unbind(&mut self, inside: Inside) -> Vec<Update> {
        let Some(Binding { outside, .. }) = self.bindings.get(&inside).copied() else { return Vec::new() };
        self.set_binding(inside, None);
        let entries = self.binding_entries(inside, outside);
        entries.map(|entry| Update::Unset(Key::Entry(entry.key))).into()
    }

    /// Follows the states of a TCP session.
    fn segment(&mut self, [address, port, remote, remote_port, from6, flags]: [u64; 6]) -> Vec<Update> {
        let outside = (Protocol::Tcp.number(), address as u32, port as u16);
        let key = (outside, remote as u32, remote_port as u16);
        let Some(before) = self.sessions.get(&key).copied() else { return Vec::new() };
        let session = Session { state: before.state.after(from6 != 0, flags as u8), ..before };
        if session == before {
            return Vec::new();
        }
        self.sessions.set(key, Some(session));
        vec![Update::Modify(Entity::Entry(self.session_entry(&key, &session)))]
    }

    /// Sets or removes a session, and counts it.
    fn set_session(&mut self, key: SessionKey, session: Option<Session>) -> Option<Session> {
        let (outside, remote, _) = key;
        let before = self.sessions.set(key, session);
        let change = i64::from(session.is_some()) - i64::from(before.is_some());
        let Some(Session { inside, .. }) = session.or(before) else { return before };
        add(&mut self.peers, (outside, remote), change);
        add(&mut self.subscribers, subscriber(inside.1), change);
        if let Some(binding) = self.bindings.get(&inside).copied() {
            let sessions = binding.sessions.saturating_add_signed(change as i32);
            self.bindings.set(inside, Some(Binding { sessions, ..binding }));
        }
        before
    }

    /// Sets or removes a binding.
    fn set_binding(&mut self, inside: Inside, binding: Option<Binding>) {
        let before = self.bindings.set(inside, binding);
        if let Some(Binding { outside, .. }) = before {
            self.owners.set(outside, None);
            self.pools.count(outside, false);
        }
        if let Some(Binding { outside, .. }) = binding {
            self.owners.set(outside, Some(inside));
            self.pools.count(outside, true);
        }
    }

    /// The entries of a binding, one for each direction.
    fn binding_entries(
        &self,
        (protocol, host, host_port): Inside,
        (_, address, port): Outside,
    ) -> [TableEntry; 2] {
        let own = (8, u128::from(protocol));
        let inner = [(128, host), (16, u128::from(host_port))];
        let outer = [(32, u128::from(address)), (16, u128::from(port))];
        [
            self.tables.bib4.entry(&[own, outer[0], outer[1]], &inner, None),
            self.tables.bib6.entry(&[own, inner[0], inner[1]], &outer, None),
        ]
    }

    fn session_entry(&self, key: &SessionKey, session: &Session) -> TableEntry {
        let (protocol, host, port) = session.inside;
        let seconds = lifetime(protocol, session.state, &self.stateful.timeouts);
        let args = [(128, host), (16, u128::from(port)), (8, session.state as u128)];
        self.tables.sessions.entry(&session_key(key), &args, Some(u64::from(seconds) * 1_000_000))
    }

    /// The key of a session's entry.
    fn session_of(&self, key: &EntryKey) -> Option<SessionKey> {
        let [protocol, address, port, remote, remote_port]: [u128; 5] = self.tables.sessions.values(key)?;
        let outside = (protocol as u8, address as u32, port as u16);
        Some((outside, remote as u32, remote_port as u16))
    }

    /// Takes over what the device has.
    fn take_over(&mut self, entities: &[Entity]) {
        let entries = || {
            entities.iter().filter_map(|entity| match entity {
                Entity::Entry(entry) => Some(entry),
                _ => None,
            })
        };
        let fixed: HashSet<Inside> =
            self.stateful.bindings.iter().map(static_ends).map(|(inside, _)| inside).collect();
        for entry in entries() {
            let key: Option<[u128; 3]> = self.tables.bib6.values(&entry.key);
            let args: Option<[u128; 2]> = args(entry);
            if let (Some([protocol, host, port]), Some([address, outer])) = (key, args) {
                let inside = (protocol as u8, host, port as u16);
                let outside = (protocol as u8, address as u32, outer as u16);
                let is_static = fixed.contains(&inside);
                self.set_binding(inside, Some(Binding { outside, sessions: 0, is_static }));
            }
        }
        for entry in entries() {
            let args: Option<[u128; 3]> = args(entry);
            if let (Some(key), Some([host, port, state])) = (self.session_of(&entry.key), args) {
                let inside = ((key.0).0, host, port as u16);
                self.set_session(key, Some(Session { inside, state: State::numbered(state) }));
            }
        }
        let configured = |entry: &&TableEntry| self.desired.tables.contains(&entry.key.table);
        self.found = entries().filter(configured).cloned().map(Entity::Entry).collect();
    }

    /// The configuration, and the end of what belongs to nothing: a controller that was killed may have written a part of a batch.
    fn start(&mut self) -> Vec<Update> {
        let fixed: Vec<_> = self.stateful.bindings.iter().map(static_ends).collect();
        let is_gone = |(key, session): &(&SessionKey, &Session)| {
            let replaced =
                |(inside, outside): &(Inside, Outside)| (*inside == session.inside) != (*outside == key.0);
            let binding = self.bindings.get(&session.inside);
            binding.is_none_or(|binding| binding.outside != key.0) || fixed.iter().any(replaced)
        };
        let gone: Vec<SessionKey> = self.sessions.iter().filter(is_gone).map(|(key, _)| *key).collect();
        let mut updates: Vec<Update> = gone.into_iter().flat_map(|key| self.end(key)).collect();
        let is_unused = |(_, binding): &(&Inside, &Binding)| binding.sessions == 0 && !binding.is_static;
        let unused: Vec<Inside> = self.bindings.iter().filter(is_unused).map(|(inside, _)| *inside).collect();
        updates.extend(unused.into_iter().flat_map(|inside| self.unbind(inside)));
        for (inside, outside) in fixed {
            let sessions = self.bindings.get(&inside).map_or(0, |binding| binding.sessions);
            self.set_binding(inside, Some(Binding { outside, sessions, is_static: true }));
        }
        let present = Desired { entities: std::mem::take(&mut self.found), ..self.desired.clone() };
        updates.extend(plan::difference(&self.manifest, &present, &self.desired));
        updates
    }
}

impl Controller for Nat64 {
    fn event(&mut self, _now: u64, event: Event<'_>) -> Effects {
        match event {
            Event::Found(entities) => {
                self.take_over(entities);
                Effects::default()
            }
            Event::Started(_) => self.start().into(),
            Event::Told(device::Event::Packet(frame)) => {
                Opening::read(frame).map_or_else(Effects::default, |packet| self.opening(&packet))
            }
            Event::Told(device::Event::Digest(digest)) => self.digest(digest).into(),
            Event::Told(device::Event::Idle(entry)) => {
                let key = self.session_of(&entry.key);
                key.map_or_else(Vec::new, |key| self.end(key)).into()
            }
            Event::Told(device::Event::Message(_)) => Effects::default(),
        }
    }

    fn settled(&mut self) {
        self.bindings.settle();
        self.owners.settle();
        self.sessions.settle();
        self.peers.settle();
        self.subscribers.settle();
    }

    fn refused(&mut self, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        for (outside, owner) in self.owners.undo() {
            self.pools.count(outside, owner.is_some());
        }
        self.bindings.undo();
        self.sessions.undo();
        self.peers.undo();
        self.subscribers.undo();
        packets.iter().map(|frame| packet::without_room(frame)).collect()
    }
}

impl Nat64 {
    fn digest(&mut self, digest: &Digest) -> Vec<Update> {
        self.segment.values(digest).map_or_else(Vec::new, |ends| self.segment(ends))
    }
}

/// What of a configuration this control plane does not do.
fn supported(config: &Config, stateful: &Stateful) -> Result<(), String> {
    let lacks = [
        (!stateful.hosts.is_empty(), "a `[[binding]]` without ports"),
        (stateful.adopt, "`adopt-connections`"),
        (stateful.log != Log::Nothing, "`log`"),
        (stateful.new_sessions.is_some(), "`new-sessions`"),
        (stateful.timeouts.fragments != Timeouts::default().fragments, "the time of fragments"),
        (!config.attach.interfaces.is_empty() || config.attach.device != "nat64", "`attach`"),
        (!config.routes.is_empty(), "`routes`"),
        (config.hairpin == Hairpin::Intrinsic, "hairpinning in one step (`hairpin`)"),
    ];
    match lacks.iter().find(|(given, _)| *given) {
        Some((_, what)) => {
            Err(format!("{what} is not for `strait controller nat64`; `strait nat64 run` has it"))
        }
        None => Ok(()),
    }
}

/// How long a session lives without packets, in seconds.
fn lifetime(protocol: u8, state: State, timeouts: &Timeouts) -> u32 {
    match Protocol::numbered(protocol) {
        Some(Protocol::Tcp) => state.lifetime(timeouts),
        Some(Protocol::Icmp) => timeouts.icmp,
        Some(Protocol::Udp) | None => timeouts.udp,
    }
}

/// Both ends of a static binding.
fn static_ends(binding: &crate::StaticBinding) -> (Inside, Outside) {
    let protocol = binding.protocol.number();
    let (host, host_port): (Ipv6Addr, u16) = binding.ipv6;
    let (address, port): (Ipv4Addr, u16) = binding.ipv4;
    ((protocol, host.into(), host_port), (protocol, address.into(), port))
}

fn session_key(((protocol, address, port), remote, remote_port): &SessionKey) -> [(u32, u128); 5] {
    [
        (8, u128::from(*protocol)),
        (32, u128::from(*address)),
        (16, u128::from(*port)),
        (32, u128::from(*remote)),
        (16, u128::from(*remote_port)),
    ]
}

/// The /64 of a host.
fn subscriber(host: u128) -> u64 {
    (host >> 64) as u64
}

/// Changes a count, which ends with 0.
fn add<K: Clone + Eq + std::hash::Hash>(counts: &mut Journal<K, u32>, key: K, change: i64) {
    let count = i64::from(counts.get(&key).copied().unwrap_or(0)) + change;
    counts.set(key, u32::try_from(count).ok().filter(|count| *count > 0));
}
