//! Adapts machine code for packet tests. It processes packets one by one, in this process.

use std::sync::Arc;

use abi::{ActionCall, Bits, Digest, Entry, Manifest, MatchValue};
use control::stf::{self, Outputs, Target, TargetError};
use dataplane::memory::Worker;
use dataplane::{Count, Indirect, Mirror, Rate};
use io::native::guarded::{CHECKED, Guarded, Ran};
use io::native::{self, Batch, NativeProgram, Verdict};
use ir::pipeline::PathKind;

use super::interp::{done, written};
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

    fn make_with(program: &ir::Verified, flags: &[String]) -> anyhow::Result<Object> {
        let output = emit::native(program).map_err(|limits| Limits::of(program, &limits))?;
        let object = native::Object::make_with(&output.c, flags)?;
        Ok(Object::shared(Arc::new(object), output.manifest, program))
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
    clock: u64,
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
        Ok(NativeTarget { program: Arc::new(program), worker, clock: 0, packets })
    }

    /// The program, so that other code can run it as well.
    pub fn program(&self) -> Arc<NativeProgram> {
        self.program.clone()
    }

    /// Runs one packet.
    fn run(&mut self, port: u32, packet: &[u8]) -> Ran {
        self.packets.run(&self.program, &mut self.worker, port, packet)
    }
}

type Done<T> = Result<T, TargetError>;

fn failed(error: impl ToString) -> TargetError {
    TargetError::failed(error)
}

impl Target for NativeTarget {
    fn manifest(&self) -> &Manifest {
        self.program.memory().manifest()
    }

    fn insert(&mut self, table: &str, entry: &Entry) -> Done<()> {
        self.program.memory().insert(table, entry).map_err(failed)
    }

    fn set_default(&mut self, table: &str, call: &ActionCall) -> Done<()> {
        self.program.memory().set_default(table, call).map_err(failed)
    }

    fn clear(&mut self) -> Done<()> {
        let names: Vec<_> = self.manifest().tables.iter().map(|t| t.name.clone()).collect();
        names.iter().try_for_each(|n| self.program.memory().clear(n).map_err(failed))
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Done<Outputs> {
        Ok(self.run(port, packet).sent)
    }

    fn counter(&mut self, name: &str, index: u64) -> Done<Option<Count>> {
        Ok(self.program.memory().counter(name, index))
    }

    fn direct_counter(&mut self, table: &str, entry: &Entry) -> Done<Count> {
        let count = self.program.memory().direct_count(table, entry);
        count.ok_or_else(|| failed("there is no such entry"))
    }

    fn drops(&mut self, reason: &str) -> Done<Count> {
        Ok(self.program.memory().drops(reason).unwrap_or_default())
    }

    fn counter_write(&mut self, name: &str, index: u64, count: Count) -> Done<()> {
        done(self.program.memory().set_counter(name, index, count), "counter cell")
    }

    fn register_read(&mut self, name: &str, index: u64) -> Done<Option<Bits>> {
        Ok(self.program.memory().register(name, index))
    }

    fn register_write(&mut self, name: &str, index: u64, value: &Bits) -> Done<()> {
        done(self.program.memory().set_register(name, index, value), "register cell")
    }

    fn register_reset(&mut self, name: &str) -> Done<()> {
        done(self.program.memory().reset_register(name), "register")
    }

    fn set_clock(&mut self, micros: u64) -> Done<()> {
        self.clock = micros;
        self.worker.set_clock(micros);
        self.program.memory().expire(micros, 1.0);
        Ok(())
    }

    fn set_group(&mut self, group: u32, copies: &[(u32, u32)]) -> Done<()> {
        self.program.memory().set_group(group, copies);
        Ok(())
    }

    fn set_mirror(&mut self, session: u32, to: Option<stf::Mirror>) -> Done<()> {
        let to = to.map(|to| match to {
            stf::Mirror::Port(port) => Mirror::Port(port),
            stf::Mirror::Group(group) => Mirror::Group(group),
        });
        self.program.memory().set_mirror(session, to);
        Ok(())
    }

    fn set_host_port(&mut self, port: u32) -> Done<()> {
        self.program.memory().set_host_port(port, true);
        Ok(())
    }

    fn set_expire_time(&mut self, profile: u32, micros: u64) -> Done<()> {
        let profile = u8::try_from(profile).map_err(|_| failed("an expire time profile is at most 255"))?;
        self.program.memory().set_expire_time(profile, Some(micros));
        Ok(())
    }

    fn set_member(&mut self, profile: &str, id: u32, call: &ActionCall) -> Done<()> {
        written(self.program.memory().set_member(profile, id, call.clone()))
    }

    fn set_member_group(&mut self, profile: &str, id: u32, members: &[u32]) -> Done<()> {
        written(self.program.memory().set_member_group(profile, id, members.to_vec()))
    }

    fn insert_indirect(&mut self, table: &str, entry: &Entry, to: Indirect) -> Done<()> {
        self.program.memory().insert_indirect(table, entry, to).map_err(failed)
    }

    fn set_value_set(&mut self, name: &str, members: &[Vec<MatchValue>]) -> Done<()> {
        done(self.program.memory().set_members(name, members), "value set")
    }

    fn set_idle_timeout(&mut self, table: &str, entry: &Entry, micros: u64) -> Done<()> {
        let set = self.program.memory().set_idle_timeout(table, entry, Some(micros), self.clock);
        done(set.map_err(failed)?, "entry")
    }

    fn take_idle(&mut self) -> Done<Vec<(String, Entry)>> {
        Ok(self.program.memory().take_idle(self.clock))
    }

    fn digests(&mut self) -> Done<Vec<Digest>> {
        Ok(self.worker.take_digests())
    }

    fn meter_rates(&mut self, name: &str, index: Option<u64>, rates: &[(f64, u64)]) -> Done<()> {
        let rates: Vec<_> =
            rates.iter().map(|&(per_microsecond, burst)| Rate { per_microsecond, burst }).collect();
        done(
            self.program.memory().set_rates(name, index, &rates, self.clock),
            "meter cell, or more than two rates",
        )
    }
}

impl Compiled for NativeTarget {
    fn process(&mut self, port: u32, packet: &[u8]) -> anyhow::Result<Sent> {
        let Ran { sent: packets, verdict } = self.run(port, packet);
        let reason = match verdict {
            Some(Verdict::Dropped(number)) if packets.is_empty() => Some(number),
            _ => None,
        };
        let name = |number| self.manifest().drops.get(number as usize).map(|d| d.name.clone());
        Ok(Sent { packets, reason: reason.and_then(name) })
    }

    fn counted(&mut self) -> anyhow::Result<Vec<(String, Entry)>> {
        let memory = self.program.memory();
        let counted = memory.manifest().tables.iter().filter(|t| t.direct_counter.is_some());
        let entries = |table: &abi::manifest::Table| {
            let name = table.name.clone();
            memory.entries(&name).into_iter().map(move |entry| (name.clone(), entry))
        };
        Ok(counted.flat_map(entries).collect())
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}
