//! Generates the state that outlives a packet: counters and registers.

use super::Generator;
use super::types::Ty;

/// A counter or register of a control.
#[derive(Clone, Debug)]
pub enum State {
    Counter { name: String, size: u64 },
    Register { name: String, ty: Ty, size: u64 },
}

impl State {
    pub fn size(&self) -> u64 {
        match self {
            State::Counter { size, .. } | State::Register { size, .. } => *size,
        }
    }
}

impl Generator {
    /// A type for the cells of a register. It sometimes has more than 64 bits, which compiled targets refuse.
    fn cell(&mut self) -> Ty {
        let ty = self.number();
        if ty.width() > 64 && !self.chance(5) { Ty::Bit(8) } else { ty }
    }

    /// Declares counters and registers.
    pub fn declare_state(&mut self, is_main: bool) {
        let most = if is_main { 3 } else { 1 };
        for _ in 0..self.below(most + 1) {
            let size = [1, 2, 8, 16][self.below(4)];
            if self.chance(50) {
                let (name, kind) = (self.fresh("n"), self.choose(&["packets", "bytes", "packets_and_bytes"]));
                self.line(&format!("counter({size}, CounterType.{kind}) {name};"));
                self.state.push(State::Counter { name, size });
            } else {
                let (name, ty) = (self.fresh("r"), self.cell());
                self.line(&format!("register<{}>({size}) {name};", self.spell(&ty)));
                self.state.push(State::Register { name, ty, size });
            }
        }
    }
}
