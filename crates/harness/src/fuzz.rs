//! Compares the interpreter with a compiled target on random packets (`strait test --fuzz`).
//!
//! The packets of the cases are mutated, and processed with the tables of their case. Bytes, ports and drop reasons must be equal, and
//! every counter cell after each case. If a declared checksum was wrong on arrival, the packet must leave with the same error: the
//! interpreter carries it over ([`Interpreter::carry_wrong_sums`]). The words 0000 and ffff are equal in one's complement, so they are
//! equal in the checksums of such a packet.
//!
//! On native, time passes between the packets of cases with expire times, and entries end.

use std::collections::BTreeMap;

use abi::drops;
use dataplane::Count;
use dataplane::device::{Device, Entity, EntryQuery, Query};
use interp::{Event, Interpreter, Observer, Silent};

use crate::rng::Rng;
use crate::stf::{self, Kind};
use crate::targets::RunTarget;
use crate::targets::kernel::makes_copies;
use crate::targets::{Object, Sent};

/// The number of cases whose tables are used, spread over all given cases. Loading a program takes longer than thousands of packets.
pub(crate) const CASES: usize = 12;

/// Records whether a verified checksum was wrong.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) wrong: bool,
}

impl Observer for Sums {
    fn event(&mut self, event: Event<'_>) {
        self.wrong |= matches!(event, Event::Checksum { right: Some(false), .. });
    }
}

/// What a comparison has found.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of packets whose results are equal.
    pub equal: u64,
    /// The number of these whose checksum was wrong on arrival.
    pub carried: u64,
    /// The number of packets that the target's test run does not take.
    pub refused: u64,
    /// The number of packets, episodes and counters that are different.
    pub different: u64,
    /// The number of counter cells that were compared.
    pub cells: u64,
    /// The first differences, for people.
    pub shown: Vec<String>,
}

impl Tally {
    /// Whether something was compared, and nothing is different.
    pub fn agrees(&self) -> bool {
        self.different == 0 && self.equal > 0
    }
}

/// Compares a target with the interpreter on `packets` packets.
pub fn run(
    target: RunTarget,
    program: &ir::Verified,
    cases: &[stf::Case],
    packets: u64,
    seed: u64,
) -> anyhow::Result<Tally> {
    let Some(object) = Object::make(target, program)? else {
        anyhow::bail!("{} compiles nothing that could be compared", target.name());
    };
    object.apart(|| all_cases(program, &object, cases, packets, seed))?
}

/// Compares the targets with the tables of some cases.
fn all_cases(
    program: &ir::Verified,
    object: &Object,
    cases: &[stf::Case],
    packets: u64,
    seed: u64,
) -> anyhow::Result<Tally> {
    let step = cases.len().div_ceil(CASES).max(1);
    let chosen: Vec<_> = cases.iter().step_by(step).collect();
    let seeds: Vec<(u32, Vec<u8>)> =
        cases.iter().flat_map(stf::Case::packets).map(|(port, seed)| (port, seed.to_vec())).collect();
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    for case in &chosen {
        let share = packets / chosen.len() as u64;
        one_case(program, object, case, &seeds, share, &mut rng, &mut tally)?;
    }
    Ok(tally)
}

/// The lines of a case that add control-plane state: entries, groups, sessions, rates and similar. Lines that remove state are omitted.
pub fn tables_of(case: &stf::Case) -> stf::Case {
    let tables = |s: &&stf::Statement| s.kind.fills() && !matches!(s.kind, Kind::RemoveAll);
    stf::Case {
        name: case.name.clone(),
        statements: case.statements.iter().filter(tables).cloned().collect(),
    }
}

fn one_case(
    program: &ir::Verified,
    object: &Object,
    case: &stf::Case,
    seeds: &[(u32, Vec<u8>)],
    packets: u64,
    rng: &mut Rng,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut oracle = Interpreter::new(program)?;
    oracle.carry_wrong_sums();
    let (target, mut compiled) = (object.target(), object.load()?);
    if makes_copies(compiled.device().manifest()) {
        anyhow::bail!(
            "test runs on {target} do not see the copies that packets of this program have; run packet tests instead"
        );
    }
    // A test run sees one packet. What leaves as several fragments is for packet tests.
    let fragments = compiled.device().manifest().kernel.as_ref().is_some_and(|kernel| kernel.fragments);
    let mut probe = Interpreter::new(program)?;
    let tables = tables_of(case);
    let devices: [&mut dyn Device; 3] = [&mut oracle, &mut probe, compiled.device()];
    for report in devices.map(|device| stf::load(&tables, device)) {
        anyhow::ensure!(report.passed, "{}", report.text());
    }
    // Where a case has expire times, and the target a clock that can be set, time passes between packets: microseconds to minutes.
    let ages = case.statements.iter().any(|statement| matches!(statement.kind, Kind::ExpireTime(..)));
    let mut times = Rng::new(rng.below(u64::MAX));
    let mut clock = ages.then_some(1_000_000u64).filter(|now| compiled.set_clock(*now).is_ok());
    let random = |_| seeds.get(rng.index(seeds.len())).map(|(port, seed)| (*port, mutated(seed, rng)));
    let random: Vec<_> = (0..packets).map_while(random).collect();
    let mut too_short = Count::default();
    for (port, packet) in truncated(case.packets()).into_iter().chain(random) {
        if let Some(now) = clock.as_mut().filter(|_| times.below(8) == 0) {
            let longest = 2 << times.below(28);
            *now += 1 + times.below(longest);
            oracle.set_clock(*now);
            probe.set_clock(*now);
            compiled.set_clock(*now).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        }
        if fragments && probe.process(port, &packet, &mut Silent).sent.len() > 1 {
            tally.refused += 1;
            continue;
        }
        let Ok(sent) = compiled.process(port, &packet) else {
            tally.refused += 1;
            continue;
        };
        let mut sums = Sums::default();
        let outcome = oracle.process(port, &packet, &mut sums);
        let mut expected = Sent::expected(outcome, oracle.manifest(), Some(&sent));
        if expected.packets.iter().any(|(_, bytes)| !compiled.can_send(&packet, bytes.len())) {
            expected = Sent { packets: Vec::new(), reason: Some(drops::BAD_RESIZE.to_string()) };
            too_short.packets += 1;
            too_short.bytes += packet.len() as u64;
        }
        if sent == expected || (sums.wrong && sent.same_but_for_zeros(&expected)) {
            tally.equal += 1;
            tally.carried += u64::from(sums.wrong);
            continue;
        }
        tally.different += 1;
        if tally.different <= 5 {
            let results = format!("  interp {}\n  {target:6} {}", shown(&expected), shown(&sent));
            tally.shown.push(format!("{}: port {port}, packet {}\n{results}", case.name, hex(&packet)));
        }
    }
    compare_counts(target, &case.name, &mut oracle, compiled.device(), too_short, tally)?;
    compiled.end()
}

/// Compares every cell of every counter and every drop reason. `too_short` is the number of packets that only the interpreter could send.
fn compare_counts(
    target: &str,
    case: &str,
    oracle: &mut dyn Device,
    compiled: &mut dyn Device,
    too_short: Count,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let (mut expected, got) = (counts(oracle)?, counts(compiled)?);
    // Const entries that are code have no counter that a device could read.
    expected.retain(|name, _| !name.starts_with("entry ") || got.contains_key(name));
    let dropped = expected.entry(format!("drops for {}", drops::BAD_RESIZE)).or_default();
    dropped.packets += too_short.packets;
    dropped.bytes += too_short.bytes;
    tally.cells += got.len() as u64;
    for name in expected.keys().chain(got.keys().filter(|name| !expected.contains_key(*name))) {
        // A target has no count for a drop reason that it does not have.
        let of = |counts: &BTreeMap<String, Count>| counts.get(name).copied().unwrap_or_default();
        if of(&expected) != of(&got) {
            tally.different += 1;
            let both = format!("interp {:?}, {target} {:?}", of(&expected), of(&got));
            tally.shown.push(format!("{case}: {name}: {both}"));
        }
    }
    Ok(())
}

/// Every count of a device, by the name of what is counted.
pub(crate) fn counts(device: &mut dyn Device) -> anyhow::Result<BTreeMap<String, Count>> {
    let manifest = device.manifest().clone();
    let mut counts = BTreeMap::new();
    for query in [Query::Counters(None), Query::Drops(None), Query::DirectCounters(EntryQuery::default())] {
        for entity in device.read(&query)? {
            let name = match &entity {
                Entity::Counter { counter, index, .. } => {
                    format!("counter {}[{index}]", manifest.counters[counter.index()].name)
                }
                Entity::Drop { reason, .. } => format!("drops for {}", manifest.drops[reason.index()].name),
                Entity::DirectCounter { entry, .. } => {
                    let table = &manifest.tables[entry.table.index()].name;
                    format!("entry {:?} with priority {} of {table}", entry.matches, entry.priority)
                }
                _ => continue,
            };
            counts.insert(name, entity.count().unwrap_or_default());
        }
    }
    Ok(counts)
}

/// Packets that programs rarely expect. Each of these is truncated to every length up to 64 bytes. A parser then rejects it in the middle
/// of a header, and the controls and the deparser run without that header.
fn truncated<'a>(packets: impl Iterator<Item = (u32, &'a [u8])>) -> Vec<(u32, Vec<u8>)> {
    let mut seen = std::collections::HashSet::new();
    let cut = |(port, bytes): (u32, &'a [u8])| {
        let lengths = 1..=bytes.len().min(64);
        lengths.map(move |length| (port, bytes[..length].to_vec()))
    };
    packets.flat_map(cut).filter(|packet| seen.insert(packet.clone())).collect()
}

/// Makes a few changes. Most are in the headers, because programs read those.
pub(crate) fn mutated(seed: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut packet = seed.to_vec();
    for _ in 0..rng.index(4) {
        let at = rng.index(packet.len().min(96));
        let value = rng.next_u64();
        let length = packet.len();
        match (rng.index(6), packet.get_mut(at)) {
            (0, Some(byte)) => *byte = value as u8,
            (1, Some(byte)) => *byte ^= 1 << (value % 8),
            (2, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff][value as usize % 5],
            (3, _) if length > 60 => packet.truncate(60 + rng.index(length - 60)),
            (4, _) => packet.extend((0..rng.index(40)).map(|i| i as u8)),
            _ => {}
        }
    }
    packet
}

pub(crate) fn shown(sent: &Sent) -> String {
    let packet = |(port, bytes): &(u32, Vec<u8>)| format!("port {port}: {}", hex(bytes));
    match &sent.reason {
        _ if !sent.packets.is_empty() => {
            sent.packets.iter().map(packet).collect::<Vec<_>>().join("\n         ")
        }
        Some(reason) => format!("dropped: {reason}"),
        None => "nothing".to_string(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
