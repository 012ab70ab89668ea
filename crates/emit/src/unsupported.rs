//! A limit of a target, met by a program that is right in itself.

use std::fmt;

use ir::Loc;

/// What a target cannot do.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// Where in the P4 source.
    pub loc: Loc,
    /// What.
    pub what: String,
    /// What to do instead.
    pub hint: String,
}

impl Unsupported {
    /// A limit met at a place.
    pub fn new(loc: Loc, what: impl Into<String>, hint: impl Into<String>) -> Unsupported {
        Unsupported { loc, what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.hint)
    }
}
