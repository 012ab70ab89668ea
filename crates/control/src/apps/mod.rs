//! Built-in control planes of the bundled apps. They run in this process, and do what an external controller would do over P4Runtime.
//!
//! They are sans-I/O: the input is an [`Event`] and the time, and the output is [`Effect`]s. [`tell`] passes an event to a control plane
//! and lets its caller execute the effects. It reports refused effects to the control plane, so that the control plane never assumes an
//! entry that does not exist.

mod l2;
mod nat44;

use std::collections::VecDeque;
use std::str::FromStr;

use abi::{ActionCall, Bits, Digest, Entry, MatchValue};
use dataplane::TableError;

pub use l2::L2;
pub use nat44::Nat44;

/// An action that a control plane requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds an entry to a table, or changes the action of an existing one. The number is the entry's idle timeout in microseconds.
    Set(&'static str, Entry, Option<u64>),
    /// Removes an entry from a table, if it exists. The entry's action is ignored.
    Remove(&'static str, Entry),
    /// Sets the ports of a multicast group.
    Group(u32, Vec<u32>),
}

/// An event that a control plane handles.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The program has started, with these ports.
    Started(&'a [u32]),
    /// The program sent a digest.
    Digest(&'a Digest),
    /// No packet has hit this entry of a table for its idle timeout.
    Idle(&'a str, &'a Entry),
    /// A table refused a write of this control plane.
    Refused(&'a Effect, &'a TableError),
}

/// A control plane of one program.
pub trait Controller: Send {
    /// Handles an event, and returns the effects that it requests. `now` is in microseconds and never decreases.
    fn event(&mut self, now: u64, event: Event<'_>) -> Vec<Effect>;
}

/// Passes an event to a control plane, and executes the requested effects in order with `write`. Refused effects are in turn events for the
/// control plane. Returns the refused effects. Removing an entry that does not exist is not refused.
pub fn tell(
    controller: &mut dyn Controller,
    now: u64,
    event: Event<'_>,
    mut write: impl FnMut(&Effect) -> Result<(), TableError>,
) -> Vec<(Effect, TableError)> {
    let mut wanted = VecDeque::from(controller.event(now, event));
    let mut refused = Vec::new();
    while let Some(effect) = wanted.pop_front() {
        match write(&effect) {
            Ok(()) => {}
            Err(TableError::NotFound(_)) if matches!(effect, Effect::Remove(..)) => {}
            Err(error) => {
                wanted.extend(controller.event(now, Event::Refused(&effect, &error)));
                refused.push((effect, error));
            }
        }
    }
    refused
}

/// A built-in control plane with its arguments, as on the command line: `l2`, `l2:SECONDS`, `nat44:POOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// The control plane of apps/l2. Stations are removed after this number of seconds.
    L2(u32),
    /// The control plane of apps/nat44, with its pool of outside addresses.
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
    /// The name of the app's program.
    pub fn program(&self) -> &'static str {
        match self {
            BuiltIn::L2(_) => "l2",
            BuiltIn::Nat44(_) => "nat44",
        }
    }

    /// Constructs the control plane in its initial state.
    pub fn make(&self) -> Box<dyn Controller> {
        match self {
            BuiltIn::L2(seconds) => Box::new(L2::new(*seconds)),
            BuiltIn::Nat44(pool) => Box::new(Nat44::new(*pool)),
        }
    }
}

/// The value of a digest's field.
fn field(digest: &Digest, name: &str) -> Option<u64> {
    digest.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.low_u64())
}

/// An entry with exact match values, each given as width and value.
fn exact(keys: &[(u32, u64)], action: &str, args: &[(u32, u64)]) -> Entry {
    let bits = |(width, value): &(u32, u64)| Bits::new(*width, u128::from(*value));
    Entry {
        matches: keys.iter().map(|key| MatchValue::Exact(bits(key))).collect(),
        priority: 0,
        action: ActionCall { action: action.to_string(), args: args.iter().map(bits).collect() },
    }
}

/// The exact match value of an entry's field.
fn matched(entry: &Entry, at: usize) -> Option<u64> {
    match entry.matches.get(at)? {
        MatchValue::Exact(value) => Some(value.low_u64()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Tables with a limited number of entries each.
    pub(super) struct Small {
        pub room: HashMap<&'static str, usize>,
        pub entries: Vec<(&'static str, Entry)>,
    }

    impl Small {
        pub fn new(room: &[(&'static str, usize)]) -> Small {
            Small { room: room.iter().copied().collect(), entries: Vec::new() }
        }

        pub fn count(&self, table: &str) -> usize {
            self.entries.iter().filter(|(name, _)| *name == table).count()
        }

        pub fn write(&mut self, effect: &Effect) -> Result<(), TableError> {
            let at = |table: &str, entry: &Entry| {
                self.entries.iter().position(|(name, e)| *name == table && e.matches == entry.matches)
            };
            match effect {
                Effect::Set(table, entry, _) => match at(table, entry) {
                    Some(at) => self.entries[at].1 = entry.clone(),
                    None if self.room.get(table).is_some_and(|&room| self.count(table) == room) => {
                        return Err(TableError::Full {
                            table: table.to_string(),
                            size: self.room[table] as u64,
                        });
                    }
                    None => self.entries.push((table, entry.clone())),
                },
                Effect::Remove(table, entry) => match at(table, entry) {
                    Some(at) => drop(self.entries.remove(at)),
                    None => return Err(TableError::NotFound(table.to_string())),
                },
                Effect::Group(..) => {}
            }
            Ok(())
        }
    }
}
