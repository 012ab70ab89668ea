//! What servers of others do, and ours does not: the client works with them. Here are the habits of BMv2's simple_switch_grpc, which tests meet only where it
//! is installed (`controllers::nat64_on_simple_switch_grpc`).

use std::pin::Pin;

use grpc::client::{Client, Options};
use grpc::generated::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use proto::p4::v1::{self, entity, stream_message_request as asked, stream_message_response as told};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _, iter, once};
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A server that says nothing on a stream before its first message, not even that the stream is open, and NOT_FOUND where nothing is to be read.
struct LikeBmv2;

#[tonic::async_trait]
impl P4Runtime for LikeBmv2 {
    type ReadStream = Answers<v1::ReadResponse>;
    type StreamChannelStream = Answers<v1::StreamMessageResponse>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<v1::StreamMessageRequest>>,
    ) -> Answer<Self::StreamChannelStream> {
        let mut messages = request.into_inner();
        let first = messages.next().await.ok_or_else(|| Status::cancelled("no message"))??;
        let Some(asked::Update::Arbitration(mut update)) = first.update else {
            return Err(Status::invalid_argument("the first message is an arbitration"));
        };
        update.status = Some(proto::google::rpc::Status::default());
        let answer = v1::StreamMessageResponse { update: Some(told::Update::Arbitration(update)) };
        // The stream stays open.
        Ok(Response::new(Box::pin(once(Ok(answer)).chain(tokio_stream::pending()))))
    }

    async fn read(&self, _: Request<v1::ReadRequest>) -> Answer<Self::ReadStream> {
        let answers: Vec<Result<v1::ReadResponse, Status>> = vec![Err(Status::not_found("not configured"))];
        Ok(Response::new(Box::pin(iter(answers))))
    }

    async fn write(&self, _: Request<v1::WriteRequest>) -> Answer<v1::WriteResponse> {
        Ok(Response::new(v1::WriteResponse {}))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        _: Request<v1::SetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::SetForwardingPipelineConfigResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<v1::GetForwardingPipelineConfigRequest>,
    ) -> Answer<v1::GetForwardingPipelineConfigResponse> {
        Err(Status::unimplemented("not here"))
    }

    async fn capabilities(&self, _: Request<v1::CapabilitiesRequest>) -> Answer<v1::CapabilitiesResponse> {
        Err(Status::unimplemented("not here"))
    }
}

#[test]
fn a_server_that_waits_for_the_first_message() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a socket");
    let address = listener.local_addr().expect("bound").to_string();
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(P4RuntimeServer::new(LikeBmv2))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let mut client =
        Client::connect(&Options { address, device: 1, ..Options::default() }).expect("it listens");
    client.become_primary().expect("nobody else is");
    let mut found = 0;
    client
        .read(vec![entity::Entity::DigestEntry(v1::DigestEntry::default())], |_| found += 1)
        .expect("nothing");
    assert_eq!(found, 0);
    client.write(Vec::new()).expect("it is written");
}
