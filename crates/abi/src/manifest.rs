//! What a compiled program offers to its host, and how its tables are laid out in bytes.
//!
//! The interpreter's manifest leaves the layouts out (`layout: None`): its host hands over [`crate::Entry`] values.
//! A compiled target's manifest has them, and [`TableLayout`] turns entries into the bytes of a map's keys and values.
//!
//! Layout rules, the same for every compiled target:
//! * a table *key* is packed: each field takes `ceil(width / 8)` bytes in network order, in the order of the P4 key but
//!   for an lpm field, which stands last. A Linux LPM trie's key has a native 32-bit prefix length before it;
//! * *action data* is a C struct: a `u32` action index, then each parameter at its natural alignment in native order
//!   (1, 2, 4, 8 or 16 bytes, the smallest that holds the width), all actions of a table in one union;
//! * a direct counter is two `u64` (packets, bytes) before the action data.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Bits;
use crate::entry::{ActionCall, Entry, MatchKind, MatchValue};

/// Everything that a host needs to know of a compiled program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub version: u32,
    /// The P4 program's base name.
    pub program: String,
    /// `tc`, `xdp`, `native` or `interp`.
    pub target: String,
    /// Name of the entry function (for eBPF: the program's symbol).
    pub entry: String,
    /// Tables in program order.
    pub tables: Vec<Table>,
    /// Counters that are not direct.
    pub counters: Vec<Counter>,
    /// Registers.
    pub registers: Vec<Register>,
    /// Meters.
    #[serde(default)]
    pub meters: Vec<Meter>,
    /// Parser value sets.
    #[serde(default)]
    pub value_sets: Vec<ValueSet>,
    /// Action profiles and selectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ActionProfile>,
    /// Messages to the control plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<DigestType>,
    /// Why packets are dropped; the index is the reason's id in the target's drop counters.
    pub drops: Vec<DropReason>,
}

/// Members that entries of tables lead to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionProfile {
    /// Full control-plane name.
    pub name: String,
    /// Most members; 0: no limit.
    pub size: u64,
    /// Whether there are groups of them.
    pub selector: bool,
}

/// A message to the control plane: its name, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestType {
    /// Name of the data's type.
    pub name: String,
    /// Name and width of each value.
    pub fields: Vec<(String, u32)>,
}

/// What a parser's `select` compares with, filled by a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueSet {
    /// Full control-plane name.
    pub name: String,
    /// Most members.
    pub size: u64,
    /// What a member says; one without a name where members are plain values.
    pub keys: Vec<KeyField>,
}

/// A match-action table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Full control-plane name, such as `MyIngress.ipv4_lpm`.
    pub name: String,
    /// Key fields in P4 order.
    pub keys: Vec<KeyField>,
    /// Actions that an entry or the default may name; the index is the action's number in the action data.
    pub actions: Vec<Action>,
    /// Most entries it holds.
    pub size: u64,
    /// What happens on a miss until a controller says otherwise.
    pub default_action: Option<ActionCall>,
    /// The default action cannot be changed.
    pub const_default: bool,
    /// Entries written in the program cannot be changed, nor added to.
    pub const_entries: bool,
    /// Entries that the program itself declares and a host must insert (a target may compile const ones into code
    /// and list none here).
    pub initial_entries: Vec<Entry>,
    /// Name of the direct counter, if one is attached.
    pub direct_counter: Option<String>,
    /// Name of the action profile or selector, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Whether the control plane may be told of entries that no packet hits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notifies_idle: bool,
    /// Name of the direct meter, if one is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_meter: Option<String>,
    /// How a compiled target stores it.
    pub layout: Option<TableLayout>,
}

/// One field of a table's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyField {
    /// Control-plane name, such as `hdr.ipv4.dstAddr`.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Match kind.
    pub kind: MatchKind,
}

/// An action as a table sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Full control-plane name.
    pub name: String,
    /// Parameters that the control plane fills.
    pub params: Vec<Param>,
    /// Only usable as the default action (`@defaultonly`).
    pub default_only: bool,
    /// Only usable in entries (`@tableonly`).
    pub table_only: bool,
}

/// An action's parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Where it stands in the action data of a compiled target, in bytes; 0 elsewhere.
    pub offset: u32,
}

impl Param {
    /// Bytes that a value of `width` bits takes in action data: 1, 2, 4, 8 or 16.
    pub fn size_of(width: u32) -> u32 {
        match width {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            _ => 16,
        }
    }
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Full control-plane name.
    pub name: String,
    /// Cells; `None`: one for each entry of a table.
    pub size: Option<u64>,
}

/// How a compiled target finds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// No key: only the default action's map.
    Keyless,
    /// An array by the key, which has two bytes at most.
    Array,
    /// A hash of the whole key.
    Hash,
    /// A longest-prefix-match trie; the lpm field stands last in the key.
    LpmTrie,
    /// Tuple-space search: a list of masks ordered by their best priority, and one hash keyed by
    /// `{u32 tuple, masked key}` whose values begin with an `i32` priority (padded to 8 bytes).
    TupleSpace,
    /// Const entries compiled into code; there is no map.
    Code,
}

/// A compiled table's maps and bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableLayout {
    /// How an entry is found.
    pub structure: Structure,
    /// Name of the map of entries (none for keyless tables).
    pub map: Option<String>,
    /// For [`Structure::TupleSpace`]: the array of tuples, and how many it may hold. Each element is
    /// `{i32 best_priority, u32 used, u8 mask[key_size]}` padded to a multiple of 8 bytes.
    pub tuples: Option<(String, u32)>,
    /// Name of the one-element array map that holds the default action's data.
    pub default_map: Option<String>,
    /// Bytes of the packed key, without the LPM trie's prefix length or the tuple number.
    pub key_size: u32,
    /// For each P4 key field, its byte offset in the packed key.
    pub key_offsets: Vec<u32>,
    /// Bytes of the action data at the end of a value.
    pub data_size: u32,
    /// Offset of the action data inside a value (after a priority, or a direct counter).
    pub data_offset: u32,
    /// Offset of the direct counter inside a value.
    pub counter_offset: Option<u32>,
    /// Bytes of a whole value.
    pub value_size: u32,
}

/// An indexed counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Full control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// Map name on a compiled target: per-CPU array of `{u64 packets, u64 bytes}`.
    pub map: Option<String>,
}

/// A register array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// Full control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u64,
    /// Width of a cell in bits.
    pub width: u32,
    /// Map name on a compiled target.
    pub map: Option<String>,
}

/// Why a packet was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReason {
    /// Name: the control-plane name of the action or control that dropped, or a target's own (`target.…`).
    pub name: String,
    /// One sentence for an operator.
    pub help: String,
    /// Where in the P4 source, `file:line`, if anywhere.
    pub location: Option<String>,
}

/// Why an entry does not fit its table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// No such table.
    #[error("there is no table `{0}`")]
    NoTable(String),
    /// The action is not one of the table's.
    #[error("table `{table}` has no action `{action}`; it has {known}")]
    NoAction {
        /// Table.
        table: String,
        /// What was asked for.
        action: String,
        /// What there is.
        known: String,
    },
    /// The action cannot be used there.
    #[error("action `{action}` of table `{table}` is {only}")]
    ActionPlace {
        /// Table.
        table: String,
        /// Action.
        action: String,
        /// `for the default action only` or `for entries only`.
        only: &'static str,
    },
    /// Wrong number of key fields or arguments.
    #[error("{what} takes {expected} {unit}, not {found}")]
    Count {
        /// Table or action.
        what: String,
        /// How many there should be.
        expected: usize,
        /// `key fields` or `arguments`.
        unit: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A match value of another kind, or a wrong width, or an over-long prefix.
    #[error("key `{key}` of table `{table}`: {problem}")]
    Key {
        /// Table.
        table: String,
        /// Key field.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// An argument that does not fit its parameter.
    #[error("argument `{param}` of action `{action}` has {found} bits, not {expected}")]
    Arg {
        /// Action.
        action: String,
        /// Parameter.
        param: String,
        /// Its width.
        expected: u32,
        /// What was given.
        found: u32,
    },
    /// The table cannot be written.
    #[error("table `{0}` has const entries, which cannot be changed")]
    ConstEntries(String),
    /// The default action cannot be changed.
    #[error("table `{0}` has a const default action, which cannot be changed")]
    ConstDefault(String),
}

impl Manifest {
    /// The table of that full name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name == name)
    }
}

impl Table {
    /// The number of the action of that full name.
    pub fn action(&self, name: &str) -> Option<usize> {
        self.actions.iter().position(|a| a.name == name)
    }

    /// Whether entries are ordered by priority.
    pub fn needs_priority(&self) -> bool {
        self.keys.iter().any(|k| k.kind.needs_priority())
    }

    /// What decides between entries that both match; the larger wins, and the older of equals. It is the priority in
    /// a table with ternary, range or optional keys (prefix lengths do not count there, as in BMv2), else the sum of
    /// the prefix lengths: one lpm key is plain longest prefix, and several (which P4-16 leaves to the architecture, and
    /// BMv2 refuses) mean the longest total.
    pub fn rank(&self, entry: &Entry) -> i64 {
        if self.needs_priority() {
            return entry.priority as i64;
        }
        let lens = entry.matches.iter().map(|m| match m {
            MatchValue::Lpm(_, len) => *len as i64,
            _ => 0,
        });
        lens.sum()
    }

    /// Checks an entry against the table: action, counts, kinds, widths. Every target calls this before it writes.
    pub fn check_entry(&self, entry: &Entry) -> Result<(), EntryError> {
        if self.const_entries {
            return Err(EntryError::ConstEntries(self.name.clone()));
        }
        self.check_shape(entry)
    }

    /// As [`Table::check_entry`], for the program's own entries too.
    pub fn check_shape(&self, entry: &Entry) -> Result<(), EntryError> {
        if entry.matches.len() != self.keys.len() {
            return Err(EntryError::Count {
                what: format!("table `{}`", self.name),
                expected: self.keys.len(),
                unit: "key fields",
                found: entry.matches.len(),
            });
        }
        for (key, value) in self.keys.iter().zip(&entry.matches) {
            self.check_match(key, value)?;
        }
        self.check_action(&entry.action, false)
    }

    /// Checks an action call, for an entry or for the default.
    pub fn check_action(&self, call: &ActionCall, as_default: bool) -> Result<(), EntryError> {
        let Some(index) = self.action(&call.action) else {
            let known = self.actions.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(EntryError::NoAction {
                table: self.name.clone(),
                action: call.action.clone(),
                known,
            });
        };
        let action = &self.actions[index];
        let misplaced = match as_default {
            true => action.table_only.then_some("for entries only"),
            false => action.default_only.then_some("for the default action only"),
        };
        if let Some(only) = misplaced {
            return Err(EntryError::ActionPlace {
                table: self.name.clone(),
                action: call.action.clone(),
                only,
            });
        }
        if call.args.len() != action.params.len() {
            return Err(EntryError::Count {
                what: format!("action `{}`", action.name),
                expected: action.params.len(),
                unit: "arguments",
                found: call.args.len(),
            });
        }
        match action.params.iter().zip(&call.args).find(|(p, a)| p.width != a.width()) {
            None => Ok(()),
            Some((param, arg)) => Err(EntryError::Arg {
                action: action.name.clone(),
                param: param.name.clone(),
                expected: param.width,
                found: arg.width(),
            }),
        }
    }

    fn check_match(&self, key: &KeyField, value: &MatchValue) -> Result<(), EntryError> {
        let bad =
            |problem: String| EntryError::Key { table: self.name.clone(), key: key.name.clone(), problem };
        let width_is = |v: &Bits| match v.width() == key.width {
            true => Ok(()),
            false => Err(bad(format!("the value has {} bits, not {}", v.width(), key.width))),
        };
        match (key.kind, value) {
            (MatchKind::Exact, MatchValue::Exact(v))
            | (MatchKind::Optional, MatchValue::Optional(Some(v))) => width_is(v),
            (MatchKind::Optional, MatchValue::Optional(None)) => Ok(()),
            (MatchKind::Lpm, MatchValue::Lpm(v, len)) => {
                width_is(v)?;
                match *len <= key.width {
                    true => Ok(()),
                    false => Err(bad(format!("a prefix of {len} bits in a field of {}", key.width))),
                }
            }
            (MatchKind::Ternary, MatchValue::Ternary(v, m)) | (MatchKind::Range, MatchValue::Range(v, m)) => {
                width_is(v)?;
                width_is(m)
            }
            (kind, _) => Err(bad(
                format!("it is matched as {kind:?}, and the value is of another kind").to_lowercase()
            )),
        }
    }
}
