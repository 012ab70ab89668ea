//! The interpreter as a target of packet tests.

use abi::{ActionCall, Bits, Entry, Manifest};
use control::stf::{Target, TargetError};
use interp::{Interpreter, Silent};

/// An interpreter at rest.
pub struct InterpTarget<'p>(pub Interpreter<'p>);

fn text(error: impl std::fmt::Display) -> TargetError {
    error.to_string()
}

impl Target for InterpTarget<'_> {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn insert(&mut self, table: &str, entry: &Entry) -> Result<(), TargetError> {
        let table = self.0.table_mut(table).ok_or("no such table")?;
        table.insert(entry).map(|_| ()).map_err(text)
    }

    fn set_default(&mut self, table: &str, call: &ActionCall) -> Result<(), TargetError> {
        self.0.table_mut(table).ok_or("no such table")?.set_default(call).map_err(text)
    }

    fn clear(&mut self) -> Result<(), TargetError> {
        let names: Vec<_> =
            self.manifest().tables.iter().filter(|t| !t.const_entries).map(|t| t.name.clone()).collect();
        names.iter().filter_map(|n| self.0.table_mut(n).map(|t| t.clear())).for_each(drop);
        Ok(())
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Vec<(u32, Vec<u8>)>, TargetError> {
        Ok(self.0.process(port, packet, &mut Silent).sent)
    }

    fn counter(&mut self, name: &str, index: u64) -> Result<(u64, u64), TargetError> {
        let count = self.0.counter(name, index).ok_or("no such counter cell")?;
        Ok((count.packets, count.bytes))
    }

    fn entry_counter(&mut self, table: &str, entry: &Entry) -> Result<(u64, u64), TargetError> {
        let row = self.0.table(table).and_then(|t| t.find(entry)).ok_or("no such entry")?;
        Ok((row.count.packets, row.count.bytes))
    }

    fn drops(&mut self, reason: usize) -> Result<(u64, u64), TargetError> {
        let count = self.0.drops(reason);
        Ok((count.packets, count.bytes))
    }

    fn set_register(&mut self, name: &str, index: u64, value: &Bits) -> Result<(), TargetError> {
        if self.0.set_register(name, index, value) {
            Ok(())
        } else {
            Err("no such register cell".to_string())
        }
    }

    fn reset_register(&mut self, name: &str) -> Result<(), TargetError> {
        if self.0.reset_register(name) { Ok(()) } else { Err("no such register".to_string()) }
    }

    fn set_group(&mut self, group: u32, replicas: Vec<(u32, u32)>) -> Result<(), TargetError> {
        self.0.set_group(group, replicas);
        Ok(())
    }
}
