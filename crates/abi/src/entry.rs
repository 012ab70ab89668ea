//! What a controller says to a program: match values, entries and action calls, by *name* of the P4 program's
//! control-plane names, independent of any target's layout.

use serde::{Deserialize, Serialize};

use crate::Bits;

/// How a key field is compared (P4-16 section 14.2.1, v1model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix wins.
    Lpm,
    /// Value and mask; priority decides.
    Ternary,
    /// Between two values, both included; priority decides.
    Range,
    /// Equal, or anything; priority decides.
    Optional,
    /// An input of an action selector's hash; not matched.
    Selector,
}

impl MatchKind {
    /// Whether a table with such a key orders its entries by priority.
    pub fn needs_priority(self) -> bool {
        matches!(self, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
    }
}

/// One key field of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchValue {
    /// For [`MatchKind::Exact`].
    Exact(Bits),
    /// For [`MatchKind::Lpm`]: the value and the prefix length in bits.
    Lpm(Bits, u32),
    /// For [`MatchKind::Ternary`]: value and mask. Bits outside the mask are zero in a canonical value.
    Ternary(Bits, Bits),
    /// For [`MatchKind::Range`]: lowest and highest, both included.
    Range(Bits, Bits),
    /// For [`MatchKind::Optional`]: a value to equal, or anything.
    Optional(Option<Bits>),
}

impl MatchValue {
    /// Bits of the keys that it is for; `None` where it takes keys of any width.
    pub fn width(&self) -> Option<u32> {
        match self {
            MatchValue::Exact(v)
            | MatchValue::Optional(Some(v))
            | MatchValue::Lpm(v, _)
            | MatchValue::Ternary(v, _)
            | MatchValue::Range(v, _) => Some(v.width()),
            MatchValue::Optional(None) => None,
        }
    }

    /// Whether `key` satisfies this field.
    pub fn matches(&self, key: &Bits) -> bool {
        match self {
            MatchValue::Exact(v) | MatchValue::Optional(Some(v)) => v == key,
            MatchValue::Optional(None) => true,
            MatchValue::Lpm(v, len) => {
                let mask = Bits::prefix_mask(key.width(), *len);
                key.and(&mask) == v.and(&mask)
            }
            MatchValue::Ternary(v, mask) => key.and(mask) == v.and(mask),
            MatchValue::Range(lo, hi) => lo.cmp_unsigned(key).is_le() && key.cmp_unsigned(hi).is_le(),
        }
    }
}

/// An action with its control-plane arguments, in the order of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActionCall {
    /// Full control-plane name.
    pub action: String,
    /// One value a parameter, each of the parameter's width.
    pub args: Vec<Bits>,
}

/// One table entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// One value a key field, in the order of the table's key.
    pub matches: Vec<MatchValue>,
    /// Larger wins (P4Runtime's sense). Zero in tables without ternary, range or optional keys.
    pub priority: i32,
    /// What happens on a hit.
    pub action: ActionCall,
}

/// A message to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name of its type.
    pub name: String,
    /// Names and values.
    pub fields: Vec<(String, Bits)>,
}
