//! What a controller writes to a program: match values, entries and action calls. They use the numbers of the program's manifest and do not
//! depend on a target's layout.

use serde::{Deserialize, Serialize};

use crate::Bits;
use crate::id::{ActionId, DigestId, MessageId};

/// How a key field is compared (P4-16 section 14.2.1, v1model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchKind {
    /// The key equals the entry's value.
    Exact,
    /// The key begins with the entry's prefix. Of several matching entries the longest prefix wins.
    Lpm,
    /// The key equals the entry's value under the entry's mask. Of several matching entries the largest priority wins.
    Ternary,
    /// The key lies between the entry's two values, both included. Of several matching entries the largest priority wins.
    Range,
    /// The key equals the entry's value, or the entry accepts any key. Of several matching entries the largest priority wins.
    Optional,
    /// The field is an input of an action selector's hash. Entries do not match on it.
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
    /// For [`MatchKind::Exact`]: the value.
    Exact(Bits),
    /// For [`MatchKind::Lpm`]: the value and the prefix length in bits.
    Lpm(Bits, u32),
    /// For [`MatchKind::Ternary`]: value and mask. Bits outside the mask are zero in a canonical value.
    Ternary(Bits, Bits),
    /// For [`MatchKind::Range`]: the lowest and the highest value, both included.
    Range(Bits, Bits),
    /// For [`MatchKind::Optional`]: the value, or `None` to accept any key.
    Optional(Option<Bits>),
}

impl MatchValue {
    /// The width in bits of the keys that this value can match; `None` if it matches keys of any width.
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

    /// The value with zeros outside its prefix or mask, so that equal matches have equal values.
    pub fn canonical(&self) -> MatchValue {
        match self {
            MatchValue::Lpm(v, len) => MatchValue::Lpm(v.and(&Bits::prefix_mask(v.width(), *len)), *len),
            MatchValue::Ternary(v, mask) => MatchValue::Ternary(v.and(mask), mask.clone()),
            other @ (MatchValue::Exact(_) | MatchValue::Range(..) | MatchValue::Optional(_)) => other.clone(),
        }
    }

    /// Whether the key field `key` matches this value.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActionCall {
    /// The number of the action in its table.
    pub action: ActionId,
    /// One value for each parameter, with the parameter's width.
    pub args: Vec<Bits>,
}

/// One table entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// One value for each key field, in the order of the table's key.
    pub matches: Vec<MatchValue>,
    /// The priority: of several matching entries the largest wins, as in P4Runtime. It is 0 in tables without ternary, range or optional
    /// keys.
    pub priority: i32,
    /// The action that runs on a hit.
    pub action: ActionCall,
}

/// A digest: a notification that a packet sends to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The type, which has the names of the values ([`crate::manifest::DigestType`]).
    pub digest: DigestId,
    /// One value for each field of the type, with the field's width.
    pub values: Vec<Bits>,
}

/// A line of a program's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The text, with places for the values ([`crate::manifest::MessageType`]).
    pub message: MessageId,
    /// One value for each place of the text.
    pub values: Vec<Bits>,
}
