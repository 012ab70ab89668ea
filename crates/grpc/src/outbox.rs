//! The messages that wait for the controller of a stream: they are counted, in number and in bytes, and a controller that does not take them loses them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use prost::Message as _;
use proto::p4::v1::StreamMessageResponse;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::Status;

use crate::callers::Caller;
use crate::limits;

/// What a message needs beside its bytes.
const EACH: usize = 128;

/// The bytes that wait for all primaries, and for all strangers.
pub type AllWaiting = Arc<[AtomicUsize; 2]>;

/// What a stream's client gets.
#[derive(Clone)]
pub struct Outbox {
    queue: Arc<Mutex<Queue>>,
    all: AllWaiting,
    /// The connection of the stream.
    pub caller: Arc<Caller>,
    /// Tells the task of the stream to end it.
    pub end: Arc<Notify>,
    /// Tells the task that the client has gone.
    gone: Arc<Notify>,
}

/// The messages of a stream, the oldest first.
struct Queue {
    waiting: VecDeque<(StreamMessageResponse, Size)>,
    bytes: usize,
    all: AllWaiting,
    /// When the client has last taken a message, or when the first one came after all were taken.
    taken: Instant,
    /// The status with which the stream ends, once it has ended.
    ended: Option<Option<Status>>,
    /// The task that takes messages.
    taker: Option<Waker>,
}

/// What a waiting message counts as.
struct Size {
    bytes: usize,
    /// Whose share it is of: a primary's (0) or a stranger's (1).
    of: usize,
}

/// Why a message was not put.
#[derive(Debug, PartialEq)]
pub struct Full;

impl Outbox {
    /// An outbox, and what its client takes messages from.
    pub fn of(caller: Arc<Caller>, all: AllWaiting) -> (Outbox, Taker) {
        let queue = Arc::new(Mutex::new(Queue {
            waiting: VecDeque::new(),
            bytes: 0,
            all: all.clone(),
            taken: Instant::now(),
            ended: None,
            taker: None,
        }));
        let gone = Arc::new(Notify::new());
        let taker = Taker { queue: queue.clone(), gone: gone.clone() };
        (Outbox { queue, all, caller, end: Arc::new(Notify::new()), gone }, taker)
    }

    /// Puts a message. One that says who is the primary has more room than others. A message that nothing waits before has room whatever its length.
    pub fn put(&self, message: StreamMessageResponse, primary: bool, arbitration: bool) -> Result<(), Full> {
        let of = usize::from(!primary);
        let bytes = message.encoded_len() + EACH;
        let (more_messages, more_bytes) = if arbitration { limits::ARBITRATION } else { (0, 0) };
        let mut queue = lock(&self.queue);
        let waiting = queue.waiting.len();
        let fits = queue.ended.is_none()
            && waiting < limits::WAITING + more_messages
            && (waiting == 0 || queue.bytes + bytes <= limits::WAITING_BYTES[of] + more_bytes)
            && (arbitration || self.all[of].load(Ordering::Relaxed) + bytes <= limits::ALL_WAITING_BYTES[of]);
        if !fits {
            return Err(Full);
        }
        if waiting == 0 {
            queue.taken = Instant::now();
        }
        queue.bytes += bytes;
        self.all[of].fetch_add(bytes, Ordering::Relaxed);
        queue.waiting.push_back((message, Size { bytes, of }));
        queue.wake();
        Ok(())
    }

    /// Ends the stream with a status, behind the messages that wait.
    pub fn finish(&self, status: Option<Status>) {
        let mut queue = lock(&self.queue);
        queue.ended.get_or_insert(status);
        queue.wake();
    }

    /// Ends the stream of a client that does not take its messages: they are lost.
    pub fn abandon(&self, status: Status) {
        lock(&self.queue).clear();
        self.finish(Some(status));
    }

    /// Whether the client has taken nothing for a while, although messages wait.
    pub fn is_stalled(&self) -> bool {
        let queue = lock(&self.queue);
        !queue.waiting.is_empty() && queue.taken.elapsed() > limits::STALL
    }

    /// Ready when the client has gone.
    pub async fn closed(&self) {
        self.gone.notified().await;
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn take(&mut self) -> Option<StreamMessageResponse> {
        let (message, size) = self.waiting.pop_front()?;
        self.bytes -= size.bytes;
        self.all[size.of].fetch_sub(size.bytes, Ordering::Relaxed);
        self.taken = Instant::now();
        Some(message)
    }

    fn clear(&mut self) {
        while self.take().is_some() {}
        self.waiting.shrink_to_fit();
    }

    fn wake(&mut self) {
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }
}

/// What the client takes messages from.
pub struct Taker {
    queue: Arc<Mutex<Queue>>,
    gone: Arc<Notify>,
}

impl Stream for Taker {
    type Item = Result<StreamMessageResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = lock(&self.queue);
        if let Some(message) = queue.take() {
            return Poll::Ready(Some(Ok(message)));
        }
        if let Some(status) = &mut queue.ended {
            return Poll::Ready(status.take().map(Err));
        }
        queue.taker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let mut queue = lock(&self.queue);
        queue.clear();
        queue.ended.get_or_insert(None);
        self.gone.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::{Callers, Entry, Peer};
    use proto::p4::v1::stream_message_response::Update;
    use proto::p4::v1::{MasterArbitrationUpdate, PacketIn};

    fn packet(length: usize) -> StreamMessageResponse {
        let packet = PacketIn { payload: vec![1; length], ..PacketIn::default() };
        StreamMessageResponse { update: Some(Update::Packet(packet)) }
    }

    #[test]
    fn waiting_messages_are_counted_in_bytes() {
        let Entry::Free(place) = Arc::new(Callers::default()).enter(Peer::Loopback) else {
            panic!("there is room");
        };
        let all = AllWaiting::default();
        let (outbox, taker) = Outbox::of(place.caller.clone(), all.clone());
        let put = |message, primary| outbox.put(message, primary, false);
        assert_eq!(put(packet(2 << 20), true), Ok(()), "nothing waits before it");
        assert_eq!(put(packet(10), true), Err(Full));
        let arbitration = Update::Arbitration(MasterArbitrationUpdate::default());
        let arbitration = StreamMessageResponse { update: Some(arbitration) };
        assert_eq!(outbox.put(arbitration.clone(), true, true), Err(Full), "its reserve is limited");
        drop(taker);
        assert_eq!(all[0].load(Ordering::Relaxed), 0, "what nobody takes counts no longer");

        let (outbox, _taker) = Outbox::of(place.caller.clone(), all.clone());
        let put = |message, primary| outbox.put(message, primary, false);
        let strangers = (0..1000).filter(|_| put(packet(1000), false).is_ok()).count();
        assert!((50..66).contains(&strangers), "{strangers} KiB wait for a stranger");
        assert_eq!(outbox.put(arbitration, false, true), Ok(()));
        let small = (0..2000).filter(|_| put(packet(0), true).is_ok()).count();
        assert!(small <= limits::WAITING - strangers, "{small}");
        assert!(all[1].load(Ordering::Relaxed) < 70 << 10);
    }
}
