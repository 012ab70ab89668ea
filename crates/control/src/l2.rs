//! The control plane of apps/l2. It learns the port of each station and removes silent stations (IEEE 802.1D sections 7.8 and 7.9).

use abi::{Digest, Manifest};
use dataplane::device::{self, Entity, EntryKey, Update};

use crate::controller::{Controller, Effects, Event};
use crate::journal::Journal;
use crate::objects::{Exact, Fields};

/// The default ageing time in seconds, after which a silent station is removed (IEEE 802.1D table 7-5).
pub const AGEING: u32 = 300;
/// The multicast group with all ports.
const ALL: u32 = 1;

/// The state of the control plane.
pub struct L2 {
    stations: Exact,
    destinations: Exact,
    /// The source address and the port of a frame.
    learn: Fields<2>,
    ageing: u64,
    /// The port of each station.
    ports: Journal<u64, u64>,
}

impl L2 {
    /// A control plane without stations. `seconds` is the ageing time.
    pub fn new(manifest: &Manifest, seconds: u32) -> Result<L2, String> {
        Ok(L2 {
            stations: Exact::find(manifest, "L2Ingress.stations", "NoAction")?,
            destinations: Exact::find(manifest, "L2Ingress.destinations", "L2Ingress.forward")?,
            learn: Fields::find(manifest, "learn_t", ["mac", "port"])?,
            ageing: u64::from(seconds) * 1_000_000,
            ports: Journal::default(),
        })
    }

    fn seen(&mut self, digest: &Digest) -> Vec<Update> {
        let Some([mac, port]) = self.learn.values(digest) else { return Vec::new() };
        let before = self.ports.set(mac, Some(port));
        // Packets that were already being processed report the station again.
        if before == Some(port) {
            return Vec::new();
        }
        let moved = before.map(|old| self.stations.unset(&[(48, mac), (9, old)]));
        let destination = self.destinations.set(&[(48, mac)], &[(9, port)], None);
        let station = self.stations.set(&[(48, mac), (9, port)], &[], Some(self.ageing));
        moved.into_iter().chain([destination, station]).collect()
    }

    /// Removes both entries of an idle station. Frames to it are then flooded, and the program reports the station again.
    fn forget(&mut self, key: &EntryKey) -> Vec<Update> {
        let Some([mac, _]) = self.stations.values(key) else { return Vec::new() };
        let Some(port) = self.ports.set(mac, None) else { return Vec::new() };
        vec![self.stations.unset(&[(48, mac), (9, port)]), self.destinations.unset(&[(48, mac)])]
    }
}

impl Controller for L2 {
    fn event(&mut self, _now: u64, event: Event<'_>) -> Effects {
        let updates = match event {
            Event::Started(ports) => {
                let copies = ports.iter().map(|port| (0, *port)).collect();
                vec![Update::Set(Entity::Multicast { group: ALL, copies })]
            }
            Event::Found(entities) => {
                for entity in entities {
                    let Entity::Entry(entry) = entity else { continue };
                    if let Some([mac, port]) = self.stations.values(&entry.key) {
                        self.ports.set(mac, Some(port));
                    }
                }
                Vec::new()
            }
            Event::Told(device::Event::Digest(digest)) => self.seen(digest),
            Event::Told(device::Event::Idle(entry)) => self.forget(&entry.key),
            Event::Told(device::Event::Packet(_) | device::Event::Message(_)) => Vec::new(),
        };
        updates.into()
    }

    fn settled(&mut self) {
        self.ports.settle();
    }

    fn refused(&mut self, _packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        self.ports.undo();
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use dataplane::device::{Device, Key, Model};

    use super::*;
    use crate::controller::tell;
    use crate::testing::{Shape, digest, entries, idle, model};

    const STATIONS: &str = "L2Ingress.stations";
    const DESTINATIONS: &str = "L2Ingress.destinations";

    fn plane(sizes: [u64; 2]) -> (L2, Model) {
        let tables: [Shape; 2] = [
            (STATIONS, &[48, 9], "NoAction", &[], sizes[0]),
            (DESTINATIONS, &[48], "L2Ingress.forward", &[9], sizes[1]),
        ];
        let device = model("l2", &tables, &[("learn_t", &[("mac", 48), ("port", 9)])]);
        (L2::new(device.manifest(), 300).expect("the tables are there"), device)
    }

    /// Reports a station; returns the number of refused batches.
    fn seen(l2: &mut L2, device: &mut Model, mac: u64, port: u64) -> usize {
        let event = digest(device, "learn_t", &[mac, port]);
        tell(l2, 0, &[Event::Told(&event)], device).len()
    }

    #[test]
    fn stations_are_learnt_once_move_and_are_forgotten() {
        let (mut l2, mut device) = plane([8, 8]);
        tell(&mut l2, 0, &[Event::Started(&[0, 1])], &mut device);
        let group = Entity::Multicast { group: 1, copies: vec![(0, 0), (0, 1)] };
        assert_eq!(device.get(&Key::Multicast(1)), Ok(group));
        for port in [0, 0, 1] {
            assert_eq!(seen(&mut l2, &mut device, 0xa, port), 0);
            assert_eq!(entries(&mut device, STATIONS), [[0xa, port]]);
            assert_eq!(entries(&mut device, DESTINATIONS), [[0xa]]);
        }
        let silent = idle(&device, STATIONS, &[(48, 0xau64), (9, 1)]);
        tell(&mut l2, 0, &[Event::Told(&silent)], &mut device);
        assert_eq!(entries(&mut device, STATIONS).len() + entries(&mut device, DESTINATIONS).len(), 0);
        assert_eq!(seen(&mut l2, &mut device, 0xa, 1), 0);
        assert_eq!(entries(&mut device, STATIONS), [[0xa, 1]]);
    }

    #[test]
    fn a_station_without_room_leaves_nothing_and_is_learnt_when_there_is_room() {
        for sizes in [[1, 2], [2, 1]] {
            let (mut l2, mut device) = plane(sizes);
            assert_eq!(seen(&mut l2, &mut device, 0xa, 0), 0);
            for _ in 0..2 {
                assert_eq!(seen(&mut l2, &mut device, 0xb, 0), 1, "there is room for one of {sizes:?}");
                assert_eq!(entries(&mut device, STATIONS), [[0xa, 0]]);
                assert_eq!(entries(&mut device, DESTINATIONS), [[0xa]]);
            }
            let silent = idle(&device, STATIONS, &[(48, 0xau64), (9, 0)]);
            tell(&mut l2, 0, &[Event::Told(&silent)], &mut device);
            assert_eq!(seen(&mut l2, &mut device, 0xb, 0), 0);
            assert_eq!(entries(&mut device, STATIONS), [[0xb, 0]]);
        }
    }

    #[test]
    fn a_station_whose_move_is_refused_stays_where_it_is() {
        let (mut l2, mut device) = plane([8, 8]);
        seen(&mut l2, &mut device, 0xa, 0);
        device.refuses_after = Some(1);
        assert_eq!(seen(&mut l2, &mut device, 0xa, 1), 1);
        assert_eq!(entries(&mut device, STATIONS), [[0xa, 0]]);
        assert_eq!(seen(&mut l2, &mut device, 0xa, 1), 0);
        assert_eq!(entries(&mut device, STATIONS), [[0xa, 1]]);
    }
}
