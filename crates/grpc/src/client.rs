//! A client of any P4Runtime server. Its calls wait for their answers.

use std::collections::VecDeque;
use std::time::Duration;

use p4runtime::arbitration;
use prost::Message as _;
use proto::google::rpc;
use proto::p4::config::v1::P4Info;
use proto::p4::v1::{self, Uint128, entity, stream_message_request, stream_message_response};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Streaming};

use crate::generated::p4_runtime_client::P4RuntimeClient;

/// The time that a connection and an arbitration may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that an answer may take, and the next part of one.
const ANSWER: Duration = Duration::from_secs(60);
/// The interval at which a client that waits for its turn looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The election id of a client that has been given none.
const ELECTION: u128 = 1;

/// Where a server is, and who the client is.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the server is: `HOST:PORT`, or `unix:PATH`.
    pub address: String,
    /// The number of the device.
    pub device: u64,
    /// The election id; without one the client does not take the place of another primary.
    pub election: Option<u128>,
    /// The role; empty for all of the pipeline.
    pub role: String,
    /// The certificates of the authorities that the server's certificate is of, as PEM: the connection is TLS.
    pub authorities: Option<Vec<u8>>,
    /// The client's own certificate and key, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error("cannot connect to {address}: {why}")]
    Connect {
        /// The address of the server.
        address: String,
        /// Why there is no connection.
        why: String,
    },
    /// The server has refused the call.
    #[error("{}", of_status(.0))]
    Refused(tonic::Status),
    /// Some updates of a batch were refused.
    #[error("{} updates were refused; the first one: {}", .0.len(), .0.first().map(|(_, why)| why.as_str()).unwrap_or_default())]
    Updates(Vec<(usize, String)>),
    /// Another client is the primary.
    #[error(
        "another controller is the primary, with the election id {0}; --election-id with a larger one takes its place"
    )]
    Backup(u128),
    /// The server does not answer.
    #[error("{0}")]
    Silent(String),
    /// There are no threads.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

fn silent() -> ClientError {
    ClientError::Silent("the server does not answer the arbitration".to_string())
}

fn of_status(status: &tonic::Status) -> String {
    format!("{} ({:?})", status.message(), status.code())
}

/// A client of a device.
pub struct Client {
    runtime: Runtime,
    rpc: P4RuntimeClient<Channel>,
    options: Options,
    election: Option<u128>,
    stream: Option<Stream>,
    /// What came on the stream while something else was waited for.
    received: VecDeque<stream_message_response::Update>,
}

struct Stream {
    send: mpsc::Sender<v1::StreamMessageRequest>,
    answers: Streaming<v1::StreamMessageResponse>,
}

type Done<T> = Result<T, ClientError>;

impl Client {
    /// Connects to a server.
    pub fn connect(options: &Options) -> Done<Client> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = options.address.clone();
        let failed = |why: String| ClientError::Connect { address: address.clone(), why };
        let endpoint = endpoint(options).map_err(|why| failed(crate::server::chain(&why)))?;
        let channel =
            runtime.block_on(endpoint.connect()).map_err(|why| failed(crate::server::chain(&why)))?;
        let rpc = P4RuntimeClient::new(channel).max_decoding_message_size(usize::MAX);
        let election = options.election;
        Ok(Client {
            runtime,
            rpc,
            options: options.clone(),
            election,
            stream: None,
            received: VecDeque::new(),
        })
    }

    /// The program's P4Info.
    pub fn info(&mut self) -> Done<P4Info> {
        let request = v1::GetForwardingPipelineConfigRequest {
            device_id: self.options.device,
            response_type: v1::get_forwarding_pipeline_config_request::ResponseType::P4infoAndCookie.into(),
        };
        let answer = self.runtime.block_on(within(ANSWER, self.rpc.get_forwarding_pipeline_config(request)));
        let config = answer.map_err(ClientError::Refused)?.into_inner().config;
        config.and_then(|config| config.p4info).ok_or_else(|| {
            ClientError::Silent("the device has no program yet: push one (strait pipeline push)".to_string())
        })
    }

    /// Becomes the primary of the role. Without an election id of its own the client takes nobody's place.
    pub fn become_primary(&mut self) -> Done<()> {
        if self.stream.is_some() {
            return Ok(());
        }
        let first = self.election.unwrap_or(ELECTION);
        let (code, highest) = self.arbitrate(first)?;
        if code == Code::Ok as i32 {
            return Ok(());
        }
        let highest = highest.unwrap_or_default();
        // Nobody is the primary, but somebody was, with a larger id.
        if code == Code::NotFound as i32 && self.options.election.is_none() && highest > first {
            let (code, _) = self.arbitrate(highest)?;
            if code == Code::Ok as i32 {
                return Ok(());
            }
        }
        self.stream = None;
        Err(ClientError::Backup(highest))
    }

    /// Sends an arbitration message, by which the stream begins if there is none. Returns the code of the answer, and the highest election id.
    fn arbitrate(&mut self, election: u128) -> Done<(i32, Option<u128>)> {
        self.election = Some(election);
        let role = (!self.options.role.is_empty())
            .then(|| v1::Role { name: self.options.role.clone(), ..v1::Role::default() });
        let update = stream_message_request::Update::Arbitration(v1::MasterArbitrationUpdate {
            device_id: self.options.device,
            role,
            election_id: self.election_id(),
            status: None,
        });
        match &self.stream {
            Some(_) => self.send(update)?,
            None => self.open_stream(update)?,
        }
        loop {
            match self.wait(Some(PATIENCE))? {
                Some(stream_message_response::Update::Arbitration(answer)) => {
                    let code = answer.status.map_or(0, |status| status.code);
                    return Ok((code, arbitration::election(answer.election_id.as_ref())));
                }
                Some(other) => self.received.push_back(other),
                None => return Err(silent()),
            }
        }
    }

    fn election_id(&self) -> Option<Uint128> {
        self.election.map(|id| Uint128 { high: (id >> 64) as u64, low: id as u64 })
    }

    /// Sends a message on the stream.
    pub fn send(&mut self, update: stream_message_request::Update) -> Done<()> {
        let ended = || ClientError::Silent("the stream has ended".to_string());
        let stream = self.stream.as_ref().ok_or_else(ended)?;
        let message = v1::StreamMessageRequest { update: Some(update) };
        self.runtime.block_on(stream.send.send(message)).map_err(|_| ended())
    }

    /// The next message of the stream; `None` if none comes in this time.
    pub fn next(&mut self, time: Option<Duration>) -> Done<Option<stream_message_response::Update>> {
        match self.received.pop_front() {
            Some(received) => Ok(Some(received)),
            None => self.wait(time),
        }
    }

    fn wait(&mut self, time: Option<Duration>) -> Done<Option<stream_message_response::Update>> {
        let Some(stream) = &mut self.stream else {
            return Err(ClientError::Silent("there is no stream".to_string()));
        };
        let message = self.runtime.block_on(async {
            match time {
                Some(time) => tokio::time::timeout(time, stream.answers.message()).await.ok(),
                None => Some(stream.answers.message().await),
            }
        });
        match message {
            None => Ok(None),
            Some(Err(status)) => Err(ClientError::Refused(status)),
            Some(Ok(None)) => Err(ClientError::Silent("the server has ended the stream".to_string())),
            Some(Ok(Some(message))) => Ok(message.update),
        }
    }

    /// Waits until this client is the primary: at once, or when the primary that is there has gone. Returns false if `stop` has said so.
    pub fn wait_for_turn(&mut self, stop: impl Fn() -> bool) -> Done<bool> {
        self.stream = None;
        let mut election = self.options.election.unwrap_or(ELECTION);
        let (mut code, mut highest) = self.arbitrate(election)?;
        loop {
            if code == Code::Ok as i32 || stop() {
                return Ok(code == Code::Ok as i32);
            }
            if code == Code::NotFound as i32 {
                election = election.max(highest.unwrap_or_default().saturating_add(1));
                (code, highest) = self.arbitrate(election)?;
                continue;
            }
            match self.wait(Some(LOOK))? {
                Some(stream_message_response::Update::Arbitration(answer)) => {
                    code = answer.status.map_or(0, |status| status.code);
                    highest = arbitration::election(answer.election_id.as_ref());
                }
                Some(other) => self.received.push_back(other),
                None => {}
            }
        }
    }

    /// Opens the stream with its first message: servers of gRPC's C++ library, such as BMv2's, answer nothing before they have it.
    fn open_stream(&mut self, first: stream_message_request::Update) -> Done<()> {
        let (send, messages) = mpsc::channel(1024);
        send.try_send(v1::StreamMessageRequest { update: Some(first) }).map_err(|_| silent())?;
        let call = self.rpc.stream_channel(ReceiverStream::new(messages));
        let opened = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await });
        let answers = opened.map_err(|_| silent())?.map_err(ClientError::Refused)?.into_inner();
        self.stream = Some(Stream { send, answers });
        Ok(())
    }

    /// Applies a batch of updates. Each one is tried.
    pub fn write(&mut self, updates: Vec<v1::Update>) -> Done<()> {
        self.write_as(updates, v1::write_request::Atomicity::ContinueOnError)
    }

    /// Applies a batch of updates.
    pub fn write_as(
        &mut self,
        updates: Vec<v1::Update>,
        atomicity: v1::write_request::Atomicity,
    ) -> Done<()> {
        self.become_primary()?;
        let request = v1::WriteRequest {
            device_id: self.options.device,
            role: self.options.role.clone(),
            election_id: self.election_id(),
            updates,
            atomicity: atomicity.into(),
            ..v1::WriteRequest::default()
        };
        match self.runtime.block_on(self.rpc.write(request)) {
            Ok(_) => Ok(()),
            Err(status) => Err(refusal(status)),
        }
    }

    /// Reads what requests select. `sink` gets the entities as they come. What does not exist is not there: some servers say so by NOT_FOUND, such as
    /// BMv2 of a digest that is not sent.
    pub fn read(&mut self, requests: Vec<entity::Entity>, mut sink: impl FnMut(entity::Entity)) -> Done<()> {
        let entities = requests.into_iter().map(|entity| v1::Entity { entity: Some(entity) }).collect();
        let request =
            v1::ReadRequest { device_id: self.options.device, role: self.options.role.clone(), entities };
        let Client { runtime, rpc, .. } = self;
        let read: Result<(), tonic::Status> = runtime.block_on(async {
            let mut answers = within(ANSWER, rpc.read(request)).await?.into_inner();
            while let Some(answer) = within(ANSWER, answers.message()).await? {
                answer.entities.into_iter().filter_map(|entity| entity.entity).for_each(&mut sink);
            }
            Ok(())
        });
        match read {
            Err(status) if status.code() == Code::NotFound => Ok(()),
            read => read.map_err(refusal),
        }
    }

    /// Pushes a forwarding pipeline.
    pub fn push(
        &mut self,
        action: v1::set_forwarding_pipeline_config_request::Action,
        config: v1::ForwardingPipelineConfig,
    ) -> Done<()> {
        self.become_primary()?;
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: self.options.device,
            role: self.options.role.clone(),
            election_id: self.election_id(),
            action: action.into(),
            config: Some(config),
            ..v1::SetForwardingPipelineConfigRequest::default()
        };
        let pushed = self.runtime.block_on(self.rpc.set_forwarding_pipeline_config(request));
        pushed.map(drop).map_err(ClientError::Refused)
    }
}

/// An answer, if it comes in time.
async fn within<T>(
    time: Duration,
    answer: impl Future<Output = Result<T, tonic::Status>>,
) -> Result<T, tonic::Status> {
    match tokio::time::timeout(time, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let text = format!("the server has not answered for {} seconds", time.as_secs());
            Err(tonic::Status::deadline_exceeded(text))
        }
    }
}

fn endpoint(options: &Options) -> Result<Endpoint, tonic::transport::Error> {
    let scheme = if options.authorities.is_some() { "https" } else { "http" };
    let address = match options.address.starts_with("unix:") {
        true => options.address.clone(),
        false => format!("{scheme}://{}", options.address),
    };
    let endpoint = Endpoint::from_shared(address)?.connect_timeout(PATIENCE);
    let Some(authorities) = &options.authorities else { return Ok(endpoint) };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
    if let Some((certificate, key)) = &options.identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    endpoint.tls_config(tls)
}

/// The refused parts of a batch, if the status has them.
fn refusal(status: tonic::Status) -> ClientError {
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    let one = |(at, any): (usize, &prost_types::Any)| {
        let error = v1::Error::decode(any.value.as_slice()).unwrap_or_default();
        let code = Code::from(error.canonical_code);
        (code != Code::Ok).then(|| (at, format!("{} ({code:?})", error.message)))
    };
    let refused: Vec<(usize, String)> = details.iter().enumerate().filter_map(one).collect();
    match refused.is_empty() {
        true => ClientError::Refused(status),
        false => ClientError::Updates(refused),
    }
}
