//! Statements: everything that has an effect.

use crate::expr::{Expr, Place};
use crate::program::{
    CounterId, DirectCounterId, DropSiteId, ErrorId, HeaderId, LabelId, Loc, MeterId, RegisterId, StackId,
    TableId, VarId,
};

/// Statements, run in order.
pub type Block = Vec<Stmt>;

/// A statement and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What.
    pub kind: StmtKind,
    /// Where.
    pub loc: Loc,
}

/// A header, perhaps found at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderRef {
    /// This one.
    Header(HeaderId),
    /// An element of a stack. Out of range: reads give zero, writes do nothing.
    Element(StackId, Box<Expr>),
    /// `stack.next` in a parser. An extraction past the end rejects with `StackOutOfBounds`; all else is as out of range, and the front end
    /// puts a check before it (P4-16 section 8.18).
    Next(StackId),
    /// `stack.last` in a parser; the same of an empty stack.
    Last(StackId),
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `dst = src`, types equal.
    Assign {
        /// Where to.
        dst: Place,
        /// What.
        src: Expr,
    },
    /// Header to header of the same type: fields and validity.
    CopyHeader {
        /// Where to.
        dst: HeaderRef,
        /// From.
        src: HeaderRef,
    },
    /// Stack to stack of the same type and size: all elements, and the next index of a stack that has one of its own.
    CopyStack {
        /// The stack that is written.
        dst: StackId,
        /// The stack that is read.
        src: StackId,
    },
    /// `setValid()`.
    SetValid(HeaderRef),
    /// `setInvalid()`.
    SetInvalid(HeaderRef),
    /// `push_front(count)` on a stack.
    PushFront(StackId, u32),
    /// `pop_front(count)` on a stack.
    PopFront(StackId, u32),
    /// Two ways.
    If {
        /// A bool.
        cond: Expr,
        /// If so.
        then: Block,
        /// If not.
        otherwise: Block,
    },
    /// Many ways, by a constant each; no fall-through.
    Switch {
        /// A `bit<W>` or `int<W>`.
        on: Expr,
        /// Values and what they lead to; all values are distinct.
        arms: Vec<(Vec<abi::Bits>, Block)>,
        /// Otherwise.
        default: Block,
    },
    /// A block that `Break` may leave.
    Block {
        /// Its name.
        label: LabelId,
        /// What.
        body: Block,
    },
    /// An `@atomic` block (P4-16 section 18.4.1): no other packet sees or changes the state of externs in the middle of it.
    Atomic(Block),
    /// Repeats its body until a `Break` of its label (or of an outer one).
    Loop {
        /// Its name.
        label: LabelId,
        /// Greatest number of rounds, where the front end knows one. Targets without unbounded loops need it.
        bound: Option<u64>,
        /// What.
        body: Block,
    },
    /// To the end of the enclosing block or loop of that name.
    Break(LabelId),
    /// To the next round of the enclosing loop of that name.
    Continue(LabelId),
    /// Applies a table.
    Apply {
        /// Which.
        table: TableId,
        /// Set to whether an entry was found (bool).
        hit: Option<VarId>,
        /// Set to the index of the action that ran, in the table's list (`bit<32>`).
        action: Option<VarId>,
    },
    /// `mark_to_drop` (see the crate's page).
    Drop(DropSiteId),
    /// Parser: `packet.extract(header)`, with the width of its varbit field if it has one (`bit<32>`).
    Extract {
        /// Into.
        header: HeaderRef,
        /// Bits of the varbit field; more than it holds: `HeaderTooShort` and reject.
        varbit: Option<Expr>,
    },
    /// Parser: reads as many bits as `dst` has at the cursor, without moving it.
    Lookahead {
        /// Where to.
        dst: Place,
    },
    /// Parser: moves the cursor (`bit<32>`, in bits).
    Advance(Expr),
    /// Parser: rejects with that error unless the condition holds.
    Verify {
        /// A bool.
        cond: Expr,
        /// What is wrong otherwise.
        error: ErrorId,
    },
    /// Deparser: appends the header if it is valid.
    Emit(HeaderRef),
    /// An extern's function or method.
    Call(Call),
}

/// Extern calls that have an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `counter.count(index)`; out of range does nothing. Bytes are `packet_length` of the packet.
    Count {
        /// Which.
        counter: CounterId,
        /// Cell.
        index: Expr,
    },
    /// `direct_counter.count()`. A hit counts once in any case (v1model), so this is a note for targets that need it.
    DirectCount(DirectCounterId),
    /// `register.read(dst, index)`.
    RegisterRead {
        /// Which.
        register: RegisterId,
        /// Where to.
        dst: Place,
        /// Cell.
        index: Expr,
    },
    /// `register.write(index, value)`.
    RegisterWrite {
        /// Which.
        register: RegisterId,
        /// Cell.
        index: Expr,
        /// What.
        value: Expr,
    },
    /// `meter.execute_meter(index, dst)`: 0 green, 1 yellow, 2 red; green out of range and where no rates are set.
    Meter {
        /// Which.
        meter: MeterId,
        /// Cell.
        index: Expr,
        /// Where to.
        dst: Place,
    },
    /// `direct_meter.read(dst)`: the colour that the last hit of its table gave this packet; green before.
    DirectMeter {
        /// Which.
        meter: MeterId,
        /// Where to.
        dst: Place,
    },
    /// `digest(receiver, data)`: a message to the control plane, sent when ingress ends.
    Digest {
        /// Name of the data's type.
        name: String,
        /// Names of the values.
        fields: Vec<String>,
        /// Values.
        data: Vec<Expr>,
    },
    /// `clone` and its kin: a copy of the packet for egress, made when this half of the pipeline ends; the last call
    /// decides.
    Clone {
        /// The packet as it left egress, or as it entered ingress.
        egress: bool,
        /// Where to: a mirroring session.
        session: Expr,
        /// Variables that the copy takes along.
        keep: Vec<VarId>,
    },
    /// `resubmit`: when ingress ends, the packet begins anew as it came.
    Resubmit {
        /// Variables that it takes along.
        keep: Vec<VarId>,
    },
    /// `recirculate`: when egress ends, what it would send begins anew.
    Recirculate {
        /// Variables that it takes along.
        keep: Vec<VarId>,
    },
    /// PNA `send_to_port(port)`: where the packet goes when the main control ends; without one, or after a drop, nowhere.
    SendToPort(Expr),
    /// PNA `mirror_packet(slot, session)`: a copy of the packet as the main control leaves it; one a slot, the last call counts.
    MirrorPacket {
        /// Which slot.
        slot: Expr,
        /// Where to: a mirroring session.
        session: Expr,
    },
    /// PNA `add_entry(action, parameters, profile)`, in the action that ran for a miss: an entry for the key that missed.
    AddEntry {
        /// Set to whether there is such an entry now (bool): no where the table is full.
        done: Option<Place>,
        /// The action of the new entry: its name in the program.
        action: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// Its time to live: a profile that the control plane gives a time.
        profile: Expr,
    },
    /// PNA `restart_expire_timer()`, and with a profile `set_entry_expire_time(profile)`: the entry that was hit begins to age
    /// anew. A hit alone does not do that: the program decides which packets keep an entry alive.
    RestartTimer(Option<Expr>),
    /// PNA `allocate_flow_id()`: a number that no other flow has.
    FlowId(Place),
    /// `truncate(length)`: so many bytes of the deparsed packet are kept.
    Truncate(Expr),
    /// `hash(dst, algorithm, base, data, max)`: `base + H(data) % max`, and `base` where `max` is 0.
    Hash {
        /// Where to.
        dst: Place,
        /// Which function.
        algorithm: HashAlgorithm,
        /// Lowest result.
        base: Expr,
        /// What is hashed: the fields' bits one after the other, and behind them as many zero bits as fill the last byte (as in
        /// BMv2: `{ bit<12> 0x678 }` is hashed as the bytes 67 80).
        data: Vec<Data>,
        /// Number of results.
        max: Expr,
    },
    /// `random(dst, lo, hi)`, both included.
    Random {
        /// Where to.
        dst: Place,
        /// Lowest.
        lo: Expr,
        /// Highest.
        hi: Expr,
    },
    /// `verify_checksum` and `verify_checksum_with_payload`.
    VerifyChecksum {
        /// Whether it is looked at.
        cond: Expr,
        /// What is summed.
        data: Vec<Data>,
        /// What the sum should be.
        checksum: Place,
        /// How.
        algorithm: ChecksumAlgorithm,
        /// Whether the payload follows the data.
        payload: bool,
    },
    /// `update_checksum` and `update_checksum_with_payload`.
    UpdateChecksum {
        /// Whether it is written.
        cond: Expr,
        /// What is summed.
        data: Vec<Data>,
        /// Where to.
        checksum: Place,
        /// How.
        algorithm: ChecksumAlgorithm,
        /// Whether the payload follows the data.
        payload: bool,
        /// A sum of 0 is written as all ones (see [`crate::Field::checksum_nonzero`]).
        nonzero: bool,
    },
    /// `log_msg(format, args)`.
    LogMsg {
        /// With `{}` for each argument.
        format: String,
        /// Arguments.
        args: Vec<Expr>,
    },
    /// `assert` or `assume`: if it does not hold, the program is wrong; the interpreter says so and goes on.
    Assert {
        /// A bool.
        cond: Expr,
        /// The condition's text.
        text: String,
    },
}

/// An element of a list of data to hash or sum; varbit fields are read as places.
///
/// The front end spells out whole headers, field by field. A field of an invalid header keeps its place in the list, with whatever value
/// reading it gives: P4-16 (section 8.18) leaves the value open, and on every target of ours it is the same one, zero until the program
/// writes it. BMv2 leaves such fields out, which moves what stands behind them; a program that must give the same result on both tests
/// `isValid()`, as the condition of a checksum does.
pub type Data = Expr;

/// Hash functions of v1model. Widths and constants are those of BMv2's `calculations.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as in v1model.p4.
pub enum HashAlgorithm {
    Crc32,
    Crc32Custom,
    Crc16,
    Crc16Custom,
    Random,
    Identity,
    Csum16,
    Xor16,
}

/// Checksum functions of v1model's checksum externs: any hash, in practice `csum16`.
pub type ChecksumAlgorithm = HashAlgorithm;

impl Stmt {
    /// A statement at a place.
    pub fn new(kind: StmtKind, loc: Loc) -> Stmt {
        Stmt { kind, loc }
    }
}
