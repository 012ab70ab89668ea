//! A running `simple_switch` as a device that plays packet tests.
//!
//! Tables are written over Thrift, packets go over nanomsg, and the switch publishes what it does with them: the executed actions tell the
//! drop reasons, because a drop reason is an action.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use abi::id::{DropId, TableId};
use abi::{ActionCall, Bits, Manifest, MatchValue};
use anyhow::Context;
use dataplane::Count;
use dataplane::device::{
    self, Action, Device, DeviceError, Entity, EntryKey, Event, Key, Kind, Model, Query, Store, Update,
    WriteError,
};
use harness::stf::{Outputs, Target, TargetError};
use serde_json::Value as Json;

use super::nanomsg::{Connection, Protocol};
use super::thrift::{Client, Value};

/// The switch is alone in its network namespace, so the port is free.
const THRIFT_PORT: u16 = 9090;
/// How long a switch may take to start, and a packet to enter it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long no packet must move, if the fate of one is unknown.
const QUIET: Duration = Duration::from_millis(400);
/// The same if every packet has left or was dropped by an action: copies of it may still be under way.
const SETTLED: Duration = Duration::from_millis(30);

/// A switch that runs one program. It ends when the value is dropped.
pub struct Switch {
    process: Child,
    thrift: Client,
    packets: Connection,
    events: Connection,
    /// What was written; the switch is not asked for it.
    model: Model,
    handles: HashMap<EntryKey, Value>,
    /// The drop reason that an action of the switch is.
    reasons: BTreeMap<i32, DropId>,
    /// The packets that a drop reason ended, by their number in the switch. One that is parsed again, as a copy, goes on.
    dropped: HashMap<Vec<u8>, DropId>,
    progress: Progress,
}

/// Packets since the switch started.
#[derive(Default)]
struct Progress {
    sent: usize,
    /// The switch has said that it has the packet.
    entered: usize,
    /// The switch has said that the packet left.
    left: usize,
    /// Packets that have arrived here.
    arrived: usize,
}

impl Switch {
    /// Starts a switch with a program that p4c compiled, in the thread's network namespace. `directory` is for its sockets.
    pub fn start(
        switch: &Path,
        json: &Path,
        manifest: &Manifest,
        directory: &Path,
    ) -> anyhow::Result<Switch> {
        let socket = |name: &str| directory.join(name);
        let address = |name: &str| format!("ipc://{}", socket(name).display());
        let mut process = Command::new(switch)
            .args(["--thrift-port", &THRIFT_PORT.to_string(), "--packet-in", &address("packets")])
            .args(["--nanolog", &address("events"), "--notifications-addr", &address("notifications")])
            .arg(json)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", switch.display()))?;
        let connected = patiently(|| {
            anyhow::ensure!(process.try_wait()?.is_none(), "{} has ended at once", switch.display());
            Ok((
                Client::connect(THRIFT_PORT)?,
                Connection::open(&socket("packets"), Protocol::Pair)?,
                Connection::open(&socket("events"), Protocol::Subscriber)?,
            ))
        });
        let (thrift, packets, events) = connected.inspect_err(|_| end(&mut process))?;
        let compiled: Json = serde_json::from_slice(&std::fs::read(json)?)?;
        Ok(Switch {
            process,
            thrift,
            packets,
            events,
            model: Model::new(manifest.clone()),
            handles: HashMap::new(),
            reasons: reasons(&compiled, manifest),
            dropped: HashMap::new(),
            progress: Progress::default(),
        })
    }

    /// Takes what the switch has said, and returns the packets that have come out.
    fn take(&mut self) -> Outputs {
        for event in self.events.received() {
            let number = |at: usize| Some(i32::from_le_bytes(event.get(at..at + 4)?.try_into().ok()?));
            let packet = event.get(EVENT_PACKET).unwrap_or_default();
            match number(0) {
                Some(PACKET_IN) => self.progress.entered += 1,
                Some(PACKET_OUT) => self.progress.left += 1,
                Some(PARSER_START) => drop(self.dropped.remove(packet)),
                Some(ACTION_EXECUTE) => {
                    let reason = number(EVENT_ACTION).and_then(|action| self.reasons.get(&action));
                    self.dropped.extend(reason.map(|reason| (packet.to_vec(), *reason)));
                }
                _ => {}
            }
        }
        let outputs: Outputs = self.packets.received().filter_map(packet_out).collect();
        self.progress.arrived += outputs.len();
        outputs
    }

    fn call(&mut self, method: &str, args: Vec<Value>) -> Result<Option<Value>, DeviceError> {
        let context = Value::I32(0);
        let args = std::iter::once(context).chain(args).collect();
        match self.thrift.call(&format!("standard:{method}"), args) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(code)) => Err(DeviceError::Internal(format!("BMv2 refuses {method} with code {code}"))),
            Err(error) => Err(DeviceError::Internal(format!("{error:#}"))),
        }
    }

    fn table(&self, table: TableId) -> Value {
        Value::text(&self.model_manifest().tables[table.index()].name)
    }

    /// The name of an action, and its arguments.
    fn action(&self, table: TableId, call: &ActionCall) -> [Value; 2] {
        let action = &self.model_manifest().tables[table.index()].actions[call.action.index()];
        [Value::text(&action.name), Value::List(call.args.iter().map(bytes).collect())]
    }

    fn model_manifest(&self) -> &Manifest {
        Store::manifest(&self.model)
    }

    fn put_entry(&mut self, key: &EntryKey, call: &ActionCall, exists: bool) -> Result<(), DeviceError> {
        let table = self.table(key.table);
        let [action, data] = self.action(key.table, call);
        if exists {
            let handle = self.handle(key)?;
            return self.call("bm_mt_modify_entry", vec![table, handle, action, data]).map(drop);
        }
        // The smallest number has the highest priority.
        let priority = Value::Struct(vec![(1, Value::I32(i32::MAX - key.priority))]);
        let keys = &self.model_manifest().tables[key.table.index()].keys;
        let params = key.matches.iter().zip(keys).map(|(value, key)| match_param(value, key.width));
        let matches = Value::List(params.collect());
        let handle = self.call("bm_mt_add_entry", vec![table, matches, action, data, priority])?;
        self.handles.extend(handle.map(|handle| (key.clone(), handle)));
        Ok(())
    }

    fn handle(&self, key: &EntryKey) -> Result<Value, DeviceError> {
        let missing = || DeviceError::NotFound("BMv2 has no such entry".to_string());
        self.handles.get(key).cloned().ok_or_else(missing)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Child) {
    // It may have ended already.
    let _ = process.kill();
    let _ = process.wait();
}

/// Tries again until it succeeds, or returns the last error.
fn patiently<T>(mut attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
}

/// The numbers of events, and where each tells the packet (`msg_hdr_t` of BMv2's event_logger.cpp) and, behind the number of its copy, the action.
const PACKET_IN: i32 = 0;
const PACKET_OUT: i32 = 1;
const PARSER_START: i32 = 2;
const ACTION_EXECUTE: i32 = 14;
const EVENT_PACKET: Range<usize> = 24..32;
const EVENT_ACTION: usize = 40;

/// The types of messages with packets (`MsgType` of BMv2's dev_mgr_packet_in.cpp).
const MSG_PACKET_IN: u32 = 3;
const MSG_PACKET_OUT: u32 = 4;

fn packet_out(message: Vec<u8>) -> Option<(u32, Vec<u8>)> {
    let number = |at: usize| Some(u32::from_le_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let port = number(4)?;
    (number(0)? == MSG_PACKET_OUT).then(|| (port, message[12..].to_vec()))
}

/// The actions of a compiled program that are drop reasons. Several drops of one action are one action in BMv2, so the first has their count.
fn reasons(compiled: &Json, manifest: &Manifest) -> BTreeMap<i32, DropId> {
    let first = |name: &str| {
        let base = |reason: &str| reason.split(" line ").next() == Some(name);
        let found = manifest.drops.iter().find(|reason| base(&reason.name))?;
        manifest.drop_id(&found.name)
    };
    let one = |action: &Json| Some((action["id"].as_i64()? as i32, first(action["name"].as_str()?)?));
    compiled["actions"].as_array().into_iter().flatten().filter_map(one).collect()
}

fn bytes(bits: &Bits) -> Value {
    Value::Bytes(bits.to_bytes_be())
}

/// `BmMatchParam`: a type, and a struct in the field of the type. BMv2 takes optional keys for ternary ones.
fn match_param(value: &MatchValue, width: u32) -> Value {
    let (kind, fields) = match value {
        MatchValue::Exact(value) => (0, vec![bytes(value)]),
        MatchValue::Lpm(value, length) => (1, vec![bytes(value), Value::I32(*length as i32)]),
        MatchValue::Ternary(value, mask) => (2, vec![bytes(value), bytes(mask)]),
        MatchValue::Optional(Some(value)) => (2, vec![bytes(value), bytes(&Bits::ones(width))]),
        MatchValue::Optional(None) => (2, vec![bytes(&Bits::zero(width)), bytes(&Bits::zero(width))]),
        MatchValue::Range(low, high) => (4, vec![bytes(low), bytes(high)]),
    };
    let param = Value::Struct((1..).zip(fields).collect());
    Value::Struct(vec![(1, Value::I32(kind)), (kind as i16 + 2, param)])
}

fn count(value: Option<Value>) -> Result<Count, DeviceError> {
    match value {
        Some(Value::Struct(fields)) => match fields.as_slice() {
            [(1, Value::I64(bytes)), (2, Value::I64(packets))] => {
                Ok(Count { packets: *packets as u64, bytes: *bytes as u64 })
            }
            _ => Err(DeviceError::Internal("BMv2's counter has unknown fields".to_string())),
        },
        _ => Err(DeviceError::Internal("BMv2 returns no counter".to_string())),
    }
}

impl Target for Switch {
    fn device(&mut self) -> &mut dyn Device {
        self
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        let mut message = Vec::new();
        [MSG_PACKET_IN, port, packet.len() as u32].iter().for_each(|n| message.extend(n.to_le_bytes()));
        message.extend(packet);
        self.packets.send(&message).map_err(TargetError::failed)?;
        self.progress.sent += 1;
        // The targets of Strait finish one packet before the next; here, a packet that passes again would be overtaken.
        self.drain()
    }

    fn drain(&mut self) -> Result<Outputs, TargetError> {
        let (mut outputs, mut last) = (Outputs::new(), Instant::now());
        loop {
            let before = (self.progress.entered, self.progress.left, self.dropped.len());
            outputs.extend(self.take());
            let now = &self.progress;
            if before != (now.entered, now.left, self.dropped.len()) {
                last = Instant::now();
            }
            let known = now.arrived == now.left && now.left + self.dropped.len() >= now.sent;
            let quiet = last.elapsed() >= if known { SETTLED } else { QUIET };
            if quiet && now.entered >= now.sent {
                return Ok(outputs);
            }
            if last.elapsed() > PATIENCE {
                let (sent, entered) = (now.sent, now.entered);
                return Err(TargetError::failed(format!("BMv2 took {entered} of {sent} packets")));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Device for Switch {
    fn manifest(&self) -> &Manifest {
        self.model_manifest()
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        device::write(self, updates)
    }

    fn read(&mut self, query: &Query) -> Result<Vec<Entity>, DeviceError> {
        device::read(self, query)
    }

    fn events(&mut self) -> Result<Vec<Event>, DeviceError> {
        Err(DeviceError::Unimplemented("the judge does not read digests, messages and idle entries".into()))
    }

    fn listen(&mut self, _messages: bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Store for Switch {
    fn manifest(&self) -> &Manifest {
        self.model_manifest()
    }

    fn supports(&self, key: &Key) -> Result<(), DeviceError> {
        match key {
            Key::Entry(_) | Key::Default(_) | Key::Counter(..) | Key::DirectCounter(_) | Key::Drop(_) => {
                Ok(())
            }
            _ => Err(DeviceError::Unimplemented(
                "the judge writes entries and default actions only, and reads counters".into(),
            )),
        }
    }

    fn get(&mut self, key: &Key) -> Result<Option<Entity>, DeviceError> {
        match key {
            Key::Counter(counter, index) => {
                let name = Value::text(&self.model_manifest().counters[counter.index()].name);
                let value = self.call("bm_counter_read", vec![name, Value::I32(*index as i32)])?;
                Ok(Some(Entity::Counter { counter: *counter, index: *index, count: count(value)? }))
            }
            Key::DirectCounter(entry) => {
                let args = vec![self.table(entry.table), self.handle(entry)?];
                let value = self.call("bm_mt_read_counter", args)?;
                Ok(Some(Entity::DirectCounter { entry: entry.clone(), count: count(value)? }))
            }
            other => Store::get(&mut self.model, other),
        }
    }

    fn put(&mut self, entity: &Entity, exists: bool) -> Result<(), DeviceError> {
        match entity {
            Entity::Entry(device::TableEntry { key, action: Action::Call(call), idle: None }) => {
                self.put_entry(key, call, exists)?;
            }
            Entity::Default { table, action } => {
                let [name, data] = self.action(*table, action);
                self.call("bm_mt_set_default_action", vec![self.table(*table), name, data])?;
            }
            _ => return Err(DeviceError::Unimplemented("the judge does not write this to BMv2".into())),
        }
        self.model.put(entity, exists)
    }

    fn remove(&mut self, key: &Key) -> Result<(), DeviceError> {
        if let Key::Entry(entry) = key {
            let args = vec![self.table(entry.table), self.handle(entry)?];
            self.call("bm_mt_delete_entry", args)?;
            self.handles.remove(entry);
        }
        self.model.remove(key)
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<Entity>, DeviceError> {
        self.model.list(kind)
    }

    fn len(&mut self, kind: Kind) -> Result<Option<u64>, DeviceError> {
        self.model.len(kind)
    }

    fn dropped(&mut self, reason: DropId) -> Result<Count, DeviceError> {
        let packets = self.dropped.values().filter(|of| **of == reason).count() as u64;
        Ok(Count { packets, bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use abi::manifest::DropReason;

    use super::*;

    #[test]
    fn an_action_is_the_drop_reason_of_its_name() {
        let reason = |name: &str| DropReason { name: name.into(), help: String::new(), location: None };
        let drops = vec![reason("c.other"), reason("c.gone line 5"), reason("c.gone line 9")];
        let manifest = Manifest { drops, ..Manifest::default() };
        let compiled = serde_json::json!({ "actions": [
            { "id": 0, "name": "c.go" }, { "id": 3, "name": "c.gone" }, { "id": 4, "name": "c.gone" },
        ]});
        let gone = manifest.drop_id("c.gone line 5").unwrap();
        assert_eq!(reasons(&compiled, &manifest), BTreeMap::from([(3, gone), (4, gone)]));
    }

    #[test]
    fn keys_are_written_as_bmv2_matches_them() {
        let bits = |value| Bits::new(12, value);
        let field = |number, bytes: [u8; 2]| (number, Value::Bytes(bytes.to_vec()));
        let param = |kind, number, fields| {
            Value::Struct(vec![(1, Value::I32(kind)), (number, Value::Struct(fields))])
        };
        assert_eq!(
            match_param(&MatchValue::Lpm(bits(0xab0), 8), 12),
            param(1, 3, vec![field(1, [0x0a, 0xb0]), (2, Value::I32(8))])
        );
        assert_eq!(
            match_param(&MatchValue::Optional(None), 12),
            param(2, 4, vec![field(1, [0, 0]), field(2, [0, 0])])
        );
        assert_eq!(
            match_param(&MatchValue::Range(bits(1), bits(0xfff)), 12),
            param(4, 6, vec![field(1, [0, 1]), field(2, [0x0f, 0xff])])
        );
    }
}
