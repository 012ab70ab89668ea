//! Adapts machine code for packet tests. It processes packets one by one, in this process.

use std::sync::Arc;

use abi::{Bits, Manifest};
use control::stf::{Outputs, Target, TargetError};
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
        Object::make_with(program, &[])
    }

    /// Like [`Object::make`], for tests: uninitialised memory holds a pattern instead of the values of the previous packet.
    pub fn checked(program: &ir::Verified) -> anyhow::Result<Object> {
        Object::make_with(program, &[CHECKED.to_string()])
    }

    /// Like [`Object::make`], for ports with queues.
    pub fn with_queues(program: &ir::Verified) -> anyhow::Result<Object> {
        Object::of(program, emit::native_with_queues(program), &[])
    }

    fn make_with(program: &ir::Verified, flags: &[String]) -> anyhow::Result<Object> {
        Object::of(program, emit::native(program), flags)
    }

    fn of(
        program: &ir::Verified,
        output: Result<emit::Output, Vec<emit::Unsupported>>,
        flags: &[String],
    ) -> anyhow::Result<Object> {
        let output = output.map_err(|limits| Limits::of(program, &limits))?;
        let object = native::Object::make_with(&output.c, flags)?;
        Ok(Object::shared(Arc::new(object), output.manifest, program))
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
        let Ran { sent: packets, verdict } = self.run(port, packet);
        let reason = match verdict {
            Some(Verdict::Dropped(number)) if packets.is_empty() => Some(number),
            _ => None,
        };
        let name = |number| self.device.manifest().drops.get(number as usize).map(|d| d.name.clone());
        Ok(Sent { packets, reason: reason.and_then(name) })
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}
