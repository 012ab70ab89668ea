//! The input of a run: entries for a program's tables, and packets for its parser. Both are generated from a number.
//!
//! Packets follow the paths through the parser that [`ir::paths`] finds, with random values elsewhere. Some are truncated, some are mutated,
//! and some are random bytes. One in eight keeps random checksums, which are wrong. Entries match the keys that such packets look up, or
//! similar keys.

use std::collections::{BTreeMap, HashSet};

use abi::id::{TableId, ValueSetId};
use abi::manifest::{KeyField, Table};
use abi::{ActionCall, Bits, Entry, Manifest, MatchKind, MatchValue};
use dataplane::device::{Device, Entity, Mirror, Update};
use harness::rng::Rng;
use interp::{Event, Interpreter, Observer};
use ir::Verified;
use ir::paths::{Goal, paths};
use serde::{Deserialize, Serialize};

/// The largest number of paths through the parser that packets are made for.
const PATHS: usize = 40;
/// The largest number of rounds in which the wrong checksums of a packet are corrected.
const ROUNDS: usize = 4;
/// The number of the multicast group and of the mirroring session that generated programs use.
const GROUP: u32 = 3;
const SESSION: u32 = 5;

/// The input of a run: entries, packets and other control-plane state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    pub entries: Vec<(TableId, Entry)>,
    pub defaults: Vec<(TableId, ActionCall)>,
    pub value_sets: Vec<(ValueSetId, Vec<Vec<MatchValue>>)>,
    /// Whether packets are replicated or cloned, so that a group and a session are needed.
    pub copies: bool,
    pub packets: Vec<(u32, Vec<u8>)>,
}

impl Case {
    /// Generates a case for a program.
    pub fn of(program: &Verified, text: &str, seed: u64, packets: usize) -> Result<Case, String> {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let fresh = || Interpreter::new(program).map_err(|e| e.to_string());
        let mut interpreter = fresh()?;
        let copies = ["clone", "mcast_grp"].iter().any(|w| text.contains(w));
        let raw = raw_packets(program, &mut rng, packets);
        let mut looked = LookedUp::default();
        for (port, packet) in raw.iter().take(64) {
            interpreter.process(*port, packet, &mut looked);
        }
        let manifest = interpreter.manifest().clone();
        let mut case = Case { copies, ..Case::default() };
        case.fill(&manifest, &looked.0, &mut rng);
        let mut target = fresh()?;
        // Entries with equal matches and different priorities need a target that keeps the priority separate from the key. Tc does not.
        let mut known = HashSet::new();
        let twice = rng.index(10) == 0;
        case.entries.retain(|(table, entry)| {
            let new = known.insert((*table, entry.matches.clone()));
            (new || twice) && target.write(&[Update::Insert(Entity::entry(*table, entry.clone()))]).is_ok()
        });
        let mut target = fresh()?;
        case.load(&mut target)?;
        let mut right = |packet| match rng.index(8) {
            0 => packet,
            _ => with_right_sums(&mut target, packet),
        };
        case.packets = raw.into_iter().map(&mut right).collect();
        Ok(case)
    }

    /// Writes the entries and the other control-plane state to a device.
    pub fn load(&self, device: &mut dyn Device) -> Result<(), String> {
        let entries = self.entries.iter().map(|(table, e)| Update::Insert(Entity::entry(*table, e.clone())));
        let default = |(table, call): &(TableId, ActionCall)| {
            Update::Modify(Entity::Default { table: *table, action: call.clone() })
        };
        let set = |(set, members): &(ValueSetId, Vec<_>)| {
            Update::Modify(Entity::ValueSet { set: *set, members: members.clone() })
        };
        let defaults = self.defaults.iter().map(default);
        let mut all: Vec<Update> = entries.chain(defaults).chain(self.value_sets.iter().map(set)).collect();
        if self.copies {
            let copies = vec![(0, 1), (1, 2), (7, 9)];
            all.push(Update::Insert(Entity::Multicast { group: GROUP, copies }));
            all.push(Update::Insert(Entity::Session { session: SESSION, to: Mirror::Port(7) }));
        }
        device.write(&all).map_err(|refused| format!("{:?}: {}", all[refused.index], refused.error))
    }

    /// The case as STF, without expected packets.
    pub fn stf(&self, manifest: &Manifest) -> String {
        let mut text = String::new();
        for (table, entry) in &self.entries {
            let definition = &manifest.tables[table.index()];
            let priority =
                if definition.needs_priority() { format!(" {}", entry.priority) } else { String::new() };
            let matches = definition.keys.iter().zip(&entry.matches).map(|(k, m)| written(k, m));
            let matches: String = matches.collect();
            let table = name(&definition.name);
            text += &format!("add {table}{priority}{matches} {}\n", call(definition, &entry.action));
        }
        for (table, action) in &self.defaults {
            let definition = &manifest.tables[table.index()];
            text += &format!("setdefault {} {}\n", name(&definition.name), call(definition, action));
        }
        for (set, members) in &self.value_sets {
            let member = |m: &Vec<MatchValue>| m.iter().map(value_of).collect::<Vec<_>>().join(",");
            let members: Vec<String> = members.iter().map(member).collect();
            let set = &manifest.value_sets[set.index()].name;
            text += &format!("value_set {} {}\n", name(set), members.join(" "));
        }
        if self.copies {
            text += &format!("mc_mgrp_create {GROUP}\n");
            for (node, (rid, port)) in [(0, 1), (1, 2), (7, 9)].into_iter().enumerate() {
                text += &format!("mc_node_create {rid} {port}\nmc_node_associate {GROUP} {node}\n");
            }
            text += &format!("mirroring_add {SESSION} 7\n");
        }
        text
    }

    fn fill(&mut self, manifest: &Manifest, looked: &BTreeMap<String, Vec<Vec<Bits>>>, rng: &mut Rng) {
        let none = Vec::new();
        for (id, table) in manifest.numbered_tables() {
            let unfit =
                table.implementation.is_some() || table.keys.iter().any(|k| k.kind == MatchKind::Selector);
            let callable = |default: bool| {
                let fits =
                    move |a: &&abi::manifest::Action| if default { !a.table_only } else { !a.default_only };
                table.actions.iter().filter(fits).collect::<Vec<_>>()
            };
            if unfit {
                continue;
            }
            let actions = callable(true);
            if !table.const_default && !actions.is_empty() && rng.below(100) < 30 {
                let action = actions[rng.index(actions.len())];
                self.defaults.push((id, arguments(table, action, rng)));
            }
            let actions = callable(false);
            if table.const_entries || table.keys.is_empty() || actions.is_empty() {
                continue;
            }
            let count = match rng.index(10) {
                0 => 0,
                1 => 40 + rng.index(60),
                _ => 1 + rng.index(10),
            };
            let seen = looked.get(&table.name).unwrap_or(&none);
            let masks = Masks::new(table, rng);
            for n in 0..count.min(table.size as usize) {
                let near = (!seen.is_empty() && rng.below(100) < 75).then(|| &seen[rng.index(seen.len())]);
                let matches = masks.matches(table, near, rng);
                let action = arguments(table, actions[rng.index(actions.len())], rng);
                // Each entry has its own priority. P4 does not define which of two equal ones wins, and tc does not keep their age.
                let priority = if table.needs_priority() { 1 + (n * 37 % 101) as i32 } else { 0 };
                self.entries.push((id, Entry { matches, priority, action }));
            }
        }
        for (number, set) in manifest.value_sets.iter().enumerate() {
            let member = |rng: &mut Rng| {
                let part = |k: &KeyField, rng: &mut Rng| match k.kind {
                    MatchKind::Ternary => {
                        let mask = random(k.width, rng);
                        MatchValue::Ternary(random(k.width, rng).and(&mask), mask)
                    }
                    MatchKind::Range => range(random(k.width, rng), random(k.width, rng)),
                    MatchKind::Lpm => {
                        MatchValue::Lpm(random(k.width, rng), rng.index(k.width as usize + 1) as u32)
                    }
                    _ => MatchValue::Exact(random(k.width, rng)),
                };
                set.keys.iter().map(|k| part(k, rng)).collect()
            };
            let members = (0..rng.index(set.size as usize + 1)).map(|_| member(rng)).collect();
            self.value_sets.push((number.into(), members));
        }
    }
}

/// A call of an action with random arguments.
fn arguments(table: &Table, action: &abi::manifest::Action, rng: &mut Rng) -> ActionCall {
    let args = action.params.iter().map(|p| random(p.width, rng)).collect();
    table.call(&action.name, args).unwrap_or_default()
}

/// A random value. Values at the limits of a type are more frequent.
fn random(width: u32, rng: &mut Rng) -> Bits {
    match rng.index(6) {
        0 => Bits::zero(width),
        1 => Bits::ones(width),
        2 => Bits::new(width, rng.index(8) as u128),
        _ => {
            let bytes: Vec<u8> = (0..width.div_ceil(8)).map(|_| rng.next_u64() as u8).collect();
            Bits::from_bytes_be(width, &bytes)
        }
    }
}

fn range(a: Bits, b: Bits) -> MatchValue {
    if a.cmp_unsigned(&b).is_le() { MatchValue::Range(a, b) } else { MatchValue::Range(b, a) }
}

/// The masks for each field. There are few, as in practice, and because targets limit their number.
struct Masks(Vec<Vec<Bits>>);

impl Masks {
    fn new(table: &Table, rng: &mut Rng) -> Masks {
        let mask = |key: &KeyField, rng: &mut Rng| match rng.index(4) {
            0 => Bits::ones(key.width),
            1 => Bits::prefix_mask(key.width, rng.index(key.width as usize + 1) as u32),
            _ => random(key.width, rng),
        };
        Masks(table.keys.iter().map(|k| (0..3).map(|_| mask(k, rng)).collect()).collect())
    }

    fn matches(&self, table: &Table, near: Option<&Vec<Bits>>, rng: &mut Rng) -> Vec<MatchValue> {
        let one = |(n, key): (usize, &KeyField)| {
            let seen = near.and_then(|keys| keys.get(n)).filter(|b| b.width() == key.width).cloned();
            let value = seen.unwrap_or_else(|| random(key.width, rng));
            match key.kind {
                MatchKind::Exact | MatchKind::Selector => MatchValue::Exact(value),
                MatchKind::Lpm => {
                    let length =
                        [key.width, key.width / 2, rng.index(key.width as usize + 1) as u32, 0][rng.index(4)];
                    MatchValue::Lpm(value.and(&Bits::prefix_mask(key.width, length)), length)
                }
                MatchKind::Ternary => {
                    let mask = self.0[n][rng.index(3)].clone();
                    MatchValue::Ternary(value.and(&mask), mask)
                }
                MatchKind::Range => match rng.index(3) {
                    0 => MatchValue::Range(value.clone(), value),
                    _ => range(value, random(key.width, rng)),
                },
                MatchKind::Optional => MatchValue::Optional((rng.index(3) != 0).then_some(value)),
            }
        };
        table.keys.iter().enumerate().map(one).collect()
    }
}

/// Records the keys that packets look up, by table.
#[derive(Default)]
struct LookedUp(BTreeMap<String, Vec<Vec<Bits>>>);

impl Observer for LookedUp {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Applied { table, key, .. } = event {
            self.0.entry(table.to_string()).or_default().push(key.into_iter().map(|(_, v)| v).collect());
        }
    }
}

/// Generates packets on the parser's paths, and others.
fn raw_packets(program: &Verified, rng: &mut Rng, count: usize) -> Vec<(u32, Vec<u8>)> {
    let paths = paths(program, &Goal::All, PATHS);
    (0..count).map(|_| (rng.index(4) as u32, packet(&paths, rng))).collect()
}

fn packet(paths: &[ir::paths::ParserPath], rng: &mut Rng) -> Vec<u8> {
    let style = rng.index(4);
    let mut byte = || match style {
        0 => rng.next_u64() as u8,
        1 => rng.index(4) as u8,
        2 => [0, 0xff, 0x80, 1][rng.index(4)],
        _ => {
            if rng.index(3) == 0 {
                rng.next_u64() as u8
            } else {
                0
            }
        }
    };
    let mut bytes: Vec<u8> = (0..400).map(|_| byte()).collect();
    let mut length = rng.index(120);
    if !paths.is_empty() && rng.index(10) != 0 {
        let path = &paths[rng.index(paths.len())];
        let known = path.known.bits();
        for (at, bit) in known.iter().enumerate().take(8 * bytes.len()) {
            if let Some(bit) = bit {
                bench::traffic::template::write(&mut bytes, at as u32, 1, (*bit).into());
            }
        }
        let whole = known.len().div_ceil(8).min(bytes.len());
        length = match rng.index(8) {
            0 => rng.index(whole + 1),
            1 => whole,
            2 => whole + rng.index(4),
            _ => whole + rng.index(80),
        };
    }
    bytes.truncate(length.min(400));
    if rng.index(6) == 0 && !bytes.is_empty() {
        let at = rng.index(bytes.len());
        bytes[at] ^= 1 << rng.index(8);
    }
    bytes
}

/// Records where the headers of a packet are, and which verified checksums are wrong.
#[derive(Default)]
struct Sums {
    /// The name and fields of each header, in the order of the packet.
    extracted: Vec<(String, Vec<(String, u32)>)>,
    wrong: Vec<(String, u16)>,
}

impl Observer for Sums {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Extracted { header, fields, .. } => {
                let fields = fields.iter().map(|(n, v)| (n.to_string(), v.width())).collect();
                self.extracted.push((header.to_string(), fields));
            }
            Event::Checksum { place, value, right: Some(false), .. } => self.wrong.push((place, value)),
            _ => {}
        }
    }
}

/// Corrects the checksums that the program verifies, as far as they are in headers that follow each other.
fn with_right_sums(interpreter: &mut Interpreter<'_>, (port, mut packet): (u32, Vec<u8>)) -> (u32, Vec<u8>) {
    for _ in 0..ROUNDS {
        let mut sums = Sums::default();
        interpreter.process(port, &packet, &mut sums);
        if sums.wrong.is_empty() {
            break;
        }
        for (place, value) in &sums.wrong {
            let mut at = 0;
            for (header, fields) in &sums.extracted {
                for (field, width) in fields {
                    if *width == 16 && *place == format!("{header}.{field}") {
                        bench::traffic::template::write(&mut packet, at, 16, (*value).into());
                    }
                    at += width;
                }
            }
        }
    }
    (port, packet)
}

fn hex(value: &Bits) -> String {
    format!("{:#x}", value.to_big())
}

fn value_of(value: &MatchValue) -> String {
    match value {
        MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => hex(v),
        MatchValue::Optional(None) => "*".into(),
        MatchValue::Lpm(v, length) => format!("{}/{length}", hex(v)),
        MatchValue::Ternary(v, mask) => format!("{}&&&{}", hex(v), hex(mask)),
        MatchValue::Range(low, high) => format!("{}..{}", hex(low), hex(high)),
    }
}

/// A name in the syntax of STF. `@name` may give any text.
fn name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
    if text.chars().all(plain) { text.to_string() } else { format!("\"{text}\"") }
}

fn written(key: &KeyField, value: &MatchValue) -> String {
    format!(" \"{}\":{}", key.name, value_of(value))
}

fn call(table: &Table, call: &ActionCall) -> String {
    let Some(action) = table.action(call) else { return String::new() };
    let arguments = action.params.iter().zip(&call.args);
    let arguments: Vec<String> = arguments.map(|(p, a)| format!("{}:{}", name(&p.name), hex(a))).collect();
    format!("{}({})", name(&action.name), arguments.join(", "))
}
