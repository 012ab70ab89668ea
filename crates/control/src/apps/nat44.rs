//! The control plane of apps/nat44: neighbours, and sessions with the pool's addresses and ports.
//!
//! Mapping and filtering are endpoint-independent (RFC 4787 REQ-1 and REQ-8, RFC 5382 REQ-1 and REQ-3): a session is an inside address,
//! a protocol and a port or identifier. A packet from inside keeps it alive (RFC 4787 REQ-6).

use std::collections::{HashMap, HashSet};

use abi::{Digest, Entry};
use ipnet::Ipv4Net;

use super::{Controller, Effect, exact, field, matched};

const KNOWN: &str = "Nat44Ingress.known_neighbours";
const NEIGHBOURS: &str = "Nat44Ingress.neighbours";
const UP: &str = "Nat44Ingress.sessions_up";
const DOWN: &str = "Nat44Ingress.sessions_down";

const TCP: u64 = 6;
const UDP: u64 = 17;

/// Ports below this are well known, and stay so (RFC 4787 REQ-3).
const FIRST: u64 = 1024;
const PORTS: u64 = 65_536;

/// Seconds that a session lives without a packet from inside: RFC 5382 REQ-5, RFC 4787 REQ-5, RFC 5508 REQ-2.
fn lifetime(protocol: u64) -> u64 {
    match protocol {
        TCP => 7440,
        UDP => 300,
        _ => 60,
    }
}

/// Inside address, protocol, port or identifier.
type Inside = (u64, u64, u64);
/// Pool address, protocol, port or identifier.
type Outside = (u64, u64, u64);

/// What it knows.
pub struct Nat44 {
    pool: Vec<u64>,
    sessions: HashMap<Inside, Outside>,
    taken: HashSet<Outside>,
    /// Where the search for a free port goes on, of each pool address.
    next: HashMap<u64, u64>,
    /// By address and port: the MAC address.
    neighbours: HashMap<(u64, u64), u64>,
}

impl Nat44 {
    /// Nobody yet; these are the addresses outside.
    pub fn new(pool: Ipv4Net) -> Nat44 {
        Nat44 {
            pool: pool.hosts().map(|ip| u64::from(u32::from(ip))).collect(),
            sessions: HashMap::new(),
            taken: HashSet::new(),
            next: HashMap::new(),
            neighbours: HashMap::new(),
        }
    }

    /// A free address and port. An inside address has the same one outside always (RFC 4787 REQ-2), and keeps its port where it is
    /// free.
    fn allocate(&mut self, (ip, protocol, id): Inside) -> Option<Outside> {
        let outside = *self.pool.get((ip % self.pool.len().max(1) as u64) as usize)?;
        let low = id < FIRST && protocol != 1;
        let (first, end) = if low { (1, FIRST) } else { (FIRST, PORTS) };
        let kept = (outside, protocol, id);
        if self.taken.insert(kept) {
            return Some(kept);
        }
        let start = *self.next.get(&outside).unwrap_or(&first);
        let free = (0..end - first)
            .map(|n| first + (start + n).saturating_sub(first) % (end - first))
            .find(|port| !self.taken.contains(&(outside, protocol, *port)))?;
        self.next.insert(outside, free + 1);
        self.taken.insert((outside, protocol, free));
        Some((outside, protocol, free))
    }

    fn session(&mut self, inside: Inside) -> Vec<Effect> {
        // Packets that were on their way tell it again; a full pool tells nothing.
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

    fn neighbour(&mut self, ip: u64, mac: u64, port: u64) -> Vec<Effect> {
        let before = self.neighbours.insert((ip, port), mac);
        if before == Some(mac) {
            return Vec::new();
        }
        let known = |mac| exact(&[(32, ip), (48, mac), (9, port)], "NoAction", &[]);
        let mut effects: Vec<_> = before.map(|old| Effect::Remove(KNOWN, known(old))).into_iter().collect();
        let send = exact(&[(9, port), (32, ip)], "Nat44Ingress.send", &[(48, mac)]);
        effects.push(Effect::Set(NEIGHBOURS, send, None));
        effects.push(Effect::Set(KNOWN, known(mac), None));
        effects
    }
}

fn up((ip, protocol, id): Inside, (to, _, port): Outside) -> Entry {
    exact(&[(32, ip), (8, protocol), (16, id)], "Nat44Ingress.napt_src", &[(32, to), (16, port)])
}

fn down((ip, _, id): Inside, (to, protocol, port): Outside) -> Entry {
    exact(&[(32, to), (8, protocol), (16, port)], "Nat44Ingress.napt_dst", &[(32, ip), (16, id)])
}

impl Controller for Nat44 {
    fn start(&mut self, _ports: &[u32]) -> Vec<Effect> {
        Vec::new()
    }

    fn message(&mut self, message: &Digest) -> Vec<Effect> {
        let value = |name| field(message, name).unwrap_or(0);
        match message.name.as_str() {
            "session_t" => self.session((value("ip"), value("protocol"), value("id"))),
            "neighbour_t" => self.neighbour(value("ip"), value("mac"), value("port")),
            _ => Vec::new(),
        }
    }

    fn idle(&mut self, table: &str, entry: &Entry) -> Vec<Effect> {
        let key = [0, 1, 2].map(|at| matched(entry, at));
        let (UP, [Some(ip), Some(protocol), Some(id)]) = (table, key) else { return Vec::new() };
        let inside = (ip, protocol, id);
        let Some(outside) = self.sessions.remove(&inside) else { return Vec::new() };
        self.taken.remove(&outside);
        vec![Effect::Remove(UP, up(inside, outside)), Effect::Remove(DOWN, down(inside, outside))]
    }
}

#[cfg(test)]
mod tests {
    use abi::Bits;

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
            nat.message(&wants(0xc000_020a, 17, 4000)),
            [
                Effect::Set(DOWN, down(first.0, first.1), None),
                Effect::Set(UP, up(first.0, first.1), Some(300_000_000))
            ]
        );
        assert_eq!(nat.message(&wants(0xc000_020a, 17, 4000)), []);
        // The same port of another host, and of another protocol.
        let other = ((0xc000_020b, UDP, 4000), (POOL, UDP, 1024));
        assert_eq!(
            nat.message(&wants(0xc000_020b, 17, 4000))[1],
            Effect::Set(UP, up(other.0, other.1), Some(300_000_000))
        );
        let tcp = ((0xc000_020b, TCP, 4000), (POOL, TCP, 4000));
        assert_eq!(
            nat.message(&wants(0xc000_020b, 6, 4000))[1],
            Effect::Set(UP, up(tcp.0, tcp.1), Some(7_440_000_000))
        );
        let gone = nat.idle(UP, &up(first.0, first.1));
        assert_eq!(
            gone,
            [Effect::Remove(UP, up(first.0, first.1)), Effect::Remove(DOWN, down(first.0, first.1))]
        );
        let third = ((0xc000_020c, UDP, 4000), (POOL, UDP, 4000));
        assert_eq!(
            nat.message(&wants(0xc000_020c, 17, 4000))[0],
            Effect::Set(DOWN, down(third.0, third.1), None)
        );
    }

    #[test]
    fn a_full_pool_gives_no_session_and_frees_itself() {
        let mut nat = nat();
        for host in 0..PORTS - FIRST {
            assert_eq!(nat.message(&wants(u128::from(host), 17, 5000)).len(), 2, "host {host}");
        }
        assert_eq!(nat.message(&wants(1 << 30, 17, 5000)), []);
        let one = (7, UDP, 5000);
        let outside = nat.sessions[&one];
        assert_eq!(nat.idle(UP, &up(one, outside)).len(), 2);
        assert_eq!(nat.message(&wants(1 << 30, 17, 5000)).len(), 2);
    }
}
