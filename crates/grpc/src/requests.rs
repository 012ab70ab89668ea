//! What every request passes before it is decoded: nothing is reserved for bytes that are only announced, what has come is counted, and requests of
//! strangers wait for their turn.
//!
//! A message of gRPC has five bytes in front: whether it is compressed, and its length. tonic reserves that length, so it gets messages that are
//! complete. Decoding may take a hundred times the bytes of a message (an empty update has two bytes): only a few strangers' requests are decoded at a
//! time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use proto::p4::v1::{self, entity};
use tokio::time::{Sleep, sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::callers::{Caller, Step, StepKind};
use crate::limits;

/// The bytes in front of a message.
const HEAD: usize = 5;

/// Guards a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuardLayer;

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner }
    }
}

/// A service behind the guard.
#[derive(Clone, Debug)]
pub struct Guard<S> {
    inner: S,
}

/// The longest read that is looked into before it has its turn, in bytes.
const SHORT: usize = 1 << 10;

/// What a request is, by its path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The stream of a controller: messages both ways.
    Channel,
    /// One message, and many answers, of what may be all that the device has.
    Read,
    /// A read of single entities.
    ReadOne,
    /// One message, and one answer.
    Call,
}

impl Kind {
    fn of(path: &str) -> Kind {
        match path.rsplit_once('/').map(|(_, name)| name) {
            Some("StreamChannel") => Kind::Channel,
            Some("Read") => Kind::Read,
            _ => Kind::Call,
        }
    }

    /// The same, now that the message is there.
    fn with(self, message: &[u8]) -> Kind {
        match self {
            Kind::Read if message.len() <= SHORT && reads_single(message) => Kind::ReadOne,
            kind => kind,
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Kind::Read | Kind::ReadOne)
    }
}

/// Whether a message reads single entities, which takes no time. Those that read all wait for each other, and not for them.
fn reads_single(message: &[u8]) -> bool {
    let Some(request) = message.get(HEAD..).and_then(|bytes| v1::ReadRequest::decode(bytes).ok()) else {
        return false;
    };
    request.entities.iter().all(|entity| {
        let of_entry = |entry: &v1::TableEntry| !entry.r#match.is_empty() || entry.is_default_action;
        match &entity.entity {
            Some(entity::Entity::TableEntry(entry)) => entry.table_id != 0 && of_entry(entry),
            Some(entity::Entity::DirectCounterEntry(counter)) => {
                counter.table_entry.as_ref().is_some_and(of_entry)
            }
            Some(entity::Entity::DirectMeterEntry(meter)) => meter.table_entry.as_ref().is_some_and(of_entry),
            Some(entity::Entity::CounterEntry(counter)) => counter.index.is_some(),
            Some(entity::Entity::MeterEntry(meter)) => meter.index.is_some(),
            Some(entity::Entity::RegisterEntry(register)) => register.index.is_some(),
            Some(entity::Entity::DigestEntry(_)) => true,
            _ => false,
        }
    })
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let next = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let Some(caller) = request.extensions().get::<Arc<Caller>>().cloned() else {
                return Ok(Status::internal("a request without a connection").into_http());
            };
            let answered = match Kind::of(request.uri().path()) {
                Kind::Channel => channel(&mut service, request, &caller).await,
                kind => one(&mut service, request, &caller, kind).await,
            };
            Ok(answered.unwrap_or_else(Status::into_http))
        })
    }
}

type Answered = Result<Response<Body>, Status>;

/// A request of one message.
async fn one<S>(service: &mut S, request: Request<Body>, caller: &Arc<Caller>, kind: Kind) -> Answered
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let open = Step::of(caller, StepKind::Open);
    let (head, body) = request.into_parts();
    let (message, _held) = timeout(limits::FIRST, whole(body, caller)).await.map_err(|_| late())??;
    let kind = kind.with(&message);
    let waiting = Step::of(caller, StepKind::Waiting);
    // A place among the reads of the connection is given back when the client has the answer.
    let place = match kind.is_read() {
        true => caller.reads.clone().acquire_owned().await.ok(),
        false => None,
    };
    let turn = turn(caller, kind).await;
    let running = Step::of(caller, StepKind::Running);
    drop(waiting);
    let begun = Instant::now();
    let Ok(response) = service.call(Request::from_parts(head, Body::new(Full::new(message)))).await;
    rest(turn, kind, begun);
    let sending = Step::of(caller, StepKind::Sending);
    drop(running);
    let keeps = Keeps { _steps: [open, sending], _place: place };
    Ok(response.map(|body| Body::new(Taken { body, caller: caller.clone(), _keeps: keeps })))
}

/// A stranger's turn: one for each connection, then one of a few, so that a connection with many requests is no better off than one with one request.
type Turn = [Option<tokio::sync::OwnedSemaphorePermit>; 2];

async fn turn(caller: &Arc<Caller>, kind: Kind) -> Turn {
    if caller.is_primary() {
        return [None, None];
    }
    let own = caller.turn.clone().acquire_owned().await.ok();
    let of = match kind {
        Kind::Read => &caller.callers().reading,
        _ => &caller.callers().turns,
    };
    [own, of.clone().acquire_owned().await.ok()]
}

/// Gives a turn back. After a read, strangers read nothing for as long as it has taken: half of the time the device is free for its primary.
fn rest(turn: Turn, kind: Kind, begun: Instant) {
    let taken = begun.elapsed();
    if kind == Kind::Read && turn[1].is_some() {
        tokio::spawn(async move {
            sleep(taken).await;
            drop(turn);
        });
    }
}

/// The stream of a controller.
async fn channel<S>(service: &mut S, request: Request<Body>, caller: &Arc<Caller>) -> Answered
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    if caller.channels() >= limits::CHANNELS && !caller.is_primary() {
        let text = format!("a connection has {} streams of controllers at most", limits::CHANNELS);
        return Err(Status::resource_exhausted(text));
    }
    let steps = [Step::of(caller, StepKind::Channel), Step::of(caller, StepKind::Open)];
    let request = request.map(|body| Body::new(Messages::of(body, caller)));
    let Ok(response) = service.call(request).await;
    let keeps = Keeps { _steps: steps, _place: None };
    Ok(response.map(|body| Body::new(Taken { body, caller: caller.clone(), _keeps: keeps })))
}

fn late() -> Status {
    Status::deadline_exceeded("the message did not arrive in time")
}

/// Bytes that a connection has sent and that are not answered yet.
struct Held {
    caller: Arc<Caller>,
    /// The bytes within the connection's own share.
    free: usize,
    /// The bytes of the share of all strangers, or of all primaries.
    pool: usize,
    primary: bool,
}

/// Takes from a budget, if it is there.
fn take(used: &AtomicUsize, count: usize, limit: usize) -> bool {
    let with = |used: usize| used.checked_add(count).filter(|sum| *sum <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
}

impl Held {
    fn of(caller: &Arc<Caller>) -> Held {
        Held { caller: caller.clone(), free: 0, pool: 0, primary: caller.is_primary() }
    }

    fn pool(&self) -> (&AtomicUsize, usize) {
        match self.primary {
            true => (&self.caller.callers().primaries, limits::PRIMARIES_BYTES),
            false => (&self.caller.callers().strangers, limits::STRANGERS_BYTES),
        }
    }

    /// Counts bytes that have come.
    fn add(&mut self, count: usize) -> Result<(), Status> {
        if take(&self.caller.free, count, limits::FREE) {
            self.free += count;
            return Ok(());
        }
        let (used, limit) = self.pool();
        if !take(used, count, limit) {
            let text = "clients send more than the server can take at the moment: try again";
            return Err(Status::resource_exhausted(text));
        }
        self.pool += count;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.caller.free.fetch_sub(self.free, Ordering::Relaxed);
        self.pool().0.fetch_sub(self.pool, Ordering::Relaxed);
    }
}

/// A message that arrives.
struct Arriving {
    bytes: BytesMut,
    held: Held,
    /// The longest message, for a primary and for a stranger.
    most: [usize; 2],
}

impl Arriving {
    fn of(caller: &Arc<Caller>, most: [usize; 2]) -> Arriving {
        Arriving { bytes: BytesMut::new(), held: Held::of(caller), most }
    }

    /// Takes bytes. An error if the message is too long, as soon as its length is known.
    fn add(&mut self, data: &Bytes) -> Result<(), Status> {
        self.held.caller.moved();
        self.held.add(data.len())?;
        self.bytes.extend_from_slice(data);
        self.length().map(drop)
    }

    /// The length of the first message with its head, if the head is there.
    fn length(&self) -> Result<Option<usize>, Status> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let [primary, stranger] = self.most;
        if length > primary {
            let text = format!("a message of {length} bytes: {primary} are allowed");
            return Err(Status::resource_exhausted(text));
        }
        if length > stranger && !self.held.caller.is_primary() {
            let text = format!(
                "a message of {length} bytes: {stranger} are allowed, and {primary} on a connection whose stream is the primary's"
            );
            return Err(Status::resource_exhausted(text));
        }
        Ok(Some(HEAD + length))
    }
}

/// The whole body of a request that has one message.
async fn whole(mut body: Body, caller: &Arc<Caller>) -> Result<(Bytes, Held), Status> {
    let mut arriving = Arriving::of(caller, [limits::MESSAGE, limits::STRANGER_MESSAGE]);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        arriving.add(&data)?;
        if arriving.length()?.is_some_and(|length| arriving.bytes.len() > length) {
            return Err(Status::invalid_argument("the request has more than one message"));
        }
    }
    // What is incomplete is refused by tonic.
    Ok((arriving.bytes.freeze(), arriving.held))
}

/// The messages of a stream, each as one frame.
struct Messages {
    body: Body,
    arriving: Arriving,
    caller: Arc<Caller>,
    /// The end of the time for a message that has begun.
    late: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Messages {
    fn of(body: Body, caller: &Arc<Caller>) -> Messages {
        let arriving = Messages::none(caller);
        Messages { body, arriving, caller: caller.clone(), late: None, ended: false }
    }

    fn none(caller: &Arc<Caller>) -> Arriving {
        Arriving::of(caller, [limits::STREAM_MESSAGE, limits::STRANGER_MESSAGE])
    }

    /// The first message, if it is complete.
    fn complete(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(length) = self.arriving.length()? else { return Ok(None) };
        if self.arriving.bytes.len() < length {
            return Ok(None);
        }
        let message = self.arriving.bytes.split_to(length).freeze();
        let left = self.arriving.bytes.split();
        self.arriving = Messages::none(&self.caller);
        self.late = None;
        if !left.is_empty() {
            self.arriving.add(&left.freeze())?;
        }
        Ok(Some(message))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(message) = self.complete()? {
                return Poll::Ready(Ok(Some(message)));
            }
            if !self.arriving.bytes.is_empty() {
                let end = self.late.get_or_insert_with(|| Box::pin(sleep(limits::FIRST)));
                if end.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(late()));
                }
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
                return Poll::Ready(Ok(None));
            };
            if let Ok(data) = frame?.into_data()
                && data.has_remaining()
            {
                self.arriving.add(&data)?;
            }
        }
    }
}

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let next = ready!(this.poll(context));
        this.ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose().map(|message| message.map(Frame::data)))
    }
}

/// What an answer keeps until the client has taken its end, or has gone.
struct Keeps {
    _steps: [Step; 2],
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// An answer, whose client is seen to take it.
struct Taken {
    body: Body,
    caller: Arc<Caller>,
    _keeps: Keeps,
}

impl http_body::Body for Taken {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        this.caller.moved();
        Pin::new(&mut this.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_single(read: entity::Entity) -> bool {
        let entities = vec![v1::Entity { entity: Some(read) }];
        let request = v1::ReadRequest { entities, ..v1::ReadRequest::default() }.encode_to_vec();
        reads_single(&[&[0, 0, 0, 0, request.len() as u8], request.as_slice()].concat())
    }

    #[test]
    fn reads_of_single_entities_are_told_from_those_of_all() {
        let r#match = vec![v1::FieldMatch { field_id: 1, ..v1::FieldMatch::default() }];
        let table = |table_id, r#match| v1::TableEntry { table_id, r#match, ..v1::TableEntry::default() };
        assert!(is_single(entity::Entity::TableEntry(table(7, r#match.clone()))));
        assert!(!is_single(entity::Entity::TableEntry(table(7, Vec::new()))));
        assert!(!is_single(entity::Entity::TableEntry(table(0, r#match))));
        let counter = |index| v1::CounterEntry { counter_id: 1, index, data: None };
        assert!(is_single(entity::Entity::CounterEntry(counter(Some(v1::Index { index: 3 })))));
        assert!(!is_single(entity::Entity::CounterEntry(counter(None))));
        assert!(!reads_single(b"no message"));
    }

    #[test]
    fn a_budget_is_never_exceeded() {
        let used = AtomicUsize::new(0);
        assert!(take(&used, 60, 100) && take(&used, 40, 100) && !take(&used, 1, 100));
        assert!(!take(&used, usize::MAX, 100));
        assert_eq!(used.load(Ordering::Relaxed), 100);
    }
}
