//! A switch: a program, ports, and workers that carry packets between them.
//!
//! Each worker is a thread on a processor of its own, with its own queue of every port. It takes a burst from a port, runs it, hands
//! out what leaves, and lets all ports go at the end of its round. It neither locks nor allocates for a packet; messages to the
//! control plane go through a bounded channel, and what finds no room there is counted. A worker that has found nothing to do for a
//! while sleeps until something comes.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::{Digest, drops};
use dataplane::memory::Worker;
use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError};

use crate::native::{Batch, NativeProgram};
use crate::port::{pin, processors, socket};
use crate::{Error, Result};

/// Packets of a burst, and copies that a burst may make.
const BURST: usize = 64;
const COPIES: usize = 1024;
/// Bytes of the largest packet: a GSO packet with its Ethernet header and tags.
const LARGEST: usize = 65_536 + 64;
/// Rounds without a packet after which a worker sleeps, and after which it looks whether its counts are to be shown.
const IDLE_ROUNDS: u32 = 2_000;
/// How long it sleeps at most, which is how long it may take to see that it is to stop.
const SLEEP: Duration = Duration::from_millis(50);
/// Messages to the control plane that may wait.
const MESSAGES: usize = 1 << 14;

/// A program at work.
pub struct Switch {
    program: Arc<NativeProgram>,
    running: Arc<Running>,
    workers: Vec<JoinHandle<()>>,
    messages: Receiver<Digest>,
    started: Instant,
}

/// What workers and their switch both see.
struct Running {
    stop: AtomicBool,
    /// Workers that still have something to do.
    busy: AtomicU64,
    /// Messages that found no room.
    lost: AtomicU64,
    /// Counts of each port, of each worker.
    counts: Vec<Mutex<Vec<PortCounts>>>,
    /// What ended a worker before its time.
    broken: Mutex<Option<PortError>>,
}

/// A port by its number in the program, one queue a worker.
pub type PortQueues = (u32, Vec<Box<dyn Port>>);

impl Switch {
    /// Starts as many workers as there are queues of each port.
    pub fn start(program: Arc<NativeProgram>, ports: Vec<PortQueues>, workers: usize) -> Result<Switch> {
        let started = Instant::now();
        let (say, messages) = sync_channel(MESSAGES);
        let running = Arc::new(Running {
            stop: AtomicBool::new(false),
            busy: AtomicU64::new(workers as u64),
            lost: AtomicU64::new(0),
            counts: (0..workers).map(|_| Mutex::new(Vec::new())).collect(),
            broken: Mutex::new(None),
        });
        let mut queues: Vec<Vec<(u32, Box<dyn Port>)>> = (0..workers).map(|_| Vec::new()).collect();
        for (number, of_port) in ports {
            queues.iter_mut().zip(of_port).for_each(|(worker, queue)| worker.push((number, queue)));
        }
        let processors = processors();
        let mut threads = Vec::new();
        for (number, ports) in queues.into_iter().enumerate() {
            let carrier = Carrier::new(number, program.clone(), ports, running.clone(), say.clone(), started);
            let processor = processors[number % processors.len().max(1)];
            // One worker is better left to the scheduler.
            let pinned = workers > 1;
            let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
                if pinned {
                    // Without the right to be pinned it runs all the same.
                    let _ = pin(processor);
                }
                carrier.carry();
            });
            let spawned =
                thread.map_err(|e| Error::System { what: "start a worker".to_string(), source: e })?;
            threads.push(spawned);
        }
        Ok(Switch { program, running, workers: threads, messages, started })
    }

    /// The program.
    pub fn program(&self) -> &NativeProgram {
        &self.program
    }

    /// Microseconds since it was started: the clock that packets see.
    pub fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// The next message to the control plane, if one comes in time.
    pub fn message(&self, wait: Duration) -> Option<Digest> {
        self.messages.recv_timeout(wait).ok()
    }

    /// Messages that found no room.
    pub fn messages_lost(&self) -> u64 {
        self.running.lost.load(Ordering::Relaxed)
    }

    /// Whether nothing will ever come in again.
    pub fn ended(&self) -> bool {
        self.running.busy.load(Ordering::Acquire) == 0
    }

    /// What each port has done, in the order of [`Switch::start`]; at most a second old.
    pub fn counts(&self) -> Vec<PortCounts> {
        let mut sum: Vec<PortCounts> = Vec::new();
        for worker in &self.running.counts {
            let counts = worker.lock().unwrap_or_else(PoisonError::into_inner);
            sum.resize(sum.len().max(counts.len()), PortCounts::default());
            for (sum, one) in sum.iter_mut().zip(counts.iter()) {
                sum.received += one.received;
                sum.sent += one.sent;
                sum.missed += one.missed;
                sum.full += one.full;
                sum.unfit += one.unfit;
            }
        }
        sum
    }

    /// Stops all workers: what each port has done, and what went wrong.
    pub fn stop(mut self) -> (Vec<PortCounts>, Option<PortError>) {
        self.end();
        let broken = self.running.broken.lock().unwrap_or_else(PoisonError::into_inner).take();
        (self.counts(), broken)
    }

    fn end(&mut self) {
        self.running.stop.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.end();
    }
}

/// One worker.
struct Carrier {
    number: usize,
    program: Arc<NativeProgram>,
    ports: Vec<(u32, Box<dyn Port>)>,
    /// Where in `ports` a port of the program is.
    places: Vec<Option<usize>>,
    worker: Worker,
    running: Arc<Running>,
    say: SyncSender<Digest>,
    started: Instant,
    no_such_port: usize,
}

/// A batch that is being filled from a port.
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

impl Carrier {
    fn new(
        number: usize,
        program: Arc<NativeProgram>,
        ports: Vec<(u32, Box<dyn Port>)>,
        running: Arc<Running>,
        say: SyncSender<Digest>,
        started: Instant,
    ) -> Carrier {
        let mut places = vec![None; abi::DROP_PORT as usize];
        for (place, (port, _)) in ports.iter().enumerate() {
            if let Some(at) = places.get_mut(*port as usize) {
                *at = Some(place);
            }
        }
        let worker = program.memory().worker();
        let reasons = &program.memory().manifest().drops;
        let no_such_port = reasons.iter().position(|d| d.name == drops::NO_SUCH_PORT).unwrap_or(0);
        Carrier { number, program, ports, places, worker, running, say, started, no_such_port }
    }

    /// Works until it is told to stop, or nothing will come any more.
    fn carry(mut self) {
        let result = self.rounds();
        if let Err(error) = result {
            *self.running.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        self.show_counts();
        self.running.busy.fetch_sub(1, Ordering::Release);
    }

    fn rounds(&mut self) -> std::result::Result<(), PortError> {
        let mut batch = Batch::new(BURST, LARGEST, COPIES);
        let (mut idle, mut turns) = (0u32, 0u32);
        let mut shown = Instant::now();
        while !self.running.stop.load(Ordering::Acquire) {
            let any = self.round(&mut batch)?;
            idle = if any { 0 } else { idle + 1 };
            turns = turns.wrapping_add(1);
            if turns % IDLE_ROUNDS == 0 && shown.elapsed() > Duration::from_millis(500) {
                self.show_counts();
                shown = Instant::now();
            }
            if idle == 0 || idle % IDLE_ROUNDS != 0 {
                continue;
            }
            if self.ports.iter().all(|(_, port)| port.ended()) {
                break;
            }
            if self.ports.iter().any(|(_, port)| port.polled()) {
                continue;
            }
            let on: Vec<BorrowedFd<'_>> = self.ports.iter().filter_map(|(_, port)| port.wakes()).collect();
            socket::wait(&on, SLEEP);
        }
        Ok(())
    }

    /// Once around all ports; whether there was anything.
    fn round(&mut self, batch: &mut Batch) -> std::result::Result<bool, PortError> {
        let mut any = false;
        for at in 0..self.ports.len() {
            let (number, port) = &mut self.ports[at];
            batch.clear();
            port.receive(&mut Filling { batch, port: *number })?;
            if batch.is_empty() {
                continue;
            }
            any = true;
            self.worker.set_clock(self.started.elapsed().as_micros() as u64);
            self.program.run(&mut self.worker, batch);
            self.hand_out(batch);
            self.tell();
        }
        if any {
            self.ports.iter_mut().try_for_each(|(_, port)| port.flush())?;
        }
        Ok(any)
    }

    fn hand_out(&mut self, batch: &Batch) {
        for (number, bytes, offload) in batch.leaving() {
            match self.places.get(number as usize).copied().flatten() {
                // The port counts what it does not take.
                Some(place) => drop(self.ports[place].1.send(bytes, offload)),
                None => self.worker.drop_packet(self.no_such_port, bytes.len() as u64),
            }
        }
    }

    /// Passes messages on.
    fn tell(&mut self) {
        for message in self.worker.take_digests() {
            if self.say.try_send(message).is_err() {
                self.running.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        let lost = self.worker.take_digests_lost();
        if lost > 0 {
            self.running.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    fn show_counts(&mut self) {
        let counts = self.ports.iter_mut().map(|(_, port)| port.counts()).collect();
        *self.running.counts[self.number].lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}
