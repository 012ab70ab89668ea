//! Traces of packets: as text with the P4 lines beside it, and as JSON.

use ir::{Loc, Program};
use serde_json::{Map, Value, json};

use crate::event::{Event, Observer};

/// An observer that writes a trace as text.
pub struct Text<'p> {
    program: &'p Program,
    out: String,
    packets: usize,
}

impl<'p> Text<'p> {
    /// An empty trace.
    pub fn new(program: &'p Program) -> Text<'p> {
        Text { program, out: String::new(), packets: 0 }
    }

    /// Returns the text written since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    fn line(&mut self, loc: Loc, what: &str) {
        let place = self.program.place(loc).unwrap_or_default();
        self.out.push_str(&format!("  {place:<28} {what}\n"));
    }
}

fn pairs(list: &[(&str, abi::Bits)]) -> String {
    list.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
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
            Event::Assigned { place, value, loc } => self.line(loc, &format!("{place} = {value}")),
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
    packets: Vec<Value>,
}

impl<'p> Json<'p> {
    /// An empty trace.
    pub fn new(program: &'p Program) -> Json<'p> {
        Json { program, packets: Vec::new() }
    }

    /// Returns the array of all packets.
    pub fn finish(self) -> Value {
        Value::Array(self.packets)
    }

    fn object(&self, event: Event<'_>) -> (Option<Loc>, Value) {
        let values = |list: Vec<(&str, abi::Bits)>| {
            Value::Object(
                list.into_iter().map(|(k, v)| (k.to_string(), json!(v.to_string()))).collect::<Map<_, _>>(),
            )
        };
        match event {
            Event::Arrived { port, bytes } => {
                (None, json!({"event": "arrived", "port": port, "bytes": hex(bytes)}))
            }
            Event::Again { how, session, .. } => (None, json!({"event": how, "session": session})),
            Event::State { name, loc } => (Some(loc), json!({"event": "state", "state": name})),
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
