//! Traces of packets: as text with the P4 lines beside it, and as JSON.

use std::collections::BTreeMap;

use abi::show;
use ir::{Expr, Loc, Program};
use serde_json::{Map, Value, json};

use crate::event::{Event, Observer};

/// The text of the statement at a place, with its condition in parentheses: `if (…)`. `None` if no such statement begins there.
pub type Statements<'p> = &'p dyn Fn(Loc) -> Option<String>;

/// An observer that writes a trace as text.
pub struct Text<'p> {
    program: &'p Program,
    statements: Statements<'p>,
    out: String,
    packets: usize,
    /// The paths of the files that the trace has mentioned, by their short names.
    files: BTreeMap<String, String>,
}

impl<'p> Text<'p> {
    /// An empty trace.
    pub fn new(program: &'p Program, statements: Statements<'p>) -> Text<'p> {
        Text { program, statements, out: String::new(), packets: 0, files: BTreeMap::new() }
    }

    /// Returns the text written since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    fn line(&mut self, loc: Loc, what: &str) {
        let place = self.program.place(loc).map(|place| self.short(&place)).unwrap_or_default();
        self.out.push_str(&format!("  {place:<20} {what}\n"));
    }

    /// A place with the name of its file instead of the path, which is written once. Of two files with one name, the second has its path.
    fn short(&mut self, place: &str) -> String {
        let Some((path, line)) = place.rsplit_once(':') else { return place.to_string() };
        let name = path.rsplit('/').next().unwrap_or(path);
        match self.files.get(name) {
            Some(known) if known == path => {}
            Some(_) => return place.to_string(),
            None => {
                self.files.insert(name.to_string(), path.to_string());
                if name != path {
                    self.out.push_str(&format!("  ({name} is {path})\n"));
                }
            }
        }
        format!("{name}:{line}")
    }
}

/// The text of a decision. A condition of Strait's own has none.
fn decision(
    program: &Program,
    statements: Statements<'_>,
    what: &str,
    on: &Expr,
    loc: Loc,
) -> Option<String> {
    let own = ir::text::expr(program, on);
    // The flag of `exit` and `return` is tested where they stand, and behind each call.
    if own.contains("$exit") {
        return None;
    }
    statements(loc).or_else(|| (!own.contains('$')).then(|| format!("{what} ({own})")))
}

fn pairs<N: AsRef<str>>(list: &[(N, abi::Bits)]) -> String {
    let pair = |(name, value): &(N, abi::Bits)| {
        let name = name.as_ref();
        format!("{} = {}", ir::text::readable(name), show::value(name, value))
    };
    list.iter().map(pair).collect::<Vec<_>>().join(", ")
}

impl Observer for Text<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Arrived { port, bytes } => {
                self.packets += 1;
                self.out.push_str(&format!(
                    "packet {} on port {port}, {} bytes\n",
                    self.packets,
                    bytes.len()
                ));
            }
            Event::Again { how, session, .. } => {
                let session = session.map_or(String::new(), |s| format!(" to session {s}"));
                self.out.push_str(&format!("  {how}{session}\n"));
            }
            Event::State { name, loc } => self.line(loc, &format!("state {name}")),
            Event::Selected { keys, next } => {
                self.line(Loc::default(), &format!("    select {}: {next}", pairs(&keys)));
            }
            Event::Decided { what, on, mut read, result, loc } => {
                let Some(text) = decision(self.program, self.statements, what, on, loc) else { return };
                read.retain(|(name, _)| !name.contains('$'));
                let result = match what {
                    "if" => if result.is_zero() { ": false" } else { ": true" }.to_string(),
                    _ => String::new(),
                };
                let read = if read.is_empty() { String::new() } else { format!(" ({})", pairs(&read)) };
                self.line(loc, &format!("{text}{result}{read}"));
            }
            Event::Extracted { header, loc, fields } => {
                self.line(loc, &format!("extract {header}: {}", pairs(&fields)));
            }
            Event::Parsed { error, consumed } => {
                self.line(Loc::default(), &format!("parsed {consumed} bytes: {error}"));
            }
            Event::Control { name, loc } => self.line(loc, &format!("control {name}")),
            Event::Applied { table, loc, key, hit, missed, action, args } => {
                self.line(loc, &format!("table {table} ({})", pairs(&key)));
                for entry in missed {
                    self.line(Loc::default(), &format!("    not {entry}"));
                }
                let found = hit.map_or("miss".to_string(), |entry| format!("hit {entry}"));
                self.line(Loc::default(), &format!("    {found}: {action}({})", pairs(&args)));
            }
            // Variables of Strait's own say nothing about the program.
            Event::Assigned { place, .. } if place.starts_with('$') => {}
            Event::Assigned { place, value, loc } => self.line(loc, &pairs(&[(place, value)])),
            Event::Validity { header, valid, loc } => {
                self.line(loc, &format!("{header} is {}", if valid { "valid" } else { "invalid" }));
            }
            Event::Checksum { place, value, right, loc } => {
                let what = match right {
                    Some(true) => format!("{place} is right: {value:#06x}"),
                    Some(false) => format!("{place} is wrong: it should be {value:#06x}"),
                    None => format!("{place} is computed: {value:#06x}"),
                };
                self.line(loc, &what);
            }
            Event::Message { text, loc } => self.line(loc, &format!("says {text:?}")),
            Event::Marked { site, loc } => self.line(loc, &format!("mark_to_drop in {site}")),
            Event::Sent { port, bytes } => {
                self.out.push_str(&format!("  sent on port {port}, {} bytes: {}\n", bytes.len(), hex(bytes)));
            }
            Event::Dropped { reason } => self.out.push_str(&format!("  dropped: {reason}\n")),
        }
    }
}

/// An observer that collects a JSON object for each packet, with the list of its events.
pub struct Json<'p> {
    program: &'p Program,
    statements: Statements<'p>,
    packets: Vec<Value>,
}

impl<'p> Json<'p> {
    /// An empty trace.
    pub fn new(program: &'p Program, statements: Statements<'p>) -> Json<'p> {
        Json { program, statements, packets: Vec::new() }
    }

    /// Returns the array of all packets.
    pub fn finish(self) -> Value {
        Value::Array(self.packets)
    }

    fn object(&self, event: Event<'_>) -> (Option<Loc>, Value) {
        match event {
            Event::Arrived { port, bytes } => {
                (None, json!({"event": "arrived", "port": port, "bytes": hex(bytes)}))
            }
            Event::Again { how, session, .. } => (None, json!({"event": how, "session": session})),
            Event::State { name, loc } => (Some(loc), json!({"event": "state", "state": name})),
            Event::Selected { keys, next } => {
                (None, json!({"event": "selected", "keys": values(keys), "next": next}))
            }
            Event::Decided { what, on, read, result, loc } => {
                let text = decision(self.program, self.statements, what, on, loc);
                let text = text.unwrap_or_else(|| format!("{what} ({})", ir::text::expr(self.program, on)));
                let result = if what == "if" { json!(!result.is_zero()) } else { json!(result.to_string()) };
                (
                    Some(loc),
                    json!({"event": "decided", "statement": text, "result": result, "read": values(read)}),
                )
            }
            Event::Extracted { header, loc, fields } => {
                (Some(loc), json!({"event": "extracted", "header": header, "fields": values(fields)}))
            }
            Event::Parsed { error, consumed } => {
                (None, json!({"event": "parsed", "error": error, "bytes": consumed}))
            }
            Event::Control { name, loc } => (Some(loc), json!({"event": "control", "control": name})),
            Event::Applied { table, loc, key, hit, missed, action, args } => {
                let value = json!({"event": "applied", "table": table, "key": values(key), "hit": hit,
                    "missed": missed, "action": action, "args": values(args)});
                (Some(loc), value)
            }
            Event::Assigned { place, value, loc } => {
                (Some(loc), json!({"event": "assigned", "place": place, "value": value.to_string()}))
            }
            Event::Validity { header, valid, loc } => {
                (Some(loc), json!({"event": "validity", "header": header, "valid": valid}))
            }
            Event::Checksum { place, value, right, loc } => {
                (Some(loc), json!({"event": "checksum", "place": place, "value": value, "right": right}))
            }
            Event::Message { text, loc } => (Some(loc), json!({"event": "message", "text": text})),
            Event::Marked { site, loc } => (Some(loc), json!({"event": "marked", "site": site})),
            Event::Sent { port, bytes } => {
                (None, json!({"event": "sent", "port": port, "bytes": hex(bytes)}))
            }
            Event::Dropped { reason } => (None, json!({"event": "dropped", "reason": reason})),
        }
    }
}

impl Observer for Json<'_> {
    fn event(&mut self, event: Event<'_>) {
        let begins = matches!(event, Event::Arrived { .. });
        let (loc, mut object) = self.object(event);
        if let (Some(place), Some(map)) = (loc.and_then(|l| self.program.place(l)), object.as_object_mut()) {
            map.insert("at".to_string(), json!(place));
        }
        if begins {
            self.packets.push(json!({"events": []}));
        }
        let events = self.packets.last_mut().and_then(|p| p["events"].as_array_mut());
        if let Some(events) = events {
            events.push(object);
        }
    }
}

/// Numbers are strings, because they may have any width.
fn values<N: Into<String>>(list: Vec<(N, abi::Bits)>) -> Value {
    let pairs = list.into_iter().map(|(name, value)| (name.into(), json!(value.to_string())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
