//! The control plane of apps/nat44. It manages neighbours, and sessions with addresses and ports of the pool.
//!
//! Mapping and filtering are endpoint-independent (RFC 4787 REQ-1 and REQ-8, RFC 5382 REQ-1 and REQ-3): a session is an inside address, a
//! protocol, and a port or identifier. A packet from inside refreshes it (RFC 4787 REQ-6).

use std::collections::HashMap;
use std::collections::hash_map;

use abi::{Digest, Entry};
use ipnet::Ipv4Net;

use super::{Controller, Effect, Event, exact, field, matched};

const KNOWN: &str = "Nat44Ingress.known_neighbours";
const NEIGHBOURS: &str = "Nat44Ingress.neighbours";
const UP: &str = "Nat44Ingress.sessions_up";
const DOWN: &str = "Nat44Ingress.sessions_down";

const TCP: u64 = 6;
const UDP: u64 = 17;

/// The first port that is not well known. Well-known ports are mapped to well-known ports (RFC 4787 REQ-3).
const FIRST: u64 = 1024;
const PORTS: u64 = 65_536;

/// The lifetime of a session without a packet from inside, in seconds (RFC 5382 REQ-5, RFC 4787 REQ-5, RFC 5508 REQ-2).
fn lifetime(protocol: u64) -> u64 {
    match protocol {
        TCP => 7440,
        UDP => 300,
        _ => 60,
    }
}

/// Inside address; protocol; port or identifier.
type Inside = (u64, u64, u64);
/// Pool address; protocol; port or identifier.
type Outside = (u64, u64, u64);

/// The state of the control plane.
pub struct Nat44 {
    pool: Vec<u64>,
    sessions: HashMap<Inside, Outside>,
    /// The owner of each outside address and port.
    taken: HashMap<Outside, Inside>,
    /// For each pool address, the port where the search for a free port continues.
    next: HashMap<u64, u64>,
    /// The MAC address of each neighbour, by IP address and port of the switch.
    neighbours: HashMap<(u64, u64), u64>,
}

impl Nat44 {
    /// A control plane without sessions, with this pool of outside addresses.
    pub fn new(pool: Ipv4Net) -> Nat44 {
        Nat44 {
            pool: pool.hosts().map(|ip| u64::from(u32::from(ip))).collect(),
            sessions: HashMap::new(),
            taken: HashMap::new(),
            next: HashMap::new(),
            neighbours: HashMap::new(),
        }
    }

    /// Allocates an outside address and port. An inside address always has the same outside address (RFC 4787 REQ-2), and keeps its port if
    /// that is free.
    fn allocate(&mut self, inside: Inside) -> Option<Outside> {
        let (ip, protocol, id) = inside;
        let outside = *self.pool.get((ip % self.pool.len().max(1) as u64) as usize)?;
        let low = id < FIRST && protocol != 1;
        let (first, end) = if low { (1, FIRST) } else { (FIRST, PORTS) };
        let kept = (outside, protocol, id);
        if let hash_map::Entry::Vacant(free) = self.taken.entry(kept) {
            free.insert(inside);
            return Some(kept);
        }
        let start = *self.next.get(&outside).unwrap_or(&first);
        let free = (0..end - first)
            .map(|n| first + (start + n).saturating_sub(first) % (end - first))
            .find(|port| !self.taken.contains_key(&(outside, protocol, *port)))?;
        self.next.insert(outside, free + 1);
        self.taken.insert((outside, protocol, free), inside);
        Some((outside, protocol, free))
    }

    fn session(&mut self, inside: Inside) -> Vec<Effect> {
        // Packets that were already being processed report the session again. If the pool is exhausted, there is no session.
        if self.sessions.contains_key(&inside) {
            return Vec::new();
        }
        let Some(outside) = self.allocate(inside) else { return Vec::new() };
        self.sessions.insert(inside, outside);
        vec![
            Effect::Set(DOWN, down(inside, outside), None),
            Effect::Set(UP, up(inside, outside), Some(lifetime(inside.1) * 1_000_000)),
        ]
    }

    /// Ends a session: removes both of its entries, and frees its port.
    fn end(&mut self, inside: Inside) -> Vec<Effect> {
        let Some(outside) = self.sessions.remove(&inside) else { return Vec::new() };
        self.taken.remove(&outside);
        vec![Effect::Remove(UP, up(inside, outside)), Effect::Remove(DOWN, down(inside, outside))]
    }

    /// Handles a refused entry: ends the session or neighbour that the entry belonged to. The program reports it again with the next
    /// packet.
    fn refused(&mut self, table: &str, entry: &Entry) -> Vec<Effect> {
        let key = [0, 1, 2].map(|at| matched(entry, at));
        match (table, key) {
            (UP, [Some(ip), Some(protocol), Some(id)]) => self.end((ip, protocol, id)),
            (DOWN, [Some(ip), Some(protocol), Some(id)]) => {
                let inside = self.taken.get(&(ip, protocol, id)).copied();
                inside.map_or(Vec::new(), |inside| self.end(inside))
            }
            // Packets to this neighbour are still forwarded; the program only continues to report it.
            (KNOWN, [Some(ip), _, Some(port)]) => {
                self.neighbours.remove(&(ip, port));
                Vec::new()
            }
            (NEIGHBOURS, [Some(port), Some(ip), _]) => {
                let mac = self.neighbours.remove(&(ip, port));
                mac.map_or(Vec::new(), |mac| vec![Effect::Remove(KNOWN, known(ip, mac, port))])
            }
            _ => Vec::new(),
        }
    }

    fn neighbour(&mut self, ip: u64, mac: u64, port: u64) -> Vec<Effect> {
        let before = self.neighbours.insert((ip, port), mac);
        if before == Some(mac) {
            return Vec::new();
        }
        let mut effects: Vec<_> =
            before.map(|old| Effect::Remove(KNOWN, known(ip, old, port))).into_iter().collect();
        let send = exact(&[(9, port), (32, ip)], "Nat44Ingress.send", &[(48, mac)]);
        effects.push(Effect::Set(NEIGHBOURS, send, None));
        effects.push(Effect::Set(KNOWN, known(ip, mac, port), None));
        effects
    }
}

fn known(ip: u64, mac: u64, port: u64) -> Entry {
    exact(&[(32, ip), (48, mac), (9, port)], "NoAction", &[])
}

fn up((ip, protocol, id): Inside, (to, _, port): Outside) -> Entry {
    exact(&[(32, ip), (8, protocol), (16, id)], "Nat44Ingress.napt_src", &[(32, to), (16, port)])
}

fn down((ip, _, id): Inside, (to, protocol, port): Outside) -> Entry {
    exact(&[(32, to), (8, protocol), (16, port)], "Nat44Ingress.napt_dst", &[(32, ip), (16, id)])
}

impl Nat44 {
    fn digest(&mut self, digest: &Digest) -> Vec<Effect> {
        let value = |name| field(digest, name).unwrap_or(0);
        match digest.name.as_str() {
            "session_t" => self.session((value("ip"), value("protocol"), value("id"))),
            "neighbour_t" => self.neighbour(value("ip"), value("mac"), value("port")),
            _ => Vec::new(),
        }
    }

    fn idle(&mut self, table: &str, entry: &Entry) -> Vec<Effect> {
        match (table, [0, 1, 2].map(|at| matched(entry, at))) {
            (UP, [Some(ip), Some(protocol), Some(id)]) => self.end((ip, protocol, id)),
            _ => Vec::new(),
        }
    }
}

impl Controller for Nat44 {
    fn event(&mut self, _now: u64, event: Event<'_>) -> Vec<Effect> {
        match event {
            Event::Digest(digest) => self.digest(digest),
            Event::Idle(table, entry) => self.idle(table, entry),
            Event::Refused(Effect::Set(table, entry, _), _) => self.refused(table, entry),
            Event::Started(_) | Event::Refused(..) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use abi::Bits;

    use super::super::{tell, tests::Small};
    use super::*;

    fn wants(ip: u128, protocol: u128, id: u128) -> Digest {
        let field = |name: &str, width, value| (name.to_string(), Bits::new(width, value));
        let fields = vec![field("ip", 32, ip), field("protocol", 8, protocol), field("id", 16, id)];
        Digest { name: "session_t".to_string(), fields }
    }

    const POOL: u64 = 0xcb00_7101;

    fn nat() -> Nat44 {
        Nat44::new("203.0.113.1/32".parse().expect("a prefix"))
    }

    #[test]
    fn sessions_keep_their_ports_where_they_are_free_and_end_when_idle() {
        let mut nat = nat();
        let first = ((0xc000_020a, UDP, 4000), (POOL, UDP, 4000));
        assert_eq!(
            nat.digest(&wants(0xc000_020a, 17, 4000)),
            [
                Effect::Set(DOWN, down(first.0, first.1), None),
                Effect::Set(UP, up(first.0, first.1), Some(300_000_000))
            ]
        );
        assert_eq!(nat.digest(&wants(0xc000_020a, 17, 4000)), []);
        // The same port of another host, and of another protocol.
        let other = ((0xc000_020b, UDP, 4000), (POOL, UDP, 1024));
        assert_eq!(
            nat.digest(&wants(0xc000_020b, 17, 4000))[1],
            Effect::Set(UP, up(other.0, other.1), Some(300_000_000))
        );
        let tcp = ((0xc000_020b, TCP, 4000), (POOL, TCP, 4000));
        assert_eq!(
            nat.digest(&wants(0xc000_020b, 6, 4000))[1],
            Effect::Set(UP, up(tcp.0, tcp.1), Some(7_440_000_000))
        );
        let gone = nat.idle(UP, &up(first.0, first.1));
        assert_eq!(
            gone,
            [Effect::Remove(UP, up(first.0, first.1)), Effect::Remove(DOWN, down(first.0, first.1))]
        );
        let third = ((0xc000_020c, UDP, 4000), (POOL, UDP, 4000));
        assert_eq!(
            nat.digest(&wants(0xc000_020c, 17, 4000))[0],
            Effect::Set(DOWN, down(third.0, third.1), None)
        );
    }

    #[test]
    fn a_full_pool_gives_no_session_and_frees_itself() {
        let mut nat = nat();
        for host in 0..PORTS - FIRST {
            assert_eq!(nat.digest(&wants(u128::from(host), 17, 5000)).len(), 2, "host {host}");
        }
        assert_eq!(nat.digest(&wants(1 << 30, 17, 5000)), []);
        let one = (7, UDP, 5000);
        let outside = nat.sessions[&one];
        assert_eq!(nat.idle(UP, &up(one, outside)).len(), 2);
        assert_eq!(nat.digest(&wants(1 << 30, 17, 5000)).len(), 2);
    }

    #[test]
    fn a_refused_session_frees_its_port_leaves_no_entry_and_is_tried_again() {
        for full in [UP, DOWN] {
            let (mut nat, mut tables) = (nat(), Small::new(&[(full, 1)]));
            let want = |nat: &mut Nat44, tables: &mut Small, ip| {
                tell(nat, 0, Event::Digest(&wants(ip, 17, 4000)), |effect| tables.write(effect)).len()
            };
            assert_eq!(want(&mut nat, &mut tables, 0xa), 0);
            for _ in 0..3 {
                assert_eq!(want(&mut nat, &mut tables, 0xb), 1, "{full} is full");
                assert_eq!((tables.count(UP), tables.count(DOWN)), (1, 1));
                assert_eq!((nat.sessions.len(), nat.taken.len()), (1, 1));
            }
            let (inside, outside) = ((0xa, UDP, 4000), (POOL, UDP, 4000));
            tell(&mut nat, 0, Event::Idle(UP, &up(inside, outside)), |effect| tables.write(effect));
            assert_eq!((tables.count(UP), tables.count(DOWN)), (0, 0));
            assert_eq!(want(&mut nat, &mut tables, 0xb), 0);
            assert_eq!(nat.sessions[&(0xb, UDP, 4000)], outside);
        }
    }

    #[test]
    fn a_refused_neighbour_is_told_of_again() {
        let said = |ip: u128| {
            let field = |name: &str, width, value| (name.to_string(), Bits::new(width, value));
            let fields = vec![field("ip", 32, ip), field("mac", 48, ip), field("port", 9, 1)];
            Digest { name: "neighbour_t".to_string(), fields }
        };
        for (full, left) in [(KNOWN, (1, 2)), (NEIGHBOURS, (1, 1))] {
            let (mut nat, mut tables) = (nat(), Small::new(&[(full, 1)]));
            for (ip, refused) in [(0xa, 0), (0xb, 1), (0xb, 1)] {
                let digest = said(ip);
                let told = tell(&mut nat, 0, Event::Digest(&digest), |effect| tables.write(effect));
                assert_eq!(told.len(), refused);
            }
            assert_eq!((tables.count(KNOWN), tables.count(NEIGHBOURS)), left);
        }
    }
}
