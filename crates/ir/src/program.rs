//! The parts of a program: storage, parsers, controls, actions, tables and externs, each with its location in the P4 source.

use abi::text::Name;
use abi::{Bits, MatchKind};

use crate::expr::{Expr, Ty};
use crate::pipeline::Pipeline;
use crate::stmt::Block;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident indexes $what:literal;)*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nIndexes [`Program`]'s `", $what, "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $name {
            /// The id as an index into the list.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! {
    /// The number of a scalar variable.
    VarId indexes "vars";
    /// The number of a header instance.
    HeaderId indexes "headers";
    /// The number of a header type.
    HeaderTypeId indexes "header_types";
    /// The number of a header stack.
    StackId indexes "stacks";
    /// The number of a table action.
    ActionId indexes "actions";
    /// The number of a table.
    TableId indexes "tables";
    /// The number of an indexed counter.
    CounterId indexes "counters";
    /// The number of a direct counter.
    DirectCounterId indexes "direct_counters";
    /// The number of a register.
    RegisterId indexes "registers";
    /// The number of a meter, which may be indexed or direct.
    MeterId indexes "meters";
    ProfileId indexes "profiles";
    /// The number of a value set, which a parser reads and the control plane fills.
    ValueSetId indexes "value_sets";
    /// The number of a `mark_to_drop` call site.
    DropSiteId indexes "drop_sites";
    /// The number of an `error` member.
    ErrorId indexes "errors";
    /// The number of a parser state, within its parser.
    StateId indexes "parsers[_].states";
    /// The number of a statement that verifies or updates a checksum. It is unique in the program.
    ChecksumId indexes "checksums";
    /// The number of a stage of the pipeline.
    StageId indexes "pipeline.stages";
    /// The number of a block or loop that a `Break` can leave. It is unique in the program.
    LabelId indexes "labels";
}

/// A location in the P4 source. Lines and columns count from 1. Line 0 marks code that the compiler made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc {
    /// The index of the file in [`Program::sources`].
    pub file: u32,
    /// The line in that file; 0 for code that the compiler made.
    pub line: u32,
    /// The column, in characters.
    pub col: u32,
}

/// The errors that core.p4 declares. Targets refer to them by their index.
pub const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// A source file, which is kept for traces, for comments in generated code, and for errors of later stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The name of the file as it was given, or as an include found it.
    pub name: Name,
    /// The contents of the file.
    text: String,
    /// The offset at which each line begins.
    lines: Vec<usize>,
}

impl Source {
    /// A file with its name and contents.
    pub fn new(name: impl Into<Name>, text: impl Into<String>) -> Source {
        let text = text.into();
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Source { name: name.into(), text, lines }
    }

    /// A line, which counts from 1, without surrounding whitespace.
    fn line(&self, line: u32) -> Option<Name> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.lines.get(index)?;
        let rest = &self.text[start..];
        let text = &rest[..rest.find('\n').unwrap_or(rest.len())];
        // A line may be the whole of a large file, and each of its statements asks for it.
        let end = text.char_indices().nth(Source::LONGEST).map_or(text.len(), |(end, _)| end);
        Some(Name::from(text[..end].trim()))
    }

    /// The most characters of a line that are shown.
    const LONGEST: usize = 400;
}

/// The architecture whose rules apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// The architecture of BMv2's simple_switch.
    #[default]
    V1Model,
    /// The Portable Switch Architecture.
    Psa,
    /// The Portable NIC Architecture.
    Pna,
}

impl StandardMetadata {
    /// Calls `f` for each variable.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut VarId)) {
        let StandardMetadata { packet_length, checksum_error, parser_error } = self;
        [packet_length, checksum_error, parser_error].into_iter().for_each(f);
    }

    /// The variables that a program of any architecture has.
    pub fn vars(&self) -> [VarId; 3] {
        [self.packet_length, self.checksum_error, self.parser_error]
    }
}

/// A whole program: the lists of everything that it declares. Ids are indexes into these lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The base name of the P4 file, without directory and extension.
    pub name: Name,
    /// The architecture that the program is written for; it decides the roles of parsers and controls.
    pub arch: Arch,
    /// The source files. Index 0 is the program itself.
    pub sources: Vec<Source>,
    /// The header types that are used.
    pub header_types: Vec<HeaderType>,
    /// The header instances.
    pub headers: Vec<Header>,
    /// The header stacks. The elements of a stack are consecutive headers.
    pub stacks: Vec<Stack>,
    /// The scalar variables.
    pub vars: Vec<Var>,
    /// The variables of the architecture that statements use without naming them.
    pub standard: StandardMetadata,
    /// The stages of the architecture.
    pub pipeline: Pipeline,
    /// The names of errors by number: first [`CORE_ERRORS`], then those of the program.
    pub errors: Vec<Name>,
    /// The parsers. A v1model program has one.
    pub parsers: Vec<Parser>,
    /// The controls, in the order in which a packet passes them.
    pub controls: Vec<Control>,
    /// The actions of tables. If a table binds directional arguments of an action, the action is specialised for that table.
    pub actions: Vec<Action>,
    /// The tables, each once, although several statements may apply it.
    pub tables: Vec<Table>,
    /// The action profiles and selectors.
    pub profiles: Vec<ActionProfile>,
    /// The indexed counters.
    pub counters: Vec<IndexedCounter>,
    /// The direct counters.
    pub direct_counters: Vec<DirectCounter>,
    /// The register arrays.
    pub registers: Vec<Register>,
    /// The meters, indexed and direct.
    pub meters: Vec<Meter>,
    /// The value sets.
    pub value_sets: Vec<ValueSet>,
    /// The `mark_to_drop` call sites.
    pub drop_sites: Vec<DropSite>,
    /// The number of labels.
    pub labels: u32,
    /// The number of statements that verify or update a checksum.
    pub checksums: u32,
}

/// The layout of a header. The fields follow each other without padding, most significant bit first.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderType {
    /// The P4 name, such as `ipv4_t`.
    pub name: Name,
    /// The fields in wire order.
    pub fields: Vec<Field>,
}

/// A field of a header type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The P4 name.
    pub name: Name,
    /// The type. At most one field of a header is a `varbit`.
    pub ty: Ty,
    /// The offset in bits from the start of the header. For a field after a varbit field, the varbit field counts as empty.
    pub offset: u32,
    /// `@checksum_nonzero`: if a checksum of 0 is computed for this field, it is written as all ones (RFC 768, RFC 8200 section 8.1).
    pub checksum_nonzero: bool,
}

/// A header instance, with storage and validity of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The P4 path, such as `hdr.ipv4` or `hdr.vlan[1]`.
    pub name: Name,
    /// The type, which determines the layout.
    pub ty: HeaderTypeId,
}

/// A header stack: consecutive headers of one type, with a next index.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The P4 path.
    pub name: Name,
    /// The first element. The other elements follow it.
    pub first: HeaderId,
    /// The number of elements.
    pub size: u32,
    /// The stack whose next index this stack uses. It is the stack itself, except where a stack of header unions was split into several
    /// stacks, which share one next index.
    pub index: StackId,
}

/// A scalar variable: a field of metadata, a local variable, a temporary, or a parameter of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// The P4 path, such as `meta.port`. It is unique in the program; local variables get suffixes.
    pub name: Name,
    /// The type, which is never varbit.
    pub ty: Ty,
    /// The kind of variable, which determines its lifetime.
    pub kind: VarKind,
    /// The location of the declaration.
    pub loc: Loc,
}

/// The kinds of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// A field of user metadata or standard metadata. It lives as long as the packet.
    Metadata,
    /// A local variable or temporary of a parser or control. Its value is not used after that parser or control.
    Local,
    /// A parameter of a table action. The table sets it from the entry. The action may assign it.
    Param(ActionId),
}

/// The variables of the architecture that statements and parsers use without naming them. In v1model they are fields of
/// `standard_metadata_t`. [`Program::pipeline`] names all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandardMetadata {
    /// The number of bytes that counters and meters count for a packet.
    pub packet_length: VarId,
    /// The variable that becomes 1 when a verified checksum is wrong.
    pub checksum_error: VarId,
    /// The variable that receives the error of a parser.
    pub parser_error: VarId,
}

/// The role of a parser or control in the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The parser; in PSA the ingress parser.
    Parser,
    /// The control that declares the checksums that the packet should have on arrival.
    VerifyChecksum,
    /// The control before the traffic manager; in PNA the main control.
    Ingress,
    /// The control after the traffic manager.
    Egress,
    /// The control that declares the checksums to write.
    ComputeChecksum,
    /// The deparser, which writes the packet that leaves.
    Deparser,
    /// PSA: the deparser between ingress and egress.
    IngressDeparser,
    /// PSA: the parser between ingress and egress.
    EgressParser,
    /// PNA: the control between the parser and the main control, which is [`Role::Ingress`].
    PreControl,
}

/// A parser, which is a graph of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// The P4 name.
    pub name: Name,
    /// The role of the parser.
    pub role: Role,
    /// The statements that run before the first state: initialisers of local variables.
    pub prologue: Block,
    /// The states. The names of states from inlined sub-parsers have a prefix.
    pub states: Vec<State>,
    /// The state where parsing begins.
    pub start: StateId,
}

/// A parser state: statements, followed by a transition.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The P4 name.
    pub name: Name,
    /// The location of the state.
    pub loc: Loc,
    /// The statements of the state.
    pub body: Block,
    /// The transition at the end of the state.
    pub next: Transition,
    /// The statements that run if the packet is rejected in this state. They copy out the parameters of the sub-parsers that the rejection
    /// leaves.
    pub rejected: Block,
}

/// The transition of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// Parsing always continues at this target.
    Goto(Target),
    /// Parsing continues at the target of the first case that matches. If none matches, the packet is rejected with `NoMatch`.
    Select(Select),
}

/// A `select` expression, which chooses the next state by the values of its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The location of the expression.
    pub loc: Loc,
    /// The values that are selected by.
    pub keys: Vec<Expr>,
    /// The cases. The first one that matches wins.
    pub cases: Vec<SelectCase>,
}

/// A case of a `select`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// The location of the case.
    pub loc: Loc,
    /// A set for each key; empty if the case is a value set.
    pub sets: Vec<KeySet>,
    /// If set, the keys together must match a member of this value set.
    pub value_set: Option<ValueSetId>,
    /// The target if the case matches.
    pub next: Target,
}

/// A set of values that a key may have.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySet {
    /// `_` or `default`: all values.
    Any,
    /// The single value that is equal.
    Value(Bits),
    /// `value &&& mask`: the values that are equal under the mask.
    Mask(Bits, Bits),
    /// `lo .. hi`: the values from `lo` to `hi`, both included.
    Range {
        /// The smallest value.
        lo: Bits,
        /// The largest value.
        hi: Bits,
        /// Whether values are compared as `int<W>`.
        signed: bool,
    },
}

impl KeySet {
    /// Whether the set contains a key.
    pub fn contains(&self, key: &Bits) -> bool {
        match self {
            KeySet::Any => true,
            KeySet::Value(v) => v == key,
            KeySet::Mask(v, m) => key.and(m) == v.and(m),
            KeySet::Range { lo, hi, signed: true } => {
                lo.cmp_signed(key).is_le() && key.cmp_signed(hi).is_le()
            }
            KeySet::Range { lo, hi, .. } => lo.cmp_unsigned(key).is_le() && key.cmp_unsigned(hi).is_le(),
        }
    }
}

/// The target of a transition: a state, or an end of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Parsing continues at this state.
    State(StateId),
    /// Parsing ends, and the packet is accepted.
    Accept,
    /// Parsing ends, and the packet is rejected. `parser_error` is the reason.
    Reject,
}

/// A control, which a packet passes between the parser and the deparser; or the deparser itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// The P4 name.
    pub name: Name,
    /// The role of the control.
    pub role: Role,
    /// The location of the control.
    pub loc: Loc,
    /// The statements of the control.
    pub body: Block,
}

/// An action that a table can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the action.
    pub loc: Loc,
    /// The parameters that the control plane sets.
    pub params: Vec<Param>,
    /// The statements of the action.
    pub body: Block,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The name in the P4 source, without a suffix.
    pub name: Name,
    /// The variable that receives the value.
    pub var: VarId,
}

/// A match-action table: its key, its actions, and the entries that the program declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the table.
    pub loc: Loc,
    /// The fields of the key.
    pub keys: Vec<TableKey>,
    /// The actions, in the order of the P4 list. A default action that is not in the list comes last.
    pub actions: Vec<TableAction>,
    /// The default action, which runs on a miss: an index into `actions`, and the arguments. It is `NoAction` if the program declares none.
    pub default: (u32, Vec<Bits>),
    /// Whether the control plane cannot change the default action.
    pub const_default: bool,
    /// The largest number of entries.
    pub size: u64,
    /// Whether the program declares the size. Otherwise it is v1model's default of 1024.
    pub size_declared: bool,
    /// The entries that the program declares. If priorities decide, the best is first.
    pub entries: Vec<TableEntry>,
    /// Whether the control plane cannot change the entries.
    pub const_entries: bool,
    /// The direct counter, which has a cell for each entry.
    pub direct_counter: Option<DirectCounterId>,
    /// The direct meter, which has a cell for each entry.
    pub direct_meter: Option<MeterId>,
    /// The number that each entry has beside its action data, in a table that learns.
    pub direct_register: Option<DirectRegister>,
    /// The action profile through which the entries refer to actions.
    pub profile: Option<ProfileId>,
    /// Whether most packets look the table up with what their headers say, or with what earlier lookups of this kind have found: the property
    /// `strait_early_lookup`. A target may look such a table up for many packets at once. It is a hint, which changes no result.
    pub early_lookup: bool,
    /// The fields that the selector hashes to choose a member of a group.
    pub selector: Vec<Expr>,
    /// PNA: whether the default action may add entries. See [`Table::learns`].
    pub add_on_miss: bool,
    /// PNA: whether entries that packets added are removed when their time has passed.
    pub ages: bool,
    /// Whether the control plane may ask for notifications about entries that no packet hits.
    pub notifies_idle: bool,
}

impl Table {
    /// Whether packets may add entries. All keys of such a table are exact (PNA section 7), because the entry gets the key that missed. The
    /// entries are not const, and they name actions, not members of an action profile.
    pub fn learns(&self) -> bool {
        let exact = self.keys.iter().all(|key| key.kind == MatchKind::Exact);
        self.add_on_miss && exact && !self.keys.is_empty() && !self.const_entries && self.profile.is_none()
    }
}

/// The most bits of a direct register.
pub const MAX_DIRECT_REGISTER: u32 = 64;

/// A number for each entry of a table that learns. It is 0 for a new entry, and for one whose action was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectRegister {
    /// The control-plane name.
    pub name: Name,
    /// The type of a cell, of at most [`MAX_DIRECT_REGISTER`] bits.
    pub ty: Ty,
}

/// An action profile or action selector.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionProfile {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the profile.
    pub loc: Loc,
    /// The largest number of members.
    pub size: u64,
    /// For a selector: its hash function, and the number of bits of the hash that it uses.
    pub selector: Option<(crate::stmt::HashAlgorithm, u32)>,
}

/// A field of a table's key.
#[derive(Clone, Debug, PartialEq)]
pub struct TableKey {
    /// The control-plane name.
    pub name: Name,
    /// The value that is looked up.
    pub expr: Expr,
    /// The match kind.
    pub kind: MatchKind,
    /// The location of the field.
    pub loc: Loc,
}

/// An action in a table's list.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAction {
    /// The action that the table lists.
    pub action: ActionId,
    /// `@defaultonly`: whether only the default action may be this one.
    pub default_only: bool,
    /// `@tableonly`: whether only entries may have this action.
    pub table_only: bool,
}

/// An entry that the program declares.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    /// The location of the entry.
    pub loc: Loc,
    /// The match value of each key field.
    pub matches: Vec<abi::MatchValue>,
    /// The priority. The largest one wins, as in [`abi::Entry`]. Const entries without priorities get them from their order.
    pub priority: i32,
    /// The index of the action in the table's `actions`.
    pub action: u32,
    /// The arguments of the action.
    pub args: Vec<Bits>,
}

/// The quantities that a counter counts. Targets may count both in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The counter counts packets.
    Packets,
    /// The counter counts bytes.
    Bytes,
    /// The counter counts packets and bytes.
    Both,
}

/// An indexed counter, which is an array of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedCounter {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the counter.
    pub loc: Loc,
    /// The number of cells.
    pub size: u64,
    /// The quantities that it counts.
    pub kind: CounterKind,
}

/// A counter with a cell for each entry of a table, and one for its default action.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectCounter {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the counter.
    pub loc: Loc,
    /// The quantities that it counts.
    pub kind: CounterKind,
}

/// A register, which is an array of cells. Reads out of range give 0, and writes out of range have no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the register.
    pub loc: Loc,
    /// The number of cells.
    pub size: u64,
    /// The type of a cell.
    pub ty: Ty,
    /// The value of each cell until it is written.
    pub initial: Bits,
}

/// A meter with two rates and three colours (RFC 2698).
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the meter.
    pub loc: Loc,
    /// The number of cells. `None` for a direct meter, which has a cell for each entry of its table.
    pub size: Option<u64>,
    /// Whether it measures bytes instead of packets.
    pub bytes: bool,
}

/// A `value_set`: a set of values that the control plane fills (P4-16 section 12.14).
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// The full control-plane name.
    pub name: Name,
    /// The location of the value set.
    pub loc: Loc,
    /// The largest number of members.
    pub size: u64,
    /// The fields of a member.
    pub keys: Vec<ValueSetKey>,
}

/// A field of a value set's members.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSetKey {
    /// The field's name; empty if members are plain values.
    pub name: Name,
    /// The width in bits.
    pub width: u32,
    /// The match kind, from `@match`; exact by default.
    pub kind: MatchKind,
}

/// A place in the program that drops packets.
#[derive(Clone, Debug, PartialEq)]
pub struct DropSite {
    /// The full name of the action, or of the control if it calls `mark_to_drop` directly. ` line N` is appended if two sites would have
    /// the same name.
    pub name: Name,
    /// The location of the call.
    pub loc: Loc,
}

impl Program {
    /// The variable with this id.
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }

    /// The header with this id.
    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[id.index()]
    }

    /// The type of the header with this id.
    pub fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.header_types[self.header(id).ty.index()]
    }

    /// The control with this role, if the program has one.
    pub fn control(&self, role: Role) -> Option<&Control> {
        self.controls.iter().find(|c| c.role == role)
    }

    /// The location as `file:line` for messages; `None` for code that the compiler made.
    pub fn place(&self, loc: Loc) -> Option<String> {
        let source = self.sources.get(loc.file as usize)?;
        (loc.line > 0).then(|| format!("{}:{}", source.name.shown(), loc.line))
    }

    /// The text of a source line without surrounding whitespace, for comments in generated code and for traces.
    pub fn line(&self, loc: Loc) -> Option<Name> {
        self.sources.get(loc.file as usize)?.line(loc.line)
    }
}

impl Field {
    /// The size in bits on the wire, where a varbit field counts as empty.
    pub fn min_bits(&self) -> u32 {
        if self.ty.is_varbit() { 0 } else { self.ty.width() }
    }
}

impl HeaderType {
    /// The size in bits on the wire, where a varbit field counts as empty.
    pub fn min_bits(&self) -> u32 {
        self.fields.iter().map(Field::min_bits).sum()
    }

    /// The index of the varbit field, if there is one.
    pub fn varbit(&self) -> Option<usize> {
        self.fields.iter().position(|f| f.ty.is_varbit())
    }
}
