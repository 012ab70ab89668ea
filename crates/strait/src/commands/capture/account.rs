//! What is known about a packet.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// A drop reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub name: String,
    /// The place in the P4 source.
    pub place: Option<String>,
}

impl Reason {
    /// The drop reasons of a program, by number.
    pub fn all(manifest: &abi::Manifest) -> Vec<Reason> {
        let reason =
            |r: &abi::manifest::DropReason| Reason { name: r.name.clone(), place: r.location.clone() };
        manifest.drops.iter().map(reason).collect()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} at {place}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// A packet that arrived, and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Its number in the capture, from 1 on.
    pub number: u64,
    /// The time when it arrived, since 1970 (UTC).
    pub time: Duration,
    /// The port where it arrived.
    pub port: u32,
    /// Its bytes, as they arrived.
    pub arrived: Vec<u8>,
    /// The packets that left because of it.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// The reasons for which it, or copies of it, were dropped.
    pub dropped: Vec<Reason>,
    /// What is uncertain.
    pub doubt: Option<String>,
    /// Its path through the program, if that was wanted: as text, and as a list of events.
    pub path: Option<String>,
    pub events: Option<Value>,
}

impl Account {
    /// What became of the packet, in a line.
    pub fn verdict(&self) -> String {
        let mut parts = Vec::new();
        let ports: Vec<String> = self.sent.iter().map(|(port, _)| port.to_string()).collect();
        match &ports[..] {
            [] => {}
            [port] => parts.push(format!("sent on port {port}")),
            several => parts.push(format!("sent on ports {}", several.join(", "))),
        }
        parts.extend(self.dropped.iter().map(|reason| format!("dropped: {reason}")));
        if parts.is_empty() && self.doubt.is_none() {
            parts.push("nothing left".to_string());
        }
        parts.extend(self.doubt.clone());
        parts.join("; ")
    }
}
