//! The devices of a server, each with the streams of its controllers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dataplane::device::Event;
use p4runtime::arbitration::StreamId;
use p4runtime::server::{Messages, Now, Server, Target};
use p4runtime::{Code, Status};
use proto::p4::v1;
use proto::p4::v1::stream_message_response::Update;

use crate::error;
use crate::outbox::Outbox;

/// A stream of a controller.
struct Member {
    outbox: Outbox,
    /// Whether it is that of the primary.
    primary: bool,
}

/// A device and its controllers.
pub struct Device<T: Target + ?Sized> {
    id: u64,
    streams: Mutex<HashMap<StreamId, Member>>,
    lost: AtomicU64,
    /// Held while a pipeline is compiled and pushed.
    pub(crate) push: Arc<tokio::sync::Mutex<()>>,
    server: Mutex<Server<T>>,
}

impl<T: Target + ?Sized> Device<T> {
    /// A device with a server.
    pub fn new(server: Server<T>) -> Device<T> {
        Device {
            id: server.device(),
            server: Mutex::new(server),
            streams: Mutex::default(),
            lost: AtomicU64::new(0),
            push: Arc::default(),
        }
    }

    /// The number of the device.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Runs `act` while no controller reads or writes.
    pub fn with<R>(&self, act: impl FnOnce(&mut Server<T>) -> R) -> R {
        act(&mut self.lock())
    }

    /// Sends what the program tells to its controllers.
    pub fn tell(&self, events: &[Event], now: Now) {
        let mut server = self.lock();
        let messages = server.tell(events, now);
        self.deliver(messages);
    }

    /// The number of messages that were lost because a controller reads too slowly.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// A message of a stream. An error ends the stream.
    pub(crate) fn message(
        &self,
        stream: StreamId,
        outbox: &Outbox,
        message: v1::StreamMessageRequest,
    ) -> Result<(), Status> {
        // The lock is held until everybody has been told, so that all streams hear of changes in their order.
        let mut server = self.lock();
        let member = || Member { outbox: outbox.clone(), primary: false };
        self.streams().entry(stream).or_insert_with(member);
        let messages = server.message(stream, message)?;
        self.rank(&server);
        self.deliver(messages);
        Ok(())
    }

    /// A stream has ended.
    pub(crate) fn leave(&self, stream: StreamId) {
        let mut server = self.lock();
        if let Some(member) = self.streams().remove(&stream) {
            member.take_rank(false);
        }
        let messages = server.leave(stream);
        self.rank(&server);
        self.deliver(messages);
    }

    /// Tells the connections which streams are those of primaries.
    fn rank(&self, server: &Server<T>) {
        for (stream, member) in self.streams().iter_mut() {
            let primary = server.is_primary(*stream);
            member.take_rank(primary);
            member.primary = primary;
        }
    }

    /// Hands messages to streams. It never waits: a stream that has no room loses packets and digests. A stream that cannot be told who is the
    /// primary is ended.
    fn deliver(&self, messages: Messages) {
        let mut streams = self.streams();
        for (stream, message) in messages {
            let Some(member) = streams.get(&stream) else { continue };
            let must = matches!(message.update, Some(Update::Arbitration(_)));
            if member.outbox.put(message, member.primary, must).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if must {
                    member.outbox.end.notify_one();
                    member.take_rank(false);
                    streams.remove(&stream);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Server<T>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<StreamId, Member>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Tells the connection whether the stream is that of a primary, if that has changed.
    fn take_rank(&self, primary: bool) {
        if self.primary != primary {
            self.outbox.caller.set_primary(primary);
        }
    }
}

/// The time, for [`Device::tell`]. `started` is the beginning of the clock that never goes back.
pub fn now(started: Instant) -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { monotonic: started.elapsed().as_nanos() as u64, wall: wall.as_nanos() as i64 }
}

/// The status of a device that the server does not have.
pub(crate) fn unknown(device: u64) -> tonic::Status {
    error::status(Status::new(Code::NotFound, format!("there is no device {device}")))
}
