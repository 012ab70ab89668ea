//! The rules for well-formed programs, each with a description of its violation.

use std::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// A rule of the IR. Its text describes a program that violates it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // The texts say it.
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// All rules, in the order of their declarations.
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];

            /// The description of a violation.
            pub fn text(self) -> &'static str {
                match self { $(Rule::$name => $text,)* }
            }
        }
    };
}

rules! {
    // Storage.
    OneVarbit: "a header type has two varbit fields",
    WholeBytes: "a header is not a whole number of bytes",
    KnownHeaderType: "a header is of an unknown type",
    StackInHeaders: "a stack reaches beyond the headers, or has no element",
    StackOfOneType: "the elements of a stack are of different types",
    KnownStackIndex: "a stack counts by the next index of an unknown stack",
    ScalarVariable: "a variable is a varbit",
    KnownMetadata: "the architecture's metadata names an unknown variable or header",
    // Expressions.
    KnownPlace: "a place does not exist",
    PlaceType: "a place is read as a value of another type",
    KnownHeader: "a header or stack does not exist",
    ConstantWidth: "a constant has another width than its type",
    OperandTypes: "the operands of an operator do not fit it or its result",
    CastTypes: "a cast between types that have none",
    SliceBounds: "a slice reaches beyond its operand, or is of another width",
    ConcatWidth: "a concatenation is of another width than its operands together",
    BoolType: "a value that says yes or no is not a bool",
    IndexType: "an index is not a `bit`",
    ParserReference: "`next` or `last` of a stack outside of a parser",
    // Statements.
    AssignTypes: "an assignment between different types",
    CopyTypes: "a copy between headers or stacks of different types",
    SwitchLabels: "the labels of a switch are not distinct, or are of another width than its value",
    FreshLabel: "a label is used by two blocks, or is not counted",
    EnclosingLabel: "a break or continue names no enclosing block or loop",
    KnownTable: "an unknown table is applied",
    ApplyResults: "the results of an application are not a bool and a `bit<32>`",
    NoApplyInAction: "an action applies a table",
    KnownDropSite: "an unknown drop site",
    VarbitLength: "an extraction has a varbit length and its header no varbit field, or the other way round",
    BitCount: "a number of bits or bytes is not a `bit<32>`",
    LookaheadType: "a lookahead of a varbit",
    KnownError: "an unknown member of `error`",
    RightBlock: "a statement is in a parser, control or deparser where it has no meaning",
    // Externs.
    KnownExtern: "a call of a counter, meter or register that does not exist, or of the other kind",
    RegisterType: "a register's cell and the value read or written are of different types",
    ResultType: "the result of a call is put into a place of another type",
    DigestFields: "a digest has another number of names than of values",
    UpdatedBytes: "a hash is continued with data that is no whole number of bytes",
    FreshChecksum: "two checksum statements have one number, or it is not counted",
    LearningTable: "an entry is added to an unknown table, or to one that does not learn",
    EntryOfOwnTable: "an entry is added outside of the table's actions, or in an action that another table shares",
    KnownEntryAction: "an entry is added for an action that entries of its table cannot have",
    AddedArguments: "an entry is added with arguments that do not fit its action",
    // The pipeline.
    KnownStage: "a path leads to an unknown stage",
    StageEnds: "a stage does not end with a decision that always drops the packet or sends it on",
    RequestType: "a request is not a `bit<32>`",
    // Parsers.
    KnownState: "a transition to an unknown state",
    SelectSets: "a case of a select has another number of sets than there are keys, or sets of another width",
    KnownValueSet: "an unknown value set, or one whose members are of another shape than the keys",
    OneOfEachRole: "two parsers or controls have one role",
    // Tables.
    KnownAction: "a table lists an unknown action",
    EntryArguments: "an entry or default action has arguments that do not fit its action",
    EntryKey: "an entry has a key that does not fit its table",
    KnownProfile: "a table has an unknown action profile",
    KnownDirect: "a table has an unknown direct counter or meter, or a meter that is not direct",
    ParameterOfAction: "an action's parameter is an unknown variable or one of another action",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
