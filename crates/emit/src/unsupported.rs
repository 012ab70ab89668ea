//! The error for a correct program that exceeds a limit of a target.

use std::fmt;

use ir::Loc;

/// Something in a program that a target does not support.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// The location in the P4 source.
    pub loc: Loc,
    /// What the target does not support.
    pub what: String,
    /// What the programmer can do instead.
    pub hint: String,
}

impl Unsupported {
    /// Describes something that the target does not support.
    pub fn new(loc: Loc, what: impl Into<String>, hint: impl Into<String>) -> Unsupported {
        Unsupported { loc, what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.hint)
    }
}
