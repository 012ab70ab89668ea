//! Runs a case, and compares two runs.

use std::collections::BTreeMap;

use dataplane::device::{Device, DeviceError, Entity, EntryKey, EntryQuery, Key, Query};
use interp::{Event, Interpreter, Observer, Silent};
use ir::Verified;

use super::case::Case;
use harness::targets::{Compiled, Sent};

/// The largest number of cells of an array that are compared.
const CELLS: u64 = 64;

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The result of each packet; `None` if the target does not accept the packet.
    pub sent: Vec<Option<Sent>>,
    /// The values of counters, drop counts and registers, by name.
    pub state: BTreeMap<String, String>,
}

/// Two runs with different results.
#[derive(Clone, Debug)]
pub struct Difference {
    pub text: String,
}

/// Runs a case on a compiled target. Packets that the target does not accept are omitted.
pub fn compiled(target: &mut dyn Compiled, case: &Case) -> Result<Outcome, String> {
    case.load(target.device())?;
    let sent = case.packets.iter().map(|(port, packet)| target.process(*port, packet).ok()).collect();
    let entries = counted(target.device()).map_err(|e| e.to_string())?;
    let state = state(target.device(), &entries).map_err(|e| e.to_string())?;
    Ok(Outcome { sent, state })
}

/// The entries of a device that have counters.
pub fn counted(device: &mut dyn Device) -> Result<Vec<EntryKey>, DeviceError> {
    let key = |entity| match entity {
        Entity::DirectCounter { entry, .. } => Some(entry),
        _ => None,
    };
    Ok(device.read(&Query::DirectCounters(EntryQuery::default()))?.into_iter().filter_map(key).collect())
}

/// How the interpreter treats a checksum over the payload that was wrong on arrival.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// The interpreter computes each checksum in full, as v1model requires.
    Full,
    /// The interpreter carries the error over, as compiled targets do.
    Carried,
}

/// Runs a case on the interpreter, with the packets that another run accepted; or with all packets if there is no other run.
pub fn interpreted(
    program: &Verified,
    case: &Case,
    sums: Sums,
    taken: Option<&Outcome>,
    entries: &[EntryKey],
) -> Result<Outcome, String> {
    let mut target = Interpreter::new(program).map_err(|e| e.to_string())?;
    if sums == Sums::Carried {
        target.carry_wrong_sums();
    }
    case.load(&mut target)?;
    let mut sent = Vec::new();
    for (n, (port, packet)) in case.packets.iter().enumerate() {
        let other = taken.map(|outcome| outcome.sent[n].as_ref());
        if other == Some(None) {
            sent.push(None);
            continue;
        }
        let outcome = target.process(*port, packet, &mut Silent);
        sent.push(Some(Sent::expected(outcome, target.manifest(), other.flatten())));
    }
    let state = state(&mut target, entries).map_err(|e| e.to_string())?;
    Ok(Outcome { sent, state })
}

/// The numbers of bytes with which packets pass the stages again, or are cloned.
#[derive(Default)]
struct Lengths(Vec<usize>);

impl Observer for Lengths {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Again { length, .. } = event {
            self.0.push(length);
        }
    }
}

/// The numbers of bytes with which each packet of a case passes the stages again.
pub fn lengths_between(program: &Verified, case: &Case) -> Result<Vec<Vec<usize>>, String> {
    let mut target = Interpreter::new(program).map_err(|e| e.to_string())?;
    target.carry_wrong_sums();
    case.load(&mut target)?;
    let mut all = Vec::new();
    for (port, packet) in &case.packets {
        let mut lengths = Lengths::default();
        target.process(*port, packet, &mut lengths);
        all.push(lengths.0);
    }
    Ok(all)
}

/// The difference between the interpreter's runs of a program before and after the passes, if there is one.
pub fn passes_differ(
    literal: &Verified,
    optimised: &Verified,
    case: &Case,
) -> Result<Option<Difference>, String> {
    let entries: Vec<EntryKey> = case.entries.iter().map(|(table, e)| EntryKey::of(*table, e)).collect();
    let expected = interpreted(literal, case, Sums::Full, None, &entries)?;
    let got = interpreted(optimised, case, Sums::Full, None, &entries)?;
    Ok(difference(case, &expected, &got))
}

/// Every cell of counters and registers, the counts of entries, and the drop counts that are not zero.
fn state(device: &mut dyn Device, entries: &[EntryKey]) -> Result<BTreeMap<String, String>, DeviceError> {
    let manifest = device.manifest().clone();
    let counted = |count: dataplane::Count| format!("{} packets, {} bytes", count.packets, count.bytes);
    let mut all = BTreeMap::new();
    for (number, counter) in manifest.counters.iter().enumerate() {
        for index in 0..counter.size.min(CELLS) {
            let count = device.count(&Key::Counter(number.into(), index))?;
            all.insert(format!("counter {}[{index}]", counter.name), counted(count));
        }
    }
    for (number, register) in manifest.registers.iter().enumerate() {
        for index in 0..register.size.min(CELLS) {
            if let Entity::Register { value, .. } = device.get(&Key::Register(number.into(), index))? {
                all.insert(format!("register {}[{index}]", register.name), format!("{:?}", value.to_big()));
            }
        }
    }
    for entity in device.read(&Query::Drops(None))? {
        if let Entity::Drop { reason, count } = entity
            && count.packets != 0
        {
            all.insert(format!("drops for {}", manifest.drops[reason.index()].name), counted(count));
        }
    }
    for entry in entries {
        let definition = &manifest.tables[entry.table.index()];
        if definition.direct_counter.is_none() {
            continue;
        }
        let count = device.count(&Key::DirectCounter(entry.clone()))?;
        all.insert(format!("entry {:?} of {}", entry.matches, definition.name), counted(count));
    }
    Ok(all)
}

/// The first difference between two runs, if there is one.
pub fn difference(case: &Case, expected: &Outcome, got: &Outcome) -> Option<Difference> {
    let mut unattached = false;
    for (n, (want, have)) in expected.sent.iter().zip(&got.sent).enumerate() {
        let same = match (want, have) {
            (Some(want), Some(have)) if beyond_ports(want, have) => {
                unattached = true;
                true
            }
            (Some(want), Some(have)) => want == have || want.same_but_for_zeros(have),
            _ => want == have,
        };
        if same {
            continue;
        }
        let (port, packet) = &case.packets[n];
        let text = format!(
            "port {port}, packet {}\n    interp {}\n    target {}",
            bytes(packet),
            shown(want),
            shown(have)
        );
        return Some(Difference { text });
    }
    let names =
        expected.state.keys().chain(got.state.keys().filter(|name| !expected.state.contains_key(*name)));
    let none = "nothing".to_string();
    for name in names {
        if unattached && *name == format!("drops for {}", abi::drops::NO_SUCH_PORT) {
            continue;
        }
        let of = |outcome: &Outcome| outcome.state.get(name).unwrap_or(&none).clone();
        if of(expected) != of(got) {
            let text = format!("{name}\n    interp {}\n    target {}", of(expected), of(got));
            return Some(Difference { text });
        }
    }
    None
}

/// Whether the interpreter sent a packet to a port that has no interface in the kernel, and the kernel dropped it for this reason. PNA's ports
/// are numbers of 32 bits.
fn beyond_ports(want: &Sent, have: &Sent) -> bool {
    let beyond = matches!(want.packets.as_slice(), [(port, _)] if *port >= abi::DROP_PORT);
    beyond && have.packets.is_empty() && have.reason.as_deref() == Some(abi::drops::NO_SUCH_PORT)
}

fn shown(sent: &Option<Sent>) -> String {
    let packet = |(port, data): &(u32, Vec<u8>)| format!("port {port}: {}", bytes(data));
    match sent {
        None => "not run".into(),
        Some(sent) if !sent.packets.is_empty() => {
            sent.packets.iter().map(packet).collect::<Vec<_>>().join(", ")
        }
        Some(Sent { reason: Some(reason), .. }) => format!("dropped: {reason}"),
        Some(_) => "nothing".into(),
    }
}

/// Bytes in hexadecimal.
pub fn bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
