//! The control plane's view of a program: names, keys, sizes and types. It says nothing about the processing of packets.
//!
//! Names are complete: `ingress.child.table`, without a leading dot (P4-16 section 18.3). The front end makes an [`Api`] for every correct
//! program, even if no target can run it.

use std::collections::BTreeMap;

/// The control plane's view of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// `v1model`, `psa` or `pna`; empty for any other architecture.
    pub arch: String,
    /// The annotations of `main`.
    pub package: Vec<Annotation>,
    /// Whether the program has a `main`.
    pub has_main: bool,
    /// All tables, in the order of their declarations.
    pub tables: Vec<Table>,
    /// The actions that a table lists or a control calls.
    pub actions: Vec<Action>,
    /// The action profiles and selectors.
    pub profiles: Vec<Profile>,
    /// The counters, indexed and direct.
    pub counters: Vec<Counter>,
    /// The meters, indexed and direct.
    pub meters: Vec<Counter>,
    /// The register arrays that the control plane may read and write.
    pub registers: Vec<Register>,
    /// The digests, each with the type of its data.
    pub digests: Vec<Digest>,
    /// The value sets.
    pub value_sets: Vec<ValueSet>,
    /// The headers of packets to or from the controller.
    pub controller_headers: Vec<ControllerHeader>,
    /// The named types.
    pub types: Types,
}

/// A name with its annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The complete name.
    pub name: String,
    /// The annotations, including `@name` and `@id`.
    pub annotations: Vec<Annotation>,
}

/// An annotation of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The name without the `@`.
    pub name: String,
    /// The text after the name.
    pub body: AnnotationBody,
}

/// The body of an annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationBody {
    /// The annotation has no body.
    Empty,
    /// `( … )`: the tokens as they are written in the program.
    Tokens(Vec<String>),
    /// `[ … ]`: a list of values.
    List(Vec<Literal>),
    /// `[ key = value, … ]`: a list of named values.
    Pairs(Vec<(String, Literal)>),
}

/// A value in a structured annotation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The words say it.
pub enum Literal {
    Int(i64),
    Bool(bool),
    Text(String),
}

/// The annotation with a name, if there is one.
pub fn annotation<'a>(all: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    all.iter().find(|a| a.name == name)
}

/// A table of the control plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The name of the table.
    pub object: Object,
    /// The fields of the key.
    pub keys: Vec<Key>,
    /// The actions that the table lists.
    pub actions: Vec<ActionRef>,
    /// The initial default action: its name, and its arguments as bytes, most significant byte first.
    pub default: (String, Vec<Vec<u8>>),
    /// Whether the default action is const.
    pub const_default: bool,
    /// The name of the action profile or selector, if the table has one.
    pub implementation: Option<String>,
    /// The direct counters and meters of the table.
    pub direct: Vec<Direct>,
    /// The size in entries; 0 if the program declares none.
    pub size: i64,
    /// Whether the controller can be notified of idle entries.
    pub notifies_idle: bool,
    /// Whether the entries are const.
    pub is_const: bool,
    /// Whether the program declares entries.
    pub has_entries: bool,
}

/// A direct counter or meter of a table, by its name.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The words say it.
pub enum Direct {
    Counter(String),
    Meter(String),
}

/// A field of a table's key, or of a value set's members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    /// The name of the field.
    pub object: Object,
    /// The match kind: `exact`, `lpm` and so on.
    pub match_kind: String,
    /// The width in bits of the values that the controller sends; 0 for strings.
    pub width: u32,
    /// The name of the `type`, if the field has one.
    pub type_name: Option<String>,
}

/// An action in a table's list.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    /// The name of the action.
    pub action: String,
    /// The annotations in the list, such as `@tableonly` and `@defaultonly`.
    pub annotations: Vec<Annotation>,
}

/// An action of the control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The name of the action.
    pub object: Object,
    /// The parameters that the control plane sets.
    pub params: Vec<Param>,
}

/// A parameter of an action, or a field of a controller header.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The name of the parameter.
    pub object: Object,
    /// The width in bits of the values that the controller sends. `None` for enums without a representation. If `type_name` is `None` as
    /// well, a controller cannot send a value: the type is a struct, header or stack.
    pub width: Option<u32>,
    /// The name of the `type` or enum, if the parameter has one.
    pub type_name: Option<String>,
}

/// An action profile or action selector.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name of the profile.
    pub object: Object,
    /// Whether it is a selector, which has groups.
    pub selector: bool,
    /// The largest number of members.
    pub size: i64,
}

/// The quantities that a counter or meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words say it.
pub enum Unit {
    Packets,
    Bytes,
    Both,
}

/// A counter or meter, indexed or direct.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The name of the counter.
    pub object: Object,
    /// The quantities that it counts.
    pub unit: Unit,
    /// The number of cells.
    pub size: i64,
    /// The table of a direct counter or meter; `None` for an indexed one.
    pub table: Option<String>,
    /// The name of the `type` of the index, if it has one.
    pub index: Option<String>,
}

/// A register of the control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// The name of the register.
    pub object: Object,
    /// The number of cells.
    pub size: i64,
    /// The type of a cell.
    pub ty: DataType,
    /// The name of the `type` of the index, if it has one.
    pub index: Option<String>,
}

/// A digest that a program sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// The name of the digest.
    pub object: Object,
    /// The type of the data.
    pub ty: DataType,
}

/// A value set of a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// The name of the value set.
    pub object: Object,
    /// The largest number of members.
    pub size: i64,
    /// The fields of a member.
    pub keys: Vec<Key>,
}

/// A header of packets to or from the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerHeader {
    /// The name of the header type.
    pub object: Object,
    /// `packet_in` or `packet_out`.
    pub role: String,
    /// The fields. The name of a field of an inner struct contains a dot.
    pub fields: Vec<Param>,
}

/// The type of data. Named types refer to [`Types`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The words say it.
pub enum DataType {
    Bit(u32),
    Int(u32),
    Varbit(u32),
    Bool,
    Error,
    Tuple(Vec<DataType>),
    Struct(String),
    Header(String),
    Union(String),
    HeaderStack(String, u32),
    UnionStack(String, u32),
    Enum(String),
    SerEnum(String),
    New(String),
}

/// The definitions of named types, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types {
    /// Structs with their fields in order.
    pub structs: BTreeMap<String, Vec<(String, DataType)>>,
    /// Headers with their fields in order. The name of a field of an inner struct contains a dot.
    pub headers: BTreeMap<String, Vec<(String, DataType)>>,
    /// Header unions with their members and the header types of these.
    pub unions: BTreeMap<String, Vec<(String, String)>>,
    /// Enums without a representation, with their members.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Enums with a representation.
    pub ser_enums: BTreeMap<String, SerEnum>,
    /// The types that `type` declares.
    pub new_types: BTreeMap<String, NewType>,
    /// The members of `error`, if the control plane sees it.
    pub errors: Option<Vec<String>>,
}

/// The definition of a type that `type` declares.
#[derive(Clone, Debug, PartialEq)]
pub struct NewType {
    /// The underlying type.
    pub under: DataType,
    /// `@p4runtime_translation`: the URI, and the width in bits of the values that a controller sends; `None` for strings.
    pub translation: Option<(String, Option<u32>)>,
    /// The annotations of the declaration.
    pub annotations: Vec<Annotation>,
}

/// An enum with a representation.
#[derive(Clone, Debug, PartialEq)]
pub struct SerEnum {
    /// The width of the representation in bits.
    pub width: u32,
    /// The members with their values, most significant byte first.
    pub members: Vec<(String, Vec<u8>)>,
}
