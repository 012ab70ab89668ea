//! A server in a process of its own, and a client that waits for answers.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use grpc::generated::p4_runtime_client::P4RuntimeClient;
use prost::Message as _;
use proto::google::rpc;
use proto::p4::config::v1::P4Info;
use proto::p4::v1::{self, Uint128, entity, update};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// The number of the device.
pub const DEVICE: u64 = 1;
/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));

/// A file of tests/p4runtime.
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/p4runtime")).join(name)
}

pub fn program(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).expect("a program")
}

/// The P4Info of a program, as `strait build` writes it.
pub fn info(name: &str) -> P4Info {
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["build", "--target", "p4info"])
        .arg(file(name))
        .output()
        .expect("strait runs");
    proto::parse(&String::from_utf8_lossy(&output.stdout)).expect("P4Info")
}

pub static KINDS: LazyLock<P4Info> = LazyLock::new(|| info("kinds.p4"));

/// A running `strait run --grpc`. It is ended when the value is dropped.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    /// Starts a server with kinds.p4 on the interpreter.
    pub fn kinds() -> Server {
        Server::start(&[file("kinds.p4").to_str().expect("a path"), "--cpu-port", "64"])
    }

    /// Starts a server without a program.
    pub fn empty() -> Server {
        Server::start(&[])
    }

    pub fn start(more: &[&str]) -> Server {
        Server::start_on("interp", more)
    }

    pub fn start_on(target: &str, more: &[&str]) -> Server {
        Server::start_with("0", target, more)
    }

    /// Starts a server that listens on an address.
    pub fn start_with(address: &str, target: &str, more: &[&str]) -> Server {
        Server::start_in(address, target, more, &[])
    }

    /// Starts a server with more variables in its environment.
    pub fn start_in(address: &str, target: &str, more: &[&str], variables: &[(&str, &Path)]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_strait"))
            .args(["run", "--target", target, "--grpc", address])
            .args(more)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strait starts");
        let mut told = String::new();
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
        while lines.read_line(&mut told).expect("text") > 0 {
            let line = told.lines().last().and_then(|line| line.strip_prefix("P4Runtime on "));
            if let Some(address) = line.and_then(|line| line.split([' ', ',']).next()) {
                let address = address.to_string();
                // What the server says later is read, so that it never waits for us.
                std::thread::spawn(move || lines.lines().for_each(drop));
                return Server { child, address };
            }
        }
        let _ = child.wait();
        panic!("the server has ended: {told}");
    }

    /// The memory that the server has, in KiB.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The number of files that the server has.
    pub fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs").count()
    }

    pub fn client(&self) -> Client {
        self.try_client().expect("a connection")
    }

    /// A client, if there is a place for its connection.
    pub fn try_client(&self) -> Option<Client> {
        let address = match self.address.starts_with("unix:") {
            true => self.address.clone(),
            false => format!("http://{}", self.address),
        };
        let channel = tonic::transport::Endpoint::from_shared(address).expect("an address");
        let rpc = RUNTIME.block_on(P4RuntimeClient::connect(channel)).ok()?;
        Some(Client {
            rpc: rpc.max_decoding_message_size(usize::MAX),
            election: None,
            role: String::new(),
            device: DEVICE,
        })
    }

    /// A client that is the primary.
    pub fn primary(&self) -> (Client, Stream) {
        let mut client = self.client();
        let stream = client.primary(1);
        (client, stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A switch in the kernel takes its program away when it is asked to end.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let begun = std::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A client. Its requests have its role and its election id.
#[derive(Clone)]
pub struct Client {
    pub rpc: P4RuntimeClient<Channel>,
    pub election: Option<Uint128>,
    pub role: String,
    pub device: u64,
}

fn wait<T>(answer: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async { tokio::time::timeout(PATIENCE, answer).await }).expect("an answer in time")
}

impl Client {
    /// Opens a stream that becomes that of the primary.
    pub fn primary(&mut self, election: u64) -> Stream {
        let mut stream = self.stream();
        stream.arbitrate(self, Some(election));
        let answer = stream.arbitration().expect("an answer");
        assert_eq!(answer.status.map(|status| status.code), Some(0), "it is the primary");
        stream
    }

    /// Opens a stream.
    pub fn stream(&mut self) -> Stream {
        let (send, messages) = mpsc::channel(1024);
        let answers = wait(self.rpc.stream_channel(ReceiverStream::new(messages)));
        Stream { send, answers: answers.expect("a stream").into_inner() }
    }

    pub fn write(&mut self, updates: Vec<v1::Update>) -> Result<(), Status> {
        self.write_as(updates, v1::write_request::Atomicity::ContinueOnError)
    }

    pub fn write_as(
        &mut self,
        updates: Vec<v1::Update>,
        atomicity: v1::write_request::Atomicity,
    ) -> Result<(), Status> {
        let request = v1::WriteRequest {
            device_id: self.device,
            role: self.role.clone(),
            election_id: self.election,
            updates,
            atomicity: atomicity.into(),
            ..v1::WriteRequest::default()
        };
        wait(self.rpc.write(request)).map(drop)
    }

    /// Writes one update. Returns its own code.
    pub fn one(&mut self, kind: update::Type, entity: entity::Entity) -> Code {
        match self.write(vec![update(kind, entity)]) {
            Ok(()) => Code::Ok,
            Err(status) if status.code() == Code::Unknown => details(&status)[0],
            Err(status) => status.code(),
        }
    }

    pub fn insert(&mut self, entity: entity::Entity) -> Code {
        self.one(update::Type::Insert, entity)
    }

    pub fn modify(&mut self, entity: entity::Entity) -> Code {
        self.one(update::Type::Modify, entity)
    }

    pub fn delete(&mut self, entity: entity::Entity) -> Code {
        self.one(update::Type::Delete, entity)
    }

    /// Reads what a request selects, or the codes of its parts.
    pub fn read_all(&mut self, entities: Vec<entity::Entity>) -> (Vec<entity::Entity>, Option<Status>) {
        let entities = entities.into_iter().map(|entity| v1::Entity { entity: Some(entity) }).collect();
        let request = v1::ReadRequest { device_id: self.device, role: self.role.clone(), entities };
        let mut answers = match wait(self.rpc.read(request)) {
            Ok(answers) => answers.into_inner(),
            Err(status) => return (Vec::new(), Some(status)),
        };
        let mut found = Vec::new();
        loop {
            match wait(answers.message()) {
                Ok(Some(answer)) => found.extend(answer.entities.into_iter().filter_map(|e| e.entity)),
                Ok(None) => return (found, None),
                Err(status) => return (found, Some(status)),
            }
        }
    }

    /// Reads what a request selects; its code if it is refused.
    pub fn read(&mut self, entity: entity::Entity) -> Result<Vec<entity::Entity>, Code> {
        match self.read_all(vec![entity]) {
            (found, None) => Ok(found),
            (_, Some(status)) if status.code() == Code::Unknown => {
                Err(details(&status).first().copied().unwrap_or(Code::Unknown))
            }
            (_, Some(status)) => Err(status.code()),
        }
    }

    /// The table entries that a request selects.
    pub fn entries(&mut self, entry: v1::TableEntry) -> Vec<v1::TableEntry> {
        let found = self.read(entity::Entity::TableEntry(entry)).expect("it reads");
        let entry = |entity| match entity {
            entity::Entity::TableEntry(entry) => entry,
            other => panic!("{other:?}"),
        };
        found.into_iter().map(entry).collect()
    }

    pub fn push(
        &mut self,
        action: v1::set_forwarding_pipeline_config_request::Action,
        config: Option<v1::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: self.device,
            role: self.role.clone(),
            election_id: self.election,
            action: action.into(),
            config,
            ..v1::SetForwardingPipelineConfigRequest::default()
        };
        wait(self.rpc.set_forwarding_pipeline_config(request)).map(drop)
    }

    pub fn pipeline(
        &mut self,
        response_type: v1::get_forwarding_pipeline_config_request::ResponseType,
    ) -> Result<Option<v1::ForwardingPipelineConfig>, Status> {
        let request = v1::GetForwardingPipelineConfigRequest {
            device_id: self.device,
            response_type: response_type.into(),
        };
        Ok(wait(self.rpc.get_forwarding_pipeline_config(request))?.into_inner().config)
    }

    pub fn capabilities(&mut self, device_id: u64) -> Result<v1::CapabilitiesResponse, Status> {
        Ok(wait(self.rpc.capabilities(v1::CapabilitiesRequest { device_id }))?.into_inner())
    }
}

/// A stream of a controller. It ends when the value is dropped.
pub struct Stream {
    pub send: mpsc::Sender<v1::StreamMessageRequest>,
    answers: Streaming<v1::StreamMessageResponse>,
}

impl Stream {
    pub fn send(&self, update: v1::stream_message_request::Update) {
        let message = v1::StreamMessageRequest { update: Some(update) };
        RUNTIME.block_on(self.send.send(message)).expect("the stream is open");
    }

    /// Sends a client's device, role and election id. The client uses the id from now on.
    pub fn arbitrate(&mut self, client: &mut Client, election: Option<u64>) {
        client.election = election.map(|low| Uint128 { high: 0, low });
        let role =
            (!client.role.is_empty()).then(|| v1::Role { name: client.role.clone(), ..v1::Role::default() });
        self.send(v1::stream_message_request::Update::Arbitration(v1::MasterArbitrationUpdate {
            device_id: client.device,
            role,
            election_id: client.election,
            status: None,
        }));
    }

    /// The next message, or the status with which the stream ends.
    pub fn next(&mut self) -> Result<v1::stream_message_response::Update, Status> {
        let message = wait(self.answers.message())?.ok_or_else(|| Status::ok("the stream has ended"))?;
        Ok(message.update.expect("a message"))
    }

    /// The next message, if one comes in this time.
    pub fn next_within(&mut self, time: Duration) -> Option<v1::stream_message_response::Update> {
        let next = RUNTIME.block_on(async { tokio::time::timeout(time, self.answers.message()).await });
        next.ok()?.ok().flatten().and_then(|message| message.update)
    }

    /// The next message, which is one of arbitration.
    pub fn arbitration(&mut self) -> Result<v1::MasterArbitrationUpdate, Status> {
        match self.next()? {
            v1::stream_message_response::Update::Arbitration(update) => Ok(update),
            other => panic!("{other:?}"),
        }
    }

    /// The next message, which is an error.
    pub fn error(&mut self) -> v1::StreamError {
        match self.next() {
            Ok(v1::stream_message_response::Update::Error(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// The codes of a batch's parts.
pub fn details(status: &Status) -> Vec<Code> {
    let status = rpc::Status::decode(status.details()).expect("details");
    let error = |any: &prost_types::Any| v1::Error::decode(any.value.as_slice()).expect("p4.v1.Error");
    status.details.iter().map(|any| Code::from(error(any).canonical_code)).collect()
}

pub fn update(kind: update::Type, entity: entity::Entity) -> v1::Update {
    v1::Update { r#type: kind.into(), entity: Some(v1::Entity { entity: Some(entity) }) }
}

/// The id of an object of kinds.p4.
pub fn id(name: &str) -> u32 {
    id_in(&KINDS, name)
}

pub fn id_in(info: &P4Info, name: &str) -> u32 {
    let tables = info.tables.iter().map(|x| &x.preamble);
    let actions = info.actions.iter().map(|x| &x.preamble);
    let profiles = info.action_profiles.iter().map(|x| &x.preamble);
    let counters = info.counters.iter().map(|x| &x.preamble);
    let meters = info.meters.iter().map(|x| &x.preamble);
    let registers = info.registers.iter().map(|x| &x.preamble);
    let sets = info.value_sets.iter().map(|x| &x.preamble);
    let digests = info.digests.iter().map(|x| &x.preamble);
    let all = tables
        .chain(actions)
        .chain(profiles)
        .chain(counters)
        .chain(meters)
        .chain(registers)
        .chain(sets)
        .chain(digests);
    let found = all.flatten().find(|preamble| preamble.name == name || preamble.alias == name);
    found.unwrap_or_else(|| panic!("there is no `{name}`")).id
}

/// An action of kinds.p4 with the values of its parameters.
pub fn action(name: &str, params: &[&[u8]]) -> v1::Action {
    let param =
        |(at, value): (usize, &&[u8])| v1::action::Param { param_id: at as u32 + 1, value: value.to_vec() };
    v1::Action { action_id: id(name), params: params.iter().enumerate().map(param).collect() }
}

pub fn call(name: &str, params: &[&[u8]]) -> Option<v1::TableAction> {
    Some(v1::TableAction { r#type: Some(v1::table_action::Type::Action(action(name, params))) })
}

pub fn field(id: u32, value: v1::field_match::FieldMatchType) -> v1::FieldMatch {
    v1::FieldMatch { field_id: id, field_match_type: Some(value) }
}

pub fn exact(id: u32, value: &[u8]) -> v1::FieldMatch {
    field(id, v1::field_match::FieldMatchType::Exact(v1::field_match::Exact { value: value.to_vec() }))
}

pub fn lpm(id: u32, value: &[u8], prefix_len: i32) -> v1::FieldMatch {
    field(
        id,
        v1::field_match::FieldMatchType::Lpm(v1::field_match::Lpm { value: value.to_vec(), prefix_len }),
    )
}

pub fn ternary(id: u32, value: &[u8], mask: &[u8]) -> v1::FieldMatch {
    let (value, mask) = (value.to_vec(), mask.to_vec());
    field(id, v1::field_match::FieldMatchType::Ternary(v1::field_match::Ternary { value, mask }))
}

pub fn range(id: u32, low: &[u8], high: &[u8]) -> v1::FieldMatch {
    let (low, high) = (low.to_vec(), high.to_vec());
    field(id, v1::field_match::FieldMatchType::Range(v1::field_match::Range { low, high }))
}

pub fn optional(id: u32, value: &[u8]) -> v1::FieldMatch {
    field(id, v1::field_match::FieldMatchType::Optional(v1::field_match::Optional { value: value.to_vec() }))
}

/// An entry of a table of kinds.p4.
pub fn entry(table: &str, matches: Vec<v1::FieldMatch>, action: Option<v1::TableAction>) -> v1::TableEntry {
    v1::TableEntry { table_id: id(table), r#match: matches, action, ..v1::TableEntry::default() }
}

/// An entry of the table `I.exact_`.
pub fn exact_entry(dst: u8, port: u8, to: u8) -> v1::TableEntry {
    entry("I.exact_", vec![exact(1, &[dst]), exact(2, &[port])], call("I.send", &[&[to]]))
}
