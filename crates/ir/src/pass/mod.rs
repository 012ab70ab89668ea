//! Passes, which transform a program into an equivalent one that runs faster.
//!
//! The front end's program is literal: every call copies its arguments in and out, and every operand that a later call might change is
//! saved. Each pass is small, is justified by [`crate::effects`], and can be switched off by its name ([`Passes::without`]). The
//! interpreter can run the program before and after the passes, and differential tests compare the results.
//!
//! The cost of a pass depends on the number of cells in its sets. After inlining, p4c's largest program, switch_p4_16.p4, has 16 000 copies
//! and 50 000 cells. When every round analysed all of them, the passes took 0.9 s of the 1.1 s of `strait check` (debug build). `arguments`
//! needs no sets, and with `shrink` it removes nine tenths of the cells before the other passes run. All passes now take 0.06 s.
//!
//! | pass | what it does | why this is correct |
//! |---|---|---|
//! | `arguments` | replaces a parameter by the argument that is copied to it and back | nothing between the copies mentions the argument |
//! | `shrink` | removes storage that nothing mentions | no program can observe it |
//! | `fold` | computes expressions of constants, and selects the branch of a constant condition | expressions are pure |
//! | `constants` | replaces a variable that only ever holds one constant | no other write exists, and no read comes before the write |
//! | `bind` | lets a variable, header or stack share storage with its copy | neither is written while the other's value is needed |
//! | `dead` | removes stores that nothing reads | the cells are not live, and the statement has no other effect |
//! | `filled` | removes checks of a stack's next index that always succeed | an extraction or a check before it guarantees the result |
//! | `decisions` | removes decisions of the pipeline that never apply | the variable that they test is always zero |
//! | `jumps` | removes jumps to the next statement, and blocks that nothing leaves | control flow stays the same |

mod arguments;
mod bind;
mod constants;
mod dead;
mod decisions;
mod filled;
mod fold;
mod jumps;
mod rename;
mod shrink;

use crate::program::Program;
use crate::verify::{Fault, Verified, verify};

/// A pass: its name, and its function, which returns whether it changed anything.
struct Pass {
    name: &'static str,
    run: fn(&mut Program) -> bool,
}

const PASSES: [Pass; 9] = [
    Pass { name: "arguments", run: arguments::run },
    Pass { name: "shrink", run: shrink::run },
    Pass { name: "fold", run: fold::run },
    Pass { name: "constants", run: constants::run },
    Pass { name: "bind", run: bind::run },
    Pass { name: "dead", run: dead::run },
    Pass { name: "filled", run: filled::run },
    Pass { name: "jumps", run: jumps::run },
    Pass { name: "decisions", run: decisions::run },
];

/// The number of passes that run only once before the others and once after them. They remove what inlining leaves, and storage that is no
/// longer used.
const ONCE: usize = 2;

/// The largest number of rounds of the other passes. Each pass may enable further changes by the others.
const ROUNDS: usize = 4;

/// The names of all passes, in the order in which they run.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|p| p.name)
}

/// The selection of passes that run.
#[derive(Clone, Debug)]
pub struct Passes {
    on: [bool; PASSES.len()],
}

impl Default for Passes {
    /// Selects all passes.
    fn default() -> Self {
        Passes { on: [true; PASSES.len()] }
    }
}

impl Passes {
    /// Selects no pass, so that the program stays literal.
    pub fn none() -> Passes {
        Passes { on: [false; PASSES.len()] }
    }

    /// Switches off the pass with this name, or all passes for `all`. Returns `None` if there is no such pass.
    #[must_use]
    pub fn without(mut self, name: &str) -> Option<Passes> {
        if name == "all" {
            return Some(Passes::none());
        }
        let at = PASSES.iter().position(|p| p.name == name)?;
        self.on[at] = false;
        Some(self)
    }

    /// Runs the passes until nothing changes, and verifies the result. A fault is a bug in a pass.
    pub fn run(&self, program: Verified) -> Result<Verified, Vec<Fault>> {
        let mut program = program.into_program();
        let run = |pass: usize, program: &mut Program| self.on[pass] && (PASSES[pass].run)(program);
        for pass in 0..ONCE {
            run(pass, &mut program);
        }
        for _ in 0..ROUNDS {
            let changed = (ONCE..PASSES.len()).fold(false, |changed, pass| run(pass, &mut program) | changed);
            if !changed {
                break;
            }
        }
        run(ONCE - 1, &mut program);
        verify(program)
    }
}
