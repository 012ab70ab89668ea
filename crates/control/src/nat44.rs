//! The control plane of apps/nat44. It manages neighbours, and sessions with addresses and ports of the pool.
//!
//! Mapping and filtering are endpoint-independent (RFC 4787 REQ-1 and REQ-8, RFC 5382 REQ-1 and REQ-3): a session is an inside address, a
//! protocol, and a port or identifier. A packet from inside refreshes it (RFC 4787 REQ-6).

use std::collections::HashMap;

use abi::{Digest, Manifest};
use dataplane::device::{self, Entity, EntryKey, Update};
use ipnet::Ipv4Net;

use crate::controller::{Controller, Effects, Event};
use crate::journal::Journal;
use crate::objects::{Exact, Fields, args};

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
    tables: Tables,
    /// The inside address, protocol, and port or identifier of a session that begins.
    began: Fields<3>,
    /// The address, MAC address and port of a neighbour.
    seen: Fields<3>,
    pool: Vec<u64>,
    sessions: Journal<Inside, Outside>,
    /// The owner of each outside address and port.
    taken: Journal<Outside, Inside>,
    /// For each pool address, the port where the search for a free port continues.
    next: HashMap<u64, u64>,
    /// The MAC address of each neighbour, by IP address and port of the switch.
    neighbours: Journal<(u64, u64), u64>,
}

/// The tables of the program that change while it runs.
struct Tables {
    known: Exact,
    neighbours: Exact,
    up: Exact,
    down: Exact,
}

impl Nat44 {
    /// A control plane without sessions, with this pool of outside addresses.
    pub fn new(manifest: &Manifest, pool: Ipv4Net) -> Result<Nat44, String> {
        let find =
            |table: &str, action: &str| Exact::find(manifest, &format!("Nat44Ingress.{table}"), action);
        Ok(Nat44 {
            tables: Tables {
                known: find("known_neighbours", "NoAction")?,
                neighbours: find("neighbours", "Nat44Ingress.send")?,
                up: find("sessions_up", "Nat44Ingress.napt_src")?,
                down: find("sessions_down", "Nat44Ingress.napt_dst")?,
            },
            began: Fields::find(manifest, "session_t", ["ip", "protocol", "id"])?,
            seen: Fields::find(manifest, "neighbour_t", ["ip", "mac", "port"])?,
            pool: pool.hosts().map(|ip| u64::from(u32::from(ip))).collect(),
            sessions: Journal::default(),
            taken: Journal::default(),
            next: HashMap::new(),
            neighbours: Journal::default(),
        })
    }

    /// Allocates an outside address and port. An inside address always has the same outside address (RFC 4787 REQ-2), and keeps its port if
    /// that is free.
    fn allocate(&mut self, inside: Inside) -> Option<Outside> {
        let (ip, protocol, id) = inside;
        let outside = *self.pool.get((ip % self.pool.len().max(1) as u64) as usize)?;
        let low = id < FIRST && protocol != 1;
        let (first, end) = if low { (1, FIRST) } else { (FIRST, PORTS) };
        let kept = (outside, protocol, id);
        if !self.taken.contains(&kept) {
            self.taken.set(kept, Some(inside));
            return Some(kept);
        }
        let start = *self.next.get(&outside).unwrap_or(&first);
        let free = (0..end - first)
            .map(|n| first + (start + n).saturating_sub(first) % (end - first))
            .find(|port| !self.taken.contains(&(outside, protocol, *port)))?;
        self.next.insert(outside, free + 1);
        self.taken.set((outside, protocol, free), Some(inside));
        Some((outside, protocol, free))
    }

    /// Begins a session: a batch with an entry for each direction.
    fn session(&mut self, inside: Inside) -> Vec<Update> {
        // Packets that were already being processed report the session again. If the pool is exhausted, there is no session.
        if self.sessions.contains(&inside) {
            return Vec::new();
        }
        let Some(outside) = self.allocate(inside) else { return Vec::new() };
        self.sessions.set(inside, Some(outside));
        let (ip, protocol, id) = inside;
        let (to, _, port) = outside;
        let idle = Some(lifetime(protocol) * 1_000_000);
        vec![
            self.tables.down.set(&tuple(outside), &[(32, ip), (16, id)], None),
            self.tables.up.set(&tuple(inside), &[(32, to), (16, port)], idle),
        ]
    }

    /// Ends a session: removes both of its entries, and frees its port.
    fn end(&mut self, inside: Inside) -> Vec<Update> {
        let Some(outside) = self.sessions.set(inside, None) else { return Vec::new() };
        self.taken.set(outside, None);
        vec![self.tables.up.unset(&tuple(inside)), self.tables.down.unset(&tuple(outside))]
    }

    /// Takes a session or a neighbour over that the device has.
    fn found(&mut self, entity: &Entity) {
        let Entity::Entry(entry) = entity else { return };
        if let (Some([ip, protocol, id]), Some([to, port])) = (self.tables.up.values(&entry.key), args(entry))
        {
            let (inside, outside) = ((ip, protocol, id), (to, protocol, port));
            self.sessions.set(inside, Some(outside));
            self.taken.set(outside, Some(inside));
        }
        if let Some([ip, mac, port]) = self.tables.known.values(&entry.key) {
            self.neighbours.set((ip, port), Some(mac));
        }
    }

    fn neighbour(&mut self, ip: u64, mac: u64, port: u64) -> Vec<Update> {
        let before = self.neighbours.set((ip, port), Some(mac));
        if before == Some(mac) {
            return Vec::new();
        }
        let moved = before.map(|old| self.tables.known.unset(&[(32, ip), (48, old), (9, port)]));
        let neighbour = self.tables.neighbours.set(&[(9, port), (32, ip)], &[(48, mac)], None);
        let known = self.tables.known.set(&[(32, ip), (48, mac), (9, port)], &[], None);
        moved.into_iter().chain([neighbour, known]).collect()
    }

    fn digest(&mut self, digest: &Digest) -> Vec<Update> {
        if let Some([ip, protocol, id]) = self.began.values(digest) {
            return self.session((ip, protocol, id));
        }
        let neighbour = self.seen.values(digest);
        neighbour.map_or(Vec::new(), |[ip, mac, port]| self.neighbour(ip, mac, port))
    }

    fn idle(&mut self, key: &EntryKey) -> Vec<Update> {
        let session = self.tables.up.values(key);
        session.map_or(Vec::new(), |[ip, protocol, id]| self.end((ip, protocol, id)))
    }
}

/// The key of a session's entry: address, protocol, port or identifier.
fn tuple((ip, protocol, id): (u64, u64, u64)) -> [(u32, u64); 3] {
    [(32, ip), (8, protocol), (16, id)]
}

impl Controller for Nat44 {
    fn event(&mut self, _now: u64, event: Event<'_>) -> Effects {
        let updates = match event {
            Event::Found(entities) => {
                entities.iter().for_each(|entity| self.found(entity));
                Vec::new()
            }
            Event::Told(device::Event::Digest(digest)) => self.digest(digest),
            Event::Told(device::Event::Idle(entry)) => self.idle(&entry.key),
            Event::Started(_) | Event::Told(device::Event::Packet(_) | device::Event::Message(_)) => {
                Vec::new()
            }
        };
        updates.into()
    }

    fn settled(&mut self) {
        self.sessions.settle();
        self.taken.settle();
        self.neighbours.settle();
    }

    fn refused(&mut self, _packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        self.sessions.undo();
        self.taken.undo();
        self.neighbours.undo();
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use dataplane::device::{Device, Model};

    use super::*;
    use crate::controller::tell;
    use crate::testing::{Shape, Told, digest, entries, idle, model};

    const KNOWN: &str = "Nat44Ingress.known_neighbours";
    const NEIGHBOURS: &str = "Nat44Ingress.neighbours";
    const UP: &str = "Nat44Ingress.sessions_up";
    const DOWN: &str = "Nat44Ingress.sessions_down";
    const POOL: u64 = 0xcb00_7101;
    const DIGESTS: [Told; 2] = [
        ("session_t", &[("ip", 32), ("protocol", 8), ("id", 16)]),
        ("neighbour_t", &[("ip", 32), ("mac", 48), ("port", 9)]),
    ];

    /// A control plane, and a device whose tables have this size, except one.
    fn plane(size: u64, (small, one): (&str, u64)) -> (Nat44, Model) {
        let of = |table| if table == small { one } else { size };
        let tables: [Shape; 4] = [
            (KNOWN, &[32, 48, 9], "NoAction", &[], of(KNOWN)),
            (NEIGHBOURS, &[9, 32], "Nat44Ingress.send", &[48], of(NEIGHBOURS)),
            (UP, &[32, 8, 16], "Nat44Ingress.napt_src", &[32, 16], of(UP)),
            (DOWN, &[32, 8, 16], "Nat44Ingress.napt_dst", &[32, 16], of(DOWN)),
        ];
        let device = model("nat44", &tables, &DIGESTS);
        let pool = "203.0.113.1/32".parse().expect("a prefix");
        (Nat44::new(device.manifest(), pool).expect("the tables are there"), device)
    }

    /// Reports a session; returns the number of refused batches.
    fn wants(nat: &mut Nat44, device: &mut Model, (ip, protocol, id): Inside) -> usize {
        let event = digest(device, "session_t", &[ip, protocol, id]);
        tell(nat, 0, &[Event::Told(&event)], device).len()
    }

    fn ends(nat: &mut Nat44, device: &mut Model, inside: Inside) {
        let event = idle(device, UP, &tuple(inside));
        tell(nat, 0, &[Event::Told(&event)], device);
    }

    #[test]
    fn sessions_keep_their_ports_where_they_are_free_and_end_when_idle() {
        let (mut nat, mut device) = plane(8, ("", 0));
        let first = (0xc000_020a, UDP, 4000);
        for _ in 0..2 {
            assert_eq!(wants(&mut nat, &mut device, first), 0);
            assert_eq!(entries(&mut device, UP), [[first.0, UDP, 4000]]);
            assert_eq!(entries(&mut device, DOWN), [[POOL, UDP, 4000]]);
        }
        // The same port of another host, and of another protocol.
        wants(&mut nat, &mut device, (0xc000_020b, UDP, 4000));
        wants(&mut nat, &mut device, (0xc000_020b, TCP, 4000));
        let down = entries(&mut device, DOWN);
        assert_eq!(down, [[POOL, TCP, 4000], [POOL, UDP, 1024], [POOL, UDP, 4000]]);
        ends(&mut nat, &mut device, first);
        assert_eq!((entries(&mut device, UP).len(), entries(&mut device, DOWN).len()), (2, 2));
        wants(&mut nat, &mut device, (0xc000_020c, UDP, 4000));
        assert_eq!(entries(&mut device, DOWN)[2], [POOL, UDP, 4000]);
    }

    #[test]
    fn a_full_pool_gives_no_session_and_frees_itself() {
        let mut nat = plane(8, ("", 0)).0;
        for host in 0..PORTS - FIRST {
            assert_eq!(nat.session((host, UDP, 5000)).len(), 2, "host {host}");
        }
        assert_eq!(nat.session((1 << 30, UDP, 5000)), []);
        assert_eq!(nat.end((7, UDP, 5000)).len(), 2);
        assert_eq!(nat.session((1 << 30, UDP, 5000)).len(), 2);
    }

    #[test]
    fn a_refused_session_frees_its_port_leaves_no_entry_and_is_tried_again() {
        for full in [UP, DOWN] {
            let (mut nat, mut device) = plane(2, (full, 1));
            assert_eq!(wants(&mut nat, &mut device, (0xa, UDP, 4000)), 0);
            for _ in 0..3 {
                assert_eq!(wants(&mut nat, &mut device, (0xb, UDP, 4000)), 1, "{full} is full");
                assert_eq!((entries(&mut device, UP).len(), entries(&mut device, DOWN).len()), (1, 1));
                assert_eq!((nat.sessions.len(), nat.taken.len()), (1, 1));
            }
            ends(&mut nat, &mut device, (0xa, UDP, 4000));
            assert_eq!((entries(&mut device, UP).len(), entries(&mut device, DOWN).len()), (0, 0));
            assert_eq!(wants(&mut nat, &mut device, (0xb, UDP, 4000)), 0);
            assert_eq!(nat.sessions.get(&(0xb, UDP, 4000)), Some(&(POOL, UDP, 4000)));
        }
    }

    #[test]
    fn a_refused_neighbour_is_told_of_again() {
        let said = |device: &Model, ip: u64, mac: u64| digest(device, "neighbour_t", &[ip, mac, 1]);
        for full in [KNOWN, NEIGHBOURS] {
            let (mut nat, mut device) = plane(2, (full, 1));
            for (ip, refused) in [(0xa, 0), (0xb, 1), (0xb, 1)] {
                let event = said(&device, ip, ip);
                let told = tell(&mut nat, 0, &[Event::Told(&event)], &mut device);
                assert_eq!(told.len(), refused);
                assert_eq!(
                    (entries(&mut device, KNOWN).len(), entries(&mut device, NEIGHBOURS).len()),
                    (1, 1)
                );
            }
            // A neighbour with a new address takes no more room. If the change is refused, the old address stays known.
            device.refuses_after = Some(2);
            for refused in [1, 0] {
                let event = said(&device, 0xa, 0xc);
                assert_eq!(tell(&mut nat, 0, &[Event::Told(&event)], &mut device).len(), refused);
                let mac = if refused == 1 { 0xa } else { 0xc };
                assert_eq!(entries(&mut device, KNOWN), [[0xa, mac, 1]]);
            }
        }
    }
}
