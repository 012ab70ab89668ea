//! The RPCs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use control::p4runtime::server::{Compiler, Target};
use control::p4runtime::{Code, Status};
use proto::p4::v1;
use proto::p4::v1::stream_message_request::Update;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{block_in_place, spawn_blocking};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Streaming};

use crate::devices::{Device, Outbox, unknown};
use crate::generated::p4_runtime_server::P4Runtime;
use crate::{error, limits};

/// The version of the specification.
const VERSION: &str = "1.5.0";

/// The service of all devices.
pub struct Service<T: Target + ?Sized> {
    devices: Devices<T>,
    next_stream: AtomicU64,
    reads: Arc<Semaphore>,
}

/// The devices by their numbers.
type Devices<T> = Arc<BTreeMap<u64, Arc<Device<T>>>>;
type Answer<T> = Result<Response<T>, tonic::Status>;
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, tonic::Status>> + Send>>;

impl<T: Target + ?Sized> Service<T> {
    /// A service of these devices.
    pub fn new(devices: BTreeMap<u64, Arc<Device<T>>>) -> Service<T> {
        let reads = Arc::new(Semaphore::new(limits::READS));
        Service { devices: Arc::new(devices), next_stream: AtomicU64::new(1), reads }
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
        let request = request.into_inner();
        let device = self.device(request.device_id)?;
        let done = block_in_place(|| device.with(|server| server.write(&request)));
        done.map(|()| Response::new(v1::WriteResponse {})).map_err(error::failure)
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Answer<Self::ReadStream> {
        let request = request.into_inner();
        let device = self.device(request.device_id)?;
        let turn = self.reads.clone().acquire_owned().await;
        let turn = turn.map_err(|_| tonic::Status::unavailable("the server ends"))?;
        let (mut answers, mut entities) = (Vec::new(), Vec::new());
        let mut sink = |entity| {
            entities.push(v1::Entity { entity: Some(entity) });
            if entities.len() == limits::ENTITIES {
                answers.push(Ok(v1::ReadResponse { entities: std::mem::take(&mut entities) }));
            }
        };
        let done = block_in_place(|| device.with(|server| server.read(&request, &mut sink)));
        if !entities.is_empty() {
            answers.push(Ok(v1::ReadResponse { entities }));
        }
        answers.extend(done.err().map(|failure| Err(error::failure(failure))));
        // The turn ends when the client has got everything, or has gone.
        let answers = tokio_stream::iter(answers).map(move |answer| {
            let _turn = &turn;
            answer
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::SetForwardingPipelineConfigResponse> {
        let request = request.into_inner();
        let device = self.device(request.device_id)?.clone();
        let _alone = device.push.lock().await;
        let compiler =
            block_in_place(|| device.with(|server| server.begin_push(&request))).map_err(error::status)?;
        // Packets, reads and writes go on while the program is compiled.
        let compiled = match compiler {
            None => None,
            Some(compiler) => Some(compile(compiler, &request).await?),
        };
        block_in_place(|| device.with(|server| server.push(request, compiled))).map_err(error::status)?;
        Ok(Response::new(v1::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::GetForwardingPipelineConfigResponse> {
        let request = request.into_inner();
        let device = self.device(request.device_id)?;
        Ok(Response::new(block_in_place(|| device.with(|server| server.pipeline(&request)))))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Answer<Self::StreamChannelStream> {
        let (send, messages) = mpsc::channel(limits::WAITING);
        let outbox = Outbox { messages: send, end: Arc::new(Notify::new()) };
        let stream = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let devices = self.devices.clone();
        tokio::spawn(async move {
            let channel = Channel { stream, devices, outbox, device: None };
            channel.serve(request.into_inner()).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
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

async fn compile(
    compiler: Compiler,
    request: &v1::SetForwardingPipelineConfigRequest,
) -> Result<control::p4runtime::server::Compiled, tonic::Status> {
    let program = request.config.as_ref().map(|config| config.p4_device_config.clone()).unwrap_or_default();
    let compiled = spawn_blocking(move || compiler(&program)).await;
    let compiled = compiled.map_err(|why| tonic::Status::internal(format!("the compiler failed: {why}")))?;
    compiled.map_err(tonic::Status::invalid_argument)
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
        let status = self.handle_all(&mut messages).await;
        if let Some(device) = &self.device {
            block_in_place(|| device.leave(self.stream));
        }
        if let Some(status) = status {
            self.end(status).await;
        }
    }

    /// Handles messages. Returns the status that the client is to get, if it is still there.
    async fn handle_all(
        &mut self,
        messages: &mut Streaming<v1::StreamMessageRequest>,
    ) -> Option<tonic::Status> {
        loop {
            let next = arrived(messages);
            let next = match self.device {
                Some(_) => tokio::select! {
                    next = next => Ok(next),
                    () = self.outbox.messages.closed() => return None,
                    // It has not read who is the primary: there is no room for a status either.
                    () = self.outbox.end.notified() => return None,
                },
                None => tokio::time::timeout(limits::FIRST, next).await,
            };
            let Ok(next) = next else {
                return Some(tonic::Status::deadline_exceeded("a stream begins with an arbitration message"));
            };
            if next.is_empty() {
                return None;
            }
            // Other tasks leave this thread for a moment, which costs as much as a message.
            let handled = block_in_place(|| next.into_iter().try_for_each(|message| self.handle(message)));
            if let Err(status) = handled {
                return Some(status);
            }
        }
    }

    async fn end(&self, status: tonic::Status) {
        let _ = tokio::time::timeout(limits::FIRST, self.outbox.messages.send(Err(status))).await;
    }

    fn handle(&mut self, message: v1::StreamMessageRequest) -> Result<(), tonic::Status> {
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

/// Waits for a message, and takes those that have arrived behind it. There are none when the client has ended the stream.
async fn arrived(messages: &mut Streaming<v1::StreamMessageRequest>) -> Vec<v1::StreamMessageRequest> {
    let mut all = Vec::new();
    std::future::poll_fn(|context| {
        loop {
            match Pin::new(&mut *messages).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => all.push(message),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending if all.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(()),
            }
            if all.len() == limits::TOGETHER {
                return Poll::Ready(());
            }
        }
    })
    .await;
    all
}
