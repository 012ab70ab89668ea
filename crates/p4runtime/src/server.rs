//! A server of one device: its controllers, its forwarding pipelines and its program.
//!
//! The server has no sockets. Streams are numbers, and what they are to be told is a list of messages that the caller sends.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use abi::Manifest;
use dataplane::Device;
use dataplane::device::Event;
use proto::p4::config::v1::P4Info;
use proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use proto::p4::v1::stream_message_response::Update;
use proto::p4::v1::{self, ForwardingPipelineConfig, stream_error, stream_message_request as request};

use super::arbitration::{Arbitration, StreamId, election, role_of};
use super::digest::{Digests, List};
use super::kept::Kept;
use super::links::Links;
use super::pipeline::Pipeline;
use super::role::Scope;
use super::{Code, Outcomes, Status, packet, read, reconcile, stream, write};

/// A compiled program: what a target loads, and its P4Info.
pub struct Compiled {
    /// The description of the program.
    pub info: P4Info,
    /// What the loaded program will have.
    pub manifest: Manifest,
    /// The form in which the target loads it.
    pub object: Box<dyn Any + Send>,
}

/// Compiles `p4_device_config`. It ends soon after it was cancelled.
pub type Compiler = Arc<dyn Fn(&[u8], &abi::Cancel) -> Result<Compiled, CompileError> + Send + Sync>;

/// Why there is no program. The texts are for people.
#[derive(Debug)]
pub enum CompileError {
    /// The program has a mistake, or the target cannot run it.
    Refused(String),
    /// The program needs more memory than it may have.
    TooLarge(String),
}

impl From<String> for CompileError {
    fn from(text: String) -> CompileError {
        CompileError::Refused(text)
    }
}

/// What runs the programs of a device. It can hold a second program, with its tables, that has no packets yet.
pub trait Target: Send {
    /// Compiles programs for this target. It runs without the target, which goes on meanwhile.
    fn compiler(&self) -> Compiler;
    /// Loads a program beside the running one. Nothing of the running one changes. A program that was loaded before is discarded, unless the new one
    /// cannot be loaded.
    fn load(&mut self, object: Box<dyn Any + Send>) -> Result<(), String>;
    /// The loaded program that has no packets yet.
    fn loaded(&mut self) -> Option<&mut dyn Device>;
    /// Both programs, if there are two.
    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)>;
    /// Gives the packets to the loaded program. The running one ends. After an error the running one goes on, and the loaded one is discarded. What
    /// fails after the packets have changed over is no error.
    fn commit(&mut self) -> Result<(), String>;
    /// Forgets the loaded program that has no packets yet.
    fn discard(&mut self);
    /// The running program.
    fn running(&mut self) -> Option<&mut dyn Device>;
}

/// A forwarding pipeline of the device.
struct Config {
    pipeline: Pipeline,
    kept: Kept,
    /// As the controller has given it.
    device_config: Vec<u8>,
    cookie: Option<v1::forwarding_pipeline_config::Cookie>,
}

/// What reads and writes work on.
struct Current<'a> {
    config: &'a mut Config,
    device: &'a mut dyn Device,
    links: &'a Links,
}

/// Messages for streams.
pub type Messages = Vec<(StreamId, v1::StreamMessageResponse)>;

/// The time of an event.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Nanoseconds of a clock that never goes back.
    pub monotonic: u64,
    /// Nanoseconds since the epoch.
    pub wall: i64,
}

/// What a request fails with.
#[derive(Debug)]
pub enum Failure {
    /// The request as a whole.
    Whole(Status),
    /// At least one of the parts of a batch. There is an outcome for each part.
    Parts(Outcomes),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Whole(status)
    }
}

/// The server of one device.
pub struct Server<T: ?Sized> {
    device: u64,
    arbitration: Arbitration,
    running: Option<Config>,
    /// The pipeline of `VERIFY_AND_SAVE`, until it is committed.
    saved: Option<Config>,
    digests: Digests,
    links: Links,
    target: Box<T>,
}

impl<T: Target + ?Sized> Server<T> {
    /// A server of a device without a program.
    pub fn new(device: u64, target: Box<T>) -> Server<T> {
        let (arbitration, digests, links) = (Arbitration::of(device), Digests::default(), Links::default());
        Server { device, arbitration, running: None, saved: None, digests, links, target }
    }

    /// The number of the device.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// What runs the programs.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// Says which ports the device has, and which of them have a link. Members of action profiles that watch a port take part in selections while it
    /// has one (section 9.2.2), and backup replicas take the place of ports without one (section 9.5.1).
    pub fn set_links(&mut self, ports: BTreeMap<u32, bool>) -> Result<(), Status> {
        // The links are those of before until all groups follow the new ones. What is written twice is the same.
        let mut links = self.links.clone();
        let changed = links.replace(ports);
        if let (Some(config), Some(device)) = (&self.running, self.target.running()) {
            device.write(&links.regroup(&config.kept, &changed)).map_err(|refused| refused.error)?;
        }
        if let (Some(config), Some(device)) = (&self.saved, self.target.loaded()) {
            device.write(&links.regroup(&config.kept, &changed)).map_err(|refused| refused.error)?;
        }
        self.links = links;
        Ok(())
    }

    /// Starts a program that no controller has pushed. `prepare` gets it before packets do.
    pub fn start(
        &mut self,
        compiled: Compiled,
        device_config: Vec<u8>,
        prepare: impl FnOnce(&mut dyn Device) -> Result<(), String>,
    ) -> Result<(), Status> {
        let mut config = ForwardingPipelineConfig {
            p4info: Some(compiled.info.clone()),
            p4_device_config: device_config,
            cookie: None,
        };
        let made = self.load(&mut config, compiled)?;
        let device = self.target.loaded().ok_or_else(no_pipeline)?;
        if let Err(why) = prepare(device) {
            self.target.discard();
            return Err(Status::invalid(why));
        }
        self.commit(made)
    }

    /// A message of a controller. An error ends its stream.
    pub fn message(
        &mut self,
        stream: StreamId,
        message: v1::StreamMessageRequest,
    ) -> Result<Messages, Status> {
        match message.update {
            Some(request::Update::Arbitration(update)) => {
                let notices = self.arbitration.update(stream, &update)?;
                let message = |(stream, notice)| (stream, stream::response(Update::Arbitration(notice)));
                Ok(notices.into_iter().map(message).collect())
            }
            Some(request::Update::Packet(packet)) => {
                let done = self.packet_out(stream, &packet);
                let failed = done.err().map(|status| {
                    // What was refused is not sent back: it may be long, and the client has it.
                    let details = v1::PacketOutError { packet_out: None };
                    (stream, stream::error(&status, stream_error::Details::PacketOut(details)))
                });
                Ok(failed.into_iter().collect())
            }
            Some(request::Update::DigestAck(ack)) => {
                let done = self.acknowledge(stream, &ack);
                let failed = done.err().map(|status| {
                    let details = v1::DigestListAckError { digest_list_ack: Some(ack) };
                    (stream, stream::error(&status, stream_error::Details::DigestListAck(details)))
                });
                Ok(failed.into_iter().collect())
            }
            Some(request::Update::Other(_)) => {
                let status = Status::unimplemented("messages of other architectures");
                let details = v1::StreamOtherError { other: None };
                Ok(vec![(stream, stream::error(&status, stream_error::Details::Other(details)))])
            }
            None => Ok(Messages::new()),
        }
    }

    /// A stream has ended.
    pub fn leave(&mut self, stream: StreamId) -> Messages {
        let notices = self.arbitration.leave(stream);
        notices.into_iter().map(|(to, notice)| (to, stream::response(Update::Arbitration(notice)))).collect()
    }

    /// Whether a stream is that of a primary.
    pub fn is_primary(&self, stream: StreamId) -> bool {
        self.arbitration.is_primary(stream)
    }

    fn packet_out(&mut self, stream: StreamId, packet: &v1::PacketOut) -> Result<(), Status> {
        if !self.arbitration.is_primary(stream) {
            return Err(Status::new(Code::PermissionDenied, "only the primary controller sends packets"));
        }
        let config = self.running.as_mut().ok_or_else(no_pipeline)?;
        let device = self.target.running().ok_or_else(no_pipeline)?;
        let names = &mut config.kept.names;
        let sent = packet::packet_out(&config.pipeline, names, packet)
            .and_then(|frame| Ok(device.packet_out(&frame)?));
        match sent {
            Ok(()) => names.keep(),
            Err(_) => names.forget(),
        }
        sent
    }

    fn acknowledge(&mut self, stream: StreamId, ack: &v1::DigestListAck) -> Result<(), Status> {
        if !self.arbitration.is_primary(stream) {
            return Err(Status::new(
                Code::PermissionDenied,
                "only the primary controller acknowledges digests",
            ));
        }
        let config = self.running.as_ref().ok_or_else(no_pipeline)?;
        config.pipeline.digests.get(ack.digest_id, "digest")?;
        self.digests.acknowledge(ack.digest_id, ack.list_id);
        Ok(())
    }

    /// Applies a batch of updates.
    pub fn write(&mut self, request: &v1::WriteRequest) -> Result<(), Failure> {
        let scope = self.check_primary(&request.role, role_id(request), request.election_id.as_ref())?;
        let atomicity = v1::write_request::Atomicity::try_from(request.atomicity);
        let atomicity = atomicity.map_err(|_| Status::invalid("the atomicity is not known"))?;
        let Current { config, device, links } = self.current()?;
        write(&config.pipeline, &mut config.kept, device, links, &scope, &request.updates, atomicity)
            .map_err(Failure::Parts)
    }

    /// Reads what the requests of a batch select.
    pub fn read(
        &mut self,
        request: &v1::ReadRequest,
        sink: &mut dyn FnMut(v1::entity::Entity),
    ) -> Result<(), Failure> {
        let scope = self.arbitration.scope(&request.role)?;
        let Current { config, device, .. } = self.current()?;
        let mut outcomes = Outcomes::new();
        for entity in &request.entities {
            outcomes.push(read(&config.pipeline, &mut config.kept, device, &scope, entity, sink));
        }
        match outcomes.iter().all(Result::is_ok) {
            true => Ok(()),
            false => Err(Failure::Parts(outcomes)),
        }
    }

    /// The pipeline that reads and writes refer to, with its device.
    fn current(&mut self) -> Result<Current<'_>, Status> {
        let links = &self.links;
        match &mut self.saved {
            Some(config) => {
                Ok(Current { config, device: self.target.loaded().ok_or_else(no_pipeline)?, links })
            }
            None => {
                let config = self.running.as_mut().ok_or_else(no_pipeline)?;
                Ok(Current { config, device: self.target.running().ok_or_else(no_pipeline)?, links })
            }
        }
    }

    fn check_primary(&self, role: &str, id: u64, election_id: Option<&v1::Uint128>) -> Result<Scope, Status> {
        self.arbitration.check_primary(&role_of(role, id), election(election_id)).cloned()
    }

    /// Checks a push of a pipeline before its program is compiled. `None`: there is nothing to compile.
    pub fn begin_push(
        &self,
        request: &v1::SetForwardingPipelineConfigRequest,
    ) -> Result<Option<Compiler>, Status> {
        let scope = self.check_primary(&request.role, push_role_id(request), request.election_id.as_ref())?;
        scope.check_pipeline()?;
        match (request.action(), &request.config) {
            (Action::Unspecified, _) => Err(Status::invalid("the action is not set")),
            (Action::Commit, None) => Ok(None),
            (Action::Commit, Some(_)) => {
                Err(Status::invalid("`COMMIT` takes no config: it commits the saved one"))
            }
            (_, None) => Err(Status::invalid("the config is not set")),
            (_, Some(config)) if config.p4info.is_none() => Err(Status::invalid("the config has no P4Info")),
            (_, Some(_)) => Ok(Some(self.target.compiler())),
        }
    }

    /// Does what a push of a pipeline asks for. `compiled` is what the compiler has made of its program.
    pub fn push(
        &mut self,
        mut request: v1::SetForwardingPipelineConfigRequest,
        compiled: Option<Compiled>,
    ) -> Result<(), Status> {
        // Another controller may have become the primary meanwhile.
        self.check_primary(&request.role, push_role_id(&request), request.election_id.as_ref())?;
        let action = request.action();
        let (Some(config), Some(compiled)) = (&mut request.config, compiled) else {
            let saved = self.saved.take();
            let saved = saved.ok_or_else(|| Status::not_found("no pipeline is saved"))?;
            return self.commit(saved);
        };
        if action == Action::Verify {
            // A saved pipeline has the only place for a program without packets.
            if self.saved.is_some() {
                return Err(Status::new(
                    Code::FailedPrecondition,
                    "a pipeline is saved: commit it before another is verified",
                ));
            }
            let made = self.load(config, compiled).map(drop);
            self.target.discard();
            return made;
        }
        let made = self.load(config, compiled)?;
        // The new program has the place of the saved one.
        self.saved = None;
        match action {
            Action::VerifyAndSave => {
                self.saved = Some(made);
                Ok(())
            }
            Action::ReconcileAndCommit => {
                let carried = self.carry_over(made);
                carried.inspect_err(|_| self.target.discard()).and_then(|made| self.commit(made))
            }
            _ => self.commit(made),
        }
    }

    /// Joins a program with the controller's P4Info, and loads it beside the running one.
    fn load(&mut self, config: &mut ForwardingPipelineConfig, compiled: Compiled) -> Result<Config, Status> {
        let info = config.p4info.take().unwrap_or_default();
        let pipeline = Pipeline::new(info, &compiled.info, &compiled.manifest)?;
        let refused = |why| Status::invalid(format!("the program cannot be loaded: {why}"));
        self.target.load(compiled.object).map_err(refused)?;
        Ok(Config {
            pipeline,
            kept: Kept::default(),
            device_config: std::mem::take(&mut config.p4_device_config),
            cookie: config.cookie,
        })
    }

    fn carry_over(&mut self, made: Config) -> Result<Config, Status> {
        let Some((old, new)) = self.target.both() else { return Ok(made) };
        let mut kept = self.running.as_ref().map(|running| running.kept.clone()).unwrap_or_default();
        reconcile(old, new, &mut kept)?;
        Ok(Config { kept, ..made })
    }

    fn commit(&mut self, config: Config) -> Result<(), Status> {
        let failed = |why| Status::new(Code::Internal, format!("the program cannot be started: {why}"));
        self.target.commit().map_err(failed)?;
        self.running = Some(config);
        self.digests = Digests::default();
        Ok(())
    }

    /// The pipeline, as a controller asks for it.
    pub fn pipeline(
        &self,
        request: &v1::GetForwardingPipelineConfigRequest,
    ) -> v1::GetForwardingPipelineConfigResponse {
        let config = self.saved.as_ref().or(self.running.as_ref()).map(|config| {
            let of = request.response_type();
            let info = || Some(config.pipeline.info.clone());
            let program = || config.device_config.clone();
            let (p4info, p4_device_config) = match of {
                ResponseType::All => (info(), program()),
                ResponseType::CookieOnly => (None, Vec::new()),
                ResponseType::P4infoAndCookie => (info(), Vec::new()),
                ResponseType::DeviceConfigAndCookie => (None, program()),
            };
            ForwardingPipelineConfig { p4info, p4_device_config, cookie: config.cookie }
        });
        v1::GetForwardingPipelineConfigResponse { config }
    }

    /// What the program tells becomes messages for the primaries.
    pub fn tell(&mut self, events: &[Event], now: Now) -> Messages {
        let Some(config) = &mut self.running else { return Messages::new() };
        let (mut messages, mut idle) = (Messages::new(), Vec::new());
        let mut lists: Vec<List> = Vec::new();
        for event in events {
            match event {
                Event::Packet(frame) => {
                    let Some(packet) = packet::packet_in(&config.pipeline, &config.kept.names, frame) else {
                        continue;
                    };
                    let takers = self.arbitration.primaries().filter(|(_, scope)| scope.takes(&packet));
                    messages.extend(
                        takers.map(|(stream, _)| (stream, stream::response(Update::Packet(packet.clone())))),
                    );
                }
                Event::Digest(digest) => {
                    let id = config.pipeline.digests.ids.get(digest.digest.index()).copied().flatten();
                    let Some((id, settings)) = id.and_then(|id| Some((id, *config.kept.digest(id)?))) else {
                        continue;
                    };
                    lists.extend(self.digests.add(id, &settings, digest.values.clone(), now.monotonic));
                }
                Event::Idle(entry) => idle.push(entry),
                Event::Message(_) => {}
            }
        }
        lists.extend(self.digests.due(config.kept.digests(), now.monotonic));
        for list in lists {
            let Some(message) = stream::digest_list(&config.pipeline, &list, now.wall) else { continue };
            let takers = self.arbitration.primaries().filter(|(_, scope)| scope.has(list.digest));
            messages.extend(
                takers.map(|(stream, _)| (stream, stream::response(Update::Digest(message.clone())))),
            );
        }
        for (stream, scope) in self.arbitration.primaries() {
            let sees = |entry: &&&dataplane::device::TableEntry| {
                config.pipeline.table_at(entry.key.table).is_some_and(|(id, _)| scope.has(id))
            };
            let seen: Vec<_> = idle.iter().filter(sees).copied().collect();
            if let Some(message) = stream::idle(&config.pipeline, &config.kept, &seen, now.wall) {
                messages.push((stream, stream::response(Update::IdleTimeoutNotification(message))));
            }
        }
        messages
    }
}

fn no_pipeline() -> Status {
    Status::new(Code::FailedPrecondition, "the device has no forwarding pipeline yet")
}

/// The deprecated number of the role of a write.
#[allow(deprecated)]
pub fn role_id(request: &v1::WriteRequest) -> u64 {
    request.role_id
}

/// The same of a push.
#[allow(deprecated)]
pub fn push_role_id(request: &v1::SetForwardingPipelineConfigRequest) -> u64 {
    request.role_id
}

#[cfg(test)]
mod tests;
