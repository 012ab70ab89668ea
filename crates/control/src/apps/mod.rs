//! Built-in control planes of the bundled apps: what a controller would say over P4Runtime, in this process.
//!
//! Sans-I/O: a message, or an entry that has become idle, comes in, and table writes go out. What carries them out tells nothing back:
//! an entry that finds no room is its host's to count.

mod l2;
mod nat44;

use std::str::FromStr;

use abi::{ActionCall, Bits, Digest, Entry, MatchValue};

pub use l2::L2;
pub use nat44::Nat44;

/// What a control plane wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A new entry, or another action for one that is there; with the microseconds without a packet after which it is idle.
    Set(&'static str, Entry, Option<u64>),
    /// An entry goes; its action does not matter.
    Remove(&'static str, Entry),
    /// A multicast group has these ports.
    Group(u32, Vec<u32>),
}

/// A control plane.
pub trait Controller: Send {
    /// What it wants at first, on these ports.
    fn start(&mut self, ports: &[u32]) -> Vec<Effect>;
    /// What it makes of a message.
    fn message(&mut self, message: &Digest) -> Vec<Effect>;
    /// What it makes of an entry that no packet has hit for its time.
    fn idle(&mut self, table: &str, entry: &Entry) -> Vec<Effect>;
}

/// A built-in control plane, as the command line names it: `l2`, `l2:SECONDS`, `nat44:POOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Of apps/l2; stations are forgotten after so many seconds.
    L2(u32),
    /// Of apps/nat44, with the addresses outside.
    Nat44(ipnet::Ipv4Net),
}

impl FromStr for BuiltIn {
    type Err = String;

    fn from_str(text: &str) -> Result<BuiltIn, String> {
        let (name, arg) = text.split_once(':').map_or((text, None), |(name, arg)| (name, Some(arg)));
        match (name, arg) {
            ("l2", None) => Ok(BuiltIn::L2(l2::AGEING)),
            ("l2", Some(arg)) => match arg.parse() {
                Ok(seconds) if seconds > 0 => Ok(BuiltIn::L2(seconds)),
                _ => Err(format!("`{arg}` is no number of seconds")),
            },
            ("nat44", Some(arg)) => {
                let host = arg.parse().ok().and_then(|ip| ipnet::Ipv4Net::new(ip, 32).ok());
                let pool = host.or_else(|| arg.parse().ok());
                pool.map(BuiltIn::Nat44).ok_or_else(|| format!("`{arg}` is no IPv4 address or prefix"))
            }
            ("nat44", None) => {
                Err("nat44 needs its pool: nat44:203.0.113.1 or nat44:203.0.113.0/28".to_string())
            }
            _ => Err(format!("there is no control plane `{name}`; there are l2[:SECONDS] and nat44:POOL")),
        }
    }
}

impl BuiltIn {
    /// The program that it is for.
    pub fn program(&self) -> &'static str {
        match self {
            BuiltIn::L2(_) => "l2",
            BuiltIn::Nat44(_) => "nat44",
        }
    }

    /// It, at its beginning.
    pub fn make(&self) -> Box<dyn Controller> {
        match self {
            BuiltIn::L2(seconds) => Box::new(L2::new(*seconds)),
            BuiltIn::Nat44(pool) => Box::new(Nat44::new(*pool)),
        }
    }
}

/// A field of a message.
fn field(message: &Digest, name: &str) -> Option<u64> {
    message.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.low_u64())
}

/// An entry that matches values of these widths exactly.
fn exact(keys: &[(u32, u64)], action: &str, args: &[(u32, u64)]) -> Entry {
    let bits = |(width, value): &(u32, u64)| Bits::new(*width, u128::from(*value));
    Entry {
        matches: keys.iter().map(|key| MatchValue::Exact(bits(key))).collect(),
        priority: 0,
        action: ActionCall { action: action.to_string(), args: args.iter().map(bits).collect() },
    }
}

/// What an entry matches in one of its fields.
fn matched(entry: &Entry, at: usize) -> Option<u64> {
    match entry.matches.get(at)? {
        MatchValue::Exact(value) => Some(value.low_u64()),
        _ => None,
    }
}
