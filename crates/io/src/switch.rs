//! A switch: a native program, its ports, and the workers that move packets between them.
//!
//! Each worker is a thread on a processor of its own, with its own queue of every port. A worker receives a burst from a port, runs the
//! program on it, and queues the packets that leave. After it has polled all ports, it flushes them. It neither waits nor allocates for a
//! packet; the only locks are those of a bucket that learns and of a meter's cell, which are spun on for a few instructions, but for longer if the
//! operating system has suspended the thread that holds one (docs/native.md). Digests and messages go through a bounded channel; one that finds the channel full is dropped and counted. A worker without packets for
//! a while sleeps until a packet arrives.
//!
//! A worker that panics ends all of them, so that the process ends with the reason, instead of serving only a part of the packets.

use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::{Manifest, drops};
use dataplane::Memory;
use dataplane::device::{Device, DeviceError, Entity, EntryKey, Event, Query, Update, WriteError};
use dataplane::memory;
use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError};
use dataplane::queue::{QueueCounts, Shape};

use crate::controller::{self, ControllerPort};
use crate::native::queues::{Leaving, Queues};
use crate::native::{Batch, NativeProgram};
use crate::port::{pin, processors, socket};
use crate::watch::{self, Tap, Wanted, Watcher};
use crate::{Error, Result};

/// Number of packets in a burst, and number of clones that a burst may make.
const BURST: usize = 64;
const COPIES: usize = 1024;
/// Size of the largest packet in bytes: a GSO packet with its Ethernet header and VLAN tags.
const LARGEST: usize = 65_536 + 64;
/// Number of polls without a packet after which a worker sleeps. After this number of polls it also checks whether to publish its counts.
const IDLE_POLLS: u32 = 2_000;
/// The longest sleep of a worker, and thus the longest time until it notices that it must stop.
const SLEEP: Duration = Duration::from_millis(50);
/// The interval at which the host looks whether the workers have changed or paused.
const BRIEFLY: Duration = Duration::from_micros(100);
/// The interval in microseconds at which idle entries are searched.
const SEARCH: u64 = 1_000_000;
/// Capacity of the channel of digests and messages.
const TOLD: usize = 1 << 14;

/// A running program with its workers.
pub struct Switch {
    program: Arc<NativeProgram>,
    running: Arc<Running>,
    workers: Vec<JoinHandle<()>>,
    told: Receiver<Event>,
    memory: Arc<Memory>,
    started: Instant,
    /// When idle entries were searched last, in microseconds.
    searched: u64,
    /// The port of the controller.
    controller: Option<ControllerPort>,
}

/// The state that the workers share with their switch.
struct Running {
    stop: AtomicBool,
    /// What each worker does.
    workers: Vec<State>,
    /// Number of workers that have panicked.
    panics: AtomicU64,
    /// Number of digests and messages lost because the channel or a worker's buffer was full.
    lost: AtomicU64,
    /// For each worker: the counts of its queue of each port.
    counts: Vec<Mutex<Vec<PortCounts>>>,
    /// What the queues of the ports with a rate have counted.
    queues: Mutex<BTreeMap<u32, QueueCounts>>,
    /// The error that ended a worker.
    failure: Mutex<Option<PortError>>,
    /// The program that the workers are to run, and its number. A worker that has another number takes it.
    program: Mutex<Arc<NativeProgram>>,
    generation: AtomicU64,
    /// Whether the workers are to wait between two bursts.
    pause: AtomicBool,
    /// The taps of a watcher that the workers have not taken yet, and how often there was one. A worker that has another number takes its tap.
    taps: Mutex<Vec<Option<Tap>>>,
    watched: AtomicU64,
}

/// What a worker does, for those who wait for it. Nobody waits for one that has ended.
#[derive(Default)]
struct State {
    ended: AtomicBool,
    /// The number of the program that it runs ([`Running::generation`]).
    generation: AtomicU64,
    /// Whether it waits between two bursts.
    paused: AtomicBool,
}

impl Running {
    /// Waits until each worker has ended or is as it shall be.
    fn wait_for(&self, is_there: impl Fn(&State) -> bool) {
        let done = |state: &State| state.ended.load(Ordering::Acquire) || is_there(state);
        while !self.workers.iter().all(done) {
            std::thread::sleep(BRIEFLY);
        }
    }

    /// Remembers the first error of a worker.
    fn fail(&self, error: PortError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// The number of a port in the program, and one queue for each worker.
pub type PortQueues = (u32, Vec<Box<dyn Port>>);

/// The queue in front of each port that has a rate.
pub type Shapes = BTreeMap<u32, Shape>;

impl Switch {
    /// Starts the workers. Each port has one queue for each worker.
    pub fn start(program: Arc<NativeProgram>, ports: Vec<PortQueues>, workers: usize) -> Result<Switch> {
        Switch::start_with(program, ports, workers, &Shapes::new())
    }

    /// Like [`Switch::start`], with queues in front of some ports. It takes one worker, and a program with queues.
    pub fn start_with(
        program: Arc<NativeProgram>,
        ports: Vec<PortQueues>,
        workers: usize,
        shapes: &Shapes,
    ) -> Result<Switch> {
        if !shapes.is_empty() && (workers != 1 || !program.has_queues()) {
            let why = "ports with queues take one worker, and a program that was compiled for them";
            return Err(Error::Library {
                name: program.memory().manifest().program.clone(),
                why: why.into(),
            });
        }
        let started = Instant::now();
        let (send, told) = sync_channel(TOLD);
        let running = Arc::new(Running {
            stop: AtomicBool::new(false),
            workers: (0..workers).map(|_| State::default()).collect(),
            panics: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            counts: (0..workers).map(|_| Mutex::new(Vec::new())).collect(),
            queues: Mutex::default(),
            failure: Mutex::new(None),
            program: Mutex::new(program.clone()),
            generation: AtomicU64::new(0),
            pause: AtomicBool::new(false),
            taps: Mutex::default(),
            watched: AtomicU64::new(0),
        });
        let mut queues: Vec<Vec<(u32, Box<dyn Port>)>> = (0..workers).map(|_| Vec::new()).collect();
        for (number, of_port) in ports {
            queues.iter_mut().zip(of_port).for_each(|(worker, queue)| worker.push((number, queue)));
        }
        let processors = processors();
        let mut threads = Vec::new();
        for (number, ports) in queues.into_iter().enumerate() {
            let mut worker =
                Worker::new(number, program.clone(), ports, running.clone(), send.clone(), started);
            worker.queues = (!shapes.is_empty()).then(|| Queues::new(shapes));
            let processor = processors[number % processors.len().max(1)];
            // A single worker is not pinned: the scheduler places it better.
            let pinned = workers > 1;
            let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
                if pinned {
                    // Without the permission to pin, the worker runs unpinned.
                    let _ = pin(processor);
                }
                worker.run();
            });
            let spawned =
                thread.map_err(|e| Error::System { what: "start a worker".to_string(), source: e })?;
            threads.push(spawned);
        }
        let memory = program.memory().clone();
        Ok(Switch {
            program,
            running,
            workers: threads,
            told,
            memory,
            started,
            searched: 0,
            controller: None,
        })
    }

    /// The running program.
    pub fn program(&self) -> &NativeProgram {
        &self.program
    }

    /// Gives the packets to another program. The ports stay open, and no packet is lost: a packet meets the one program or the other. Returns when all
    /// workers have changed.
    pub fn replace(&mut self, program: Arc<NativeProgram>) {
        self.memory = program.memory().clone();
        self.program = program.clone();
        *self.running.program.lock().unwrap_or_else(PoisonError::into_inner) = program;
        let generation = self.running.generation.fetch_add(1, Ordering::Release) + 1;
        self.running.wait_for(|worker| worker.generation.load(Ordering::Acquire) == generation);
    }

    /// Runs `act` while all workers wait between two bursts. Packets wait in the queues of the ports.
    fn between_bursts<R>(&mut self, act: impl FnOnce(&mut Switch) -> R) -> R {
        // A worker that is about to leave the last pause still counts as paused, and would not wait in this one.
        self.running.wait_for(|worker| !worker.paused.load(Ordering::Acquire));
        self.running.pause.store(true, Ordering::Release);
        self.running.wait_for(|worker| worker.paused.load(Ordering::Acquire));
        let done = act(self);
        self.running.pause.store(false, Ordering::Release);
        done
    }

    /// The time since the start in microseconds. It is the clock that packets see.
    pub fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Waits up to `wait` until the program has told something ([`Device::events`]).
    pub fn wait(&self, wait: Duration) {
        if let Ok(event) = self.told.recv_timeout(wait) {
            self.report(event);
        }
    }

    fn report(&self, event: Event) {
        if !self.memory.report(event) {
            self.running.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins to copy packets for a watcher. A watcher before it sees no more.
    pub fn watch(&mut self, wanted: &Wanted) -> Watcher {
        let (taps, watcher) = watch::taps(self.workers.len(), wanted);
        *self.running.taps.lock().unwrap_or_else(PoisonError::into_inner) =
            taps.into_iter().map(Some).collect();
        self.running.watched.fetch_add(1, Ordering::Release);
        watcher
    }

    /// Makes a port the controller's: its interface must be one of the ports that the workers have. It is removed with this value.
    pub fn set_controller(&mut self, port: ControllerPort) {
        self.controller = Some(port);
    }

    /// Takes the port of the controller away.
    pub fn take_controller(&mut self) -> Option<ControllerPort> {
        self.controller.take()
    }

    /// The port of the controller.
    pub fn controller(&self) -> Option<&ControllerPort> {
        self.controller.as_ref()
    }

    /// The number of digests and messages lost because the channel or a worker's buffer was full.
    pub fn events_lost(&self) -> u64 {
        self.running.lost.load(Ordering::Relaxed)
    }

    /// Whether all workers have ended, so that no packet will be processed any more.
    pub fn ended(&self) -> bool {
        self.running.workers.iter().all(|worker| worker.ended.load(Ordering::Acquire))
    }

    /// The number of workers that have panicked. The others have ended with them.
    pub fn panics(&self) -> u64 {
        self.running.panics.load(Ordering::Relaxed)
    }

    /// The counts of each port, in the order of [`Switch::start`]. They are at most a second old.
    pub fn counts(&self) -> Vec<PortCounts> {
        let mut total: Vec<PortCounts> = Vec::new();
        for worker in &self.running.counts {
            let counts = worker.lock().unwrap_or_else(PoisonError::into_inner);
            total.resize(total.len().max(counts.len()), PortCounts::default());
            for (total, one) in total.iter_mut().zip(counts.iter()) {
                total.received += one.received;
                total.sent += one.sent;
                total.missed += one.missed;
                total.full += one.full;
                total.unfit += one.unfit;
            }
        }
        total
    }

    /// What the queues of the ports with a rate have counted.
    pub fn queues(&self) -> BTreeMap<u32, QueueCounts> {
        self.running.queues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops all workers. Returns the counts of each port, and the error of a worker that failed.
    pub fn stop(mut self) -> (Vec<PortCounts>, Option<PortError>) {
        self.end();
        let failure = self.running.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        (self.counts(), failure)
    }

    /// Like [`Switch::stop`], but the counts can still be read afterwards.
    pub fn halt(&mut self) -> Option<PortError> {
        self.end();
        self.running.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn end(&mut self) {
        self.running.stop.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Device for Switch {
    fn manifest(&self) -> &Manifest {
        self.memory.manifest()
    }

    fn write(&mut self, updates: &[Update]) -> std::result::Result<(), WriteError> {
        self.memory.set_clock(self.now());
        self.memory.write(updates)
    }

    fn write_atomically(&mut self, updates: &[Update]) -> std::result::Result<(), WriteError> {
        match updates.len() {
            0 | 1 => self.write(updates),
            _ => self.between_bursts(|switch| switch.write(updates)),
        }
    }

    fn read(&mut self, query: &Query) -> std::result::Result<Vec<Entity>, DeviceError> {
        self.memory.read(query)
    }

    fn since_last_hit(&mut self, entry: &EntryKey) -> std::result::Result<u64, DeviceError> {
        self.memory.set_clock(self.now());
        self.memory.since_last_hit(entry)
    }

    fn events(&mut self) -> std::result::Result<Vec<Event>, DeviceError> {
        self.told.try_iter().for_each(|event| self.report(event));
        let now = self.now();
        self.memory.set_clock(now);
        let mut events = if now < self.searched + SEARCH {
            self.memory.take_reported()
        } else {
            self.searched = now;
            self.memory.events()?
        };
        controller::packets_in(&self.controller, &mut events)?;
        Ok(events)
    }

    fn listen(&mut self, messages: bool) -> std::result::Result<(), DeviceError> {
        self.memory.listen(messages)
    }

    fn packet_out(&mut self, packet: &[u8]) -> std::result::Result<(), DeviceError> {
        controller::packet_out(&self.controller, packet)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.end();
    }
}

/// The number of the drop reason of packets to a port that does not exist.
fn no_such_port(program: &NativeProgram) -> usize {
    let reasons = &program.memory().manifest().drops;
    reasons.iter().position(|d| d.name == drops::NO_SUCH_PORT).unwrap_or(0)
}

/// One worker thread's state.
struct Worker {
    number: usize,
    program: Arc<NativeProgram>,
    ports: Vec<(u32, Box<dyn Port>)>,
    /// For each port number of the program, its index in `ports`.
    places: Vec<Option<usize>>,
    worker: memory::Worker,
    /// The queues of the ports, if some have a rate.
    queues: Option<Queues>,
    running: Arc<Running>,
    send: SyncSender<Event>,
    started: Instant,
    no_such_port: usize,
    /// The number of the program ([`Running::generation`]).
    generation: u64,
    /// Where packets are copied to while somebody watches, and the number of that watcher ([`Running::watched`]).
    tap: Option<Tap>,
    watched: u64,
}

/// Tells that a worker has ended.
struct Ended {
    running: Arc<Running>,
    number: usize,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.running.workers[self.number].ended.store(true, Ordering::Release);
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

/// A batch that receives packets from a port.
struct Filling<'b> {
    batch: &'b mut Batch,
    port: u32,
}

impl Inbox for Filling<'_> {
    fn room(&mut self) -> Option<&mut [u8]> {
        self.batch.room()
    }

    fn take(&mut self, length: usize, offload: Option<Offload>) {
        self.batch.add(self.port, length, offload);
    }
}

impl Worker {
    fn new(
        number: usize,
        program: Arc<NativeProgram>,
        ports: Vec<(u32, Box<dyn Port>)>,
        running: Arc<Running>,
        send: SyncSender<Event>,
        started: Instant,
    ) -> Worker {
        let mut places = vec![None; abi::DROP_PORT as usize];
        for (place, (port, _)) in ports.iter().enumerate() {
            if let Some(at) = places.get_mut(*port as usize) {
                *at = Some(place);
            }
        }
        let worker = program.memory().worker();
        let no_such_port = no_such_port(&program);
        Worker {
            number,
            program,
            ports,
            places,
            worker,
            queues: None,
            running,
            send,
            started,
            no_such_port,
            generation: 0,
            tap: None,
            watched: 0,
        }
    }

    /// Takes another program, if there is one.
    fn follow(&mut self, batch: &mut Batch) {
        let generation = self.running.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        // What waits belongs to the old program.
        self.dequeue(batch, Leaving::All);
        let program = self.running.program.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.worker = program.memory().worker();
        self.no_such_port = no_such_port(&program);
        (self.program, self.generation) = (program, generation);
        self.state().generation.store(generation, Ordering::Release);
    }

    fn state(&self) -> &State {
        &self.running.workers[self.number]
    }

    /// Takes its tap, if there is a new watcher.
    fn follow_watcher(&mut self) {
        let watched = self.running.watched.load(Ordering::Acquire);
        if watched == self.watched {
            return;
        }
        let mut taps = self.running.taps.lock().unwrap_or_else(PoisonError::into_inner);
        self.tap = taps.get_mut(self.number).and_then(Option::take);
        self.watched = watched;
    }

    /// Waits while the host wants the workers to wait.
    fn rest(&self) {
        if !self.running.pause.load(Ordering::Acquire) {
            return;
        }
        self.state().paused.store(true, Ordering::Release);
        while self.running.pause.load(Ordering::Acquire) && !self.running.stop.load(Ordering::Acquire) {
            std::thread::sleep(BRIEFLY);
        }
        self.state().paused.store(false, Ordering::Release);
    }

    /// Runs until the switch stops, or until no port will receive any more.
    fn run(mut self) {
        // Whatever happens below, nobody waits for this worker any more.
        let _ended = Ended { running: self.running.clone(), number: self.number };
        // The worker is used no more after a panic, except for its counts.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = self.poll();
            self.publish_counts();
            result
        }));
        match result {
            Ok(result) => result.err().into_iter().for_each(|error| self.running.fail(error)),
            Err(panic) => {
                self.running.panics.fetch_add(1, Ordering::Relaxed);
                self.running.fail(PortError(format!("worker {} panicked: {}", self.number, said(&*panic))));
                self.running.stop.store(true, Ordering::Release);
            }
        }
    }

    fn poll(&mut self) -> std::result::Result<(), PortError> {
        let mut batch = Batch::new(BURST, LARGEST, COPIES);
        let (mut idle, mut polls) = (0u32, 0u32);
        let mut published = Instant::now();
        while !self.running.stop.load(Ordering::Acquire) {
            self.follow(&mut batch);
            self.follow_watcher();
            self.rest();
            let any = self.poll_once(&mut batch)?;
            idle = if any { 0 } else { idle + 1 };
            polls = polls.wrapping_add(1);
            if polls % IDLE_POLLS == 0 && published.elapsed() > Duration::from_millis(500) {
                self.publish_counts();
                published = Instant::now();
            }
            if idle == 0 || idle % IDLE_POLLS != 0 {
                continue;
            }
            let next = self.queues.as_ref().and_then(Queues::next);
            if !self.ports.is_empty() && next.is_none() && self.ports.iter().all(|(_, port)| port.ended()) {
                break;
            }
            if self.ports.iter().any(|(_, port)| port.polled()) {
                continue;
            }
            let on: Vec<BorrowedFd<'_>> = self.ports.iter().filter_map(|(_, port)| port.wakes()).collect();
            let until = |next: u64| Duration::from_micros(next.saturating_sub(self.now()));
            socket::wait(&on, next.map_or(SLEEP, |next| until(next).min(SLEEP)));
        }
        self.dequeue(&mut batch, Leaving::All);
        self.ports.iter_mut().try_for_each(|(_, port)| port.flush())
    }

    /// The time that packets see, in microseconds.
    fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Lets packets leave the queues of the ports. Returns whether there were any.
    fn dequeue(&mut self, batch: &mut Batch, leaving: Leaving) -> bool {
        // Most switches have no queues, and pay nothing for them: not even a look at the clock.
        if self.queues.is_none() {
            return false;
        }
        let now = self.now();
        let mut any = false;
        while let Some(queues) = &mut self.queues {
            self.worker.set_clock(now);
            if !self.program.dequeue(&mut self.worker, batch, queues, now, leaving) {
                break;
            }
            any = true;
            self.send_packets(batch);
            self.send_told();
        }
        any
    }

    /// Polls every port once. Returns whether there were packets.
    fn poll_once(&mut self, batch: &mut Batch) -> std::result::Result<bool, PortError> {
        let mut any = self.dequeue(batch, Leaving::Due);
        for at in 0..self.ports.len() {
            let (number, port) = &mut self.ports[at];
            batch.clear();
            port.receive(&mut Filling { batch, port: *number })?;
            if batch.is_empty() {
                continue;
            }
            any = true;
            let now = self.now();
            self.worker.set_clock(now);
            match &mut self.queues {
                _ if self.tap.is_some() => self.run_watched(batch, self.ports[at].0, now),
                None => self.program.run(&mut self.worker, batch),
                Some(queues) => self.program.run_with(&mut self.worker, batch, queues, now),
            }
            self.send_packets(batch);
            self.send_told();
        }
        if any {
            self.ports.iter_mut().try_for_each(|(_, port)| port.flush())?;
        }
        Ok(any)
    }

    /// Runs the program on a burst from a port, and copies packets for the watcher before and after.
    #[cold]
    fn run_watched(&mut self, batch: &mut Batch, port: u32, now: u64) {
        let Some(tap) = &mut self.tap else { return };
        if tap.begin(port, now, batch.len()) {
            batch.arrived().for_each(|(bytes, offload)| tap.arrived(bytes, offload));
        }
        self.program.run(&mut self.worker, batch);
        if tap.is_copying() {
            batch.tell(tap);
        }
        if !tap.finish() {
            self.tap = None;
        }
    }

    fn send_packets(&mut self, batch: &Batch) {
        for (number, bytes, offload) in batch.leaving() {
            match self.places.get(number as usize).copied().flatten() {
                // The port counts a packet that it cannot send.
                Some(place) => drop(self.ports[place].1.send(bytes, offload)),
                None => self.worker.drop_packet(self.no_such_port, bytes.len() as u64),
            }
        }
    }

    /// Sends the digests and messages of the last burst through the channel.
    fn send_told(&mut self) {
        for event in self.worker.take_told() {
            if self.send.try_send(event).is_err() {
                self.running.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        let lost = self.worker.take_told_lost();
        if lost > 0 {
            self.running.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    fn publish_counts(&mut self) {
        let counts = self.ports.iter_mut().map(|(_, port)| port.counts()).collect();
        *self.running.counts[self.number].lock().unwrap_or_else(PoisonError::into_inner) = counts;
        if let Some(queues) = &self.queues {
            *self.running.queues.lock().unwrap_or_else(PoisonError::into_inner) = queues.counts();
        }
    }
}
