//! What the control plane sees of a program: names, keys, sizes and types, and nothing of what happens to packets.
//!
//! Names are whole: `ingress.child.table`, without a dot in front (P4-16 section 18.3). The front end finds an [`Api`] in every
//! program that is right, whether it can run here or not.

use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// `v1model`, `psa` or `pna`; empty for another.
    pub arch: String,
    /// Annotations of `main`.
    pub package: Vec<Annotation>,
    /// Whether there is a `main` at all.
    pub has_main: bool,
    /// Tables.
    pub tables: Vec<Table>,
    /// Actions that a table lists or a control calls.
    pub actions: Vec<Action>,
    /// Action profiles and selectors.
    pub profiles: Vec<Profile>,
    /// Counters, direct ones among them.
    pub counters: Vec<Counter>,
    /// Meters, direct ones among them.
    pub meters: Vec<Counter>,
    /// Registers.
    pub registers: Vec<Register>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// Headers that packets to or from the controller carry.
    pub controller_headers: Vec<ControllerHeader>,
    /// Types that have a name.
    pub types: Types,
}

/// A name and what stands before it in the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The whole name.
    pub name: String,
    /// Annotations, `@name` and `@id` among them.
    pub annotations: Vec<Annotation>,
}

/// An annotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// Without the `@`.
    pub name: String,
    /// What follows.
    pub body: AnnotationBody,
}

/// What follows an annotation's name.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// `( … )`: tokens as they are written.
    Tokens(Vec<String>),
    /// `[ … ]`.
    List(Vec<Literal>),
    /// `[ key = value, … ]`.
    Pairs(Vec<(String, Literal)>),
}

/// A value in an annotation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The words say it.
pub enum Literal {
    Int(i64),
    Bool(bool),
    Text(String),
}

/// The annotation of a name.
pub fn annotation<'a>(all: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    all.iter().find(|a| a.name == name)
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its name.
    pub object: Object,
    /// Its keys.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<ActionRef>,
    /// What runs on a miss when the program starts: the action, and its arguments in bytes, most significant first.
    pub default: (String, Vec<Vec<u8>>),
    /// Whether the default may not be changed.
    pub const_default: bool,
    /// The action profile or selector.
    pub implementation: Option<String>,
    /// Direct counters and meters.
    pub direct: Vec<Direct>,
    /// Entries; 0 where the program says nothing.
    pub size: i64,
    /// Idle entries are told to the controller.
    pub notifies_idle: bool,
    /// Entries are constant.
    pub is_const: bool,
    /// Entries stand in the program.
    pub has_entries: bool,
}

/// A direct resource of a table.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The words say it.
pub enum Direct {
    Counter(String),
    Meter(String),
}

/// A key, or a part of a value set's members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    /// Its name.
    pub object: Object,
    /// `exact`, `lpm`, …
    pub match_kind: String,
    /// Bits that the controller gives; 0 for texts.
    pub width: u32,
    /// `type`, if it has one.
    pub type_name: Option<String>,
}

/// An action in a table's list.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    /// The action's name.
    pub action: String,
    /// `@tableonly`, `@defaultonly` and others.
    pub annotations: Vec<Annotation>,
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Its name.
    pub object: Object,
    /// What the control plane fills.
    pub params: Vec<Param>,
}

/// A parameter of an action, or a field of a controller header.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub object: Object,
    /// Bits that the controller gives; `None` for enums without a representation, and, without a name of its type, for what a
    /// controller cannot give: structs, headers, stacks.
    pub width: Option<u32>,
    /// `type` or enum, if it has one.
    pub type_name: Option<String>,
}

/// An action profile or selector.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub object: Object,
    /// With groups.
    pub selector: bool,
    /// Members.
    pub size: i64,
}

/// What a counter or meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The words say it.
pub enum Unit {
    Packets,
    Bytes,
    Both,
}

/// A counter or meter.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Its name.
    pub object: Object,
    /// What it counts.
    pub unit: Unit,
    /// Cells.
    pub size: i64,
    /// A direct one's table.
    pub table: Option<String>,
    /// The `type` of its index, if it has one.
    pub index: Option<String>,
}

/// A register.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Its name.
    pub object: Object,
    /// Cells.
    pub size: i64,
    /// What a cell holds.
    pub ty: DataType,
    /// The `type` of its index, if it has one.
    pub index: Option<String>,
}

/// A digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// Its name.
    pub object: Object,
    /// What is told.
    pub ty: DataType,
}

/// A value set.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSet {
    /// Its name.
    pub object: Object,
    /// Members.
    pub size: i64,
    /// What a member is made of.
    pub keys: Vec<Key>,
}

/// A header of packets to or from the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerHeader {
    /// The type's name.
    pub object: Object,
    /// `packet_in`, `packet_out`.
    pub role: String,
    /// Its fields, those of structs inside with a dot.
    pub fields: Vec<Param>,
}

/// A type of data. Names lead to [`Types`].
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

/// Types by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types {
    /// Structs: fields in order.
    pub structs: BTreeMap<String, Vec<(String, DataType)>>,
    /// Headers: fields in order, those of structs inside with a dot.
    pub headers: BTreeMap<String, Vec<(String, DataType)>>,
    /// Header unions: members and their header types.
    pub unions: BTreeMap<String, Vec<(String, String)>>,
    /// Enums: members.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Enums with a representation.
    pub ser_enums: BTreeMap<String, SerEnum>,
    /// `type` declarations.
    pub new_types: BTreeMap<String, NewType>,
    /// Members of `error`, if it is used.
    pub errors: Option<Vec<String>>,
}

/// What stands behind a `type`.
#[derive(Clone, Debug, PartialEq)]
pub struct NewType {
    /// The type that it is made of.
    pub under: DataType,
    /// `@p4runtime_translation`: the URI, and the bits that a controller gives; `None` for texts.
    pub translation: Option<(String, Option<u32>)>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// An enum with a representation.
#[derive(Clone, Debug, PartialEq)]
pub struct SerEnum {
    /// Bits of the representation.
    pub width: u32,
    /// Members and their values, most significant byte first.
    pub members: Vec<(String, Vec<u8>)>,
}
