//! The RPCs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use p4runtime::arbitration::{role_name, role_of};
use p4runtime::server::{CompileError, Compiled, Compiler, Target, push_role_id, role_id};
use p4runtime::{Code, Status};
use prost::Message as _;
use proto::p4::v1;
use proto::p4::v1::stream_message_request::Update;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use tokio::task::{block_in_place, spawn_blocking};
use tokio_stream::Stream;
use tonic::{Request, Response, Streaming};

use crate::answers::{AllAnswers, Making};
use crate::callers::Caller;
use crate::devices::{Device, unknown};
use crate::generated::p4_runtime_server::P4Runtime;
use crate::outbox::{AllWaiting, Outbox};
use crate::{error, limits, rights};

/// The least that a message counts as when messages are handled together.
const EACH: usize = 128;
/// The version of the specification.
const VERSION: &str = "1.5.0";

/// The service of all devices.
pub struct Service<T: Target + ?Sized> {
    devices: Devices<T>,
    next_stream: AtomicU64,
    answers: Arc<AllAnswers>,
    waiting: AllWaiting,
}

/// The devices by their numbers.
type Devices<T> = Arc<BTreeMap<u64, Arc<Device<T>>>>;
type Answer<T> = Result<Response<T>, tonic::Status>;
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, tonic::Status>> + Send>>;

impl<T: Target + ?Sized> Service<T> {
    /// A service of these devices.
    pub fn new(devices: BTreeMap<u64, Arc<Device<T>>>) -> Service<T> {
        let (answers, waiting) = Default::default();
        Service { devices: Arc::new(devices), next_stream: AtomicU64::new(1), answers, waiting }
    }

    fn device(&self, id: u64) -> Result<&Arc<Device<T>>, tonic::Status> {
        self.devices.get(&id).ok_or_else(|| unknown(id))
    }
}

#[tonic::async_trait]
impl<T: Target + ?Sized + 'static> P4Runtime for Service<T> {
    type ReadStream = Streamed<v1::ReadResponse>;
    type StreamChannelStream = Streamed<v1::StreamMessageResponse>;

    async fn write(&self, request: Request<v1::WriteRequest>) -> Answer<v1::WriteResponse> {
        let (extensions, request) = parts(request);
        let role = role_of(&request.role, role_id(&request));
        rights::check(rights::caller(&extensions), request.device_id, Some(&role))?;
        let device = self.device(request.device_id)?;
        let done = block_in_place(|| device.with(|server| server.write(&request)));
        done.map(|()| Response::new(v1::WriteResponse {})).map_err(error::failure)
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Answer<Self::ReadStream> {
        let (extensions, request) = parts(request);
        rights::check(rights::caller(&extensions), request.device_id, Some(&request.role))?;
        let device = self.device(request.device_id)?;
        let mut answer = Making::of(&self.answers);
        let done =
            block_in_place(|| device.with(|server| server.read(&request, &mut |entity| answer.add(entity))));
        let answer = answer.finish(done.err().map(error::failure));
        Ok(Response::new(Box::pin(answer.watched())))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::SetForwardingPipelineConfigResponse> {
        let (extensions, request) = parts(request);
        let role = role_of(&request.role, push_role_id(&request));
        rights::check(rights::caller(&extensions), request.device_id, Some(&role))?;
        let device = self.device(request.device_id)?.clone();
        let begin = || block_in_place(|| device.with(|server| server.begin_push(&request)));
        // A client that may not push waits for nobody.
        begin().map_err(error::status)?;
        let alone = device.push.clone().lock_owned().await;
        let (request, compiled, _alone) = match begin().map_err(error::status)? {
            None => (request, None, alone),
            // Packets, reads and writes go on while the program is compiled.
            Some(compiler) => compile(compiler, request, alone).await?,
        };
        block_in_place(|| device.with(|server| server.push(request, compiled))).map_err(error::status)?;
        Ok(Response::new(v1::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::GetForwardingPipelineConfigResponse> {
        let (extensions, request) = parts(request);
        rights::check(rights::caller(&extensions), request.device_id, None)?;
        let device = self.device(request.device_id)?;
        Ok(Response::new(block_in_place(|| device.with(|server| server.pipeline(&request)))))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Answer<Self::StreamChannelStream> {
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let caller = caller.ok_or_else(|| tonic::Status::internal("a stream without a connection"))?;
        let (outbox, messages) = Outbox::of(caller, self.waiting.clone());
        let stream = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let devices = self.devices.clone();
        tokio::spawn(async move {
            let channel = Channel { stream, devices, outbox, device: None };
            channel.serve(request.into_inner()).await;
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn capabilities(
        &self,
        request: Request<v1::CapabilitiesRequest>,
    ) -> Answer<v1::CapabilitiesResponse> {
        let device = request.into_inner().device_id;
        if device != 0 {
            self.device(device)?;
        }
        let p4runtime_api_version = VERSION.to_string();
        Ok(Response::new(v1::CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}

/// Tells the compiler that nobody waits for it any more, when the value is dropped: the client has gone, or its deadline is over.
struct Waits(abi::Cancel);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

type Push = v1::SetForwardingPipelineConfigRequest;

/// Compiles the program of a push. The job owns the turn of pushes: the next one begins when the compiler has ended, whether the client has gone or not.
async fn compile(
    compiler: Compiler,
    request: Push,
    alone: OwnedMutexGuard<()>,
) -> Result<(Push, Option<Compiled>, OwnedMutexGuard<()>), tonic::Status> {
    let waits = Waits(abi::Cancel::default());
    let cancel = waits.0.clone();
    let job = spawn_blocking(move || {
        let program = request.config.as_ref().map(|config| config.p4_device_config.as_slice());
        let compiled = compiler(program.unwrap_or_default(), &cancel);
        (request, compiled, alone)
    });
    let (request, compiled, alone) =
        job.await.map_err(|why| tonic::Status::internal(format!("the compiler failed: {why}")))?;
    let compiled = compiled.map_err(|why| match why {
        CompileError::Refused(why) => tonic::Status::invalid_argument(why),
        CompileError::TooLarge(why) => tonic::Status::resource_exhausted(why),
    })?;
    Ok((request, Some(compiled), alone))
}

/// A request with what the connection has said of it.
fn parts<T>(request: Request<T>) -> (tonic::Extensions, T) {
    let (_, extensions, message) = request.into_parts();
    (extensions, message)
}

/// How a stream ends.
enum End {
    /// With a status, or because the client has ended it.
    Finished(Option<tonic::Status>),
    /// The client does not take its messages.
    Unread,
}

/// The stream of one controller.
struct Channel<T: Target + ?Sized> {
    stream: u64,
    devices: Devices<T>,
    outbox: Outbox,
    /// The device, which the first message names.
    device: Option<Arc<Device<T>>>,
}

impl<T: Target + ?Sized> Channel<T> {
    /// Handles messages until the client ends the stream, or until a message ends it. The other controllers hear of its end before the client does,
    /// which may read slowly.
    async fn serve(mut self, mut messages: Streaming<v1::StreamMessageRequest>) {
        let end = self.handle_all(&mut messages).await;
        if let Some(device) = &self.device {
            let _turn = self.turn().await;
            block_in_place(|| device.leave(self.stream));
        }
        match end {
            End::Finished(status) => self.outbox.finish(status),
            End::Unread => {
                let text = "the client does not read its stream";
                self.outbox.abandon(tonic::Status::resource_exhausted(text));
            }
        }
    }

    /// Handles messages. Returns how the stream ends.
    async fn handle_all(&mut self, messages: &mut Streaming<v1::StreamMessageRequest>) -> End {
        let mut look = tokio::time::interval(limits::STALL / 4);
        loop {
            let next = arrived(messages);
            let next = match self.device {
                Some(_) => tokio::select! {
                    next = next => Ok(next),
                    () = self.outbox.closed() => return End::Finished(None),
                    () = self.outbox.end.notified() => return End::Unread,
                    _ = look.tick() => match self.outbox.is_stalled() {
                        true => return End::Unread,
                        false => continue,
                    },
                },
                None => tokio::time::timeout(limits::FIRST, next).await,
            };
            let Ok((next, failed)) = next else {
                let text = "a stream begins with an arbitration message";
                return End::Finished(Some(tonic::Status::deadline_exceeded(text)));
            };
            if next.is_empty() {
                return End::Finished(failed);
            }
            let _turn = self.turn().await;
            // Other tasks leave this thread for a moment, which costs as much as a message.
            let handled = block_in_place(|| next.into_iter().try_for_each(|message| self.handle(message)));
            if let Some(status) = handled.err().or(failed) {
                return End::Finished(Some(status));
            }
        }
    }

    /// A turn, which a primary needs not.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let caller = &self.outbox.caller;
        match caller.is_primary() {
            true => None,
            false => caller.callers().streaming.clone().acquire_owned().await.ok(),
        }
    }

    fn handle(&mut self, message: v1::StreamMessageRequest) -> Result<(), tonic::Status> {
        if let Some(Update::Arbitration(update)) = &message.update {
            let role = role_name(update.role.as_ref());
            rights::check(Some(&self.outbox.caller), update.device_id, Some(&role))?;
        }
        let device = match (&message.update, &self.device) {
            (Some(Update::Arbitration(update)), Some(device)) if update.device_id != device.id() => {
                let text = format!("the stream is for device {}", device.id());
                return Err(error::status(Status::new(Code::FailedPrecondition, text)));
            }
            (_, Some(device)) => device.clone(),
            (Some(Update::Arbitration(update)), None) => {
                let found = self.devices.get(&update.device_id).ok_or_else(|| unknown(update.device_id))?;
                self.device.insert(found.clone()).clone()
            }
            (_, None) => {
                let text = "a stream begins with an arbitration message";
                return Err(error::status(Status::new(Code::FailedPrecondition, text)));
            }
        };
        device.message(self.stream, &self.outbox, message).map_err(error::status)
    }
}

/// Waits for a message, and takes those that have arrived behind it. There are none when the client has ended the
/// stream. A status ends it behind them.
async fn arrived(
    messages: &mut Streaming<v1::StreamMessageRequest>,
) -> (Vec<v1::StreamMessageRequest>, Option<tonic::Status>) {
    let (mut all, mut bytes, mut failed) = (Vec::new(), 0, None);
    std::future::poll_fn(|context| {
        loop {
            match Pin::new(&mut *messages).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    bytes += message.encoded_len().max(EACH);
                    all.push(message);
                }
                Poll::Ready(Some(Err(status))) => {
                    failed = Some(status);
                    return Poll::Ready(());
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending if all.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(()),
            }
            if bytes >= limits::TOGETHER {
                return Poll::Ready(());
            }
        }
    })
    .await;
    (all, failed)
}
