//! Passes: a program in, an equal program out that costs less to run.
//!
//! The front end's program is literal: every call copies its arguments in and out, every operand that a later call might change
//! is saved. Each pass here is small, can be switched off by its name ([`Passes::without`]), and takes its reason from
//! [`crate::effects`]. The interpreter runs the literal program and the passed one alike, and differential tests hold them
//! against each other.
//!
//! What a pass costs is the number of cells in its sets. p4c's largest program, switch_p4_16.p4, is 16 000 copies of 50 000 cells
//! when its calls are put in place. While every round analysed all of them, the passes took 0.9 s of the 1.1 s of `strait check` (debug).
//! Now `arguments`, which needs no sets, and `shrink` leave the others a tenth of the cells, and all passes take 0.06 s.
//!
//! | pass | what it does | why it may |
//! |---|---|---|
//! | `arguments` | lets an argument stand for the parameter that is copied from it and back to it | nothing between the copies mentions it |
//! | `shrink` | declares only the storage that is mentioned | nobody can tell |
//! | `fold` | computes expressions of constants, takes the branch that a constant condition decides | expressions are pure |
//! | `constants` | puts a constant in the place of a variable that never holds anything else | no other write exists, and no read comes before it |
//! | `bind` | lets a variable, header or stack and its copy share storage | neither is written while the other's value is still needed |
//! | `dead` | leaves out stores that nobody reads | the cells are not live, and the statement does nothing else |
//! | `filled` | leaves out checks of a stack's next index where it is known to be right | an extraction or a check before it decides |
//! | `jumps` | leaves out jumps to where control goes anyway, and blocks that nothing leaves | control flow stays the same |

mod arguments;
mod bind;
mod constants;
mod dead;
mod filled;
mod fold;
mod jumps;
mod rename;
mod shrink;

use crate::program::Program;
use crate::verify::{Fault, Verified, verify};

/// A pass: its name, and what it does. `true`: it changed something.
struct Pass {
    name: &'static str,
    run: fn(&mut Program) -> bool,
}

const PASSES: [Pass; 8] = [
    Pass { name: "arguments", run: arguments::run },
    Pass { name: "shrink", run: shrink::run },
    Pass { name: "fold", run: fold::run },
    Pass { name: "constants", run: constants::run },
    Pass { name: "bind", run: bind::run },
    Pass { name: "dead", run: dead::run },
    Pass { name: "filled", run: filled::run },
    Pass { name: "jumps", run: jumps::run },
];

/// The passes that run once, before the others and after them: they find work where calls were put in place, and where storage
/// is no longer used.
const ONCE: usize = 2;

/// How often the other passes run one after the other: each may make work for the others.
const ROUNDS: usize = 4;

/// The names of all passes, in the order in which they run.
pub fn names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|p| p.name)
}

/// Which passes run.
#[derive(Clone, Debug)]
pub struct Passes {
    on: [bool; PASSES.len()],
}

impl Default for Passes {
    /// All of them.
    fn default() -> Self {
        Passes { on: [true; PASSES.len()] }
    }
}

impl Passes {
    /// No pass: the program stays literal.
    pub fn none() -> Passes {
        Passes { on: [false; PASSES.len()] }
    }

    /// Switches one pass off, or all of them by `all`; `None` where there is no pass of that name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Option<Passes> {
        if name == "all" {
            return Some(Passes::none());
        }
        let at = PASSES.iter().position(|p| p.name == name)?;
        self.on[at] = false;
        Some(self)
    }

    /// Runs the passes until nothing changes any more. The result is verified anew: a fault is a bug of a pass.
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
