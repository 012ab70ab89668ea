//! A whole program: storage, parsers, controls, actions, tables, externs, and where each came from.

use abi::{Bits, MatchKind};

use crate::expr::{Expr, Ty};
use crate::stmt::Block;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident indexes $what:literal;)*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nIndexes [`Program`]'s `", $what, "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! {
    /// A scalar variable.
    VarId indexes "vars";
    /// A header instance.
    HeaderId indexes "headers";
    /// A header's type.
    HeaderTypeId indexes "header_types";
    /// A header stack.
    StackId indexes "stacks";
    /// A table action.
    ActionId indexes "actions";
    /// A table.
    TableId indexes "tables";
    /// An indexed counter.
    CounterId indexes "counters";
    /// A direct counter.
    DirectCounterId indexes "direct_counters";
    /// A register array.
    RegisterId indexes "registers";
    /// A meter, indexed or direct.
    MeterId indexes "meters";
    ProfileId indexes "profiles";
    /// A set of values that a parser looks at and the control plane fills.
    ValueSetId indexes "value_sets";
    /// A `mark_to_drop` call site.
    DropSiteId indexes "drop_sites";
    /// An `error` member.
    ErrorId indexes "errors";
    /// A parser state, within its parser.
    StateId indexes "parsers[_].states";
    /// A block or loop that a `Break` may leave; unique in the program.
    LabelId indexes "labels";
}

/// A place in the P4 source. Line and column count from 1; line 0 means made by the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loc {
    /// Indexes [`Program::sources`].
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column in characters.
    pub col: u32,
}

/// The errors that core.p4 declares, whose numbers the targets know.
pub const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// A source file, kept for traces, comments in generated code and errors of later stages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// Name as given or as found by an include.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Which architecture's rules hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arch {
    /// BMv2's simple_switch.
    #[default]
    V1Model,
    /// The Portable Switch Architecture.
    Psa,
    /// The Portable NIC Architecture.
    Pna,
}

/// PSA's metadata, each field a variable; and what the deparsers hand to the parsers.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The fields are named and typed as in psa.p4.
pub struct PsaMetadata {
    /// `ingress_port` and `packet_path` of the ingress parser.
    pub ingress_parser: [VarId; 2],
    pub ingress_input: PsaIngressInput,
    pub ingress_output: PsaIngressOutput,
    /// `egress_port` and `packet_path` of the egress parser.
    pub egress_parser: [VarId; 2],
    pub egress_input: PsaEgressInput,
    pub egress_output: PsaEgressOutput,
    /// `egress_port` of the egress deparser.
    pub egress_deparser: VarId,
    pub resubmit: Vec<Passed>,
    pub recirculate: Vec<Passed>,
    pub normal: Vec<Passed>,
    pub clone_i2e: Vec<Passed>,
    pub clone_e2e: Vec<Passed>,
}

/// PNA's metadata, each field a variable. A direction is 0 from the network to the host, 1 from the host to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The fields are named and typed as in pna.p4.
pub struct PnaMetadata {
    /// `direction`, `pass`, `loopedback`, `input_port` of the parser, the pre control and the main control.
    pub parser: [VarId; 4],
    pub pre: [VarId; 4],
    pub main: [VarId; 4],
    /// `parser_error` of the pre control and the main control.
    pub errors: [VarId; 2],
    pub timestamp: VarId,
}

/// What a deparser writes and a parser reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passed {
    /// A scalar.
    Var {
        /// Of the deparser.
        from: VarId,
        /// Of the parser.
        to: VarId,
    },
    /// A header.
    Header {
        /// Of the deparser.
        from: HeaderId,
        /// Of the parser.
        to: HeaderId,
    },
}

impl PsaMetadata {
    /// Calls `f` for each variable that the architecture reads or writes.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut VarId)) {
        self.ingress_parser.iter_mut().chain(&mut self.egress_parser).for_each(&mut *f);
        let PsaIngressInput { ingress_port, packet_path, ingress_timestamp, parser_error } =
            &mut self.ingress_input;
        [ingress_port, packet_path, ingress_timestamp, parser_error].into_iter().for_each(&mut *f);
        let o = &mut self.ingress_output;
        [&mut o.class_of_service, &mut o.clone, &mut o.clone_session_id, &mut o.drop]
            .into_iter()
            .for_each(&mut *f);
        [&mut o.resubmit, &mut o.multicast_group, &mut o.egress_port].into_iter().for_each(&mut *f);
        let i = &mut self.egress_input;
        [&mut i.class_of_service, &mut i.egress_port, &mut i.packet_path].into_iter().for_each(&mut *f);
        [&mut i.instance, &mut i.egress_timestamp, &mut i.parser_error].into_iter().for_each(&mut *f);
        let PsaEgressOutput { clone, clone_session_id, drop } = &mut self.egress_output;
        [clone, clone_session_id, drop, &mut self.egress_deparser].into_iter().for_each(f);
    }

    /// All variables that the architecture reads or writes.
    pub fn vars(&self) -> Vec<VarId> {
        let mut all = Vec::new();
        self.clone().each_mut(&mut |v| all.push(*v));
        all
    }

    /// All that a deparser hands to a parser.
    pub fn passed(&self) -> impl Iterator<Item = &Passed> {
        let lists = [&self.resubmit, &self.recirculate, &self.normal, &self.clone_i2e, &self.clone_e2e];
        lists.into_iter().flatten()
    }

    /// All that a deparser hands to a parser, to be changed.
    pub fn passed_mut(&mut self) -> impl Iterator<Item = &mut Passed> {
        let PsaMetadata { resubmit, recirculate, normal, clone_i2e, clone_e2e, .. } = self;
        [resubmit, recirculate, normal, clone_i2e, clone_e2e].into_iter().flatten()
    }
}

impl PnaMetadata {
    /// Calls `f` for each variable that the architecture reads or writes.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut VarId)) {
        let PnaMetadata { parser, pre, main, errors, timestamp } = self;
        parser.iter_mut().chain(pre).chain(main).chain(errors).chain([timestamp]).for_each(f);
    }

    /// All variables that the architecture reads or writes.
    pub fn vars(&self) -> Vec<VarId> {
        let mut all = Vec::new();
        self.clone().each_mut(&mut |v| all.push(*v));
        all
    }
}

impl StandardMetadata {
    /// Each field by its name; `None` where one is not there.
    pub fn from_names(mut find: impl FnMut(&str) -> Option<VarId>) -> Option<StandardMetadata> {
        Some(StandardMetadata {
            ingress_port: find("ingress_port")?,
            egress_spec: find("egress_spec")?,
            egress_port: find("egress_port")?,
            instance_type: find("instance_type")?,
            packet_length: find("packet_length")?,
            enq_timestamp: find("enq_timestamp")?,
            enq_qdepth: find("enq_qdepth")?,
            deq_timedelta: find("deq_timedelta")?,
            deq_qdepth: find("deq_qdepth")?,
            ingress_global_timestamp: find("ingress_global_timestamp")?,
            egress_global_timestamp: find("egress_global_timestamp")?,
            mcast_grp: find("mcast_grp")?,
            egress_rid: find("egress_rid")?,
            checksum_error: find("checksum_error")?,
            parser_error: find("parser_error")?,
            priority: find("priority")?,
        })
    }

    /// Calls `f` for each variable that the architecture reads or writes.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut VarId)) {
        let StandardMetadata {
            ingress_port,
            egress_spec,
            egress_port,
            instance_type,
            packet_length,
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth,
            ingress_global_timestamp,
            egress_global_timestamp,
            mcast_grp,
            egress_rid,
            checksum_error,
            parser_error,
            priority,
        } = self;
        [ingress_port, egress_spec, egress_port, instance_type, packet_length].into_iter().for_each(&mut *f);
        [enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, ingress_global_timestamp]
            .into_iter()
            .for_each(&mut *f);
        [egress_global_timestamp, mcast_grp, egress_rid, checksum_error].into_iter().for_each(&mut *f);
        [parser_error, priority].into_iter().for_each(f);
    }

    /// All variables that the architecture reads or writes.
    pub fn vars(&self) -> Vec<VarId> {
        let mut all = Vec::new();
        self.clone().each_mut(&mut |v| all.push(*v));
        all
    }
}

/// `psa_ingress_input_metadata_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct PsaIngressInput {
    pub ingress_port: VarId,
    pub packet_path: VarId,
    pub ingress_timestamp: VarId,
    pub parser_error: VarId,
}

/// `psa_ingress_output_metadata_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct PsaIngressOutput {
    pub class_of_service: VarId,
    pub clone: VarId,
    pub clone_session_id: VarId,
    pub drop: VarId,
    pub resubmit: VarId,
    pub multicast_group: VarId,
    pub egress_port: VarId,
}

/// `psa_egress_input_metadata_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct PsaEgressInput {
    pub class_of_service: VarId,
    pub egress_port: VarId,
    pub packet_path: VarId,
    pub instance: VarId,
    pub egress_timestamp: VarId,
    pub parser_error: VarId,
}

/// `psa_egress_output_metadata_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct PsaEgressOutput {
    pub clone: VarId,
    pub clone_session_id: VarId,
    pub drop: VarId,
}

/// The whole program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Base name of the P4 file, without directory and ending.
    pub name: String,
    /// Architecture.
    pub arch: Arch,
    /// Source files; index 0 is the program itself.
    pub sources: Vec<Source>,
    /// Header types in use.
    pub header_types: Vec<HeaderType>,
    /// Header instances.
    pub headers: Vec<Header>,
    /// Header stacks; their elements are consecutive headers.
    pub stacks: Vec<Stack>,
    /// Scalar variables.
    pub vars: Vec<Var>,
    /// What the pipeline itself knows of a packet, among them; for PSA they are no names of the program's.
    pub standard: StandardMetadata,
    /// PSA's metadata, of a program for PSA.
    pub psa: Option<Box<PsaMetadata>>,
    /// PNA's metadata, of a program for PNA.
    pub pna: Option<Box<PnaMetadata>>,
    /// Names of errors by number: [`CORE_ERRORS`], then those of the program.
    pub errors: Vec<String>,
    /// Parsers (v1model has one).
    pub parsers: Vec<Parser>,
    /// Controls, in pipeline order.
    pub controls: Vec<Control>,
    /// Actions that tables name. An action whose table binds directional arguments is specialised for that table.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Action profiles and selectors.
    pub profiles: Vec<ActionProfile>,
    /// Indexed counters.
    pub counters: Vec<IndexedCounter>,
    /// Direct counters.
    pub direct_counters: Vec<DirectCounter>,
    /// Registers.
    pub registers: Vec<Register>,
    /// Meters.
    pub meters: Vec<Meter>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// `mark_to_drop` call sites.
    pub drop_sites: Vec<DropSite>,
    /// How many labels there are.
    pub labels: u32,
}

/// A header's layout. Fields follow each other without padding, most significant bit first.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderType {
    /// P4 name, such as `ipv4_t`.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<Field>,
}

/// A field of a header type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// P4 name.
    pub name: String,
    /// Its type; at most one field of a header is `varbit`.
    pub ty: Ty,
    /// Bits from the start of the header (for what follows a varbit field: with that field empty).
    pub offset: u32,
    /// `@checksum_nonzero`: a sum computed into this field as 0 is written as all ones (RFC 768, RFC 8200 section 8.1).
    pub checksum_nonzero: bool,
}

/// A header instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// P4 path, such as `hdr.ipv4` or `hdr.vlan[1]`.
    pub name: String,
    /// Layout.
    pub ty: HeaderTypeId,
}

/// A header stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// P4 path.
    pub name: String,
    /// First element; the others follow.
    pub first: HeaderId,
    /// Number of elements.
    pub size: u32,
    /// The stack whose next index counts for this one: itself, or another where a stack of header unions became
    /// stacks side by side.
    pub index: StackId,
}

/// A scalar variable: a metadata field, a local, a temporary, an action's parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// P4 path, such as `meta.port`; unique within the program (suffixes are added to locals).
    pub name: String,
    /// Type, never varbit.
    pub ty: Ty,
    /// What it is.
    pub kind: VarKind,
    /// Where it was declared.
    pub loc: Loc,
}

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// A field of user metadata or of standard metadata: lives as long as the packet.
    Metadata,
    /// A local of a parser or control, or a temporary: dead after the parser or control that declares it.
    Local,
    /// A parameter of a table action, filled from the entry; read-only in practice but assignable.
    Param(ActionId),
}

/// v1model's `standard_metadata_t`, each field a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are named and typed as in v1model.p4, which documents them.
pub struct StandardMetadata {
    pub ingress_port: VarId,
    pub egress_spec: VarId,
    pub egress_port: VarId,
    pub instance_type: VarId,
    pub packet_length: VarId,
    pub enq_timestamp: VarId,
    pub enq_qdepth: VarId,
    pub deq_timedelta: VarId,
    pub deq_qdepth: VarId,
    pub ingress_global_timestamp: VarId,
    pub egress_global_timestamp: VarId,
    pub mcast_grp: VarId,
    pub egress_rid: VarId,
    pub checksum_error: VarId,
    pub parser_error: VarId,
    pub priority: VarId,
}

/// The place of a parser or control in the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// v1model's parser.
    Parser,
    /// Declares what the packet's sums should be.
    VerifyChecksum,
    /// Before the traffic manager.
    Ingress,
    /// After it.
    Egress,
    /// Declares the sums to write.
    ComputeChecksum,
    /// Puts the packet together.
    Deparser,
    /// PSA: puts the packet together between ingress and egress.
    IngressDeparser,
    /// PSA: takes it apart again.
    EgressParser,
    /// PNA: between the parser and the main control, which is [`Role::Ingress`].
    PreControl,
}

/// A parser: a graph of states.
#[derive(Clone, Debug, PartialEq)]
pub struct Parser {
    /// P4 name.
    pub name: String,
    /// Its place.
    pub role: Role,
    /// Run before the first state (initialisers of locals).
    pub prologue: Block,
    /// States; names of inlined sub-parsers' states are prefixed.
    pub states: Vec<State>,
    /// Where parsing begins.
    pub start: StateId,
}

/// A parser state.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// P4 name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// What it does.
    pub body: Block,
    /// Where it goes.
    pub next: Transition,
    /// Statements that run when parsing is rejected in this state: copies out of the sub-parsers that are left.
    pub rejected: Block,
}

/// Where a state goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// Always there.
    Goto(Target),
    /// Where the first matching case says; none: reject with `NoMatch`.
    Select(Select),
}

/// A `select` expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Where.
    pub loc: Loc,
    /// The selected values.
    pub keys: Vec<Expr>,
    /// Cases in order; the first that matches wins.
    pub cases: Vec<SelectCase>,
}

/// A case of a `select`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// Where.
    pub loc: Loc,
    /// One set a key; none where a value set stands for the whole case.
    pub sets: Vec<KeySet>,
    /// All keys together must be a member of this.
    pub value_set: Option<ValueSetId>,
    /// Where to go.
    pub next: Target,
}

/// What a key may be.
#[derive(Clone, Debug, PartialEq)]
pub enum KeySet {
    /// `_` or `default`.
    Any,
    /// Equal.
    Value(Bits),
    /// `value &&& mask`.
    Mask(Bits, Bits),
    /// `lo .. hi`, both included; `signed` when the key is an `int<W>`.
    Range {
        /// Lowest.
        lo: Bits,
        /// Highest.
        hi: Bits,
        /// Compared as `int<W>`.
        signed: bool,
    },
}

impl KeySet {
    /// Whether a key is in it.
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

/// A state, or an end of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On to a state.
    State(StateId),
    /// Done.
    Accept,
    /// Done, and `parser_error` says why.
    Reject,
}

/// A control.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// P4 name.
    pub name: String,
    /// Its place.
    pub role: Role,
    /// Where.
    pub loc: Loc,
    /// What it does.
    pub body: Block,
}

/// A table action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Parameters that the control plane fills.
    pub params: Vec<Param>,
    /// What it does.
    pub body: Block,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name in the P4 source, without any suffix.
    pub name: String,
    /// Where its value lands.
    pub var: VarId,
}

/// A match-action table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Key fields.
    pub keys: Vec<TableKey>,
    /// Actions, in the order of the P4 list (a default action that is not listed stands last).
    pub actions: Vec<TableAction>,
    /// What happens on a miss: an index into `actions` and its arguments. Without one in the source: `NoAction`.
    pub default: (u32, Vec<Bits>),
    /// It cannot be changed.
    pub const_default: bool,
    /// Most entries.
    pub size: u64,
    /// Whether the program says so, or it is v1model's default of 1024.
    pub size_declared: bool,
    /// Entries that the program declares, best first where priorities decide.
    pub entries: Vec<TableEntry>,
    /// They cannot be changed.
    pub const_entries: bool,
    /// Counted for each entry.
    pub direct_counter: Option<DirectCounterId>,
    /// Metered for each entry.
    pub direct_meter: Option<MeterId>,
    /// Through which its entries lead to actions.
    pub profile: Option<ProfileId>,
    /// What its selector hashes to choose a member of a group.
    pub selector: Vec<Expr>,
    /// PNA: its default action may add entries.
    pub add_on_miss: bool,
    /// PNA: entries that were added by packets are removed when their time is over.
    pub ages: bool,
    /// The control plane may ask to be told of entries that no packet hits.
    pub notifies_idle: bool,
}

/// An action profile, or a selector.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionProfile {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Most members.
    pub size: u64,
    /// A selector's hash function, and how many bits of its result count.
    pub selector: Option<(crate::stmt::HashAlgorithm, u32)>,
}

/// A key field.
#[derive(Clone, Debug, PartialEq)]
pub struct TableKey {
    /// Control-plane name.
    pub name: String,
    /// The value looked up.
    pub expr: Expr,
    /// How.
    pub kind: MatchKind,
    /// Where.
    pub loc: Loc,
}

/// An action as a table lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAction {
    /// Which.
    pub action: ActionId,
    /// `@defaultonly`.
    pub default_only: bool,
    /// `@tableonly`.
    pub table_only: bool,
}

/// An entry that the program declares.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEntry {
    /// Where.
    pub loc: Loc,
    /// One a key.
    pub matches: Vec<abi::MatchValue>,
    /// Larger wins, as in [`abi::Entry`]; const entries without priorities get theirs from their order.
    pub priority: i32,
    /// Index into the table's `actions`.
    pub action: u32,
    /// Arguments.
    pub args: Vec<Bits>,
}

/// What a counter counts; targets may keep both in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// An indexed counter.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexedCounter {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Cells.
    pub size: u64,
    /// What.
    pub kind: CounterKind,
}

/// A counter for each entry of one table (and its default action).
#[derive(Clone, Debug, PartialEq)]
pub struct DirectCounter {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// What.
    pub kind: CounterKind,
}

/// A register array; all cells start at zero. Reads out of range give 0, writes out of range do nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Cells.
    pub size: u64,
    /// Type of a cell.
    pub ty: Ty,
    /// What a cell holds until it is written.
    pub initial: Bits,
}

/// Meters of two rates and three colours (RFC 2698).
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Cells; `None`: one for each entry of a table.
    pub size: Option<u64>,
    /// Whether it measures bytes, or packets.
    pub bytes: bool,
}

/// A set of values that the control plane fills: `value_set` (section 12.14).
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// Full control-plane name.
    pub name: String,
    /// Where.
    pub loc: Loc,
    /// Most members.
    pub size: u64,
    /// What each member says: name, width and match kind (`@match`, else exact) of each part.
    pub keys: Vec<ValueSetKey>,
}

/// A part of a value set's members.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSetKey {
    /// Field name, empty where members are plain values.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// How.
    pub kind: MatchKind,
}

/// A place in the program that drops packets.
#[derive(Clone, Debug, PartialEq)]
pub struct DropSite {
    /// Full name of the action, or of the control when it is called there directly; ` line N` is added where one
    /// name would stand for two sites.
    pub name: String,
    /// Where.
    pub loc: Loc,
}

impl Program {
    /// Variable by id.
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }

    /// Header by id.
    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[id.index()]
    }

    /// Type of a header instance.
    pub fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.header_types[self.header(id).ty.index()]
    }

    /// The control of that role, if the program has one.
    pub fn control(&self, role: Role) -> Option<&Control> {
        self.controls.iter().find(|c| c.role == role)
    }

    /// `file:line` for messages, or `None` for what the compiler made.
    pub fn place(&self, loc: Loc) -> Option<String> {
        let source = self.sources.get(loc.file as usize)?;
        (loc.line > 0).then(|| format!("{}:{}", source.name, loc.line))
    }

    /// The text of a source line, trimmed, for comments in generated code and traces.
    pub fn line(&self, loc: Loc) -> Option<&str> {
        let source = self.sources.get(loc.file as usize)?;
        source.text.lines().nth((loc.line as usize).checked_sub(1)?).map(str::trim)
    }
}

impl HeaderType {
    /// Bits on the wire, a varbit field counted as empty.
    pub fn min_bits(&self) -> u32 {
        self.fields.iter().map(|f| if f.ty.is_varbit() { 0 } else { f.ty.width() }).sum()
    }

    /// The varbit field, if there is one.
    pub fn varbit(&self) -> Option<usize> {
        self.fields.iter().position(|f| f.ty.is_varbit())
    }
}
