//! Runs a case on a target and checks the results. It is stricter than p4c's runner: it also checks counters and `no_packet`.
//!
//! Packets are compared at the end: for each port their order, their number and their bytes. Only the ports that the case names are
//! attached. Packets to other ports are discarded, as on a switch port without a cable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use abi::Digest;
use abi::id::TableId;
use abi::manifest::Manifest;
use dataplane::Count;
use dataplane::device::{Device, EntryKey, Event, Key};
use serde::Serialize;
use thiserror::Error;

use super::write::Written;
use super::{Case, Cell, Check, Kind, Number, Pattern, Statement, resolve};

/// Packets that the target sent, each with its port.
pub type Outputs = Vec<(u32, Vec<u8>)>;

/// A target that plays packet tests: a [`Device`], and what tests do to it besides.
pub trait Target {
    /// The running program, as its controllers see it.
    fn device(&mut self) -> &mut dyn Device;
    /// Attaches the ports that the case uses. It is called once, before everything else. The default does nothing, for targets whose ports
    /// always exist.
    fn attach(&mut self, _ports: &[u32]) -> Result<(), TargetError> {
        Ok(())
    }
    /// Sends a packet into a port, and returns the packets that have come out so far. Others may follow at [`Target::drain`].
    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError>;
    /// Waits until every packet has come out or is lost, and returns the packets that [`Target::send`] did not return.
    fn drain(&mut self) -> Result<Outputs, TargetError> {
        Ok(Outputs::new())
    }
    /// Sets the time that packets see, in microseconds.
    fn set_clock(&mut self, _micros: u64) -> Result<(), TargetError> {
        Err(TargetError::unsupported("clock"))
    }
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

    /// Says that the failures, if there are any, are due to something that the target lacks.
    pub fn lacks(&mut self, what: &str) {
        for failure in &mut self.failures {
            failure.message = format!("this target has no {what}");
            failure.unsupported = true;
        }
    }

    /// What the target lacks, if the case failed for that reason only.
    pub fn unsupported(&self) -> Option<&str> {
        let first = self.failures.first().filter(|_| self.failures.iter().all(|f| f.unsupported))?;
        Some(&first.message)
    }
}

/// Runs a case. It stops at the first line that the target does not support, because the results of later lines would be meaningless.
pub fn run(case: &Case, target: &mut dyn Target) -> Report {
    let manifest = target.device().manifest().clone();
    let mut run = Run {
        target,
        manifest,
        ports: named_ports(case),
        strict: case.statements.iter().any(|s| s.kind == Kind::NoPacket),
        report: Report { case: case.name.clone(), ..Report::default() },
        expected: BTreeMap::new(),
        got: BTreeMap::new(),
        last: Last::default(),
        written: Written::default(),
        digests: VecDeque::new(),
        log: VecDeque::new(),
        idle: Vec::new(),
    };
    run.case(case);
    run.report.failures.sort_by_key(|f| f.line);
    run.report.passed = run.report.failures.is_empty();
    run.report
}

/// Executes only statements of the control plane (`--entries FILE`), as one batch: all of them or none. Other lines are errors.
pub fn load(case: &Case, device: &mut dyn Device) -> Report {
    let failures: Vec<_> = load_all(case, device).err().into_iter().collect();
    Report { case: case.name.clone(), passed: failures.is_empty(), failures, ..Report::default() }
}

fn load_all(case: &Case, device: &mut dyn Device) -> Result<(), Failure> {
    let failure = |line: u32, error: TargetError| Failure {
        line,
        message: error.to_string(),
        unsupported: matches!(error, TargetError::Unsupported(_)),
    };
    let (mut written, mut updates, mut lines) = (Written::default(), Vec::new(), Vec::new());
    for statement in &case.statements {
        if !statement.kind.fills() {
            let message = "only entries, defaults, members, groups, sessions, rates, value sets, counters, registers, host ports and expire times can be set here";
            return Err(failure(statement.line, TargetError::failed(message)));
        }
        let more = written.updates(device, &statement.kind).map_err(|e| failure(statement.line, e))?;
        lines.extend(more.iter().map(|_| statement.line));
        updates.extend(more);
    }
    device.write(&updates).map_err(|refused| failure(lines[refused.index], refused.error.into()))
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
    manifest: Manifest,
    ports: BTreeSet<u32>,
    /// Whether the case has a `no_packet`. Each output must then be assigned to its input, so packets are sent one at a time.
    strict: bool,
    report: Report,
    /// The expected packets of each port: the line and the pattern.
    expected: BTreeMap<u32, Vec<(u32, Option<Pattern>)>>,
    /// The received packets of each port: the line of the last `packet` before it, and the bytes.
    got: BTreeMap<u32, Vec<(u32, Vec<u8>)>>,
    last: Last,
    written: Written,
    /// The digests that no line has checked yet.
    digests: VecDeque<Digest>,
    /// The messages that no line has checked yet.
    log: VecDeque<String>,
    /// The idle entries that no line has checked yet.
    idle: Vec<EntryKey>,
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
        if case.statements.iter().any(|s| matches!(s.kind, Kind::CheckLog(_) | Kind::NoLog))
            && let Err(e) = self.target.device().listen(true)
        {
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
            Kind::CheckIdle(ids) => self.check_idle(line, ids),
            Kind::CheckDigest(name, fields) => self.check_digest(line, name, fields),
            Kind::NoDigest => self.no_digest(line),
            Kind::CheckLog(text) => self.check_log(line, Some(text)),
            Kind::NoLog => self.check_log(line, None),
            Kind::Clock(micros) => self.target.set_clock(*micros),
            Kind::MirroringGet(session) => self.exists(Key::Session(*session)),
            Kind::CounterRead(name, index) => {
                let counter = resolve::counter(&self.manifest, name).map_err(TargetError::failed)?;
                self.exists(Key::Counter(counter, *index))
            }
            Kind::RegisterRead(name, index) => {
                let register = resolve::register(&self.manifest, name).map_err(TargetError::failed)?;
                self.exists(Key::Register(register, *index))
            }
            Kind::MeterGet(name, index) => {
                let meter = resolve::meter(&self.manifest, name).map_err(TargetError::failed)?;
                self.exists(Key::Meter(meter, *index))
            }
            kind => {
                let device = self.target.device();
                let updates = self.written.updates(device, kind)?;
                device.write(&updates).map_err(|refused| refused.error.into())
            }
        }
    }

    fn exists(&mut self, key: Key) -> Result<(), TargetError> {
        Ok(self.target.device().get(&key).map(drop)?)
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

    fn check_idle(&mut self, line: u32, ids: &[String]) -> Result<(), TargetError> {
        self.fetch_events()?;
        self.report.checks += 1;
        let wanted = ids.iter().map(|id| self.written.named(id)).collect::<Result<Vec<_>, _>>()?;
        let mut wanted: Vec<EntryKey> = wanted.into_iter().map(|entry| entry.key).collect();
        for key in std::mem::take(&mut self.idle) {
            match wanted.iter().position(|w| *w == key) {
                Some(at) => drop(wanted.swap_remove(at)),
                None => {
                    let name = self.written.name_of(&key).unwrap_or("another").to_string();
                    let table = self.table_name(key.table).to_string();
                    self.fail(line, format!("an entry of table `{table}` ({name}) is idle, too"), false);
                }
            }
        }
        for key in wanted {
            let table = self.table_name(key.table).to_string();
            self.fail(line, format!("an entry of table `{table}` is not idle"), false);
        }
        Ok(())
    }

    fn table_name(&self, table: TableId) -> &str {
        &self.manifest.tables[table.index()].name
    }

    fn check_digest(
        &mut self,
        line: u32,
        name: &str,
        fields: &[(String, Number)],
    ) -> Result<(), TargetError> {
        self.fetch_events()?;
        self.report.checks += 1;
        let Some(sent) = self.digests.pop_front() else {
            self.fail(line, format!("no digest was sent; `{name}` was expected"), false);
            return Ok(());
        };
        let kind = self.manifest.digests[sent.digest.index()].clone();
        if !resolve::is_suffix(&kind.name, name) {
            self.fail(line, format!("digest `{}` was sent, not `{name}`", kind.name), false);
            return Ok(());
        }
        for (field, number) in fields {
            let mut values = kind.fields.iter().zip(&sent.values);
            let found = values.find(|((n, _), _)| resolve::is_suffix(n, field));
            let Some((_, value)) = found else {
                let known: Vec<_> = kind.fields.iter().map(|(n, _)| n.as_str()).collect();
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
        self.fetch_events()?;
        self.report.checks += 1;
        if let Some(sent) = self.digests.front() {
            let name = &self.manifest.digests[sent.digest.index()].name;
            let message = format!("digest `{name}` was sent; none was expected");
            self.fail(line, message, false);
        }
        Ok(())
    }

    /// Checks the next message of the program, or that there is none.
    fn check_log(&mut self, line: u32, wanted: Option<&str>) -> Result<(), TargetError> {
        self.fetch_events()?;
        self.report.checks += 1;
        let logged = match wanted {
            Some(_) => self.log.pop_front(),
            None => self.log.front().cloned(),
        };
        if logged.as_deref() != wanted {
            let shown = |text: Option<&str>| text.map_or("nothing".to_string(), |text| format!("`{text}`"));
            let (logged, wanted) = (shown(logged.as_deref()), shown(wanted));
            self.fail(line, format!("the program logged {logged}, not {wanted}"), false);
        }
        Ok(())
    }

    /// Fetches what the program has told so far.
    fn fetch_events(&mut self) -> Result<(), TargetError> {
        self.drain()?;
        for event in self.target.device().events()? {
            match event {
                Event::Digest(digest) => self.digests.push_back(digest),
                Event::Idle(entry) => self.idle.push(entry.key),
                Event::Message(message) => {
                    let kind = &self.manifest.messages[message.message.index()];
                    self.log.push_back(kind.text(&message.values));
                }
                Event::Packet(_) => {}
            }
        }
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
        let reasons: Vec<String> = self.manifest.drops.iter().map(|d| d.name.clone()).collect();
        let base = |full: &String| full.split(" line ").next().unwrap_or(full).to_string();
        let exact: Vec<&String> = reasons.iter().filter(|r| *r == name).collect();
        let suffix =
            || reasons.iter().filter(|r| resolve::is_suffix(&base(r), name) || resolve::is_suffix(r, name));
        let found = if exact.is_empty() { suffix().collect() } else { exact };
        let distinct: BTreeSet<String> = found.iter().map(|r| base(r)).collect();
        match distinct.len() {
            0 => {
                let known = reasons.iter().map(|r| r.split(" line ").next().unwrap_or(r));
                Err(TargetError::failed(resolve::unknown(name, known, "drop reason")))
            }
            1 => found.into_iter().try_fold(Count::default(), |mut sum, reason| {
                if let Some(reason) = self.manifest.drop_id(reason) {
                    sum += self.target.device().count(&Key::Drop(reason))?;
                }
                Ok(sum)
            }),
            _ => Err(TargetError::failed(format!("drop reason `{name}` may mean any of {distinct:?}"))),
        }
    }

    fn count(&mut self, name: &str, cell: &Cell) -> Result<Count, TargetError> {
        let direct = |(id, t): (TableId, &abi::manifest::Table)| t.direct_counter.clone().map(|c| (c, id));
        let direct: Vec<(String, TableId)> = self.manifest.numbered_tables().filter_map(direct).collect();
        let key = match (resolve::pick(&direct, name, |d| &d.0, "counter"), cell) {
            (Ok((_, table)), cell) => {
                Key::DirectCounter(self.entry(*table, cell).map_err(TargetError::failed)?)
            }
            (Err(_), Cell::Index(index)) => {
                let counter = resolve::counter(&self.manifest, name).map_err(TargetError::failed)?;
                Key::Counter(counter, *index)
            }
            (Err(_), Cell::Entry(id)) => {
                let message = format!("`${id}` is an entry, and `{name}` is not a direct counter");
                return Err(TargetError::failed(message));
            }
        };
        Ok(self.target.device().count(&key)?)
    }

    /// The entry that a cell names: of const entries one that the program declares, of others one that the case has added.
    fn entry(&self, table: TableId, cell: &Cell) -> Result<EntryKey, String> {
        let definition = &self.manifest.tables[table.index()];
        if let (true, Cell::Index(index)) = (definition.const_entries, cell) {
            let declared = definition.initial_entries.get(*index as usize);
            let missing = || format!("table `{}` declares no entry number {index}", definition.name);
            return declared.map(|entry| EntryKey::of(table, entry).canonical()).ok_or_else(missing);
        }
        let mut of_table = self.written.of_table(table);
        let found = match cell {
            Cell::Index(index) => of_table.nth(*index as usize),
            Cell::Entry(id) => of_table.find(|(_, name)| *name == Some(id)),
        };
        let table = self.table_name(table);
        found.map(|(key, _)| key.clone()).ok_or_else(|| match cell {
            Cell::Index(index) => format!("table `{table}` got no entry number {index} from this case"),
            Cell::Entry(id) => format!("no entry of table `{table}` was added with `= {id}`"),
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
