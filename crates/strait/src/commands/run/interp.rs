//! Runs programs in the reference interpreter, with the ports of the native target: the oracle, with real traffic. One thread moves the packets.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::Manifest;
use anyhow::Context;
use dataplane::device::{Device, DeviceError, Entity, EntryKey, Event, Query, Update, WriteError};
use dataplane::port::{Inbox, Offload, Port, PortCounts, PortError};
use dataplane::queue::QueueCounts;
use interp::{Interpreter, Outcome, Silent};
use io::switch::Shapes;
use io::watch::{self, Tap, Wanted};
use p4runtime::server::{Compiler, Target};

use super::budget::Budget;
use super::machine::{self, Code, Form, Machine, Object, Packets, Totals};
use super::{controller_number, driver, ports, queues};
use crate::cli::{RunArgs, RunTarget};
use crate::frontend::Texts;

/// The longest sleep of the thread, and thus the longest time until it notices that it must stop.
const SLEEP: Duration = Duration::from_millis(50);
/// The packets of a port that are processed before the next port has its turn.
const BURST: usize = 32;
/// The longest packet in bytes: a GSO packet with its Ethernet header and VLAN tags.
const LONGEST: usize = 65_536 + 64;

/// The interpreter's ports and programs.
pub struct Interp {
    numbers: Vec<u32>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    running: Option<Handle>,
    loaded: Option<Handle>,
    /// The queues in front of ports that have a rate.
    shapes: Shapes,
    budget: Budget,
}

/// What the thread shares with whoever controls the program.
struct Shared {
    program: Mutex<Option<Arc<Mutex<Interpreter<'static>>>>>,
    counts: Mutex<Vec<PortCounts>>,
    queues: Mutex<BTreeMap<u32, QueueCounts>>,
    /// Where packets are copied to while somebody watches.
    tap: Mutex<Option<Tap>>,
    failure: Mutex<Option<PortError>>,
    stop: AtomicBool,
    ended: AtomicBool,
    started: Instant,
    controller: Option<u32>,
    log: bool,
    /// Wakes the thread: packets of the controller have left the program.
    wake: UnixStream,
}

impl Interp {
    /// Opens the ports, and starts the thread. It takes no packets until a program runs.
    pub fn open(args: &RunArgs) -> anyhow::Result<Interp> {
        let drivers = ports(args, driver)?;
        let controller = controller_number(args, &drivers)?;
        let mut queues = Vec::new();
        for ((number, driver), text) in drivers.iter().zip(&args.ports) {
            let opened = driver.open(1).with_context(|| format!("port {number}"))?;
            eprintln!("port {text}");
            queues.extend(opened.into_iter().map(|queue| (*number, queue)));
        }
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            program: Mutex::default(),
            counts: Mutex::new(vec![PortCounts::default(); queues.len()]),
            queues: Mutex::default(),
            tap: Mutex::default(),
            failure: Mutex::default(),
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            started: Instant::now(),
            controller,
            log: args.log,
            wake,
        });
        let numbers = queues.iter().map(|(number, _)| *number).collect();
        let worker = Worker { ports: queues, shared: shared.clone(), woken };
        let thread =
            std::thread::Builder::new().name("interpreter".to_string()).spawn(move || worker.run())?;
        let shapes = queues::shapes(args)?;
        let (budget, thread) = (Budget::new(args.program_memory, 1), Some(thread));
        Ok(Interp { numbers, shared, thread, running: None, loaded: None, shapes, budget })
    }
}

impl Target for Interp {
    fn compiler(&self) -> Compiler {
        machine::compiler(Form { target: RunTarget::Interp, queues: false }, self.budget)
    }

    fn load(&mut self, object: Box<dyn Any + Send>) -> Result<(), String> {
        let Object { code: Code::Interp(program), texts } = machine::object(object)? else {
            return Err("the program is for another target".to_string());
        };
        let mut interpreter = Interpreter::of(program).map_err(|why| why.to_string())?;
        interpreter.set_controller_port(self.shared.controller);
        interpreter.listen(self.shared.log).map_err(|why| why.to_string())?;
        let manifest = interpreter.manifest().clone();
        let program = Arc::new(Mutex::new(interpreter));
        self.loaded = Some(Handle { program, manifest, texts, shared: self.shared.clone() });
        Ok(())
    }

    fn loaded(&mut self) -> Option<&mut dyn Device> {
        self.loaded.as_mut().map(|handle| handle as &mut dyn Device)
    }

    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)> {
        Some((self.running.as_mut()?, self.loaded.as_mut()?))
    }

    fn commit(&mut self) -> Result<(), String> {
        let next = self.loaded.take().ok_or("no program is loaded")?;
        match &self.running {
            // The thread runs the old program, or it waits for the new one.
            Some(old) => {
                let mut running = lock(&self.shared.program);
                lock(&next.program).take_over(&mut lock(&old.program));
                *running = Some(next.program.clone());
            }
            None => {
                let mut program = lock(&next.program);
                self.shapes.iter().for_each(|(port, shape)| program.set_queue(*port, *shape));
                *lock(&self.shared.program) = Some(next.program.clone());
            }
        }
        self.shared.wake();
        self.running = Some(next);
        Ok(())
    }

    fn discard(&mut self) {
        self.loaded = None;
    }

    fn running(&mut self) -> Option<&mut dyn Device> {
        self.running.as_mut().map(|handle| handle as &mut dyn Device)
    }
}

impl Machine for Interp {
    fn turn(&mut self) -> anyhow::Result<Vec<Event>> {
        match &mut self.running {
            Some(running) => Ok(running.events()?),
            None => Ok(Vec::new()),
        }
    }

    fn now(&self) -> u64 {
        self.shared.now()
    }

    fn ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    fn totals(&mut self) -> anyhow::Result<Totals> {
        let counts = lock(&self.shared.counts).clone();
        let ports = self.numbers.iter().copied().zip(counts).collect();
        let queues = lock(&self.shared.queues).clone();
        Ok(Totals { ports, queues, messages_lost: 0, packets_lost: self.shared.controller.map(|_| 0) })
    }

    fn texts(&self) -> Option<Arc<Texts>> {
        self.running.as_ref().map(|running| running.texts.clone())
    }

    fn watch(&mut self, wanted: &Wanted) -> anyhow::Result<Packets> {
        queues::unwatched(&self.shapes)?;
        let (taps, watcher) = watch::taps(1, wanted);
        *lock(&self.shared.tap) = taps.into_iter().next();
        Ok(Packets::Copies(watcher))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        lock(&self.shared.failure).take().map_or(Ok(()), |why| Err(why.into()))
    }
}

impl Drop for Interp {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.wake).write(&[0]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program, for whoever controls it. Controllers and the thread take turns.
struct Handle {
    program: Arc<Mutex<Interpreter<'static>>>,
    manifest: Manifest,
    texts: Arc<Texts>,
    shared: Arc<Shared>,
}

impl Handle {
    fn with<R>(&self, act: impl FnOnce(&mut Interpreter<'static>) -> R) -> R {
        let mut program = lock(&self.program);
        program.set_clock(self.shared.now());
        act(&mut program)
    }
}

impl Device for Handle {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        self.with(|program| program.write(updates))
    }

    fn write_atomically(&mut self, updates: &[Update]) -> Result<(), WriteError> {
        self.with(|program| program.write_atomically(updates))
    }

    fn read(&mut self, query: &Query) -> Result<Vec<Entity>, DeviceError> {
        self.with(|program| program.read(query))
    }

    fn events(&mut self) -> Result<Vec<Event>, DeviceError> {
        self.with(Device::events)
    }

    fn listen(&mut self, messages: bool) -> Result<(), DeviceError> {
        self.with(|program| program.listen(messages))
    }

    fn packet_out(&mut self, packet: &[u8]) -> Result<(), DeviceError> {
        let done = self.with(|program| program.packet_out(packet));
        self.shared.wake();
        done
    }

    fn since_last_hit(&mut self, entry: &EntryKey) -> Result<u64, DeviceError> {
        self.with(|program| program.since_last_hit(entry))
    }
}

/// The thread that moves packets.
struct Worker {
    ports: Vec<(u32, Box<dyn Port>)>,
    shared: Arc<Shared>,
    woken: UnixStream,
}

/// A burst of packets that a port has received.
struct Burst {
    buffer: Vec<u8>,
    packets: Vec<(Vec<u8>, Option<Offload>)>,
}

impl Inbox for Burst {
    fn room(&mut self) -> Option<&mut [u8]> {
        (self.packets.len() < BURST).then_some(&mut self.buffer[..])
    }

    fn take(&mut self, length: usize, offload: Option<Offload>) {
        self.packets.push((self.buffer[..length].to_vec(), offload));
    }
}

impl Worker {
    fn run(mut self) {
        if let Err(error) = self.poll().and_then(|()| self.drain()) {
            *lock(&self.shared.failure) = Some(error);
        }
        self.publish();
        self.shared.ended.store(true, Ordering::Release);
    }

    fn poll(&mut self) -> Result<(), PortError> {
        let mut burst = Burst { buffer: vec![0; LONGEST], packets: Vec::new() };
        while !self.shared.stop.load(Ordering::Acquire) {
            // Without a program, packets wait in the ports.
            let Some(program) = lock(&self.shared.program).clone() else {
                io::port::wait(&[self.woken.as_fd()], SLEEP);
                continue;
            };
            let mut any = self.send_injected(&program)?;
            any |= self.dequeue(&program)?;
            for at in 0..self.ports.len() {
                burst.packets.clear();
                self.ports[at].1.receive(&mut burst)?;
                any |= !burst.packets.is_empty();
                let number = self.ports[at].0;
                let sent = self.process(&program, number, &burst.packets);
                self.send(sent)?;
            }
            if any {
                continue;
            }
            self.publish();
            let next = lock(&program).next_from_queues();
            if next.is_none() && !self.ports.is_empty() && self.ports.iter().all(|(_, port)| port.ended()) {
                break;
            }
            if self.ports.iter().any(|(_, port)| port.polled()) {
                continue;
            }
            let ports = self.ports.iter().filter_map(|(_, port)| port.wakes());
            let on: Vec<BorrowedFd<'_>> = ports.chain([self.woken.as_fd()]).collect();
            let until = |next: u64| Duration::from_micros(next.saturating_sub(self.shared.now()));
            io::port::wait(&on, next.map_or(SLEEP, |next| until(next).min(SLEEP)));
            let _ = self.woken.read(&mut [0; 64]);
        }
        Ok(())
    }

    /// Sends the packets whose time in a queue is over.
    fn dequeue(&mut self, program: &Mutex<Interpreter<'static>>) -> Result<bool, PortError> {
        let sent = {
            let mut program = lock(program);
            program.set_clock(self.shared.now());
            program.dequeue(&mut Silent).sent
        };
        let any = !sent.is_empty();
        self.send(sent)?;
        Ok(any)
    }

    /// Sends what still waits in queues.
    fn drain(&mut self) -> Result<(), PortError> {
        let program = lock(&self.shared.program).clone();
        let sent = program.map(|program| lock(&program).drain().sent);
        self.send(sent.unwrap_or_default())
    }

    /// Runs packets through the program. Packets that must still be segmented are segmented first.
    fn process(
        &self,
        program: &Mutex<Interpreter<'static>>,
        port: u32,
        packets: &[(Vec<u8>, Option<Offload>)],
    ) -> Vec<(u32, Vec<u8>)> {
        let mut program = lock(program);
        let now = self.shared.now();
        program.set_clock(now);
        let mut tap = lock(&self.shared.tap);
        let mut all = Vec::new();
        let mut run = |packet: &[u8]| {
            let mut tap = tap.as_mut().and_then(|tap| tap.begin(port, now, 1).then_some(tap));
            tap.iter_mut().for_each(|tap| tap.arrived(packet, None));
            let Outcome { sent, dropped } = program.process(port, packet, &mut Silent);
            if let Some(tap) = tap {
                sent.iter().for_each(|(to, bytes)| tap.sent(tap.last(), *to, bytes, None));
                dropped.first().into_iter().for_each(|reason| tap.dropped(tap.last(), *reason as u32));
            }
            all.extend(sent);
        };
        for (packet, offload) in packets {
            match offload.as_ref().and_then(|offload| io::port::segments(packet, offload)) {
                Some(segments) => segments.iter().for_each(|segment| run(segment)),
                None => run(packet),
            }
        }
        if tap.as_mut().is_some_and(|tap| !tap.finish()) {
            *tap = None;
        }
        all
    }

    /// Sends what has left the program because of the controller's packets.
    fn send_injected(&mut self, program: &Mutex<Interpreter<'static>>) -> Result<bool, PortError> {
        let sent = lock(program).take_injected();
        let any = !sent.is_empty();
        self.send(sent)?;
        Ok(any)
    }

    fn send(&mut self, packets: Vec<(u32, Vec<u8>)>) -> Result<(), PortError> {
        for (number, packet) in packets {
            if let Some((_, port)) = self.ports.iter_mut().find(|(n, _)| *n == number) {
                // The port counts a packet that it cannot send.
                let _ = port.send(&packet, None);
            }
        }
        self.ports.iter_mut().try_for_each(|(_, port)| port.flush())
    }

    fn publish(&mut self) {
        let counts = self.ports.iter_mut().map(|(_, port)| port.counts()).collect();
        *lock(&self.shared.counts) = counts;
        if let Some(program) = lock(&self.shared.program).clone() {
            *lock(&self.shared.queues) = lock(&program).queue_counts();
        }
    }
}
