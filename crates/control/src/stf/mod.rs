//! STF, the packet test format of p4c: a line a statement, tables filled, packets in, packets and counters expected.
//!
//! [`parse`] reads a case, [`resolve`] finds what its names mean in a program, [`run`] plays it on any [`run::Target`]. `strait run --entries` and `strait trace` read their table
//! entries in the same format. Nothing here opens a file: text comes in.
//!
//! Beyond p4c's reader: keys take `VALUE&&&MASK` and `LOW..HIGH` and a lone `*`, names may be quoted wherever they stand.

pub mod parse;
pub mod resolve;
pub mod run;

use std::fmt;

pub use parse::parse;
pub use run::{Failure, Mirror, Outputs, Report, Target, TargetError, load, run};

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its name, for messages.
    pub name: String,
    /// What it says, in order.
    pub statements: Vec<Statement>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Counted from 1.
    pub line: u32,
    /// What it says.
    pub kind: Kind,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `add TABLE [PRIO] KEY:VALUE… ACTION(ARG:VALUE, …) [= ID]`.
    Add {
        /// Name or suffix.
        table: String,
        /// Larger wins.
        priority: Option<i32>,
        /// Names and values.
        keys: Vec<(String, Value)>,
        /// What happens on a hit.
        action: Call,
        /// `$ID` of `check_counter` means this entry.
        id: Option<String>,
    },
    /// `setdefault TABLE ACTION(…)`.
    SetDefault {
        /// Name or suffix.
        table: String,
        /// What happens on a miss.
        action: Call,
    },
    /// `packet PORT HEX…`.
    Packet {
        /// Where it comes in.
        port: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// `expect PORT [PATTERN]`.
    Expect {
        /// Where it should come out.
        port: u32,
        /// What it should be; none: anything.
        pattern: Option<Pattern>,
    },
    /// `no_packet`: the last packet before it must give none.
    NoPacket,
    /// `wait`: everything sent has come out.
    Wait,
    /// `remove all` entries.
    RemoveAll,
    /// `check_counter NAME(CELL) [packets|bytes OP N]`.
    CheckCounter {
        /// Name or suffix; `drop.NAME` is a drop reason.
        counter: String,
        /// Which cell or entry.
        cell: Cell,
        /// Without one: the cell exists and counts neither packets nor bytes.
        check: Option<Check>,
    },
    /// `mc_mgrp_create GROUP`.
    GroupCreate(u32),
    /// `mc_node_create RID PORT…`; nodes are numbered from 0 in this order.
    NodeCreate {
        /// `egress_rid` of its copies.
        rid: u32,
        /// Where its copies go.
        ports: Vec<u32>,
    },
    /// `mc_node_update NODE PORT…`.
    NodeUpdate {
        /// Number.
        node: u32,
        /// Where its copies go from now on.
        ports: Vec<u32>,
    },
    /// `mc_node_associate GROUP NODE`.
    NodeAssociate {
        /// Group.
        group: u32,
        /// Number.
        node: u32,
    },
    /// `counter_read NAME INDEX`.
    CounterRead(String, u64),
    /// `counter_write NAME INDEX PACKETS BYTES`.
    CounterWrite(String, u64, u64, u64),
    /// `register_read NAME INDEX`.
    RegisterRead(String, u64),
    /// `register_write NAME INDEX VALUE`.
    RegisterWrite(String, u64, Number),
    /// `register_reset NAME`.
    RegisterReset(String),
    /// `mirroring_add SESSION PORT`, `mirroring_add_mc SESSION GROUP`, `mirroring_delete SESSION`.
    Mirroring(u32, Option<Mirror>),
    /// `mirroring_get SESSION`: there is such a session.
    MirroringGet(u32),
    /// `member PROFILE ID ACTION(…)`: a member of an action profile. An entry leads to it by `member(id:ID)`.
    Member {
        /// Name or suffix.
        profile: String,
        /// Its number.
        id: u32,
        /// What it does.
        action: Call,
    },
    /// `member_group PROFILE ID MEMBER…`: a group of them. An entry leads to it by `group(id:ID)`.
    MemberGroup {
        /// Name or suffix.
        profile: String,
        /// Its number.
        id: u32,
        /// Its members.
        members: Vec<u32>,
    },
    /// `clock MICROSECONDS`: the time that packets see from now on.
    Clock(u64),
    /// `host_port PORT`: the port leads to the host (PNA).
    HostPort(u32),
    /// `expire_time PROFILE MICROSECONDS`: how long entries of this profile live (PNA).
    ExpireTime(u32, u64),
    /// `value_set NAME MEMBER…`: what a parser's value set holds from now on. A member of several parts is `PART,PART`.
    ValueSet(String, Vec<Vec<Value>>),
    /// `idle_timeout $ID MICROSECONDS`: an entry (the `= ID` of its `add`) that no packet hits for so long is idle.
    IdleTimeout(String, u64),
    /// `check_idle [$ID…]`: these entries, and no others, have become idle since it was asked last.
    CheckIdle(Vec<String>),
    /// `check_digest NAME FIELD:VALUE…`: the next message that the program sent to the control plane.
    CheckDigest(String, Vec<(String, Number)>),
    /// `no_digest`: there is none left.
    NoDigest,
    /// `meter_set_rates NAME INDEX RATE:BURST…`, or without an index `meter_array_set_rates NAME RATE:BURST…`.
    MeterRates {
        /// Name or suffix.
        meter: String,
        /// Cell; none: all.
        index: Option<u64>,
        /// Units (packets or bytes) a microsecond, and units, lowest rate first.
        rates: Vec<(f64, u64)>,
    },
    /// `meter_get_rates NAME INDEX`: there is such a cell.
    MeterGet(String, u64),
}

impl Kind {
    /// Whether it is what a control plane says: entries, groups, sessions, rates and the like.
    pub fn fills(&self) -> bool {
        use Kind::*;
        matches!(
            self,
            Add { .. }
                | SetDefault { .. }
                | RemoveAll
                | GroupCreate(_)
                | NodeCreate { .. }
                | NodeUpdate { .. }
                | NodeAssociate { .. }
                | RegisterWrite(..)
                | RegisterReset(_)
                | CounterWrite(..)
                | Mirroring(..)
                | Member { .. }
                | MemberGroup { .. }
                | MeterRates { .. }
                | ValueSet(..)
                | IdleTimeout(..)
        )
    }
}

/// An action and its arguments by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name or suffix.
    pub name: String,
    /// Names and values.
    pub args: Vec<(String, Number)>,
}

/// A number as written: leading zeros and `*` tell prefix lengths and masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Bits of a digit: 4 for `0x`, 1 for `0b`, 0 for decimal.
    pub digit_bits: u32,
    /// Without `0x` or `0b`.
    pub digits: String,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, perhaps with `*` digits.
    Number(Number),
    /// `VALUE/LENGTH`.
    Prefix(Number, u32),
    /// `VALUE&&&MASK`.
    Masked(Number, Number),
    /// `LOW..HIGH`.
    Range(Number, Number),
    /// `*`.
    Any,
}

/// What a packet should look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Half bytes; `None` is any.
    pub nibbles: Vec<Option<u8>>,
    /// The packet ends there (`$`); else it may go on.
    pub exact: bool,
}

/// A cell of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// By number; for a direct counter, the number of the `add` to its table, from 0.
    Index(u64),
    /// An entry, by the `= ID` of its `add`.
    Entry(String),
}

/// What a counter should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Bytes, not packets.
    pub bytes: bool,
    /// How it is compared.
    pub op: Op,
    /// With what.
    pub value: u64,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    /// Whether it holds.
    pub fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Op::Eq => a == b,
            Op::Ne => a != b,
            Op::Lt => a < b,
            Op::Le => a <= b,
            Op::Gt => a > b,
            Op::Ge => a >= b,
        }
    }

    /// As written.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Eq => "==",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
        }
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct StfError {
    /// The case.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// In words.
    pub what: String,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.digit_bits {
            4 => "0x",
            1 => "0b",
            _ => "",
        };
        write!(f, "{prefix}{}", self.digits)
    }
}
