//! The control plane of apps/l2. It learns the port of each station and removes silent stations (IEEE 802.1D sections 7.8 and 7.9).

use std::collections::HashMap;

use abi::{Digest, Entry};

use super::{Controller, Effect, Event, exact, field, matched};

/// The default ageing time in seconds, after which a silent station is removed (IEEE 802.1D table 7-5).
pub const AGEING: u32 = 300;
/// The multicast group with all ports.
const ALL: u32 = 1;

const STATIONS: &str = "L2Ingress.stations";
const DESTINATIONS: &str = "L2Ingress.destinations";

/// The state of the control plane.
pub struct L2 {
    ageing: u64,
    ports: HashMap<u64, u64>,
}

impl L2 {
    /// A control plane without stations. `seconds` is the ageing time.
    pub fn new(seconds: u32) -> L2 {
        L2 { ageing: u64::from(seconds) * 1_000_000, ports: HashMap::new() }
    }
}

fn station(mac: u64, port: u64) -> Entry {
    exact(&[(48, mac), (9, port)], "NoAction", &[])
}

fn destination(mac: u64, port: u64) -> Entry {
    exact(&[(48, mac)], "L2Ingress.forward", &[(9, port)])
}

impl L2 {
    fn seen(&mut self, digest: &Digest) -> Vec<Effect> {
        let (Some(mac), Some(port)) = (field(digest, "mac"), field(digest, "port")) else {
            return Vec::new();
        };
        let before = self.ports.insert(mac, port);
        if before == Some(port) {
            return Vec::new();
        }
        let mut effects: Vec<_> =
            before.map(|old| Effect::Remove(STATIONS, station(mac, old))).into_iter().collect();
        effects.push(Effect::Set(DESTINATIONS, destination(mac, port), None));
        effects.push(Effect::Set(STATIONS, station(mac, port), Some(self.ageing)));
        effects
    }

    /// Handles a station that is idle or that one of the tables refused: removes both of its entries. Frames to the station are then
    /// flooded, and the program reports the station again.
    fn forget(&mut self, entry: &Entry) -> Vec<Effect> {
        let Some(mac) = matched(entry, 0) else { return Vec::new() };
        let Some(port) = self.ports.remove(&mac) else { return Vec::new() };
        vec![
            Effect::Remove(STATIONS, station(mac, port)),
            Effect::Remove(DESTINATIONS, destination(mac, port)),
        ]
    }
}

impl Controller for L2 {
    fn event(&mut self, _now: u64, event: Event<'_>) -> Vec<Effect> {
        match event {
            Event::Started(ports) => vec![Effect::Group(ALL, ports.to_vec())],
            Event::Digest(digest) => self.seen(digest),
            Event::Idle(STATIONS, entry) => self.forget(entry),
            Event::Refused(Effect::Set(STATIONS | DESTINATIONS, entry, _), _) => self.forget(entry),
            Event::Idle(..) | Event::Refused(..) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use abi::Bits;

    use super::super::{tell, tests::Small};
    use super::*;

    fn seen(mac: u128, port: u128) -> Digest {
        let fields = vec![("mac".to_string(), Bits::new(48, mac)), ("port".to_string(), Bits::new(9, port))];
        Digest { name: "learn_t".to_string(), fields }
    }

    #[test]
    fn stations_are_learnt_once_move_and_are_forgotten() {
        let mut l2 = L2::new(300);
        assert_eq!(l2.event(0, Event::Started(&[0, 1])), [Effect::Group(1, vec![0, 1])]);
        assert_eq!(
            l2.event(0, Event::Digest(&seen(0xa, 0))),
            [
                Effect::Set(DESTINATIONS, destination(0xa, 0), None),
                Effect::Set(STATIONS, station(0xa, 0), Some(300_000_000)),
            ]
        );
        // Packets that were already being processed report the station again.
        assert_eq!(l2.event(0, Event::Digest(&seen(0xa, 0))), []);
        assert_eq!(l2.event(0, Event::Digest(&seen(0xa, 1)))[0], Effect::Remove(STATIONS, station(0xa, 0)));
        assert_eq!(
            l2.event(0, Event::Idle(STATIONS, &station(0xa, 1))),
            [Effect::Remove(STATIONS, station(0xa, 1)), Effect::Remove(DESTINATIONS, destination(0xa, 1))]
        );
        assert_eq!(l2.event(0, Event::Digest(&seen(0xa, 1))).len(), 2);
    }

    #[test]
    fn a_station_without_room_is_forgotten_and_learnt_when_there_is_room() {
        for full in [STATIONS, DESTINATIONS] {
            let (mut l2, mut tables) = (L2::new(300), Small::new(&[(full, 1)]));
            let learn = |l2: &mut L2, tables: &mut Small, mac| {
                tell(l2, 0, Event::Digest(&seen(mac, 0)), |effect| tables.write(effect)).len()
            };
            assert_eq!(learn(&mut l2, &mut tables, 0xa), 0);
            assert_eq!(learn(&mut l2, &mut tables, 0xb), 1, "{full} is full");
            assert_eq!((tables.count(STATIONS), tables.count(DESTINATIONS)), (1, 1));
            tell(&mut l2, 0, Event::Idle(STATIONS, &station(0xa, 0)), |effect| tables.write(effect));
            assert_eq!(learn(&mut l2, &mut tables, 0xb), 0);
            assert_eq!((tables.count(STATIONS), tables.count(DESTINATIONS)), (1, 1));
        }
    }
}
