//! STF, the packet test format of p4c. Each line is a statement that writes tables, sends a packet, or expects packets and counters.
//!
//! [`parse`] parses a case, [`resolve`] finds what its names mean in a program, [`write`] turns statements into updates of a device, and
//! [`run`] plays a case on any [`run::Target`]. `strait run --entries` and `strait trace` read table entries in the same format. The input is text; nothing here opens a file.
//!
//! Extensions of p4c's format: keys may be `VALUE&&&MASK`, `LOW..HIGH` or a single `*`. Numbers may be IPv4, IPv6 and MAC addresses. Every
//! name may be quoted.

mod address;
pub mod parse;
pub mod resolve;
pub mod run;
pub mod write;

use std::fmt;

pub use dataplane::Mirror;
pub use parse::parse;
pub use run::{Failure, Outputs, Report, Target, TargetError, load, run};

/// A case: the statements of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The name of the case, for messages.
    pub name: String,
    /// The statements, in order.
    pub statements: Vec<Statement>,
}

impl Case {
    /// The packets that the case sends, each with its port.
    pub fn packets(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.statements.iter().filter_map(|s| match &s.kind {
            Kind::Packet { port, bytes } => Some((*port, bytes.as_slice())),
            _ => None,
        })
    }

    /// The number of packets that the case expects.
    pub fn expected(&self) -> usize {
        self.statements.iter().filter(|s| matches!(s.kind, Kind::Expect { .. })).count()
    }
}

/// One statement of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line, counted from 1.
    pub line: u32,
    /// The statement itself.
    pub kind: Kind,
}

/// The kind of a statement, with its operands. Names of tables, counters and the like are full names or suffixes of them.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Kind {
    /// `add TABLE [PRIO] KEY:VALUE… ACTION(ARG:VALUE, …) [= ID]`: adds an entry. The largest priority wins. `$ID` refers to the entry in
    /// later lines.
    Add { table: String, priority: Option<i32>, keys: Vec<(String, Value)>, action: Call, id: Option<String> },
    /// `setdefault TABLE ACTION(…)`: sets the default action.
    SetDefault { table: String, action: Call },
    /// `packet PORT HEX…`: sends a packet into a port.
    Packet { port: u32, bytes: Vec<u8> },
    /// `expect PORT [PATTERN]`: expects a packet on a port. Without a pattern any packet matches.
    Expect { port: u32, pattern: Option<Pattern> },
    /// `no_packet`: the last packet before this line must produce no packet.
    NoPacket,
    /// `wait`: waits until all packets have come out.
    Wait,
    /// `remove all`: removes all entries.
    RemoveAll,
    /// `check_counter NAME(CELL) [packets|bytes OP N]`: compares a counter. `drop.NAME` is a drop reason. Without a comparison, the cell
    /// must exist and be zero.
    CheckCounter { counter: String, cell: Cell, check: Option<Check> },
    /// `mc_mgrp_create GROUP`: adds a multicast group.
    GroupCreate(u32),
    /// `mc_node_create RID PORT…`: adds a node, whose copies have this `egress_rid` and go to these ports. Nodes are numbered from 0.
    NodeCreate { rid: u32, ports: Vec<u32> },
    /// `mc_node_update NODE PORT…`: replaces the ports of a node.
    NodeUpdate { node: u32, ports: Vec<u32> },
    /// `mc_node_associate GROUP NODE`: adds a node to a group.
    NodeAssociate { group: u32, node: u32 },
    /// `counter_read NAME INDEX`: reads a cell of a counter, which must exist.
    CounterRead(String, u64),
    /// `counter_write NAME INDEX PACKETS BYTES`: writes a cell of a counter.
    CounterWrite(String, u64, u64, u64),
    /// `register_read NAME INDEX`: reads a cell of a register, which must exist.
    RegisterRead(String, u64),
    /// `register_write NAME INDEX VALUE`: writes a cell of a register.
    RegisterWrite(String, u64, Number),
    /// `register_reset NAME`: sets all cells of a register to their initial value.
    RegisterReset(String),
    /// `mirroring_add SESSION PORT`, `mirroring_add_mc SESSION GROUP`, `mirroring_delete SESSION`: sets or removes (`None`) a mirroring
    /// session.
    Mirroring(u32, Option<Mirror>),
    /// `mirroring_get SESSION`: checks that the session exists.
    MirroringGet(u32),
    /// `member PROFILE ID ACTION(…)`: adds a member of an action profile. An entry refers to it with `member(id:ID)`.
    Member { profile: String, id: u32, action: Call },
    /// `member_group PROFILE ID MEMBER…`: adds a group of members. An entry refers to it with `group(id:ID)`.
    MemberGroup { profile: String, id: u32, members: Vec<u32> },
    /// `clock MICROSECONDS`: sets the time that packets see.
    Clock(u64),
    /// `host_port PORT`: declares a port to the host (PNA).
    HostPort(u32),
    /// `expire_time PROFILE MICROSECONDS`: sets the expire time of a profile (PNA).
    ExpireTime(u32, u64),
    /// `value_set NAME MEMBER…`: sets the members of a parser's value set. A member with several fields is `PART,PART`.
    ValueSet(String, Vec<Vec<Value>>),
    /// `idle_timeout $ID MICROSECONDS`: sets the idle timeout of the entry with this `= ID`.
    IdleTimeout(String, u64),
    /// `check_idle [$ID…]`: checks that exactly these entries have become idle since the last check.
    CheckIdle(Vec<String>),
    /// `check_digest NAME FIELD:VALUE…`: checks the next digest that the program has sent.
    CheckDigest(String, Vec<(String, Number)>),
    /// `no_digest`: checks that no digest is left.
    NoDigest,
    /// `check_log TEXT`: checks the next message that the program has logged.
    CheckLog(String),
    /// `no_log`: checks that no message is left.
    NoLog,
    /// `meter_set_rates NAME INDEX RATE:BURST…`: sets the rates of a meter's cell, lowest first: units (packets or bytes) a microsecond,
    /// and units. `meter_array_set_rates NAME RATE:BURST…` sets all cells (`None`).
    MeterRates { meter: String, index: Option<u64>, rates: Vec<(f64, u64)> },
    /// `meter_get_rates NAME INDEX`: checks that the cell exists.
    MeterGet(String, u64),
}

impl Kind {
    /// Whether the statement is one of the control plane: entries, groups, sessions, rates and the like.
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
                | HostPort(_)
                | ExpireTime(..)
        )
    }
}

/// A call of an action, with its arguments by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The name of the action, or a suffix of it.
    pub name: String,
    /// The name and the value of each argument.
    pub args: Vec<(String, Number)>,
}

/// A number as it is written. Leading zeros and `*` determine prefix lengths and masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// The number of bits in a digit: 4 for `0x`, 1 for `0b`, 0 for decimal.
    pub digit_bits: u32,
    /// The digits without `0x` or `0b`; for an address, its bits in hexadecimal.
    pub digits: String,
    /// If the number is an address: its text, and its width in bits. It fits only fields of that width.
    pub address: Option<(String, u32)>,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, which may have `*` digits.
    Number(Number),
    /// A prefix: `VALUE/LENGTH`.
    Prefix(Number, u32),
    /// A value and a mask: `VALUE&&&MASK`.
    Masked(Number, Number),
    /// A range, both ends included: `LOW..HIGH`.
    Range(Number, Number),
    /// Any value: `*`.
    Any,
}

/// A pattern for the bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The half bytes; `None` matches any.
    pub nibbles: Vec<Option<u8>>,
    /// Whether the packet must end after the pattern (`$`).
    pub exact: bool,
}

/// A cell of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The cell with this index. For a direct counter, it is the entry of the table's `add` with this number, counted from 0.
    Index(u64),
    /// The cell of the entry with this `= ID`.
    Entry(String),
}

/// A comparison of a counter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether bytes are compared; otherwise packets are.
    pub bytes: bool,
    /// The comparison operator.
    pub op: Op,
    /// The right operand.
    pub value: u64,
}

/// A comparison operator.
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
    /// Whether `a OP b` holds.
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

    /// The operator as it is written.
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

/// An error in a line of a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct StfError {
    /// The name of the case.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The explanation of the error.
    pub what: String,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((written, _)) = &self.address {
            return f.write_str(written);
        }
        let prefix = match self.digit_bits {
            4 => "0x",
            1 => "0b",
            _ => "",
        };
        write!(f, "{prefix}{}", self.digits)
    }
}
