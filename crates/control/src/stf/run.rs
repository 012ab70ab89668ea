//! Runs a case on a target and checks the results. It is stricter than p4c's runner: it also checks counters and `no_packet`.
//!
//! Packets are compared at the end: for each port their order, their number and their bytes. Only the ports that the case names are
//! attached. Packets to other ports are discarded, as on a switch port without a cable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use abi::manifest::{Manifest, Table};
use abi::{ActionCall, Bits, Digest, Entry, MatchValue};
use dataplane::{Count, Indirect};
use serde::Serialize;
use thiserror::Error;

use super::{Case, Cell, Check, Kind, Number, Pattern, Statement, resolve};

/// Packets that the target sent, each with its port.
pub type Outputs = Vec<(u32, Vec<u8>)>;

/// A target that runs a P4 program. Names are full control-plane names. Entries have been checked against the manifest.
pub trait Target {
    /// The manifest of the program.
    fn manifest(&self) -> &Manifest;
    /// Attaches the ports that the case uses. It is called once, before everything else. The default does nothing, for targets whose ports
    /// always exist.
    fn attach(&mut self, _ports: &[u32]) -> Result<(), TargetError> {
        Ok(())
    }
    /// Adds an entry.
    fn insert(&mut self, table: &str, entry: &Entry) -> Result<(), TargetError>;
    /// Sets the default action of a table.
    fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<(), TargetError>;
    /// Removes every entry, except const entries.
    fn clear(&mut self) -> Result<(), TargetError> {
        Err(TargetError::unsupported("remove all"))
    }
    /// Sends a packet into a port, and returns the packets that have come out so far. Others may follow at [`Target::drain`].
    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError>;
    /// Waits until every packet has come out or is lost, and returns the packets that [`Target::send`] did not return.
    fn drain(&mut self) -> Result<Outputs, TargetError> {
        Ok(Outputs::new())
    }
    /// The value of an indexed counter's cell; `None` if the index is out of range.
    fn counter(&mut self, name: &str, index: u64) -> Result<Option<Count>, TargetError>;
    /// The value of an entry's direct counter.
    fn direct_counter(&mut self, table: &str, entry: &Entry) -> Result<Count, TargetError>;
    /// The count of a drop reason, by its full name.
    fn drops(&mut self, reason: &str) -> Result<Count, TargetError>;
    /// Sets a cell of an indexed counter.
    fn counter_write(&mut self, _name: &str, _index: u64, _count: Count) -> Result<(), TargetError> {
        Err(TargetError::unsupported("counter_write"))
    }
    /// The value of a register's cell; `None` if the index is out of range.
    fn register_read(&mut self, _name: &str, _index: u64) -> Result<Option<Bits>, TargetError> {
        Err(TargetError::unsupported("register_read"))
    }
    /// Sets a cell of a register.
    fn register_write(&mut self, _name: &str, _index: u64, _value: &Bits) -> Result<(), TargetError> {
        Err(TargetError::unsupported("register_write"))
    }
    /// Sets all cells of a register to their initial value.
    fn register_reset(&mut self, _name: &str) -> Result<(), TargetError> {
        Err(TargetError::unsupported("register_reset"))
    }
    /// Sets the copies of a multicast group. Each copy is (`egress_rid`, port).
    fn set_group(&mut self, _group: u32, _copies: &[(u32, u32)]) -> Result<(), TargetError> {
        Err(TargetError::unsupported("mc_node_associate"))
    }
    /// Adds or changes a member of an action profile.
    fn set_member(&mut self, _profile: &str, _id: u32, _call: &ActionCall) -> Result<(), TargetError> {
        Err(TargetError::unsupported("member"))
    }
    /// Adds or changes a group of members.
    fn set_member_group(&mut self, _profile: &str, _id: u32, _members: &[u32]) -> Result<(), TargetError> {
        Err(TargetError::unsupported("member_group"))
    }
    /// Adds an entry that refers to a member or a group. The action in `entry` is ignored.
    fn insert_indirect(&mut self, _table: &str, _entry: &Entry, _to: Indirect) -> Result<(), TargetError> {
        Err(TargetError::unsupported("an entry that refers to a member or group"))
    }
    /// Sets the time that packets see, in microseconds.
    fn set_clock(&mut self, _micros: u64) -> Result<(), TargetError> {
        Err(TargetError::unsupported("clock"))
    }
    /// PNA: declares a port to be a port to the host.
    fn set_host_port(&mut self, _port: u32) -> Result<(), TargetError> {
        Err(TargetError::unsupported("host_port"))
    }
    /// PNA: sets the expire time of a profile in microseconds.
    fn set_expire_time(&mut self, _profile: u32, _micros: u64) -> Result<(), TargetError> {
        Err(TargetError::unsupported("expire_time"))
    }
    /// Replaces the members of a value set.
    fn set_value_set(&mut self, _name: &str, _members: &[Vec<MatchValue>]) -> Result<(), TargetError> {
        Err(TargetError::unsupported("value_set"))
    }
    /// Sets the idle timeout of an entry in microseconds. The entry is idle when no packet has hit it for that long.
    fn set_idle_timeout(&mut self, _table: &str, _entry: &Entry, _micros: u64) -> Result<(), TargetError> {
        Err(TargetError::unsupported("idle_timeout"))
    }
    /// The entries that have become idle since the last call, each with its table's name.
    fn take_idle(&mut self) -> Result<Vec<(String, Entry)>, TargetError> {
        Err(TargetError::unsupported("check_idle"))
    }
    /// The digests that the program has sent since the last call, in order.
    fn digests(&mut self) -> Result<Vec<Digest>, TargetError> {
        Err(TargetError::unsupported("check_digest"))
    }
    /// Sets where the clones of a mirroring session go; `None` removes the session.
    fn set_mirror(&mut self, _session: u32, _to: Option<Mirror>) -> Result<(), TargetError> {
        Err(TargetError::unsupported("mirroring_add"))
    }
    /// Sets the rates of one cell of a meter, or of all cells (`None`). Each is a rate in units a microsecond and a burst in units; the
    /// lowest rate comes first.
    fn meter_rates(
        &mut self,
        _name: &str,
        _index: Option<u64>,
        _rates: &[(f64, u64)],
    ) -> Result<(), TargetError> {
        Err(TargetError::unsupported("meter_set_rates"))
    }
}

/// Where the clones of a mirroring session go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// To one port, by its number.
    Port(u32),
    /// To every member of a multicast group, by the group's number.
    Group(u32),
}

/// Why a target did not execute a statement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The target does not support the statement.
    #[error("not supported yet: {0}")]
    Unsupported(String),
    /// The target supports the statement, but it failed.
    #[error("{0}")]
    Failed(String),
}

impl TargetError {
    /// An error for a statement that the target does not support.
    pub fn unsupported(what: impl Into<String>) -> Self {
        TargetError::Unsupported(what.into())
    }

    /// An error for a statement that failed.
    pub fn failed(why: impl ToString) -> Self {
        TargetError::Failed(why.to_string())
    }
}

/// The result of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Report {
    /// The name of the case.
    pub case: String,
    /// Whether the case had no failures.
    pub passed: bool,
    /// Number of packets that were sent to the target.
    pub sent: usize,
    /// Number of packets that came out of attached ports.
    pub received: usize,
    /// Number of packets and counters that were compared.
    pub checks: usize,
    /// The failures, in the order of the lines.
    pub failures: Vec<Failure>,
}

/// A difference between the case and the target's behaviour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The line of the case.
    pub line: u32,
    /// The explanation. It has several lines if it shows packets.
    pub message: String,
    /// Whether the target lacks what the line needs. This is not a wrong result.
    pub unsupported: bool,
}

impl Report {
    /// The text of all failures, each with its `file:line`.
    pub fn text(&self) -> String {
        self.failures.iter().map(|f| self.line(f) + "\n").collect()
    }

    /// The text of one failure with its `file:line`.
    pub fn line(&self, failure: &Failure) -> String {
        format!("{}:{}: {}", self.case, failure.line, failure.message)
    }

    /// What the target lacks, if the case failed for that reason only.
    pub fn unsupported(&self) -> Option<&str> {
        let first = self.failures.first().filter(|_| self.failures.iter().all(|f| f.unsupported))?;
        Some(&first.message)
    }
}

/// Runs a case. It stops at the first line that the target does not support, because the results of later lines would be meaningless.
pub fn run(case: &Case, target: &mut dyn Target) -> Report {
    let mut run = Run {
        target,
        ports: named_ports(case),
        strict: case.statements.iter().any(|s| s.kind == Kind::NoPacket),
        report: Report { case: case.name.clone(), ..Report::default() },
        expected: BTreeMap::new(),
        got: BTreeMap::new(),
        last: Last::default(),
        entries: Vec::new(),
        nodes: Vec::new(),
        groups: BTreeMap::new(),
        mirrors: BTreeMap::new(),
        digests: VecDeque::new(),
    };
    run.case(case);
    run.report.failures.sort_by_key(|f| f.line);
    run.report.passed = run.report.failures.is_empty();
    run.report
}

/// Executes only statements of the control plane (`--entries FILE`). Other lines are errors.
pub fn load(case: &Case, target: &mut dyn Target) -> Report {
    if let Some(line) = case.statements.iter().find(|s| !s.kind.fills()).map(|s| s.line) {
        let message =
            "only entries, defaults, members, groups, sessions, rates, value sets, counters, registers, host ports and expire times can be set here"
                .to_string();
        let failures = vec![Failure { line, message, unsupported: false }];
        return Report { case: case.name.clone(), failures, ..Report::default() };
    }
    run(case, target)
}

fn named_ports(case: &Case) -> BTreeSet<u32> {
    let port = |s: &Statement| match s.kind {
        Kind::Packet { port, .. } | Kind::Expect { port, .. } => Some(port),
        _ => None,
    };
    case.statements.iter().filter_map(port).collect()
}

struct Run<'a> {
    target: &'a mut dyn Target,
    ports: BTreeSet<u32>,
    /// Whether the case has a `no_packet`. Each output must then be assigned to its input, so packets are sent one at a time.
    strict: bool,
    report: Report,
    /// The expected packets of each port: the line and the pattern.
    expected: BTreeMap<u32, Vec<(u32, Option<Pattern>)>>,
    /// The received packets of each port: the line of the last `packet` before it, and the bytes.
    got: BTreeMap<u32, Vec<(u32, Vec<u8>)>>,
    last: Last,
    /// The entries that `add` has written: table, entry, `= ID`.
    entries: Vec<(String, Entry, Option<String>)>,
    nodes: Vec<(u32, Vec<u32>)>,
    groups: BTreeMap<u32, Vec<u32>>,
    /// The mirroring sessions, and whether each still exists.
    mirrors: BTreeMap<u32, bool>,
    /// The digests that no line has checked yet.
    digests: VecDeque<Digest>,
}

/// The last packet that was sent to the target.
#[derive(Default)]
struct Last {
    line: u32,
    outputs: usize,
}

impl Run<'_> {
    fn case(&mut self, case: &Case) {
        let ports: Vec<u32> = self.ports.iter().copied().collect();
        if let Err(e) = self.target.attach(&ports) {
            return self.fail(1, e.to_string(), false);
        }
        for statement in &case.statements {
            if let Err(e) = self.statement(statement) {
                return self.fail(statement.line, e.to_string(), matches!(e, TargetError::Unsupported(_)));
            }
        }
        let end = case.statements.last().map_or(1, |s| s.line);
        if let Err(e) = self.drain() {
            return self.fail(end, e.to_string(), false);
        }
        self.compare();
    }

    fn fail(&mut self, line: u32, message: String, unsupported: bool) {
        self.report.failures.push(Failure { line, message, unsupported });
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), TargetError> {
        let line = statement.line;
        match &statement.kind {
            Kind::Packet { port, bytes } => self.packet(line, *port, bytes),
            Kind::Expect { port, pattern } => {
                self.expected.entry(*port).or_default().push((line, pattern.clone()));
                Ok(())
            }
            Kind::NoPacket => self.no_packet(line),
            Kind::Wait => self.drain(),
            Kind::CheckCounter { counter, cell, check } => self.check_counter(line, counter, cell, *check),
            Kind::Member { profile, id, action } => {
                let (name, call) =
                    resolve::member(self.target.manifest(), profile, action).map_err(TargetError::failed)?;
                self.target.set_member(&name, *id, &call)
            }
            Kind::MemberGroup { profile, id, members } => {
                let name = resolve::profile(self.target.manifest(), profile).map_err(TargetError::failed)?;
                self.target.set_member_group(&name, *id, members)
            }
            Kind::ValueSet(name, members) => {
                let (name, members) =
                    resolve::value_set(self.target.manifest(), name, members).map_err(TargetError::failed)?;
                self.target.set_value_set(&name, &members)
            }
            Kind::IdleTimeout(id, micros) => {
                let (table, entry) = self.named_entry(id)?;
                self.target.set_idle_timeout(&table, &entry, *micros)
            }
            Kind::CheckIdle(ids) => self.check_idle(line, ids),
            Kind::CheckDigest(name, fields) => self.check_digest(line, name, fields),
            Kind::NoDigest => self.no_digest(line),
            Kind::Clock(micros) => self.target.set_clock(*micros),
            Kind::HostPort(port) => self.target.set_host_port(*port),
            Kind::ExpireTime(profile, micros) => self.target.set_expire_time(*profile, *micros),
            Kind::Mirroring(session, to) => {
                self.mirrors.insert(*session, to.is_some());
                self.target.set_mirror(*session, *to)
            }
            Kind::MirroringGet(session) => match self.mirrors.get(session) {
                Some(true) => Ok(()),
                _ => Err(TargetError::failed(format!("there is no mirroring session {session}"))),
            },
            Kind::MeterRates { .. } | Kind::MeterGet(..) => self.meter_command(&statement.kind),
            Kind::CounterRead(..) | Kind::CounterWrite(..) => self.counter_command(&statement.kind),
            Kind::RegisterRead(..) | Kind::RegisterWrite(..) | Kind::RegisterReset(_) => {
                self.register_command(&statement.kind)
            }
            Kind::Add { .. } | Kind::SetDefault { .. } | Kind::RemoveAll => {
                self.table_command(&statement.kind)
            }
            _ => self.group_command(&statement.kind),
        }
    }

    fn packet(&mut self, line: u32, port: u32, bytes: &[u8]) -> Result<(), TargetError> {
        if self.strict {
            self.drain()?;
        }
        self.report.sent += 1;
        self.last = Last { line, outputs: 0 };
        let outputs = self.target.send(port, bytes)?;
        self.take(outputs);
        Ok(())
    }

    fn take(&mut self, outputs: Outputs) {
        for (port, bytes) in outputs.into_iter().filter(|(port, _)| self.ports.contains(port)) {
            self.report.received += 1;
            self.last.outputs += 1;
            self.got.entry(port).or_default().push((self.last.line, bytes));
        }
    }

    fn drain(&mut self) -> Result<(), TargetError> {
        let late = self.target.drain()?;
        self.take(late);
        Ok(())
    }

    fn no_packet(&mut self, line: u32) -> Result<(), TargetError> {
        self.drain()?;
        self.report.checks += 1;
        if self.last.outputs > 0 {
            let message =
                format!("the packet of line {} gave {} packets, not none", self.last.line, self.last.outputs);
            self.fail(line, message, false);
        }
        Ok(())
    }

    fn table_command(&mut self, kind: &Kind) -> Result<(), TargetError> {
        match kind {
            Kind::Add { table, priority, keys, action, id } => {
                let definition = self.table(table)?;
                if let Some(to) = resolve::indirect(&definition, action) {
                    let entry = resolve::indirect_entry(&definition, *priority, keys);
                    let entry = entry.map_err(TargetError::failed)?;
                    self.target.insert_indirect(&definition.name, &entry, to)?;
                    self.entries.push((definition.name, entry, id.clone()));
                    return Ok(());
                }
                let entry =
                    resolve::entry(&definition, *priority, keys, action).map_err(TargetError::failed)?;
                definition.check_entry(&entry).map_err(TargetError::failed)?;
                self.target.insert(&definition.name, &entry)?;
                self.entries.push((definition.name, entry, id.clone()));
                Ok(())
            }
            Kind::SetDefault { table, action } => {
                let definition = self.table(table)?;
                let call = resolve::action(&definition, action).map_err(TargetError::failed)?;
                definition.check_action(&call, true).map_err(TargetError::failed)?;
                self.target.set_default(&definition.name, &call)
            }
            _ => {
                self.entries.clear();
                self.target.clear()
            }
        }
    }

    fn table(&self, name: &str) -> Result<Table, TargetError> {
        resolve::table(self.target.manifest(), name).cloned().map_err(TargetError::failed)
    }

    fn group_command(&mut self, kind: &Kind) -> Result<(), TargetError> {
        match kind {
            Kind::GroupCreate(group) => {
                self.groups.insert(*group, Vec::new());
                self.write_group(*group)
            }
            Kind::NodeCreate { rid, ports } => {
                self.nodes.push((*rid, ports.clone()));
                Ok(())
            }
            Kind::NodeUpdate { node, ports } => {
                let entry = self.nodes.get_mut(*node as usize);
                entry.ok_or_else(|| TargetError::failed(format!("there is no node {node}")))?.1 =
                    ports.clone();
                let users: Vec<u32> =
                    self.groups.iter().filter(|g| g.1.contains(node)).map(|g| *g.0).collect();
                users.into_iter().try_for_each(|group| self.write_group(group))
            }
            Kind::NodeAssociate { group, node } => {
                if *node as usize >= self.nodes.len() {
                    return Err(TargetError::failed(format!("there is no node {node}")));
                }
                let nodes = self.groups.get_mut(group);
                nodes.ok_or_else(|| TargetError::failed(format!("there is no group {group}")))?.push(*node);
                self.write_group(*group)
            }
            _ => Ok(()),
        }
    }

    fn write_group(&mut self, group: u32) -> Result<(), TargetError> {
        let nodes = self.groups.get(&group).into_iter().flatten().filter_map(|n| self.nodes.get(*n as usize));
        let copies: Vec<(u32, u32)> =
            nodes.flat_map(|(rid, ports)| ports.iter().map(|p| (*rid, *p))).collect();
        self.target.set_group(group, &copies)
    }

    fn counter_command(&mut self, kind: &Kind) -> Result<(), TargetError> {
        match kind {
            Kind::CounterRead(name, index) => self.indexed(name, *index).map(|_| ()),
            Kind::CounterWrite(name, index, packets, bytes) => {
                self.indexed(name, *index)?;
                let counters = &self.target.manifest().counters;
                let found =
                    resolve::pick(counters, name, |c| &c.name, "counter").map_err(TargetError::failed)?;
                let name = found.name.clone();
                self.target.counter_write(&name, *index, Count { packets: *packets, bytes: *bytes })
            }
            _ => Ok(()),
        }
    }

    fn register_command(&mut self, kind: &Kind) -> Result<(), TargetError> {
        let (Kind::RegisterRead(name, _) | Kind::RegisterWrite(name, ..) | Kind::RegisterReset(name)) = kind
        else {
            return Ok(());
        };
        let registers = &self.target.manifest().registers;
        let register =
            resolve::pick(registers, name, |r| &r.name, "register").map_err(TargetError::failed)?.clone();
        let (Kind::RegisterRead(_, index) | Kind::RegisterWrite(_, index, _)) = kind else {
            return self.target.register_reset(&register.name);
        };
        if *index >= register.size {
            let message =
                format!("register `{}` has {} cells, not a cell {index}", register.name, register.size);
            return Err(TargetError::failed(message));
        }
        match kind {
            Kind::RegisterWrite(_, _, value) => {
                let value = value.to_bits(register.width).map_err(TargetError::failed)?;
                self.target.register_write(&register.name, *index, &value)
            }
            _ => self.target.register_read(&register.name, *index).map(|_| ()),
        }
    }

    fn meter_command(&mut self, kind: &Kind) -> Result<(), TargetError> {
        let (Kind::MeterRates { meter: name, .. } | Kind::MeterGet(name, _)) = kind else { return Ok(()) };
        let meters = &self.target.manifest().meters;
        let meter = resolve::pick(meters, name, |m| &m.name, "meter").map_err(TargetError::failed)?.clone();
        let index = match kind {
            Kind::MeterRates { index, .. } => *index,
            Kind::MeterGet(_, index) => Some(*index),
            _ => None,
        };
        let message = match (index, meter.size) {
            (Some(_), None) => {
                format!("meter `{}` has a cell an entry: meter_array_set_rates sets all", meter.name)
            }
            (Some(index), Some(size)) if index >= size => {
                format!("meter `{}` has {size} cells, not a cell {index}", meter.name)
            }
            _ => String::new(),
        };
        if !message.is_empty() {
            return Err(TargetError::failed(message));
        }
        match kind {
            Kind::MeterRates { rates, .. } => self.target.meter_rates(&meter.name, index, rates),
            _ => Ok(()),
        }
    }

    /// The table and the entry of the `add` with this `= ID`.
    fn named_entry(&self, id: &str) -> Result<(String, Entry), TargetError> {
        let found = self.entries.iter().rev().find(|(.., name)| name.as_deref() == Some(id));
        let missing = || TargetError::failed(format!("no `add … = {id}` precedes this line"));
        found.map(|(table, entry, _)| (table.clone(), entry.clone())).ok_or_else(missing)
    }

    fn check_idle(&mut self, line: u32, ids: &[String]) -> Result<(), TargetError> {
        self.drain()?;
        self.report.checks += 1;
        let mut wanted = ids.iter().map(|id| self.named_entry(id)).collect::<Result<Vec<_>, _>>()?;
        for (table, entry) in self.target.take_idle()? {
            let same = |w: &(String, Entry)| {
                w.0 == table && w.1.matches == entry.matches && w.1.priority == entry.priority
            };
            match wanted.iter().position(same) {
                Some(at) => drop(wanted.swap_remove(at)),
                None => {
                    let found = self.entries.iter().find(|(t, e, _)| same(&(t.clone(), e.clone())));
                    let name = found.and_then(|(.., id)| id.clone()).unwrap_or_else(|| "another".into());
                    self.fail(line, format!("an entry of table `{table}` ({name}) is idle, too"), false);
                }
            }
        }
        for (table, _) in wanted {
            self.fail(line, format!("an entry of table `{table}` is not idle"), false);
        }
        Ok(())
    }

    fn check_digest(
        &mut self,
        line: u32,
        name: &str,
        fields: &[(String, Number)],
    ) -> Result<(), TargetError> {
        self.fetch_digests()?;
        self.report.checks += 1;
        let Some(sent) = self.digests.pop_front() else {
            self.fail(line, format!("no digest was sent; `{name}` was expected"), false);
            return Ok(());
        };
        if !resolve::is_suffix(&sent.name, name) {
            self.fail(line, format!("digest `{}` was sent, not `{name}`", sent.name), false);
            return Ok(());
        }
        for (field, number) in fields {
            let found = sent.fields.iter().find(|(n, _)| resolve::is_suffix(n, field));
            let Some((_, value)) = found else {
                let known: Vec<_> = sent.fields.iter().map(|(n, _)| n.as_str()).collect();
                let message = format!("digest `{name}` has no field `{field}`; it has {}", known.join(", "));
                return Err(TargetError::failed(message));
            };
            let wanted = number.to_bits(value.width()).map_err(TargetError::failed)?;
            if *value != wanted {
                self.fail(
                    line,
                    format!("field `{field}` of digest `{name}` is {value}, not {wanted}"),
                    false,
                );
            }
        }
        Ok(())
    }

    fn no_digest(&mut self, line: u32) -> Result<(), TargetError> {
        self.fetch_digests()?;
        self.report.checks += 1;
        if let Some(sent) = self.digests.front() {
            self.fail(line, format!("digest `{}` was sent; none was expected", sent.name), false);
        }
        Ok(())
    }

    /// Fetches the digests that the program has sent so far.
    fn fetch_digests(&mut self) -> Result<(), TargetError> {
        self.drain()?;
        let sent = self.target.digests()?;
        self.digests.extend(sent);
        Ok(())
    }

    fn check_counter(
        &mut self,
        line: u32,
        name: &str,
        cell: &Cell,
        check: Option<Check>,
    ) -> Result<(), TargetError> {
        self.drain()?;
        self.report.checks += 1;
        let count = match name.strip_prefix("drop.") {
            Some(reason) => self.drop_count(reason)?,
            None => self.count(name, cell)?,
        };
        let message = match check {
            None if count == Count::default() => return Ok(()),
            None => format!("`{name}` has {} packets and {} bytes, not 0", count.packets, count.bytes),
            Some(check) => {
                let (got, unit) =
                    if check.bytes { (count.bytes, "bytes") } else { (count.packets, "packets") };
                if check.op.holds(got, check.value) {
                    return Ok(());
                }
                format!("`{name}` has {got} {unit}; {} {} expected", check.op.symbol(), check.value)
            }
        };
        self.fail(line, message, false);
        Ok(())
    }

    /// The total count of the drop reasons with a name: the reason with exactly this name, or else all drop sites of the action with this
    /// suffix.
    fn drop_count(&mut self, name: &str) -> Result<Count, TargetError> {
        let reasons: Vec<String> = self.target.manifest().drops.iter().map(|d| d.name.clone()).collect();
        let base = |full: &String| full.split(" line ").next().unwrap_or(full).to_string();
        let exact: Vec<&String> = reasons.iter().filter(|r| *r == name).collect();
        let suffix =
            || reasons.iter().filter(|r| resolve::is_suffix(&base(r), name) || resolve::is_suffix(r, name));
        let found = if exact.is_empty() { suffix().collect() } else { exact };
        let distinct: BTreeSet<String> = found.iter().map(|r| base(r)).collect();
        match distinct.len() {
            0 => {
                let known = reasons.join("`, `");
                Err(TargetError::failed(format!("there is no drop reason `{name}`; there are `{known}`")))
            }
            1 => found.into_iter().try_fold(Count::default(), |mut sum, reason| {
                sum += self.target.drops(reason)?;
                Ok(sum)
            }),
            _ => Err(TargetError::failed(format!("drop reason `{name}` may mean any of {distinct:?}"))),
        }
    }

    fn count(&mut self, name: &str, cell: &Cell) -> Result<Count, TargetError> {
        let direct = |t: &Table| t.direct_counter.as_ref().map(|c| (c.clone(), t.name.clone()));
        let direct: Vec<(String, String)> = self.target.manifest().tables.iter().filter_map(direct).collect();
        let table = resolve::pick(&direct, name, |d| &d.0, "counter").map(|d| d.1.clone());
        match (table, cell) {
            (Ok(table), cell) => {
                let entry = self.entry(&table, cell).map_err(TargetError::failed)?;
                self.target.direct_counter(&table, &entry)
            }
            (Err(_), Cell::Index(index)) => self.indexed(name, *index),
            (Err(_), Cell::Entry(id)) => {
                let message = format!("`${id}` is an entry, and `{name}` is not a direct counter");
                Err(TargetError::failed(message))
            }
        }
    }

    fn entry(&self, table: &str, cell: &Cell) -> Result<Entry, String> {
        let mut of_table = self.entries.iter().filter(|e| e.0 == table);
        let found = match cell {
            Cell::Index(index) => of_table.nth(*index as usize),
            Cell::Entry(id) => of_table.find(|e| e.2.as_ref() == Some(id)),
        };
        found.map(|e| e.1.clone()).ok_or_else(|| match cell {
            Cell::Index(index) => format!("table `{table}` got no entry number {index} from this case"),
            Cell::Entry(id) => format!("no entry of table `{table}` was added with `= {id}`"),
        })
    }

    fn indexed(&mut self, name: &str, index: u64) -> Result<Count, TargetError> {
        let counters = &self.target.manifest().counters;
        let counter =
            resolve::pick(counters, name, |c| &c.name, "counter").map_err(TargetError::failed)?.clone();
        let count = self.target.counter(&counter.name, index)?;
        count.ok_or_else(|| {
            TargetError::failed(format!(
                "counter `{}` has {} cells, not a cell {index}",
                counter.name, counter.size
            ))
        })
    }

    fn compare(&mut self) {
        for port in std::mem::take(&mut self.ports) {
            let expected = self.expected.remove(&port).unwrap_or_default();
            let got = self.got.remove(&port).unwrap_or_default();
            self.report.checks += expected.len();
            for (at, (line, pattern)) in expected.iter().enumerate() {
                match got.get(at) {
                    None => self.fail(*line, format!("port {port}: no packet came"), false),
                    Some((cause, bytes)) => {
                        if let Some(message) = pattern.as_ref().and_then(|p| difference(p, bytes)) {
                            let message = format!("port {port}, after the packet of line {cause}: {message}");
                            self.fail(*line, message, false);
                        }
                    }
                }
            }
            for (cause, bytes) in got.iter().skip(expected.len()) {
                let dump = dump(&bytes.iter().flat_map(|b| [Some(b >> 4), Some(b & 15)]).collect::<Vec<_>>());
                let message = format!("port {port}: a packet that nothing expects\n{dump}");
                self.fail(*cause, message, false);
            }
        }
    }
}

/// The difference between a packet and a pattern; `None` if they match.
fn difference(pattern: &Pattern, bytes: &[u8]) -> Option<String> {
    let got: Vec<Option<u8>> = bytes.iter().flat_map(|b| [Some(b >> 4), Some(b & 15)]).collect();
    let differs = |i: &usize| match (pattern.nibbles.get(*i), got.get(*i)) {
        (Some(Some(want)), Some(have)) => Some(*want) != *have,
        (Some(_), None) => true,
        (None, Some(_)) => pattern.exact,
        _ => false,
    };
    let wrong: Vec<usize> = (0..pattern.nibbles.len().max(got.len())).filter(differs).collect();
    let first = wrong.first()?;
    let lengths = match pattern.nibbles.len().div_ceil(2) {
        want if pattern.exact && want != bytes.len() => format!(" ({} bytes, not {want})", bytes.len()),
        want if want > bytes.len() => format!(" ({} bytes, at least {want} expected)", bytes.len()),
        _ => String::new(),
    };
    let mut text = format!("the packet differs from byte {} on{lengths}\n", first / 2);
    // A row has sixteen bytes. Rows without a difference are left out.
    for row in 0..pattern.nibbles.len().max(got.len()).div_ceil(ROW) {
        let span = row * ROW..(row + 1) * ROW;
        if !wrong.iter().any(|i| span.contains(i)) {
            continue;
        }
        let part =
            |nibbles: &[Option<u8>]| spaced(nibbles.iter().skip(span.start).take(ROW).map(|n| digit(*n)));
        let marks = spaced(span.clone().map(|i| if wrong.contains(&i) { '^' } else { ' ' }));
        let offset = span.start / 2;
        text += &format!("  {offset:04x}  expected  {}\n", part(&pattern.nibbles));
        text += &format!("        got       {}\n", part(&got));
        text += &format!("                  {}\n", marks.trim_end());
    }
    Some(text.trim_end().to_string())
}

/// Number of half bytes in a row of a dump.
const ROW: usize = 32;

fn dump(nibbles: &[Option<u8>]) -> String {
    let row = |(i, row): (usize, &[Option<u8>])| {
        format!("  {:04x}  {}", i * ROW / 2, spaced(row.iter().map(|n| digit(*n))))
    };
    nibbles.chunks(ROW).enumerate().map(row).collect::<Vec<_>>().join("\n")
}

fn digit(nibble: Option<u8>) -> char {
    nibble.and_then(|n| char::from_digit(n as u32, 16)).unwrap_or('*')
}

fn spaced(digits: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    for (i, digit) in digits.enumerate() {
        if i > 0 && i % 2 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
