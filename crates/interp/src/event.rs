//! What an observer of a packet is told, in the order in which it happens.

use abi::Bits;
use ir::Loc;

/// Something that happened to a packet.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A packet came in.
    Arrived {
        /// Port.
        port: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A copy was made, or another round begins: `cloned`, `resubmitted`, `recirculated`.
    Again {
        /// How.
        how: &'static str,
        /// The mirroring session of a clone.
        session: Option<u32>,
    },
    /// The parser entered a state.
    State {
        /// Name.
        name: &'a str,
        /// Where.
        loc: Loc,
    },
    /// A header was extracted.
    Extracted {
        /// Name.
        header: &'a str,
        /// Where.
        loc: Loc,
        /// Fields and values.
        fields: Vec<(&'a str, Bits)>,
    },
    /// The parser came to its end.
    Parsed {
        /// `NoError`, or why it rejected.
        error: &'a str,
        /// Bytes before the payload.
        consumed: usize,
    },
    /// A control began.
    Control {
        /// Name.
        name: &'a str,
        /// Where.
        loc: Loc,
    },
    /// A table was applied.
    Applied {
        /// Name.
        table: &'a str,
        /// Where it is applied.
        loc: Loc,
        /// Key fields and their values.
        key: Vec<(&'a str, Bits)>,
        /// The entry that was hit, as text; `None` on a miss.
        hit: Option<String>,
        /// For each entry that was not hit, why.
        missed: Vec<String>,
        /// The action that ran.
        action: &'a str,
        /// Its arguments.
        args: Vec<(&'a str, Bits)>,
    },
    /// A place was written.
    Assigned {
        /// Which.
        place: String,
        /// What.
        value: Bits,
        /// Where.
        loc: Loc,
    },
    /// A header became valid or invalid.
    Validity {
        /// Which.
        header: &'a str,
        /// What it is now.
        valid: bool,
        /// Where.
        loc: Loc,
    },
    /// A checksum was looked at or written.
    Checksum {
        /// Where it stands.
        place: String,
        /// The value computed.
        value: u16,
        /// For a verification: whether it was that.
        right: Option<bool>,
        /// Where.
        loc: Loc,
    },
    /// `log_msg`, or an `assert` that does not hold.
    Message {
        /// Text.
        text: String,
        /// Where.
        loc: Loc,
    },
    /// `mark_to_drop`.
    Marked {
        /// Name of the drop site.
        site: &'a str,
        /// Where.
        loc: Loc,
    },
    /// The packet left.
    Sent {
        /// Port.
        port: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The packet was dropped.
    Dropped {
        /// Why.
        reason: &'a str,
    },
}

/// Somebody who watches.
pub trait Observer {
    /// Whether events are wanted at all: making them costs more than running the program.
    fn wants_events(&self) -> bool {
        true
    }
    /// Something happened.
    fn event(&mut self, event: Event<'_>);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn wants_events(&self) -> bool {
        false
    }
    fn event(&mut self, _: Event<'_>) {}
}
