//! A device behind a P4Runtime server, as a [`Device`]: control planes that know devices only drive any server.
//!
//! The client is the primary of the device, so nobody else adds entries; what exists is read once, and known from then on.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use abi::Manifest;
use dataplane::device::{Device, DeviceError, Entity, Event, Key, Query, Update, WriteError};
use p4runtime::kept::Kept;
use p4runtime::pipeline::Pipeline;
use p4runtime::{Code, Status, packet, remote};
use proto::p4::config::v1::P4Info;
use proto::p4::v1::stream_message_response::Update as Message;
use proto::p4::v1::write_request::Atomicity;
use proto::p4::v1::{self, entity, stream_message_request, update};

use crate::client::{Client, ClientError};

/// How long a digest may wait for others at the server, in nanoseconds.
const DIGEST_DELAY: i64 = 1_000_000;
/// The digests of one list.
const DIGESTS: i32 = 256;
/// The time after which a digest that was not answered is sent again, in nanoseconds.
const DIGEST_AGAIN: i64 = 500_000_000;

/// The events that are handled together.
const EVENTS: usize = 512;

/// A device behind a server.
pub struct RemoteDevice {
    client: Client,
    pipeline: Pipeline,
    manifest: Manifest,
    kept: Kept,
    /// What exists on the device.
    known: HashSet<Key>,
    /// Whether another controller has become the primary.
    deposed: bool,
    /// Whether the server rolls batches back, when it is known. BMv2's does not.
    rolls_back: Option<bool>,
}

impl RemoteDevice {
    /// A device whose primary the client is. `program` names the program for control planes. Returns also what the device holds.
    pub fn new(
        mut client: Client,
        info: P4Info,
        program: &str,
    ) -> Result<(RemoteDevice, Vec<Entity>), ClientError> {
        let manifest = remote::manifest(&info, program);
        let unfit = |why: Status| {
            ClientError::Silent(format!("the program's P4Info cannot be used: {}", why.message))
        };
        let pipeline = Pipeline::new(info.clone(), &info, &manifest).map_err(unfit)?;
        let (mut kept, mut found) = (Kept::default(), Vec::new());
        client.read(vec![entity::Entity::TableEntry(v1::TableEntry::default())], |entity| {
            let entity::Entity::TableEntry(message) = entity else { return };
            found.extend(remote::entry(&pipeline, &mut kept, &message).map(Entity::Entry));
        })?;
        let group = v1::packet_replication_engine_entry::Type::MulticastGroupEntry(
            v1::MulticastGroupEntry::default(),
        );
        let groups = v1::PacketReplicationEngineEntry { r#type: Some(group) };
        let mut known: HashSet<Key> = found.iter().map(Entity::key).collect();
        client.read(vec![entity::Entity::PacketReplicationEngineEntry(groups)], |entity| {
            let entity::Entity::PacketReplicationEngineEntry(entry) = entity else { return };
            if let Some(v1::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) = entry.r#type
            {
                known.insert(Key::Multicast(group.multicast_group_id));
            }
        })?;
        let mut device =
            RemoteDevice { client, pipeline, manifest, kept, known, deposed: false, rolls_back: None };
        device.switch_digests_on(&info)?;
        Ok((device, found))
    }

    fn switch_digests_on(&mut self, info: &P4Info) -> Result<(), ClientError> {
        let config = Some(v1::digest_entry::Config {
            max_timeout_ns: DIGEST_DELAY,
            max_list_size: DIGESTS,
            ack_timeout_ns: DIGEST_AGAIN,
        });
        for digest in &info.digests {
            let digest_id = digest.preamble.as_ref().map_or(0, |p| p.id);
            let entry = entity::Entity::DigestEntry(v1::DigestEntry { digest_id, config });
            let mut sent = false;
            self.client.read(vec![entry.clone()], |_| sent = true)?;
            let kind = if sent { update::Type::Modify } else { update::Type::Insert };
            let update = v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entry) }) };
            self.client.write(vec![update])?;
        }
        Ok(())
    }

    /// Whether another controller has become the primary.
    pub fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// Gives the client back.
    pub fn into_client(self) -> Client {
        self.client
    }

    /// Waits until the device has told something, at most this long.
    pub fn wait(&mut self, time: Duration) -> Result<Vec<Event>, ClientError> {
        let mut events = Vec::new();
        let mut next = self.client.next(Some(time))?;
        while let Some(message) = next {
            self.received(message, &mut events)?;
            // A server that never stops to tell something is answered meanwhile.
            let more = events.len() < EVENTS;
            next = if more { self.client.next(Some(Duration::ZERO))? } else { None };
        }
        Ok(events)
    }

    fn received(&mut self, message: Message, events: &mut Vec<Event>) -> Result<(), ClientError> {
        match message {
            Message::Arbitration(update) => {
                self.deposed = update.status.is_some_and(|status| status.code != 0)
            }
            Message::Packet(packet) => {
                let frame = packet::received(&self.pipeline, &mut self.kept.names, &packet);
                events.extend(frame.ok().map(Event::Packet));
            }
            Message::Digest(list) => {
                let digests = remote::digests(&self.pipeline, &self.manifest, &list);
                events.extend(digests.into_iter().map(Event::Digest));
                let ack = v1::DigestListAck { digest_id: list.digest_id, list_id: list.list_id };
                self.client.send(stream_message_request::Update::DigestAck(ack))?;
            }
            Message::IdleTimeoutNotification(notice) => {
                for message in &notice.table_entry {
                    events.extend(remote::entry(&self.pipeline, &mut self.kept, message).map(Event::Idle));
                }
            }
            Message::Other(_) | Message::Error(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, batch: Vec<v1::Update>) -> Result<(), ClientError> {
        if self.rolls_back == Some(true) {
            return self.client.write_as(batch, Atomicity::RollbackOnError);
        }
        if self.rolls_back.is_none() {
            let done = self.client.write_as(batch.clone(), Atomicity::RollbackOnError);
            let lacks = |status: &tonic::Status| status.code() == tonic::Code::Unimplemented;
            let rolls_back = !matches!(&done, Err(ClientError::Refused(status)) if lacks(status));
            self.rolls_back = Some(rolls_back);
            if rolls_back {
                return done;
            }
        }
        self.client.write(batch.clone()).inspect_err(|_| {
            // What was inserted is removed again, as far as it is known.
            let inserted = batch.into_iter().filter(|update| update.r#type() == update::Type::Insert);
            let undone = inserted.map(|update| v1::Update { r#type: update::Type::Delete.into(), ..update });
            let _ = self.client.write(undone.collect());
        })
    }
}

impl Device for RemoteDevice {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        // Whether the keys that the batch changes exist afterwards.
        let mut changed: HashMap<Key, bool> = HashMap::new();
        let mut batch = Vec::new();
        for (index, update) in updates.iter().enumerate() {
            let exists = |key: &Key| changed.get(key).copied().unwrap_or_else(|| self.known.contains(key));
            let made = remote::update(&self.pipeline, &self.kept, update, exists);
            let made = made.map_err(|why| WriteError { index, error: device_error(why) })?;
            match update {
                Update::Insert(entity) | Update::Modify(entity) | Update::Set(entity) => {
                    changed.insert(entity.key(), true)
                }
                Update::Delete(key) | Update::Unset(key) => changed.insert(key.clone(), false),
            };
            batch.extend(made);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.send(batch).map_err(|why| {
            let index = match &why {
                ClientError::Updates(refused) => refused.first().map_or(0, |(at, _)| *at),
                _ => 0,
            };
            WriteError { index, error: DeviceError::Internal(why.to_string()) }
        })?;
        for (key, exists) in changed {
            match exists {
                true => self.known.insert(key),
                false => self.known.remove(&key),
            };
        }
        Ok(())
    }

    fn read(&mut self, _query: &Query) -> Result<Vec<Entity>, DeviceError> {
        Err(DeviceError::Unimplemented(
            "reads of a remote device: what it holds is read when it is opened".to_string(),
        ))
    }

    fn events(&mut self) -> Result<Vec<Event>, DeviceError> {
        self.wait(Duration::ZERO).map_err(|why| DeviceError::Internal(why.to_string()))
    }

    fn packet_out(&mut self, frame: &[u8]) -> Result<(), DeviceError> {
        let packet = packet::to_send(&self.pipeline, &self.kept.names, frame)
            .ok_or_else(|| DeviceError::InvalidArgument("a packet shorter than its header".to_string()))?;
        let sent = self.client.send(stream_message_request::Update::Packet(packet));
        sent.map_err(|why| DeviceError::Internal(why.to_string()))
    }

    fn listen(&mut self, _messages: bool) -> Result<(), DeviceError> {
        Err(DeviceError::Unimplemented("P4Runtime has no messages of `log_msg`".to_string()))
    }
}

fn device_error(status: Status) -> DeviceError {
    match status.code {
        Code::Unimplemented => DeviceError::Unimplemented(status.message),
        Code::NotFound => DeviceError::NotFound(status.message),
        _ => DeviceError::InvalidArgument(status.message),
    }
}
