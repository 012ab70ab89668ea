//! The steps of a packet, which an observer receives in the order in which they happen.

use abi::Bits;
use ir::{Expr, Loc};

/// A step of a packet. `loc` is the place in the P4 source.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// A packet arrived on a port.
    Arrived { port: u32, bytes: &'a [u8] },
    /// The packet was `cloned`, `resubmitted` or `recirculated` (`how`), with this number of bytes. A clone has a mirroring session.
    Again { how: &'static str, session: Option<u32>, length: usize },
    /// The parser entered a state.
    State { name: &'a str, loc: Loc },
    /// A `select` chose the next state by these keys.
    Selected { keys: Vec<(String, Bits)>, next: &'a str },
    /// An `if` or a `switch` (`what`) was decided. `read` has the variables and fields of the expression.
    Decided { what: &'static str, on: &'a Expr, read: Vec<(String, Bits)>, result: Bits, loc: Loc },
    /// The parser extracted a header.
    Extracted { header: &'a str, loc: Loc, fields: Vec<(&'a str, Bits)> },
    /// The parser ended. `error` is `NoError` or the reason of a reject; `consumed` is the number of bytes before the payload.
    Parsed { error: &'a str, consumed: usize },
    /// A control began.
    Control { name: &'a str, loc: Loc },
    /// A table was applied. `hit` is the entry as text, or `None` on a miss. `missed` says of each other entry why it did not match.
    /// `action` ran with `args`.
    Applied {
        table: &'a str,
        loc: Loc,
        key: Vec<(&'a str, Bits)>,
        hit: Option<String>,
        missed: Vec<String>,
        action: &'a str,
        args: Vec<(&'a str, Bits)>,
    },
    /// A variable or a field was written.
    Assigned { place: String, value: Bits, loc: Loc },
    /// A header became valid or invalid.
    Validity { header: &'a str, valid: bool, loc: Loc },
    /// A checksum was verified or written. `value` is the computed checksum; for a verification, `right` says whether the field in `place`
    /// was equal to it.
    Checksum { place: String, value: u16, right: Option<bool>, loc: Loc },
    /// The program called `log_msg`, or an `assert` failed.
    Message { text: String, loc: Loc },
    /// The program called `mark_to_drop` at the drop site of this name.
    Marked { site: &'a str, loc: Loc },
    /// The packet was sent.
    Sent { port: u32, bytes: &'a [u8] },
    /// The packet was dropped.
    Dropped { reason: &'a str },
}

/// A receiver of events.
pub trait Observer {
    /// Whether the observer wants events. Making them costs more than running the program.
    fn wants_events(&self) -> bool {
        true
    }
    /// Receives the next event.
    fn event(&mut self, event: Event<'_>);
}

/// An observer that wants no events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn wants_events(&self) -> bool {
        false
    }
    fn event(&mut self, _: Event<'_>) {}
}
