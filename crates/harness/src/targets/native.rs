//! Adapts machine code for packet tests. It processes packets one by one, in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stf::{Outputs, Target, TargetError};
use abi::{Bits, Cancel, Manifest};
use dataplane::Memory;
use dataplane::device::Device;
use dataplane::memory::Worker;
use io::native::guarded::{CHECKED, Guarded, Ran};
use io::native::{self, Batch, NativeProgram, Verdict};
use ir::pipeline::PathKind;

use super::{Compiled, Limits, Sent};

/// A program that was compiled for this machine. It is loaded once for each case.
pub struct Object {
    object: Arc<native::Object>,
    manifest: Manifest,
    registers: Vec<Bits>,
    /// Whether a packet may be written several times.
    goes_round: bool,
}

impl Object {
    /// Emits and compiles a program.
    pub fn make(program: &ir::Verified) -> anyhow::Result<Object> {
        Object::running(program, &Cancel::default())
    }

    /// Like [`Object::make`], for work that may be cancelled.
    pub fn running(program: &ir::Verified, cancel: &Cancel) -> anyhow::Result<Object> {
        Object::of(program, emit::native(program), &[], cancel)
    }

    /// Like [`Object::make`], for tests: uninitialised memory holds a pattern instead of the values of the previous packet.
    pub fn checked(program: &ir::Verified) -> anyhow::Result<Object> {
        Object::of(program, emit::native(program), &[CHECKED.to_string()], &Cancel::default())
    }

    /// Like [`Object::checked`], with a pause between a lookup that misses and the entry that it adds: what two workers do at once.
    pub fn racing(program: &ir::Verified) -> anyhow::Result<Object> {
        let flags = [CHECKED.to_string(), "-DSTRAIT_RACES".to_string()];
        Object::of(program, emit::native(program), &flags, &Cancel::default())
    }

    /// Like [`Object::make`], for ports with queues.
    pub fn with_queues(program: &ir::Verified, cancel: &Cancel) -> anyhow::Result<Object> {
        Object::of(program, emit::native_with_queues(program), &[], cancel)
    }

    fn of(
        program: &ir::Verified,
        output: Result<emit::Output, Vec<emit::Unsupported>>,
        flags: &[String],
        cancel: &Cancel,
    ) -> anyhow::Result<Object> {
        let output = output.map_err(|limits| Limits::of(program, &limits))?;
        let object = native::Object::make_until(&output.c, flags, cancel)?;
        Ok(Object::shared(Arc::new(object), output.manifest, program))
    }

    /// What the program has.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Loads the program, without anything that packet tests need.
    pub fn load(&self) -> anyhow::Result<Arc<NativeProgram>> {
        Ok(Arc::new(NativeProgram::load(&self.object, &self.manifest, &self.registers)?))
    }

    /// Selects one of several programs in an object. The manifest names its entry point.
    pub fn shared(object: Arc<native::Object>, manifest: Manifest, program: &ir::Program) -> Object {
        let registers = program.registers.iter().map(|r| r.initial.clone()).collect();
        let mut paths = program.pipeline.decisions().filter_map(|d| d.then.path());
        let goes_round = paths.any(|path| path.kind == PathKind::Recirculate);
        Object { object, manifest, registers, goes_round }
    }
}

/// The size of the largest packet in bytes.
const LARGEST: usize = 65_536;
/// The largest number of copies of a packet.
const COPIES: usize = 600;

/// A program in memory, with one worker.
pub struct NativeTarget {
    program: Arc<NativeProgram>,
    worker: Worker,
    device: Arc<Memory>,
    packets: Guarded,
}

impl NativeTarget {
    /// Runs packets repeatedly, for measurements.
    pub fn repeat(&mut self, packets: &[(u32, &[u8])], times: usize) {
        let largest = packets.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
        let mut batch = Batch::new(32, largest, COPIES);
        for (port, bytes) in (0..times).flat_map(|_| packets) {
            if !batch.push(*port, bytes) {
                self.program.run(&mut self.worker, &mut batch);
                batch.clear();
                batch.push(*port, bytes);
            }
        }
        self.program.run(&mut self.worker, &mut batch);
    }

    /// Loads a program.
    pub fn load(object: &Object) -> anyhow::Result<NativeTarget> {
        let program = NativeProgram::load(&object.object, &object.manifest, &object.registers)?;
        let worker = program.memory().worker();
        let mut packets = Guarded::new(LARGEST, COPIES)?;
        packets.moves_twice = object.goes_round;
        let device = program.memory().clone();
        Ok(NativeTarget { program: Arc::new(program), worker, device, packets })
    }

    /// Runs one packet.
    fn run(&mut self, port: u32, packet: &[u8]) -> Ran {
        let ran = self.packets.run(&self.program, &mut self.worker, port, packet);
        for event in self.worker.take_told() {
            self.device.report(event);
        }
        ran
    }
}

/// Buffers of two workers that process packets at the same moment.
pub struct Pair([Guarded; 2]);

impl Pair {
    /// Makes the buffers.
    pub fn new() -> anyhow::Result<Pair> {
        Ok(Pair([Guarded::new(LARGEST, COPIES)?, Guarded::new(LARGEST, COPIES)?]))
    }

    /// Plays rounds of two packets with their ports, each of which begins together on two threads. Returns what became of each packet.
    pub fn play(
        &mut self,
        program: &NativeProgram,
        clock: u64,
        rounds: &[[(u32, Vec<u8>); 2]],
    ) -> Vec<[Sent; 2]> {
        let arrived = AtomicUsize::new(0);
        let meet = |round: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            let mut turns = 0u32;
            while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
                turns += 1;
                // The other thread may need this processor.
                if turns.is_multiple_of(4096) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        let manifest = program.memory().manifest();
        let play = |at: usize, packets: &mut Guarded| {
            // A recirculated packet moves, so the room around it may change.
            packets.moves_twice = true;
            let mut worker = program.memory().worker();
            worker.set_clock(clock);
            let one = |(round, both): (usize, &[(u32, Vec<u8>); 2])| {
                meet(round);
                let (port, bytes) = &both[at];
                sent(packets.run(program, &mut worker, *port, bytes), manifest)
            };
            rounds.iter().enumerate().map(one).collect::<Vec<Sent>>()
        };
        let [one, other] = &mut self.0;
        let (first, second) = std::thread::scope(|scope| {
            let there = scope.spawn(|| play(1, other));
            let here = play(0, one);
            match there.join() {
                Ok(there) => (here, there),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        first.into_iter().zip(second).map(|(first, second)| [first, second]).collect()
    }
}

/// The result of a packet, with the name of the drop reason.
fn sent(ran: Ran, manifest: &Manifest) -> Sent {
    let reason = match ran.verdict {
        Some(Verdict::Dropped(number)) if ran.sent.is_empty() => Some(number),
        _ => None,
    };
    let name = |number| manifest.drops.get(number as usize).map(|d| d.name.clone());
    Sent { packets: ran.sent, reason: reason.and_then(name) }
}

impl Target for NativeTarget {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.device
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        Ok(self.run(port, packet).sent)
    }

    fn set_clock(&mut self, micros: u64) -> Result<(), TargetError> {
        self.worker.set_clock(micros);
        self.device.set_clock(micros);
        self.device.expire(micros, 1.0);
        Ok(())
    }
}

impl Compiled for NativeTarget {
    fn process(&mut self, port: u32, packet: &[u8]) -> anyhow::Result<Sent> {
        Ok(sent(self.run(port, packet), self.device.manifest()))
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}
