//! Two small types that every structure of a table needs. They live here so that the structures need not refer to each other.

use abi::MatchValue;

use super::epoch::Reclaimer;

/// What a writer needs to change a table that workers read: the table's published root, and the reclaimer that takes what the
/// change replaces.
pub struct View<'v> {
    pub table: &'v abi::native::Table,
    pub reclaimer: &'v mut Reclaimer,
}

/// The identity of an entry: its match values, and its priority where the table uses priorities (0 elsewhere).
pub type Identity = (Vec<MatchValue>, i32);
