//! The control plane of apps/l2: stations and their ports, learnt and forgotten (IEEE 802.1D sections 7.8 and 7.9).

use std::collections::HashMap;

use abi::{Digest, Entry};

use super::{Controller, Effect, exact, field, matched};

/// Seconds after which a silent station is forgotten (IEEE 802.1D table 7-5).
pub const AGEING: u32 = 300;
/// The group that has all ports.
const ALL: u32 = 1;

const STATIONS: &str = "L2Ingress.stations";
const DESTINATIONS: &str = "L2Ingress.destinations";

/// What it knows.
pub struct L2 {
    ageing: u64,
    ports: HashMap<u64, u64>,
}

impl L2 {
    /// Nobody yet.
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

impl Controller for L2 {
    fn start(&mut self, ports: &[u32]) -> Vec<Effect> {
        vec![Effect::Group(ALL, ports.to_vec())]
    }

    fn message(&mut self, message: &Digest) -> Vec<Effect> {
        let (Some(mac), Some(port)) = (field(message, "mac"), field(message, "port")) else {
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

    fn idle(&mut self, table: &str, entry: &Entry) -> Vec<Effect> {
        let (STATIONS, Some(mac)) = (table, matched(entry, 0)) else { return Vec::new() };
        let Some(port) = self.ports.remove(&mac) else { return Vec::new() };
        vec![
            Effect::Remove(STATIONS, station(mac, port)),
            Effect::Remove(DESTINATIONS, destination(mac, port)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use abi::Bits;

    use super::*;

    fn seen(mac: u128, port: u128) -> Digest {
        let fields = vec![("mac".to_string(), Bits::new(48, mac)), ("port".to_string(), Bits::new(9, port))];
        Digest { name: "learn_t".to_string(), fields }
    }

    #[test]
    fn stations_are_learnt_once_move_and_are_forgotten() {
        let mut l2 = L2::new(300);
        assert_eq!(l2.start(&[0, 1]), [Effect::Group(1, vec![0, 1])]);
        assert_eq!(
            l2.message(&seen(0xa, 0)),
            [
                Effect::Set(DESTINATIONS, destination(0xa, 0), None),
                Effect::Set(STATIONS, station(0xa, 0), Some(300_000_000)),
            ]
        );
        // Packets that were on their way tell it again.
        assert_eq!(l2.message(&seen(0xa, 0)), []);
        assert_eq!(l2.message(&seen(0xa, 1))[0], Effect::Remove(STATIONS, station(0xa, 0)));
        assert_eq!(
            l2.idle(STATIONS, &station(0xa, 1)),
            [Effect::Remove(STATIONS, station(0xa, 1)), Effect::Remove(DESTINATIONS, destination(0xa, 1))]
        );
        assert_eq!(l2.message(&seen(0xa, 1)).len(), 2);
    }
}
