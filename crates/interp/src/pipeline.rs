//! The way of a packet through the stages of the program's pipeline, and the packets that it makes on the way.

use abi::{Bits, drops};
use dataplane::{Mirror, Wait, fragment};
use ir::pipeline::{
    Bytes, Carry, Decision, Fate, Fragment, Headers, Input, Passed, Path, Queueing, Source, Stage, Step, To,
    When,
};
use ir::{Expr, Role, StageId, VarId};

use crate::eval::{eval, truth};
use crate::event::Event;
use crate::machine::{Dropped, Job, Run};
use crate::packet::{BitWriter, PacketState};

/// A port where a packet goes, and what the packet knows there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Destination {
    pub port: u32,
    /// The replication id.
    pub replica: u32,
    /// Its wait in the port's queue, if it was there.
    pub wait: Option<Wait>,
}

/// The stage where packets arrive.
const FIRST: StageId = StageId(0);

impl Run<'_, '_> {
    /// Processes a packet that arrived on a port, and then all packets that it made.
    pub(crate) fn arrive(&mut self, port: u32, data: &[u8]) {
        self.enter(port, data);
        self.stages(FIRST);
        self.run_jobs();
    }

    /// Processes the packets that wait for others of this arrival.
    pub(crate) fn run_jobs(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            let Some(job) = self.unless_queued(job) else { continue };
            self.s = job.state;
            if self.rounds >= abi::ROUNDS {
                self.dropped(drops::STEP_BUDGET);
                continue;
            }
            self.rounds += u32::from(job.stage == FIRST);
            self.stages(job.stage);
        }
    }

    /// Runs the first stage up to the end of a control, which decides nothing. Returns whether the packet got there.
    pub(crate) fn reach(&mut self, port: u32, data: &[u8], control: Role) -> bool {
        self.enter(port, data);
        for step in &self.program.pipeline.stage(FIRST).steps {
            let finished = match step {
                Step::Parse(role, errors) => self.parse_for(*role, errors),
                Step::Control(role) => self.control(*role),
                Step::Deparse(_) | Step::Truncate(..) | Step::Fragment(_) | Step::Decide(_) => Ok(()),
            };
            match finished {
                Err(Dropped(_)) => return false,
                Ok(()) if *step == Step::Control(control) => return true,
                Ok(()) => {}
            }
        }
        false
    }

    /// Makes a packet that has arrived on a port the current one.
    fn enter(&mut self, port: u32, data: &[u8]) {
        self.s.clone_from(self.fresh);
        self.s.data.extend_from_slice(data);
        let inputs = &self.program.pipeline.stage(FIRST).inputs;
        let mut state = std::mem::take(&mut self.s);
        self.write_inputs(&mut state, inputs, Destination { port, ..Destination::default() });
        self.s = state;
    }

    /// Runs a stage for the current packet, and the next stages if the packet enters them at once.
    pub(crate) fn stages(&mut self, first: StageId) {
        let program = self.program;
        let mut next = Some(first);
        while let Some(stage) = next {
            next = self.stage(stage, program.pipeline.stage(stage));
        }
    }

    /// Runs a stage. Returns the stage that the current packet enters next, if there is one and no other packet waits.
    fn stage(&mut self, id: StageId, stage: &Stage) -> Option<StageId> {
        let mut deparsed = Vec::new();
        for step in &stage.steps {
            let finished = match step {
                Step::Parse(role, errors) => self.parse_for(*role, errors),
                Step::Control(role) => self.control(*role),
                Step::Deparse(role) => {
                    self.emitted = BitWriter::default();
                    let finished = self.control(*role);
                    deparsed = std::mem::take(&mut self.emitted).finish();
                    deparsed.extend_from_slice(self.s.payload());
                    finished
                }
                Step::Truncate(var, _) => {
                    if let Some(length) = self.number(*var).checked_sub(1) {
                        deparsed.truncate(length as usize);
                    }
                    Ok(())
                }
                Step::Fragment(fragment) => {
                    self.fragment(fragment, &mut deparsed);
                    Ok(())
                }
                Step::Decide(decision) => match self.decide(id, decision, &deparsed) {
                    Ended::No => Ok(()),
                    Ended::Yes => return None,
                    Ended::Continues(next) => return Some(next),
                },
            };
            if let Err(Dropped(reason)) = finished {
                self.drop_for(reason);
                return None;
            }
        }
        None
    }

    /// Runs a parser, and writes its error to variables.
    fn parse_for(&mut self, role: Role, errors: &[VarId]) -> Result<(), Dropped> {
        let finished = self.parse_as(role);
        let error = u128::from(self.number(self.program.standard.parser_error));
        errors.iter().for_each(|var| self.set(*var, error));
        finished
    }

    fn parse_as(&mut self, role: Role) -> Result<(), Dropped> {
        let program = self.program;
        program.parsers.iter().find(|p| p.role == role).map_or(Ok(()), |parser| self.parse(parser))
    }

    fn decide(&mut self, stage: StageId, decision: &Decision, deparsed: &[u8]) -> Ended {
        let applies = match &decision.when {
            When::Always => true,
            When::Holds(e) => truth(self.program, &self.s, e),
            When::Requested(var, number) => self.number(*var) == u64::from(*number),
        };
        match &decision.then {
            _ if !applies => Ended::No,
            Fate::Drop(reason) => {
                match self.s.site {
                    Some(site) => self.drop_for(site),
                    None => self.dropped(reason),
                }
                Ended::Yes
            }
            Fate::Copy(path) => {
                // A copy that the first stage makes is bounded by the number of its rounds.
                self.rounds += u32::from(stage != FIRST && path.stage.is_some());
                self.take(path, deparsed);
                Ended::No
            }
            // The packet itself continues at once if none waits.
            Fate::Go(Path { to: To::Port(port), stage: Some(stage), carry: Carry::All, sets, .. })
                if self.jobs.is_empty() && *stage != FIRST =>
            {
                let destination = Destination { port: self.evaluate(port), ..Destination::default() };
                let mut state = std::mem::take(&mut self.s);
                self.write_inputs(&mut state, &self.program.pipeline.stage(*stage).inputs, destination);
                self.write_inputs(&mut state, sets, destination);
                let job = Job { state, stage: *stage, port: destination.port };
                let Some(job) = self.unless_queued(job) else { return Ended::Yes };
                self.s = job.state;
                Ended::Continues(*stage)
            }
            Fate::Go(path) => {
                self.take(path, deparsed);
                Ended::Yes
            }
        }
    }

    /// Sends the current packet, or a copy of it, on a path.
    fn take(&mut self, path: &Path, deparsed: &[u8]) {
        let Some((session, destinations)) = self.destinations(&path.to) else { return };
        if let (true, Some(how)) = (self.watched, path.kind.done()) {
            let length = match path.bytes {
                Bytes::Entered => self.s.data.len(),
                Bytes::Deparsed => deparsed.len(),
            };
            self.observer.event(Event::Again { how, session, length });
        }
        if destinations.is_empty() {
            return self.dropped(drops::NO_SUCH_GROUP);
        }
        let Some(stage) = path.stage else {
            destinations.iter().for_each(|to| self.leave(to.port, path, deparsed));
            return;
        };
        let mut base = self.state_on(path, deparsed);
        let last = destinations.len() - 1;
        for (i, to) in destinations.into_iter().enumerate() {
            let mut state = if i == last { std::mem::take(&mut base) } else { base.clone() };
            self.write_inputs(&mut state, &self.program.pipeline.stage(stage).inputs, to);
            self.write_inputs(&mut state, &path.sets, to);
            self.jobs.push_back(Job { state, stage, port: to.port });
        }
    }

    /// The session and the destinations of a path; `None` for a session that does not exist.
    fn destinations(&self, to: &To) -> Option<(Option<u32>, Vec<Destination>)> {
        let members = |group: u32| {
            let replicas = self.state.groups.get(&group).map_or(&[][..], Vec::as_slice);
            replicas
                .iter()
                .map(|(replica, port)| Destination { port: *port, replica: *replica, wait: None })
                .collect()
        };
        let port = |port| vec![Destination { port, ..Destination::default() }];
        Some(match to {
            To::Port(e) => (None, port(self.evaluate(e))),
            To::Group(e) => (None, members(self.evaluate(e))),
            To::Session(e) => {
                let session = self.evaluate(e);
                match *self.state.mirrors.get(&session)? {
                    Mirror::Port(to) => (Some(session), port(to)),
                    Mirror::Group(group) => (Some(session), members(group)),
                }
            }
        })
    }

    /// The state of a packet that takes a path, but for what depends on its destination.
    fn state_on(&mut self, path: &Path, deparsed: &[u8]) -> PacketState {
        let Carry::New { inputs, headers, passed } = &path.carry else {
            let mut state = self.s.clone();
            if path.bytes == Bytes::Deparsed {
                state.data = deparsed.to_vec();
            }
            return state;
        };
        let mut state = self.fresh.clone();
        match path.bytes {
            Bytes::Entered => state.data.clone_from(&self.s.data),
            Bytes::Deparsed => state.data = deparsed.to_vec(),
        }
        self.pass(&mut state, passed);
        let nowhere = Destination::default();
        self.write_inputs(&mut state, inputs, nowhere);
        self.write_inputs(&mut state, &path.sets, nowhere);
        match headers {
            Headers::Invalid => {}
            Headers::Kept => {
                state.headers.clone_from(&self.s.headers);
                state.next.clone_from(&self.s.next);
                state.cursor = self.s.cursor;
                state.wrong_by.clone_from(&self.s.wrong_by);
            }
            Headers::Parsed(role) => {
                let old = std::mem::replace(&mut self.s, state);
                // The packet itself has passed this parser with the same bytes, so that it is not dropped here.
                let _ = self.parse_as(*role);
                state = std::mem::replace(&mut self.s, old);
                self.pass(&mut state, passed);
            }
        }
        state
    }

    fn pass(&self, state: &mut PacketState, passed: &[Passed]) {
        for item in passed {
            match *item {
                Passed::Var { from, to } => state.vars[to.index()] = self.s.vars[from.index()].clone(),
                Passed::Header { from, to } => {
                    state.headers[to.index()] = self.s.headers[from.index()].clone();
                }
            }
        }
    }

    /// Writes what the architecture knows about a packet to its state. Expressions read the state of the current packet.
    pub(crate) fn write_inputs(&self, state: &mut PacketState, inputs: &[Input], to: Destination) {
        for input in inputs {
            let width = self.program.var(input.var).ty.width();
            let number = |value: u128| Bits::new(width, value);
            state.vars[input.var.index()] = match &input.value {
                Source::Port => number(to.port.into()),
                Source::Replica => number(to.replica.into()),
                Source::Length => number(state.data.len() as u128),
                Source::Clock => number(self.clock.into()),
                Source::Queue(what) => {
                    let wait = to.wait.unwrap_or(Wait { entered: self.clock, ..Wait::default() });
                    number(u128::from(match what {
                        Queueing::Entered => wait.entered,
                        Queueing::Before => wait.before,
                        Queueing::Waited => wait.waited,
                        Queueing::Behind => wait.behind,
                    }))
                }
                Source::Direction => number(self.state.pna.host_ports.contains(&to.port).into()),
                Source::Const(value) => value.resize(width),
                Source::Value(e) => eval(self.program, &self.s, e).resize(width),
            };
        }
    }

    fn evaluate(&self, e: &Expr) -> u32 {
        eval(self.program, &self.s, e).low_u64() as u32
    }

    /// Sends all fragments of the deparsed packet but the last one, which takes its place.
    fn fragment(&mut self, request: &Fragment, deparsed: &mut Vec<u8>) {
        let [size, identification] = [request.size, request.identification].map(|var| self.number(var));
        let Some(mut fragments) = fragment::ipv6(deparsed, size as u16, identification as u32) else {
            return;
        };
        *deparsed = fragments.pop().unwrap_or_default();
        let port = self.evaluate(&request.port);
        fragments.into_iter().for_each(|bytes| self.send(port, bytes));
    }

    fn leave(&mut self, port: u32, path: &Path, deparsed: &[u8]) {
        let bytes = match path.bytes {
            Bytes::Entered => self.s.data.clone(),
            Bytes::Deparsed => deparsed.to_vec(),
        };
        self.send(port, bytes);
    }

    fn send(&mut self, port: u32, bytes: Vec<u8>) {
        if self.watched {
            self.observer.event(Event::Sent { port, bytes: &bytes });
        }
        self.outcome.sent.push((port, bytes));
    }
}

/// Whether a decision ended the stage.
enum Ended {
    No,
    Yes,
    /// The packet enters this stage at once.
    Continues(StageId),
}
