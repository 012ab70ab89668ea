//! Adapts the interpreter for packet tests.

use crate::stf::{Outputs, Target, TargetError};
use dataplane::Device;
use interp::{Interpreter, Silent};

/// An interpreter that plays packet tests.
pub struct InterpTarget<'p>(pub Interpreter<'p>);

impl Target for InterpTarget<'_> {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.0
    }

    fn send(&mut self, port: u32, packet: &[u8]) -> Result<Outputs, TargetError> {
        Ok(self.0.process(port, packet, &mut Silent).sent)
    }

    fn set_clock(&mut self, micros: u64) -> Result<(), TargetError> {
        self.0.set_clock(micros);
        Ok(())
    }
}
