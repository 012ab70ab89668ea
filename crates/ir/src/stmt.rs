//! Statements, which are the only part of a program that has effects.

use abi::text::Name;

use crate::expr::{Expr, Place, Ty};
use crate::program::{
    ChecksumId, CounterId, DirectCounterId, DropSiteId, ErrorId, HeaderId, LabelId, Loc, MeterId, RegisterId,
    StackId, TableId, VarId,
};

/// A sequence of statements, which run in order.
pub type Block = Vec<Stmt>;

/// A statement with its location.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The statement itself.
    pub kind: StmtKind,
    /// The location in the P4 source that the statement comes from.
    pub loc: Loc,
}

/// A reference to a header. The index of a stack's element may be computed at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderRef {
    /// A header that is known when the program is compiled.
    Header(HeaderId),
    /// The element of a stack with this index. If the index is out of range, reads give zero and writes have no effect.
    Element(StackId, Box<Expr>),
    /// `stack.next` in a parser: the element at the next index. If the stack is full, `extract` rejects with `StackOutOfBounds`, and any
    /// other statement sees an index out of range; the front end puts a check before it (P4-16 section 8.18).
    Next(StackId),
    /// `stack.last` in a parser: the element before the next index. If the stack is empty, the index is out of range, as for `Next`.
    Last(StackId),
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `dst = src`. The types are equal.
    Assign {
        /// The place that is written.
        dst: Place,
        /// The value that is stored.
        src: Expr,
    },
    /// Copies a header to another one of the same type: validity and all fields.
    CopyHeader {
        /// The header that is written.
        dst: HeaderRef,
        /// The header that is read.
        src: HeaderRef,
    },
    /// Copies a stack to another one of the same type and size: all elements, and the next index if `dst` has one of its own.
    CopyStack {
        /// The stack that is written.
        dst: StackId,
        /// The stack that is read.
        src: StackId,
    },
    /// `setValid()`: if the header is invalid, sets its fields to zero and makes it valid.
    SetValid(HeaderRef),
    /// `setInvalid()`: makes the header invalid and sets its fields to zero.
    SetInvalid(HeaderRef),
    /// `push_front(count)` on a stack.
    PushFront(StackId, u32),
    /// `pop_front(count)` on a stack.
    PopFront(StackId, u32),
    /// Runs one of two blocks.
    If {
        /// The condition, a bool.
        cond: Expr,
        /// The block that runs if the condition is true.
        then: Block,
        /// The block that runs if the condition is false.
        otherwise: Block,
    },
    /// Runs the block of the first arm with an equal value. There is no fall-through.
    Switch {
        /// The value that selects the arm, a `bit<W>` or `int<W>`.
        on: Expr,
        /// The arms: their values and their block. All values are distinct.
        arms: Vec<(Vec<abi::Bits>, Block)>,
        /// The block that runs if no value is equal.
        default: Block,
    },
    /// A block that `Break` can leave.
    Block {
        /// The label that `Break` names.
        label: LabelId,
        /// The statements that run once.
        body: Block,
    },
    /// An `@atomic` block (P4-16 section 18.4.1). No other packet accesses the state of externs while it runs.
    Atomic(Block),
    /// Repeats its body until a `Break` to its label or to an outer one.
    Loop {
        /// The label that `Break` and `Continue` name.
        label: LabelId,
        /// An upper bound of the number of iterations, if the front end knows one. Some targets cannot run loops without it.
        bound: Option<u64>,
        /// The statements that are repeated.
        body: Block,
    },
    /// Continues after the enclosing block or loop with this label.
    Break(LabelId),
    /// Continues with the next iteration of the enclosing loop with this label.
    Continue(LabelId),
    /// Applies a table.
    Apply {
        /// The table that is looked up.
        table: TableId,
        /// A bool variable that becomes true on a hit and false on a miss.
        hit: Option<VarId>,
        /// A `bit<32>` variable that becomes the index in the table's list of the action that ran.
        action: Option<VarId>,
    },
    /// Records the drop site, for the decision that drops the packet. The architecture's variables that mark the packet as dropped are
    /// assigned by other statements.
    Drop(DropSiteId),
    /// Parser: `packet.extract(header)`.
    Extract {
        /// The header that is extracted.
        header: HeaderRef,
        /// The number of bits of the header's varbit field (`bit<32>`), if it has one. If the field is too small for them, the statement
        /// rejects with `HeaderTooShort`.
        varbit: Option<Expr>,
    },
    /// Parser: reads bits at the cursor, as many as `dst` has, without moving the cursor.
    Lookahead {
        /// The place that is written.
        dst: Place,
    },
    /// Parser: moves the cursor forward by this number of bits (`bit<32>`).
    Advance(Expr),
    /// Parser: rejects with an error if the condition is false.
    Verify {
        /// The condition, a bool.
        cond: Expr,
        /// The error that `parser_error` receives.
        error: ErrorId,
    },
    /// Deparser: appends the header to the packet if it is valid.
    Emit(HeaderRef),
    /// A call of an extern function or method.
    Call(Call),
}

/// Calls of extern functions and methods.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `counter.count(index)`: adds 1 packet and `packet_length` bytes. It has no effect if the index is out of range.
    Count {
        /// The array of counters.
        counter: CounterId,
        /// The index of the cell.
        index: Expr,
    },
    /// `direct_counter.count()`. In v1model a hit counts even without this call, so only targets that need the call use it.
    DirectCount(DirectCounterId),
    /// `register.read(dst, index)`: reads a cell, or 0 if the index is out of range.
    RegisterRead {
        /// The array of registers.
        register: RegisterId,
        /// The place that receives the value.
        dst: Place,
        /// The index of the cell.
        index: Expr,
    },
    /// `register.write(index, value)`. It has no effect if the index is out of range.
    RegisterWrite {
        /// The array of registers.
        register: RegisterId,
        /// The index of the cell.
        index: Expr,
        /// The value that is written.
        value: Expr,
    },
    /// `direct_register.read()`, in an action of its table: the number of the entry that was hit, or 0 if none was.
    DirectRegisterRead {
        /// The table that runs this action.
        table: TableId,
        /// The place that receives the value.
        dst: Place,
    },
    /// `direct_register.write(value)`, in an action of its table. It has no effect if no entry was hit.
    DirectRegisterWrite {
        /// The table that runs this action.
        table: TableId,
        /// The value that is written.
        value: Expr,
    },
    /// `meter.execute_meter(index, dst)`. The colour is 0 for green, 1 for yellow and 2 for red. It is green if the index is out of range or
    /// no rates are configured.
    Meter {
        /// The array of meters.
        meter: MeterId,
        /// The index of the cell.
        index: Expr,
        /// The place that receives the colour.
        dst: Place,
    },
    /// `direct_meter.read(dst)`: the colour that the last hit in the meter's table gave this packet; green if there was none.
    DirectMeter {
        /// The meter, which belongs to one table.
        meter: MeterId,
        /// The place that receives the colour.
        dst: Place,
    },
    /// `digest(receiver, data)`: a notification of the control plane, which is sent at the end of ingress.
    Digest {
        /// The name of the data's type.
        name: Name,
        /// The names of the values.
        fields: Vec<Name>,
        /// The values that are sent, in the order of their names.
        data: Vec<Expr>,
    },
    /// PNA `add_entry(action, parameters, profile)`, in an action of the table: adds an entry for the key that missed. If the lookup was a hit,
    /// nothing is added.
    AddEntry {
        /// A bool that becomes true if the entry was added. It becomes false if the table is full, if the lookup was a hit, or if another
        /// packet has added an entry with this key since the lookup.
        done: Option<Place>,
        /// The table that runs this action. No other table lists the action, so the table is known before the program runs.
        table: TableId,
        /// The action of the new entry: an index into the table's `actions`.
        action: u32,
        /// The arguments of the action.
        args: Vec<Expr>,
        /// The number of the expiry profile. The control plane sets the time of each profile.
        profile: Expr,
    },
    /// PNA `restart_expire_timer()`, or with a profile `set_entry_expire_time(profile)`: restarts the timer of the entry that was hit. A hit
    /// alone does not restart it, because the program decides which packets keep an entry alive.
    RestartTimer(Option<Expr>),
    /// PNA `allocate_flow_id()`: a number that no other flow has.
    FlowId(Place),
    /// `hash(dst, algorithm, base, data, max)`: `base + H(data) % max`, or `base` if `max` is 0.
    Hash {
        /// The place that receives the result.
        dst: Place,
        /// The hash function.
        algorithm: HashAlgorithm,
        /// The smallest result.
        base: Expr,
        /// The data. The bits of all fields are concatenated, and the last byte is padded with zero bits at its end, as in BMv2:
        /// `{ bit<12> 0x678 }` is hashed as the bytes 67 80.
        data: Vec<Data>,
        /// The number of different results.
        max: Expr,
    },
    /// `InternetChecksum.add` and `subtract`: adds the sum of the data, or its complement, to a sum in one's complement (RFC 1071). Of the two
    /// zeros, the result has the one that [`add_sums`] gives.
    AddToSum {
        /// The place of the sum, a `bit<16>`.
        dst: Place,
        /// The data that is summed. Zero bits pad its last byte, and then its last word.
        data: Vec<Data>,
        /// Whether the complement is added.
        subtract: bool,
    },
    /// `Checksum.update` of PSA and PNA: continues a hash with the data of this call. See [`HashAlgorithm::running`].
    UpdateHash {
        /// The place of what is known of the hash so far, of the type [`HashAlgorithm::running`].
        dst: Place,
        /// The hash function, one that can be continued.
        algorithm: HashAlgorithm,
        /// The data. Together it is a whole number of bytes.
        data: Vec<Data>,
    },
    /// `random(dst, lo, hi)`: a random number from `lo` to `hi`, both included.
    Random {
        /// The place that receives the number.
        dst: Place,
        /// The smallest number.
        lo: Expr,
        /// The largest number.
        hi: Expr,
    },
    /// `verify_checksum` and `verify_checksum_with_payload` of an Internet checksum. Other functions become a `Hash` and a comparison.
    VerifyChecksum {
        /// The number of the statement.
        id: ChecksumId,
        /// Whether the checksum is verified, a bool.
        cond: Expr,
        /// The data that is summed.
        data: Vec<Data>,
        /// The place of the checksum.
        checksum: Place,
        /// Whether the payload is summed after the data.
        payload: bool,
    },
    /// `update_checksum` and `update_checksum_with_payload` of an Internet checksum. Other functions become a `Hash`.
    UpdateChecksum {
        /// The number of the statement.
        id: ChecksumId,
        /// Whether the checksum is written, a bool.
        cond: Expr,
        /// The data that is summed.
        data: Vec<Data>,
        /// The place of the checksum.
        checksum: Place,
        /// Whether the payload is summed after the data.
        payload: bool,
        /// Whether a checksum of 0 is written as all ones (see [`crate::Field::checksum_nonzero`]).
        nonzero: bool,
    },
    /// `log_msg(format, args)`.
    LogMsg {
        /// The text, with `{}` for each argument.
        format: Name,
        /// The values for the placeholders, from left to right.
        args: Vec<Expr>,
    },
    /// `assert` or `assume`. If the condition is false, the program has a bug. The packet is dropped for this reason at once, wherever it is in
    /// the pipeline. (v1model lets targets decide; BMv2 ends the switch.)
    Assert {
        /// The condition, a bool.
        cond: Expr,
        /// The reason for which the packet is dropped.
        site: DropSiteId,
        /// The text of the condition in the P4 source.
        text: String,
    },
}

/// An element of a list of data to hash or sum. It may read a varbit field.
///
/// The front end replaces a header in the list by its fields. A field of an invalid header stays in the list, with the value that reading it
/// gives. P4-16 (section 8.18) leaves that value undefined; in the IR it is the stored value, which is zero until the program writes it.
/// BMv2 omits such fields, so the data after them moves. A program that must give the same result on both must test `isValid()`, for
/// example in the condition of a checksum.
pub type Data = Expr;

/// Hash functions of v1model. Widths and constants are those of BMv2's `calculations.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The functions are named as in v1model.p4.
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

impl HashAlgorithm {
    /// The type of a variable that holds what is known of a hash so far ([`Call::UpdateHash`]); `None` if a hash of this function cannot be
    /// continued. The variable is 0 while there is no data. For a CRC it is the CRC itself; for `Csum16` the sum, which is not complemented,
    /// and in bit 16 whether the number of bytes is odd; for `Identity` the first eight bytes as a number, and from bit 64 on how many of
    /// them there are.
    pub fn running(self) -> Option<Ty> {
        match self {
            HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => Some(Ty::Bit(16)),
            HashAlgorithm::Crc32 | HashAlgorithm::Crc32Custom => Some(Ty::Bit(32)),
            HashAlgorithm::Csum16 => Some(Ty::Bit(17)),
            HashAlgorithm::Identity => Some(Ty::Bit(68)),
            HashAlgorithm::Random | HashAlgorithm::Xor16 => None,
        }
    }
}

/// The sum of two 16-bit words in one's complement: the carry is added at the low end.
pub fn add_sums(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

impl Stmt {
    /// Makes a statement with a location.
    pub fn new(kind: StmtKind, loc: Loc) -> Stmt {
        Stmt { kind, loc }
    }
}
