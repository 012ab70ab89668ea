//! Adapts the interpreter for packet tests.

use abi::{ActionCall, Bits, Digest, Entry, Manifest, MatchValue};
use control::stf::{self, Outputs, Target, TargetError};
use dataplane::{Count, Indirect, ProfileError, Rate};
use interp::{Interpreter, Silent};

/// An interpreter, and the notifications that it has sent to the control plane.
pub struct InterpTarget<'p>(pub Interpreter<'p>, Vec<Digest>);

impl<'p> InterpTarget<'p> {
    /// Adapts an interpreter that has processed no packets.
    pub fn new(interpreter: Interpreter<'p>) -> InterpTarget<'p> {
        InterpTarget(interpreter, Vec::new())
    }
}

type Done<T> = Result<T, TargetError>;

/// Turns `false`, which means that the object was not found, into an error.
pub fn done(found: bool, what: &str) -> Done<()> {
    if found { Ok(()) } else { Err(TargetError::failed(format!("there is no such {what}"))) }
}

/// Converts the result of a write to an action profile.
pub fn written(result: Option<Result<(), ProfileError>>) -> Done<()> {
    match result {
        Some(result) => result.map_err(TargetError::failed),
        None => Err(TargetError::failed("there is no such action profile")),
    }
}

impl InterpTarget<'_> {
    fn table(&mut self, name: &str) -> Done<&mut dataplane::Table> {
        self.0.table_mut(name).ok_or_else(|| TargetError::failed(format!("there is no table `{name}`")))
    }
}

impl Target for InterpTarget<'_> {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn insert(&mut self, table: &str, entry: &Entry) -> Done<()> {
        self.table(table)?.insert(entry).map(drop).map_err(TargetError::failed)
    }

    fn set_default(&mut self, table: &str, call: &ActionCall) -> Done<()> {
        self.table(table)?.set_default(call).map_err(TargetError::failed)
    }

    fn clear(&mut self) -> Done<()> {
        let names: Vec<_> = self.manifest().tables.iter().map(|t| t.name.clone()).collect();
        names.iter().try_for_each(|n| self.table(n).map(|t| t.clear()))
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Done<Outputs> {
        let outcome = self.0.process(port, packet, &mut Silent);
        self.1.extend(outcome.digests);
        Ok(outcome.sent)
    }

    fn counter(&mut self, name: &str, index: u64) -> Done<Option<Count>> {
        Ok(self.0.counter(name, index))
    }

    fn direct_counter(&mut self, table: &str, entry: &Entry) -> Done<Count> {
        let row = self.0.table(table).and_then(|t| t.find(entry));
        row.map(|r| r.count).ok_or_else(|| TargetError::failed("there is no such entry"))
    }

    fn drops(&mut self, reason: &str) -> Done<Count> {
        let at = self.manifest().drops.iter().position(|d| d.name == reason);
        Ok(at.map(|at| self.0.drops(at)).unwrap_or_default())
    }

    fn counter_write(&mut self, name: &str, index: u64, count: Count) -> Done<()> {
        done(self.0.set_counter(name, index, count), "counter cell")
    }

    fn register_read(&mut self, name: &str, index: u64) -> Done<Option<Bits>> {
        Ok(self.0.register(name, index))
    }

    fn register_write(&mut self, name: &str, index: u64, value: &Bits) -> Done<()> {
        done(self.0.set_register(name, index, value), "register cell")
    }

    fn register_reset(&mut self, name: &str) -> Done<()> {
        done(self.0.reset_register(name), "register")
    }

    fn set_mirror(&mut self, session: u32, to: Option<stf::Mirror>) -> Done<()> {
        self.0.set_mirror(
            session,
            to.map(|to| match to {
                stf::Mirror::Port(port) => interp::Mirror::Port(port),
                stf::Mirror::Group(group) => interp::Mirror::Group(group),
            }),
        );
        Ok(())
    }

    fn set_member(&mut self, profile: &str, id: u32, call: &ActionCall) -> Done<()> {
        written(self.0.set_member(profile, id, call.clone()))
    }

    fn set_member_group(&mut self, profile: &str, id: u32, members: &[u32]) -> Done<()> {
        written(self.0.set_member_group(profile, id, members.to_vec()))
    }

    fn insert_indirect(&mut self, table: &str, entry: &Entry, to: Indirect) -> Done<()> {
        let handle = self.table(table)?.insert(entry).map_err(TargetError::failed)?;
        let written = written(self.0.set_indirect(table, handle, to));
        if written.is_err() {
            self.table(table)?.delete(entry).map_err(TargetError::failed)?;
        }
        written
    }

    fn set_clock(&mut self, micros: u64) -> Done<()> {
        self.0.set_clock(micros);
        Ok(())
    }

    fn set_host_port(&mut self, port: u32) -> Done<()> {
        self.0.set_host_port(port, true);
        Ok(())
    }

    fn set_expire_time(&mut self, profile: u32, micros: u64) -> Done<()> {
        self.0.set_expire_time(profile, Some(micros));
        Ok(())
    }

    fn set_value_set(&mut self, name: &str, members: &[Vec<MatchValue>]) -> Done<()> {
        done(self.0.set_members(name, members.to_vec()), "value set")
    }

    fn set_idle_timeout(&mut self, table: &str, entry: &Entry, micros: u64) -> Done<()> {
        let handle = self.table(table)?.find(entry).map(|row| row.handle);
        let handle = handle.ok_or_else(|| TargetError::failed("there is no such entry"))?;
        self.0.set_idle_timeout(table, handle, Some(micros)).map_err(TargetError::failed)
    }

    fn take_idle(&mut self) -> Done<Vec<(String, Entry)>> {
        Ok(self.0.take_idle())
    }

    fn digests(&mut self) -> Done<Vec<Digest>> {
        Ok(std::mem::take(&mut self.1))
    }

    fn meter_rates(&mut self, name: &str, index: Option<u64>, rates: &[(f64, u64)]) -> Done<()> {
        let rates: Vec<_> =
            rates.iter().map(|&(per_microsecond, burst)| Rate { per_microsecond, burst }).collect();
        done(self.0.set_rates(name, index, &rates), "meter cell")
    }

    fn set_group(&mut self, group: u32, copies: &[(u32, u32)]) -> Done<()> {
        self.0.set_group(group, copies.to_vec());
        Ok(())
    }
}
