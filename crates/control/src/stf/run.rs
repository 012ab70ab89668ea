//! Plays a case on a target: tables are filled, packets sent, and what comes out compared, port by port, in order, with
//! exact counts. Stricter than the reference runner: `check_counter` and `no_packet` are checked.

use std::collections::{BTreeMap, HashMap};

use abi::manifest::Manifest;
use abi::{ActionCall, Bits, Entry};
use serde::Serialize;

use super::resolve::{self, Resolved};
use super::{Call, Case, Cell, Check, Kind, Pattern, Statement};

/// What a target says when it cannot do as told.
pub type TargetError = String;

/// Something that runs a P4 program.
pub trait Target {
    /// What the program offers.
    fn manifest(&self) -> &Manifest;
    /// Writes an entry.
    fn insert(&mut self, table: &str, entry: &Entry) -> Result<(), TargetError>;
    /// Changes what happens on a miss.
    fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<(), TargetError>;
    /// Removes all entries that can be removed.
    fn clear(&mut self) -> Result<(), TargetError>;
    /// Sends a packet; what leaves, by port.
    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Vec<(u32, Vec<u8>)>, TargetError>;
    /// A cell of an indexed counter: packets and bytes.
    fn counter(&mut self, name: &str, index: u64) -> Result<(u64, u64), TargetError>;
    /// The direct counter of an entry.
    fn entry_counter(&mut self, table: &str, entry: &Entry) -> Result<(u64, u64), TargetError>;
    /// Packets and bytes dropped for a reason of the manifest.
    fn drops(&mut self, reason: usize) -> Result<(u64, u64), TargetError>;
    /// Writes a register's cell.
    fn set_register(&mut self, name: &str, index: u64, value: &Bits) -> Result<(), TargetError>;
    /// Sets all cells of a register to zero.
    fn reset_register(&mut self, name: &str) -> Result<(), TargetError>;
    /// Makes a multicast group of (rid, port).
    fn set_group(&mut self, group: u32, replicas: Vec<(u32, u32)>) -> Result<(), TargetError>;
}

/// How a case went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The case.
    pub case: String,
    /// What failed, each with its place; nothing: passed.
    pub failures: Vec<String>,
    /// Packets sent.
    pub packets: usize,
}

impl Report {
    /// Whether all was as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Plays a case.
pub fn run(case: &Case, target: &mut dyn Target) -> Report {
    let mut player = Player {
        report: Report { case: case.name.clone(), ..Report::default() },
        target,
        expected: BTreeMap::new(),
        received: BTreeMap::new(),
        entries: HashMap::new(),
        added: HashMap::new(),
        nodes: Vec::new(),
        groups: BTreeMap::new(),
        last: 0,
    };
    for statement in &case.statements {
        if let Err(what) = player.statement(statement) {
            player.fail(statement.line, what);
        }
    }
    player.compare();
    player.report
}

struct Player<'t> {
    report: Report,
    target: &'t mut dyn Target,
    /// By port: line and pattern.
    expected: BTreeMap<u32, Vec<(u32, Option<Pattern>)>>,
    /// By port: line of the packet that caused it, and bytes.
    received: BTreeMap<u32, Vec<(u32, Vec<u8>)>>,
    /// Entries by their `= ID`.
    entries: HashMap<String, (String, Entry)>,
    /// Entries of a table, in order.
    added: HashMap<String, Vec<Entry>>,
    nodes: Vec<(u32, Vec<u32>)>,
    groups: BTreeMap<u32, Vec<u32>>,
    /// How many packets the last one gave.
    last: usize,
}

impl Player<'_> {
    fn fail(&mut self, line: u32, what: impl std::fmt::Display) {
        self.report.failures.push(format!("{}:{line}: {what}", self.report.case));
    }

    fn statement(&mut self, statement: &Statement) -> Resolved<()> {
        match &statement.kind {
            Kind::Add { table, priority, keys, action, id } => {
                let table = resolve::table(self.target.manifest(), table)?.clone();
                let entry = resolve::entry(&table, *priority, keys, action)?;
                self.target.insert(&table.name, &entry)?;
                self.added.entry(table.name.clone()).or_default().push(entry.clone());
                if let Some(id) = id {
                    self.entries.insert(id.clone(), (table.name, entry));
                }
                Ok(())
            }
            Kind::SetDefault { table, action } => self.set_default(table, action),
            Kind::Packet { port, bytes } => self.packet(statement.line, *port, bytes),
            Kind::Expect { port, pattern } => {
                self.expected.entry(*port).or_default().push((statement.line, pattern.clone()));
                Ok(())
            }
            Kind::NoPacket if self.last > 0 => {
                Err(format!("no packet was expected, and {} came out", self.last))
            }
            Kind::NoPacket | Kind::Wait => Ok(()),
            Kind::RemoveAll => {
                self.added.clear();
                self.entries.clear();
                self.target.clear()
            }
            Kind::CheckCounter { counter, cell, check } => self.check_counter(counter, cell, *check),
            Kind::CounterRead(name, index) => self.read(name, *index).map(|_| ()),
            Kind::RegisterRead(name, _) => self.register(name).map(|_| ()),
            Kind::RegisterWrite(name, index, value) => {
                let (name, width) = self.register(name)?;
                let value = resolve::exact(value, width)?;
                self.target.set_register(&name, *index, &value)
            }
            Kind::RegisterReset(name) => {
                let (name, _) = self.register(name)?;
                self.target.reset_register(&name)
            }
            Kind::CounterWrite(..) => Err("not supported yet: counter_write".to_string()),
            Kind::Mirroring(verb, _) => Err(format!("not supported yet: {verb}")),
            Kind::Meter(verb, ..) => Err(format!("not supported yet: {verb}")),
            group => self.group(group),
        }
    }

    fn group(&mut self, kind: &Kind) -> Resolved<()> {
        match kind {
            Kind::GroupCreate(group) => {
                self.groups.insert(*group, Vec::new());
            }
            Kind::NodeCreate { rid, ports } => self.nodes.push((*rid, ports.clone())),
            Kind::NodeUpdate { node, ports } => match self.nodes.get_mut(*node as usize) {
                Some(found) => found.1 = ports.clone(),
                None => return Err(format!("there is no node {node}")),
            },
            Kind::NodeAssociate { group, node } => match self.groups.get_mut(group) {
                Some(nodes) if (*node as usize) < self.nodes.len() => nodes.push(*node),
                Some(_) => return Err(format!("there is no node {node}")),
                None => return Err(format!("there is no group {group}")),
            },
            _ => {}
        }
        for (group, nodes) in self.groups.clone() {
            let replicas = nodes.iter().flat_map(|&n| {
                let (rid, ports) = &self.nodes[n as usize];
                ports.iter().map(|p| (*rid, *p)).collect::<Vec<_>>()
            });
            self.target.set_group(group, replicas.collect())?;
        }
        Ok(())
    }

    fn set_default(&mut self, table: &str, call: &Call) -> Resolved<()> {
        let table = resolve::table(self.target.manifest(), table)?.clone();
        let call = resolve::action(&table, call)?;
        table.check_action(&call, true).map_err(|e| e.to_string())?;
        self.target.set_default(&table.name, &call)
    }

    fn packet(&mut self, line: u32, port: u32, bytes: &[u8]) -> Resolved<()> {
        self.report.packets += 1;
        let out = self.target.send(port, bytes)?;
        self.last = out.len();
        for (port, bytes) in out {
            self.received.entry(port).or_default().push((line, bytes));
        }
        Ok(())
    }

    fn register(&self, name: &str) -> Resolved<(String, u32)> {
        let register = resolve::find("register", name, &self.target.manifest().registers, |r| &r.name)?;
        Ok((register.name.clone(), register.width))
    }

    fn read(&mut self, name: &str, index: u64) -> Resolved<(u64, u64)> {
        let counter =
            resolve::find("counter", name, &self.target.manifest().counters, |c| &c.name)?.name.clone();
        self.target.counter(&counter, index)
    }

    fn check_counter(&mut self, name: &str, cell: &Cell, check: Option<Check>) -> Resolved<()> {
        let (packets, bytes) = self.count(name, cell)?;
        match check {
            None if packets == 0 && bytes == 0 => Ok(()),
            None => Err(format!("counter `{name}` holds {packets} packets and {bytes} bytes, not zero")),
            Some(check) => {
                let (found, unit) = if check.bytes { (bytes, "bytes") } else { (packets, "packets") };
                match check.op.holds(found, check.value) {
                    true => Ok(()),
                    false => {
                        let wanted = format!("{} {}", check.op.symbol(), check.value);
                        Err(format!("counter `{name}` holds {found} {unit}, and {wanted} was expected"))
                    }
                }
            }
        }
    }

    /// `drop.NAME` is a drop reason; a direct counter belongs to its table's entries.
    fn count(&mut self, name: &str, cell: &Cell) -> Resolved<(u64, u64)> {
        if let Some(reason) = name.strip_prefix("drop.") {
            let drops = &self.target.manifest().drops;
            let found = &resolve::find("drop reason", reason, drops, |d| &d.name)?.name;
            let at = drops.iter().position(|d| d.name == *found).unwrap_or(0);
            return self.target.drops(at);
        }
        let direct = self.target.manifest().tables.iter().find(|t| {
            t.direct_counter.as_ref().is_some_and(|c| c == name || c.ends_with(&format!(".{name}")))
        });
        if let Some(table) = direct.map(|t| t.name.clone()) {
            let entry = match cell {
                Cell::Entry(id) => self.entries.get(id).map(|(_, e)| e.clone()),
                Cell::Index(i) => self.added.get(&table).and_then(|list| list.get(*i as usize)).cloned(),
            };
            let entry = entry.ok_or_else(|| format!("table `{table}` has no such entry"))?;
            return self.target.entry_counter(&table, &entry);
        }
        match cell {
            Cell::Index(index) => self.read(name, *index),
            Cell::Entry(id) => Err(format!("`${id}` names an entry, and `{name}` is no direct counter")),
        }
    }

    fn compare(&mut self) {
        let mut ports: Vec<u32> = self.expected.keys().chain(self.received.keys()).copied().collect();
        ports.sort_unstable();
        ports.dedup();
        for port in ports {
            let expected = self.expected.remove(&port).unwrap_or_default();
            let received = self.received.remove(&port).unwrap_or_default();
            for (i, (line, pattern)) in expected.iter().enumerate() {
                match (received.get(i), pattern) {
                    (None, _) => {
                        self.fail(*line, format!("port {port}: the expected packet did not come out"))
                    }
                    (Some(_), None) => {}
                    (Some((_, bytes)), Some(pattern)) => {
                        if let Some(difference) = difference(pattern, bytes) {
                            self.fail(*line, format!("port {port}: {difference}"));
                        }
                    }
                }
            }
            for (line, bytes) in received.iter().skip(expected.len()) {
                self.fail(*line, format!("port {port}: an unexpected packet came out: {}", hex(bytes)));
            }
        }
    }
}

/// How a packet differs from what was expected, with the first half byte that does marked.
fn difference(pattern: &Pattern, bytes: &[u8]) -> Option<String> {
    let found: Vec<u8> = bytes.iter().flat_map(|b| [b >> 4, b & 15]).collect();
    let wrong = pattern.nibbles.iter().enumerate().find(|(i, n)| match (n, found.get(*i)) {
        (Some(n), Some(f)) => n != f,
        (_, None) => true,
        (None, Some(_)) => false,
    });
    let length = pattern.exact && pattern.nibbles.len() != found.len();
    let at = match wrong {
        Some((i, _)) => i,
        None if length => pattern.nibbles.len().min(found.len()),
        None => return None,
    };
    let expected: String = pattern.nibbles.iter().map(|n| n.map_or('*', digit)).collect();
    let got: String = found.iter().map(|&n| digit(n)).collect();
    let size = format!("{} bytes expected, {} came", pattern.nibbles.len() / 2, bytes.len());
    Some(format!(
        "byte {} differs ({size})\n  expected {expected}\n  got      {got}\n           {:>width$}",
        at / 2,
        "^",
        width = at + 1
    ))
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble as u32, 16).unwrap_or('?')
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
